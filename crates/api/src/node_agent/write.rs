//! From the terms of `slicewright-agent` to those of the API.

use std::collections::{BTreeMap, BTreeSet};

use agent::{
    Account, Act, DeviceId, Gate, GpuLayout, GpuState, GpuUuid, Malformed, NodeLayout, Outcome, Place, Slice,
    SliceName, Stage, Why, Wish,
};
use jiff::Timestamp;

use super::{
    AgentChange, AgentGate, AgentMode, AgentStatus, ChangePermit, ChangeStage, ChangeTrouble, ChangedGpu,
    Doubts, GateState, Holder, MOST_HOLDERS, NodeChange, TroubleReason, UnknownDevice,
};
use crate::gpu_node::{Observed, ObservedBy, ObservedGpu, ObservedSlice, PodName, SliceUse};
use crate::wanted::WantedSlice;

/// GPUs that a `GpuNode` can have.
const MOST_GPUS: usize = 64;
/// Bytes of a text of the driver that are told.
const LONGEST_TEXT: usize = 1_024;

/// What an agent knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its version.
    pub version: String,
    /// The version of NVIDIA's driver.
    pub driver: Option<String>,
    /// What it does.
    pub mode: AgentMode,
}

/// What an agent knows of a GPU beside its slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its index on the node.
    pub index: u8,
    /// Its model as in our tables, such as `A100-80GB`, or else the name that
    /// the driver has for it.
    pub model: String,
    /// Its fault, if it has one.
    pub unhealthy: Option<String>,
}

/// Why an account does not fit into a `GpuNode`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// More GPUs than a `GpuNode` can have.
    #[error("the node has {count} GPUs; a GpuNode can have {MOST_GPUS}")]
    Gpus {
        /// How many.
        count: usize,
    },
    /// Nothing is known of a GPU but its layout.
    #[error("index and model of {gpu} are not known")]
    NoCard {
        /// The GPU.
        gpu: GpuUuid,
    },
}

/// `status.agent` for an account.
#[must_use]
pub fn agent_status(account: &Account, identity: &Identity, at: Timestamp) -> AgentStatus {
    let Account { report, agent, boot, gate, known: _, change } = account;
    let Identity { version, driver, mode } = identity;
    AgentStatus {
        pod_uid: agent.0.clone(),
        boot_id: boot.0.clone(),
        version: version.clone(),
        driver: driver.clone(),
        mode: *mode,
        report: i64::try_from(report.0).unwrap_or(i64::MAX),
        at,
        gate: gate.as_ref().map(|said| AgentGate {
            change: said.change.0.clone(),
            state: match said.gate {
                Gate::Closed => GateState::Closed,
                Gate::Ajar => GateState::Ajar,
                Gate::Open => GateState::Open,
            },
        }),
        change: change.as_ref().map(|change| {
            let (stage, why) = stage(&change.stage);
            AgentChange { id: change.id.0.clone(), boot_id: change.boot.0.clone(), stage, why }
        }),
    }
}

fn stage(stage: &Stage) -> (ChangeStage, Option<ChangeTrouble>) {
    match stage {
        Stage::Claimed => (ChangeStage::Claimed, None),
        Stage::Restoring { why } => (ChangeStage::Restoring, Some(trouble(why))),
        Stage::Ended(Outcome::Done) => (ChangeStage::Done, None),
        Stage::Ended(Outcome::Restored { why }) => (ChangeStage::Restored, Some(trouble(why))),
        Stage::Ended(Outcome::Refused { why }) => (ChangeStage::Refused, Some(trouble(why))),
        Stage::Ended(Outcome::Left { why }) => (ChangeStage::Left, Some(trouble(why))),
    }
}

fn trouble(why: &Why) -> ChangeTrouble {
    let (reason, gpu, slice, detail) = match why {
        Why::Malformed(Malformed::TooManyGpus { count }) => {
            (TroubleReason::TooManyGpus, None, None, Some(count.to_string()))
        }
        Why::Malformed(Malformed::TooManySlices { gpu }) => {
            (TroubleReason::TooManySlices, Some(gpu), None, None)
        }
        Why::Malformed(Malformed::Twice { gpu }) => (TroubleReason::GpuTwice, Some(gpu), None, None),
        Why::Differs(difference) => {
            (TroubleReason::NotAsPlanned, Some(&difference.gpu), None, Some(difference.found.clone()))
        }
        Why::Silent { gpu } => (TroubleReason::DriverSilent, Some(gpu), None, None),
        Why::CalledBack => (TroubleReason::CalledBack, None, None, None),
        Why::WishGone => (TroubleReason::ChangeGone, None, None, None),
        Why::Rebooted => (TroubleReason::Rebooted, None, None, None),
        Why::Driver { act, slice: SliceName { gpu, place }, said } => {
            let reason = match act {
                Act::Destroy => TroubleReason::NotDestroyed,
                Act::Create => TroubleReason::NotCreated,
            };
            (reason, Some(gpu), Some(wanted(place)), Some(said.clone()))
        }
    };
    ChangeTrouble {
        reason,
        message: clipped(&why.to_string()),
        gpu: gpu.map(|gpu| gpu.0.clone()),
        slice,
        detail: detail.as_deref().map(clipped),
    }
}

fn clipped(text: &str) -> String {
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_TEXT);
    text[..end.last().unwrap_or(0)].to_owned()
}

fn wanted(place: &Place) -> WantedSlice {
    WantedSlice { profile: place.profile.to_string(), start: i32::from(place.start) }
}

