//! One GPU, one agent and one change, told in a few words.

use std::collections::{BTreeMap, BTreeSet};

use agent::{
    Account, Act, Books, BootId, ChangeId, Container, Device, DeviceId, Gate, GpuChange, GpuLayout, GpuState,
    GpuUuid, Listed, Look, NodeLayout, ObjectVersion, Observation, Permit, Pod, PodLife, PodList, PodUid,
    Recorded, Remembered, ReportNumber, Seen, Slice, SliceName, Stage, Step, Turn, Wish, Writes,
};

use crate::model::places;

pub(crate) fn gpu() -> GpuUuid {
    GpuUuid("GPU-a".to_owned())
}

pub(crate) fn name(place: &str) -> SliceName {
    SliceName { gpu: gpu(), place: places(place).pop_first().unwrap() }
}

/// The device of a slice, such as `MIG-1g@0`.
pub(crate) fn device(place: &str) -> Device {
    let profile = name(place).place.profile;
    Device { resource: profile.resource_name(), id: DeviceId(format!("MIG-{place}")) }
}

pub(crate) fn layout(text: &str) -> NodeLayout {
    let slice = |word: &str| Slice { place: name(word).place, devices: vec![device(word).id], busy: false };
    let slices = text.split_whitespace().map(slice).collect();
    NodeLayout { gpus: vec![GpuLayout { uuid: gpu(), state: GpuState::Cut(slices) }] }
}

pub(crate) fn listed(pod: &str, has: &str) -> Listed {
    Listed {
        namespace: "team".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
        devices: has.split_whitespace().map(device).collect(),
    }
}

pub(crate) fn recorded(uid: &str, container: &str, has: &str) -> Recorded {
    Recorded {
        pod: PodUid(uid.to_owned()),
        container: container.to_owned(),
        devices: has.split_whitespace().map(device).collect(),
    }
}

pub(crate) fn wish(before: &str, after: &str) -> Wish {
    let change = GpuChange { gpu: gpu(), before: places(before), after: places(after) };
    Wish { id: ChangeId("change".to_owned()), permit: None, gpus: vec![change] }
}

/// A pod of one container that asks for one slice of a profile.
pub(crate) fn pod(uid: &str, place: &str) -> Pod {
    let asks = BTreeMap::from([(name(place).place.profile.resource_name(), 1)]);
    Pod {
        uid: PodUid(uid.to_owned()),
        name: format!("team/{uid}"),
        life: PodLife::Live,
        is_plugin: false,
        containers: vec![Container { name: "main".to_owned(), asks }],
    }
}

/// An agent in the midst of what happens. Its writes arrive at once.
pub(crate) struct Scene {
    pub(crate) wish: Option<Wish>,
    pub(crate) account: Option<Account>,
    pub(crate) gate: Gate,
    pub(crate) layout: NodeLayout,
    pub(crate) listed: Vec<Listed>,
    pub(crate) recorded: Vec<Recorded>,
    /// Why the checkpoint cannot be read, if it cannot.
    pub(crate) unreadable: Option<&'static str>,
    pub(crate) boot: &'static str,
    pub(crate) remembered: Remembered,
    pub(crate) turn: u64,
}

impl Scene {
    pub(crate) fn new(there: &str) -> Self {
        Self {
            wish: None,
            account: None,
            gate: Gate::Open,
            layout: layout(there),
            listed: Vec::new(),
            recorded: Vec::new(),
            unreadable: None,
            boot: "boot-1",
            remembered: Remembered::default(),
            turn: 0,
        }
    }

    pub(crate) fn observation(&mut self) -> Observation {
        self.turn += 3;
        Observation {
            me: PodUid("agent".to_owned()),
            boot: BootId(self.boot.to_owned()),
            version: ObjectVersion("7".to_owned()),
            wish: self.wish.clone(),
            account: self.account.clone(),
            look: Look {
                gate: Seen { turn: Turn(self.turn - 2), is: self.gate },
                books: Seen {
                    turn: Turn(self.turn - 1),
                    is: Books::join(
                        Ok(&self.listed),
                        self.unreadable.map_or(Ok(&self.recorded), |why| Err(why.to_owned())),
                    ),
                },
                layout: Seen { turn: Turn(self.turn), is: self.layout.clone() },
            },
        }
    }

    /// The next step; what is to be written is written.
    pub(crate) fn step(&mut self) -> Step {
        let observation = self.observation();
        let step = agent::next(&observation, &self.remembered);
        if let Step::Write { account, .. } = &step {
            self.remembered.wrote(account);
            self.account = Some((**account).clone());
        }
        step
    }

    #[track_caller]
    pub(crate) fn writes(&mut self, what: Writes) {
        let step = self.step();
        assert!(matches!(step, Step::Write { what: w, .. } if w == what), "{what:?} expected: {step:?}");
    }

    /// It asks the driver for this, and the driver does it.
    #[track_caller]
    pub(crate) fn drives(&mut self, act: Act, place: &str) {
        assert_eq!(self.step(), Step::Drive { act, slice: name(place) });
        self.turn += 1;
        self.remembered.did(act, &name(place), Turn(self.turn));
        let GpuState::Cut(slices) = &mut self.layout.gpus[0].state else { panic!("it is cut") };
        slices.retain(|slice| slice.place != name(place).place);
        if act == Act::Create {
            slices.push(layout(place).gpus[0].slices()[0].clone());
        }
    }

    /// It asks the driver for this, and the driver refuses.
    #[track_caller]
    pub(crate) fn is_refused(&mut self, act: Act, place: &str) {
        assert_eq!(self.step(), Step::Drive { act, slice: name(place) });
        self.turn += 1;
        self.remembered.failed(act, &name(place), "in use", Turn(self.turn));
    }

    /// Whatever the controller should have proved.
    pub(crate) fn permit(&mut self) {
        let report = self.report();
        self.wish.as_mut().unwrap().permit = Some(Permit { report, gone: BTreeSet::new() });
    }

    pub(crate) fn report(&self) -> ReportNumber {
        self.account.as_ref().unwrap().report
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.account.as_ref().unwrap().change.as_ref().unwrap().stage
    }

    /// A change that was claimed, with the gate closed.
    #[track_caller]
    pub(crate) fn claimed(before: &str, after: &str) -> Self {
        let mut scene = Self::new(before);
        scene.writes(Writes::Report);
        scene.wish = Some(wish(before, after));
        scene.gate = Gate::Closed;
        if scene.wish.as_ref().unwrap().destroys() {
            scene.writes(Writes::Report);
            scene.permit();
        }
        scene.writes(Writes::Claim);
        scene
    }

    /// What the controller proves now, by these pods.
    pub(crate) fn prove(&self, pods: Vec<Pod>) -> Result<Permit, agent::Unproven> {
        let list = PodList { begun_after: self.report(), pods };
        agent::prove(self.wish.as_ref().unwrap(), self.account.as_ref().unwrap(), &list)
    }
}
