//! The controller's side, as thin as can be: hold, prove, permit, open. It has
//! no memory but what it read last, and may lose that at each point.

use std::collections::BTreeSet;

use agent::{Account, Gate, GpuChange, GpuUuid, ObjectVersion, Outcome, Permit, Place, PodList, Stage, Wish};

use super::kubelet::Plugin;
use super::{Without, World, places};

/// Whether the controller still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    /// It takes back what can be taken back.
    HasEnough,
}

#[derive(Clone, Debug)]
struct Read {
    version: ObjectVersion,
    wish: Option<Wish>,
    account: Option<Account>,
    list: Option<PodList>,
}

#[derive(Debug, Default)]
pub(crate) struct Controller {
    read: Option<Read>,
    /// Whether the plugin shall be there (the node's labels).
    pub(crate) released: bool,
    /// What is still to be done: a GPU and its layout.
    pub(crate) plans: Vec<(GpuUuid, BTreeSet<Place>)>,
    pub(crate) begun: usize,
    /// How each change ended that was begun; a withdrawn one has no outcome.
    pub(crate) ended: Vec<Option<Outcome>>,
    /// The writes that the agent had made when this change began.
    writes_before: usize,
    pub(crate) most_writes: usize,
}

impl Controller {
    pub(crate) fn dies(&mut self) {
        self.read = None;
    }

    pub(crate) fn plan(&mut self, gpu: &str, layout: &str) {
        self.plans.push((GpuUuid(gpu.to_owned()), places(layout)));
    }
}

impl World {
    /// One thing that the controller reads or writes.
    pub(crate) fn controller(&mut self, patience: Patience) {
        let Some(read) = &mut self.controller.read else {
            let (version, wish, account) = self.node.now();
            self.controller.read = Some(Read { version, wish, account, list: None });
            return;
        };
        if read.list.is_none() {
            let begun_after = read.account.as_ref().map(|account| account.report).unwrap_or_default();
            let mut pods = self.kubelet.api_pods();
            pods.retain(|pod| self.without != Without::Gate || !pod.is_plugin);
            read.list = Some(PodList { begun_after, pods });
            return;
        }
        let read = self.controller.read.take().unwrap();
        self.decide(&read, patience);
    }

    fn decide(&mut self, read: &Read, patience: Patience) {
        let Some(account) = &read.account else { return };
        let Some(wish) = &read.wish else { return self.begin(read, account) };
        match account.stage(&wish.id) {
            Some(Stage::Ended(outcome)) => {
                self.controller.released = true;
                if self.without == Without::Gate {
                    self.kubelet.register(&self.gpus);
                }
                if account.gate_for(&wish.id) == Some(Gate::Open)
                    && self.node.write(&read.version, |wish, _| *wish = None)
                {
                    self.over(Some(outcome.clone()));
                }
            }
            stage => {
                // A foreign hand's label is put right only once the agent has told of it: what nobody saw, nobody
                // can prove.
                let is_left = self.foreign && account.gate_for(&wish.id) == Some(Gate::Closed);
                if !is_left && self.without != Without::Gate {
                    self.controller.released = false;
                    self.foreign = false;
                }
                let claimed = stage.is_some();
                if patience == Patience::HasEnough {
                    self.log.push(format!("controller has enough, claimed: {claimed}"));
                    self.take_back(read, claimed);
                } else if wish.destroys() && (!claimed || wish.permit.is_some()) {
                    self.permit(read, wish, account);
                }
            }
        }
    }

    fn over(&mut self, outcome: Option<Outcome>) {
        self.foreign = false;
        self.log.push(format!("change over: {outcome:?}"));
        let writes = self.process.writes - self.controller.writes_before;
        self.controller.most_writes = self.controller.most_writes.max(writes);
        self.controller.ended.push(outcome);
    }

    fn begin(&mut self, read: &Read, account: &Account) {
        self.controller.released = true;
        let Some((gpu, after)) = self.controller.plans.last().cloned() else { return };
        let slices = account.known.layout.gpu(&gpu).unwrap().slices();
        let before = slices.iter().map(|slice| slice.place).collect();
        let id = agent::ChangeId(format!("change-{}", self.controller.begun + 1));
        let wish = Wish { id, permit: None, gpus: vec![GpuChange { gpu, before, after }] };
        if self.node.write(&read.version, |old, _| *old = Some(wish)) {
            self.log.push("controller begins".to_owned());
            self.controller.plans.pop();
            self.controller.begun += 1;
            self.controller.writes_before = self.process.writes;
        }
    }

    fn take_back(&mut self, read: &Read, claimed: bool) {
        let wrote = self.node.write(&read.version, |wish, _| {
            if claimed {
                wish.as_mut().unwrap().permit = None;
            } else {
                *wish = None;
            }
        });
        if wrote && !claimed {
            self.over(None);
        }
    }

    fn permit(&mut self, read: &Read, wish: &Wish, account: &Account) {
        if wish.permit.as_ref().is_some_and(|permit| permit.report == account.report) {
            return;
        }
        let proved = match self.without {
            Without::Proof if account.gate_for(&wish.id) == Some(Gate::Closed) => {
                Ok(Permit { report: account.report, gone: BTreeSet::new() })
            }
            _ => agent::prove(wish, account, read.list.as_ref().unwrap()),
        };
        match proved {
            Ok(permit) => {
                self.log.push(format!("controller permits by report {}", permit.report));
                self.node.write(&read.version, |wish, _| wish.as_mut().unwrap().permit = Some(permit));
            }
            Err(why) => self.log.push(format!("controller: {why}")),
        }
    }

    /// The agent has ended a change: it must be as it says.
    pub(crate) fn outcome(&mut self) {
        let (_, wish, account) = self.node.now();
        let (Some(wish), Some(account)) = (wish, account) else { return };
        let Some(Stage::Ended(outcome)) = account.stage(&wish.id) else { return };
        for GpuChange { gpu, before, after } in &wish.gpus {
            let there: BTreeSet<_> = self.gpus.slices[gpu].keys().copied().collect();
            let right = match outcome {
                Outcome::Done => there == *after,
                Outcome::Restored { .. } => there == *before,
                Outcome::Refused { .. } | Outcome::Left { .. } => true,
            };
            if !right {
                self.breaches.push(format!("{outcome:?}, and {gpu} has {there:?}"));
            }
        }
    }

    /// One step of the plugin towards what the labels say.
    pub(crate) fn plugin(&mut self) {
        let kubelet = &mut self.kubelet;
        match (kubelet.plugin, self.controller.released) {
            (Plugin::Absent, true) => kubelet.plugin = Plugin::Starting,
            (Plugin::Starting, _) if self.foreign && !self.process.is_between_looks() => {}
            (Plugin::Starting, true) => {
                kubelet.plugin = Plugin::Running;
                kubelet.register(&self.gpus);
            }
            (Plugin::Running, true) => {
                if !kubelet.is_registered() {
                    kubelet.register(&self.gpus);
                }
            }
            (Plugin::Running, false) => kubelet.plugin_stops(),
            (Plugin::Starting | Plugin::Stopping, false) => kubelet.plugin = Plugin::Absent,
            (Plugin::Stopping, true) | (Plugin::Absent, false) => {
                if self.controller.released {
                    kubelet.plugin = Plugin::Absent;
                }
            }
        }
    }
}
