//! What an agent tells is read back as it was told: it compares what it sees with what it told, and would
//! report for ever if anything got lost on the way.

use std::collections::{BTreeMap, BTreeSet};

use agent::books::{MOST_DEVICES_TOLD, MOST_HOLDERS_TOLD};
use agent::position::Difference;
use agent::{
    Account, Act, Books, BootId, ChangeId, ChangeState, Device, DeviceId, Gate, GateReport, GpuChange,
    GpuLayout, GpuState, GpuUuid, Known, Listed, NodeLayout, Outcome, Permit, Place, PodUid, Recorded,
    ReportNumber, Slice, SliceName, Stage, Why, Wish,
};
use api::GpuNodeStatus;
use api::gpu_node::{ObservedBy, SliceUse};
use api::node_agent::{self, AgentMode, Card, Identity};
use jiff::Timestamp;

fn place(profile: &str, start: u8) -> Place {
    Place { profile: profile.parse().unwrap(), start }
}

fn gpu(n: u8) -> GpuUuid {
    GpuUuid(format!("GPU-{n}"))
}

fn slice(profile: &str, start: u8, devices: &[&str]) -> Slice {
    let devices = devices.iter().map(|id| DeviceId((*id).to_owned())).collect();
    Slice { place: place(profile, start), devices, busy: false }
}

/// A node of which everything can be told that an agent can see: a slice that
/// is held, one that is free, one that is divided, one that nothing can open,
/// a process that nobody explains, a GPU without MIG and one that is silent.
fn layout() -> NodeLayout {
    let busy = Slice { busy: true, ..slice("1g.10gb", 6, &["MIG-d"]) };
    let cut = [
        slice("3g.40gb", 0, &["MIG-a"]),
        slice("1g.10gb", 4, &["MIG-b1", "MIG-b2"]),
        slice("1g.10gb", 5, &[]),
        busy,
    ];
    let gpu = |n, state| GpuLayout { uuid: gpu(n), state };
    NodeLayout {
        gpus: vec![
            gpu(0, GpuState::Cut(cut.to_vec())),
            gpu(1, GpuState::Whole),
            gpu(2, GpuState::Silent { why: "GPU is lost".to_owned() }),
            gpu(3, GpuState::Cut(Vec::new())),
        ],
    }
}

fn devices(ids: &[&str]) -> Vec<Device> {
    let device = |id: &&str| Device { resource: "nvidia.com/gpu".to_owned(), id: DeviceId((*id).to_owned()) };
    ids.iter().map(device).collect()
}

fn books() -> Books {
    let listed = |pod: &str, ids: &[&str]| Listed {
        namespace: "team".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
        devices: devices(ids),
    };
    let recorded = |uid: &str, ids: &[&str]| Recorded {
        pod: PodUid(uid.to_owned()),
        container: "main".to_owned(),
        devices: devices(ids),
    };
    let list = [listed("nb", &["MIG-a"]), listed("other", &["MIG-a", "MIG-b2"]), listed("whole", &["GPU-1"])];
    let book = [recorded("u-nb", &["MIG-a::0"]), recorded("u-old", &["MIG-gone", "GPU-1"])];
    Books::join(Ok(&list), Ok(&book))
}

fn account(books: &Books, change: Option<ChangeState>) -> Account {
    Account {
        report: ReportNumber(7),
        agent: PodUid("pod-of-the-agent".to_owned()),
        boot: BootId("boot".to_owned()),
        gate: Some(GateReport { change: ChangeId("c1".to_owned()), gate: Gate::Ajar }),
        known: Known::new(&layout(), books),
        change,
    }
}

fn written(account: &Account) -> GpuNodeStatus {
    let card = |n: u8| (gpu(n), Card { index: 3 - n, model: "A100-80GB".to_owned(), unhealthy: None });
    let cards: BTreeMap<_, _> = (0..4).map(card).collect();
    let identity = Identity { version: "9.8.7".to_owned(), driver: None, mode: AgentMode::Change };
    let at = Timestamp::UNIX_EPOCH;
    GpuNodeStatus {
        observed: Some(node_agent::observed(account, &cards, at).unwrap()),
        agent: Some(node_agent::agent_status(account, &identity, at)),
        ..GpuNodeStatus::default()
    }
}

/// Through the API server, as bytes.
fn read_back(account: &Account) -> Account {
    let json = serde_json::to_string(&written(account)).unwrap();
    node_agent::account(&serde_json::from_str(&json).unwrap()).unwrap().unwrap()
}

#[test]
fn an_account_is_read_back_as_it_was_told() {
    let unreadable = Books::join(Err("connection refused".to_owned()), Ok(&[]));
    for books in [Books::default(), books(), unreadable] {
        let told = account(&books, None);
        assert_eq!(read_back(&told), told);
    }
}