/// `status.observed` for an account. `cards` has all GPUs of the account.
///
/// # Errors
/// When the node has more GPUs than a `GpuNode`, or one that `cards` has not.
pub fn observed(
    account: &Account,
    cards: &BTreeMap<GpuUuid, Card>,
    at: Timestamp,
) -> Result<Observed, TooLarge> {
    let NodeLayout { gpus } = &account.known.layout;
    if gpus.len() > MOST_GPUS {
        return Err(TooLarge::Gpus { count: gpus.len() });
    }
    let card = |gpu: &GpuLayout| {
        let card = cards.get(&gpu.uuid).ok_or_else(|| TooLarge::NoCard { gpu: gpu.uuid.clone() });
        card.map(|card| observed_gpu(gpu, card, account))
    };
    let mut gpus: Vec<_> = gpus.iter().map(card).collect::<Result<_, _>>()?;
    gpus.sort_by_key(|gpu| gpu.index);
    Ok(Observed {
        by: ObservedBy::Agent,
        at,
        boot_id: Some(account.boot.0.clone()),
        // The controller's, who knows the labels of the node.
        labels: BTreeMap::new(),
        gpus,
        doubts: doubts(account),
    })
}

fn doubts(account: &Account) -> Option<Doubts> {
    let books = &account.known.books;
    let holders = |holders: &BTreeSet<_>| holders.iter().map(|by| holder(by, None)).collect();
    let unknown = books.strangers(&account.known.layout);
    let doubts = Doubts {
        books_unreadable: books.unreadable().map(str::to_owned),
        unknown_devices: unknown
            .map(|(device, by)| UnknownDevice { id: device.0.clone(), holders: holders(by) })
            .collect(),
        held_twice: books.twice().iter().map(|device| device.0.clone()).collect(),
    };
    (doubts != Doubts::default()).then_some(doubts)
}

fn holder(by: &agent::Holder, device: Option<&DeviceId>) -> Holder {
    let device = device.map(|device| device.0.clone());
    match by.clone() {
        agent::Holder::Listed { namespace, pod, container } => {
            Holder { namespace: Some(namespace), pod: Some(pod), uid: None, container, device }
        }
        agent::Holder::Recorded { pod, container } => {
            Holder { namespace: None, pod: None, uid: Some(pod.0), container, device }
        }
    }
}

/// The pods of which the names are known.
fn names(holders: &[Holder]) -> Vec<PodName> {
    let name =
        |holder: &Holder| Some(PodName { namespace: holder.namespace.clone()?, name: holder.pod.clone()? });
    let names: BTreeSet<_> = holders.iter().filter_map(name).collect();
    names.into_iter().take(32).collect()
}

fn observed_gpu(gpu: &GpuLayout, card: &Card, account: &Account) -> ObservedGpu {
    let Card { index, model, unhealthy } = card;
    let books = &account.known.books;
    let of_gpu = books.holders(&DeviceId(gpu.uuid.0.clone())).into_iter().flatten();
    let holders: Vec<_> = of_gpu.map(|by| holder(by, None)).collect();
    let (mig_enabled, driver_error) = match &gpu.state {
        GpuState::Cut(_) => (true, None),
        GpuState::Whole => (false, None),
        GpuState::Silent { why } => (false, Some(why.clone())),
    };
    ObservedGpu {
        index: i32::from(*index),
        model: model.clone(),
        uuid: Some(gpu.uuid.0.clone()),
        mig_enabled,
        held_by: names(&holders),
        holders,
        unhealthy: unhealthy.clone(),
        driver_error,
        slices: gpu.slices().iter().map(|slice| observed_slice(&gpu.uuid, slice, account)).collect(),
    }
}

fn observed_slice(gpu: &GpuUuid, slice: &Slice, account: &Account) -> ObservedSlice {
    let books = &account.known.books;
    let name = SliceName { gpu: gpu.clone(), place: slice.place };
    let one = slice.devices.len() == 1;
    let holders = slice.devices.iter().flat_map(|device| {
        let by = books.holders(device).into_iter().flatten();
        by.map(move |by| holder(by, (!one).then_some(device)))
    });
    let holders: Vec<_> = holders.collect();
    let used = match books.blocker(&name, &account.known.layout, &BTreeSet::new()) {
        None => SliceUse::Idle,
        Some(agent::books::Blocker::Held { .. }) => SliceUse::InUse,
        Some(_) => SliceUse::MaybeInUse,
    };
    ObservedSlice {
        profile: slice.place.profile.to_string(),
        start: Some(i32::from(slice.place.start)),
        used,
        by: names(&holders),
        devices: slice.devices.iter().map(|device| device.0.clone()).collect(),
        holders,
        unexplained: slice.busy,
    }
}

/// `spec.change` for what the controller wants.
#[must_use]
pub fn change(wish: &Wish) -> NodeChange {
    let Wish { id, permit, gpus } = wish;
    let slices = |places: &BTreeSet<Place>| places.iter().map(wanted).collect();
    NodeChange {
        id: id.0.clone(),
        permit: permit.as_ref().map(|permit| ChangePermit {
            report: i64::try_from(permit.report.0).unwrap_or(i64::MAX),
            // Fewer of them make the agent more careful.
            gone: permit.gone.iter().take(MOST_HOLDERS).map(|uid| uid.0.clone()).collect(),
        }),
        gpus: gpus
            .iter()
            .map(|gpu| ChangedGpu {
                uuid: gpu.gpu.0.clone(),
                before: slices(&gpu.before),
                after: slices(&gpu.after),
            })
            .collect(),
    }
}
