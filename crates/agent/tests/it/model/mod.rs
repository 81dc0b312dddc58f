//! A node in small, which shares no code with what it judges: GPUs whose slices
//! have serial numbers, kubelet with its locks and its books, NVIDIA's plugin, a
//! process of the agent that may die or lose an answer at every point, and a
//! controller that knows nothing but what the `GpuNode` says.

mod controller;
mod gpus;
mod kubelet;
mod process;

pub(crate) use controller::{Controller, Patience};
pub(crate) use gpus::{Gpus, places};
pub(crate) use kubelet::{Ask, Kubelet, Life, Plugin};
pub(crate) use process::{Luck, Process};

use agent::{Account, BootId, GpuUuid, ObjectVersion, Wish};

/// The `GpuNode`, and what it was: a reader may see an older one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) versions: Vec<(Option<Wish>, Option<Account>)>,
}

impl Node {
    pub(crate) fn now(&self) -> (ObjectVersion, Option<Wish>, Option<Account>) {
        self.at(self.versions.len())
    }

    /// What it was at this version; version 0 is the empty object.
    pub(crate) fn at(&self, version: usize) -> (ObjectVersion, Option<Wish>, Option<Account>) {
        let (wish, account) = match version.checked_sub(1) {
            None => (None, None),
            Some(i) => self.versions[i].clone(),
        };
        (ObjectVersion(version.to_string()), wish, account)
    }

    /// Writes, unless the version is another one by now.
    pub(crate) fn write(
        &mut self,
        if_version: &ObjectVersion,
        change: impl FnOnce(&mut Option<Wish>, &mut Option<Account>),
    ) -> bool {
        let (version, mut wish, mut account) = self.now();
        if version != *if_version {
            return false;
        }
        change(&mut wish, &mut account);
        self.versions.push((wish, account));
        true
    }
}

/// What is left out of what protects pods, to see that the race notices it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Without {
    #[default]
    Nothing,
    /// The plugin stays while slices change, and is told of new ones afterwards. The proof is made as ever, of the books
    /// and of the pods.
    Gate,
    /// The plugin goes as ever; whoever is on its way to a slice is not waited for.
    Proof,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) gpus: Gpus,
    pub(crate) kubelet: Kubelet,
    pub(crate) node: Node,
    pub(crate) process: Process,
    pub(crate) controller: Controller,
    pub(crate) boot: BootId,
    /// The agent only reports: it begins no change.
    pub(crate) only_reports: bool,
    /// The account at which a foreign hand opened the gate: nobody closes it
    /// before the agent has told of it.
    pub(crate) foreign: bool,
    pub(crate) without: Without,
    /// What must never happen, and did.
    pub(crate) breaches: Vec<String>,
    /// What happened, for whoever reads a failure.
    pub(crate) log: Vec<String>,
}

impl World {
    pub(crate) fn new(layouts: &[(&str, &str)]) -> Self {
        let mut gpus = Gpus::default();
        for (gpu, layout) in layouts {
            gpus.put(&GpuUuid((*gpu).to_owned()), &places(layout));
        }
        let kubelet = Kubelet::new(&gpus);
        Self {
            gpus,
            kubelet,
            node: Node::default(),
            process: Process::default(),
            controller: Controller::default(),
            boot: BootId("boot-1".to_owned()),
            only_reports: false,
            foreign: false,
            without: Without::Nothing,
            breaches: Vec::new(),
            log: Vec::new(),
        }
    }
}