#[test]
fn every_stage_and_every_reason_is_read_back_as_it_was_told() {
    let slice = SliceName { gpu: gpu(0), place: place("3g.40gb", 4) };
    let driver = |act| Why::Driver { act, slice: slice.clone(), said: "In use by another client".to_owned() };
    let reasons = [
        Why::Malformed(agent::Malformed::TooManyGpus { count: 99 }),
        Why::Malformed(agent::Malformed::TooManySlices { gpu: gpu(1) }),
        Why::Malformed(agent::Malformed::Twice { gpu: gpu(1) }),
        Why::Differs(Difference { gpu: gpu(2), found: "MIG is off".to_owned() }),
        Why::Silent { gpu: gpu(2) },
        Why::CalledBack,
        Why::WishGone,
        Why::Rebooted,
        driver(Act::Destroy),
        driver(Act::Create),
    ];
    let mut stages = vec![Stage::Claimed, Stage::Ended(Outcome::Done)];
    for why in reasons {
        stages.push(Stage::Restoring { why: why.clone() });
        stages.push(Stage::Ended(Outcome::Restored { why: why.clone() }));
        stages.push(Stage::Ended(Outcome::Refused { why: why.clone() }));
        stages.push(Stage::Ended(Outcome::Left { why }));
    }
    for stage in stages {
        let change = ChangeState {
            id: ChangeId("c1".to_owned()),
            boot: BootId("boot".to_owned()),
            stage: stage.clone(),
        };
        let told = account(&books(), Some(change));
        assert_eq!(read_back(&told), told, "{stage:?}");
    }
}

#[test]
fn a_change_is_read_back_as_it_was_wanted() {
    let slices = |all: &[(&str, u8)]| all.iter().map(|(profile, start)| place(profile, *start)).collect();
    let gone = BTreeSet::from([PodUid("u-old".to_owned())]);
    for permit in [None, Some(Permit { report: ReportNumber(7), gone })] {
        let wish = Wish {
            id: ChangeId("c1".to_owned()),
            permit,
            gpus: vec![GpuChange {
                gpu: gpu(0),
                before: slices(&[("3g.40gb", 0), ("1g.10gb", 4)]),
                after: slices(&[("3g.40gb", 0), ("3g.40gb", 4)]),
            }],
        };
        let json = serde_json::to_string(&node_agent::change(&wish)).unwrap();
        assert_eq!(node_agent::wish(&serde_json::from_str(&json).unwrap()).unwrap(), wish);
    }
}

#[test]
fn people_see_who_holds_a_slice_and_what_nobody_explains() {
    let status = written(&account(&books(), None));
    let observed = status.observed.unwrap();
    let cut = observed.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some("GPU-0")).unwrap();
    let used: Vec<_> = cut.slices.iter().map(|slice| (slice.start.unwrap(), slice.used)).collect();
    // One device is held that the driver does not know: it may be any slice that seems free.
    assert_eq!(
        used,
        [(0, SliceUse::InUse), (4, SliceUse::InUse), (5, SliceUse::MaybeInUse), (6, SliceUse::MaybeInUse)]
    );
    let names: Vec<_> = cut.slices[0].by.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["nb", "other"]);
    let doubts = observed.doubts.unwrap();
    assert_eq!(doubts.unknown_devices[0].id, "MIG-gone");
    assert_eq!(doubts.held_twice, ["MIG-a"]);
    assert!(cut.slices[3].unexplained);
}

#[test]
fn more_than_a_gpu_node_has_room_for_makes_the_books_unreadable_and_not_shorter() {
    let many: Vec<_> = (0..=MOST_HOLDERS_TOLD)
        .map(|n| Recorded {
            pod: PodUid(format!("u-{n:04}")),
            container: "main".to_owned(),
            devices: devices(&["MIG-a"]),
        })
        .collect();
    let strange: Vec<_> = (0..=MOST_DEVICES_TOLD)
        .map(|n| Recorded {
            pod: PodUid(format!("u-{n:04}")),
            container: "main".to_owned(),
            devices: devices(&[&format!("MIG-{n:04}")]),
        })
        .collect();
    for book in [many, strange] {
        let told = account(&Books::join(Ok(&[]), Ok(&book)), None);
        assert!(told.known.books.unreadable().is_some());
        assert_eq!(read_back(&told), told);
        let bound = |status: &GpuNodeStatus| {
            let observed = status.observed.as_ref().unwrap();
            let slices = observed.gpus.iter().flat_map(|gpu| &gpu.slices);
            let unknown = observed.doubts.as_ref().unwrap().unknown_devices.len();
            slices.map(|slice| slice.holders.len()).max().unwrap() <= 64 && unknown <= 64
        };
        assert!(bound(&written(&told)), "the CRD takes it");
    }
}

#[test]
fn an_account_whose_observation_the_controller_wrote_over_knows_nothing_and_keeps_its_number() {
    let mut status = written(&account(&books(), None));
    status.observed.as_mut().unwrap().by = ObservedBy::Controller;
    let read = node_agent::account(&status).unwrap().unwrap();
    assert_eq!(read.report, ReportNumber(7));
    assert!(read.known.layout.gpus.is_empty() && read.known.books.unreadable().is_some());
}

#[test]
fn what_no_writer_of_ours_wrote_names_the_field() {
    let wanted = |profile: &str, start| api::wanted::WantedSlice { profile: profile.to_owned(), start };
    let change = |slice| node_agent::NodeChange {
        id: "c1".to_owned(),
        permit: None,
        gpus: vec![node_agent::ChangedGpu {
            uuid: "GPU-0".to_owned(),
            before: Vec::new(),
            after: vec![slice],
        }],
    };
    let said = |slice| node_agent::wish(&change(slice)).unwrap_err().to_string();
    assert_eq!(
        said(wanted("3g.fortygb", 0)),
        "spec.change.gpus.after is `3g.fortygb`; a profile such as `1g.10gb` is allowed"
    );
    assert_eq!(
        said(wanted("3g.40gb", -1)),
        "spec.change.gpus.after is `-1`; a start between 0 and 255 is allowed"
    );
}
