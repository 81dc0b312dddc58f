//! A process of the agent: it reads one thing after the other, asks the core,
//! and does what that says. It may die, fail or lose an answer at each point.

use agent::{
    Act, Books, Gate, Listed, Look, NodeLayout, ObjectVersion, Observation, PodUid, Recorded, Remembered,
    Seen, SliceName, Step, Turn, Writes,
};

use super::{Without, World};

/// How an act or a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Fine,
    /// Nothing happens, and the process is told so.
    Fails,
    /// It happens, and the process is told that it failed.
    AnswerLost,
    /// It happens, and the process dies.
    DiesAfter,
}

#[derive(Debug, Default)]
pub(crate) struct Process {
    remembered: Remembered,
    turn: u64,
    /// Not older than this may the object be that it reads.
    wrote: usize,
    healthy: Option<(Turn, Vec<agent::Device>)>,
    listed: Option<(Turn, Vec<Listed>)>,
    recorded: Option<Vec<Recorded>>,
    layout: Option<(Turn, NodeLayout)>,
    pub(crate) restarts: usize,
    pub(crate) writes: usize,
    pub(crate) last: Option<Step>,
}

impl Process {
    pub(crate) fn is_between_looks(&self) -> bool {
        self.healthy.is_none()
    }

    fn tick(&mut self) -> Turn {
        self.turn += 1;
        Turn(self.turn)
    }

    pub(crate) fn dies(&mut self) {
        let (restarts, writes) = (self.restarts + 1, self.writes);
        *self = Self { restarts, writes, ..Self::default() };
    }
}

impl World {
    /// One thing that the agent reads or does. `lag` versions behind is what it
    /// sees of the object, if its own writes allow it.
    pub(crate) fn agent(&mut self, luck: Luck, lag: usize) {
        let process = &mut self.process;
        if process.healthy.is_none() {
            let turn = process.tick();
            process.healthy = Some((turn, self.kubelet.allocatable()));
        } else if process.listed.is_none() {
            let turn = process.tick();
            process.listed = Some((turn, self.kubelet.list()));
        } else if process.recorded.is_none() {
            process.recorded = Some(self.kubelet.recorded());
        } else if process.layout.is_none() {
            let turn = process.tick();
            process.layout = Some((turn, self.gpus.layout()));
        } else {
            self.act(luck, lag);
        }
    }

    fn act(&mut self, luck: Luck, lag: usize) {
        let process = &mut self.process;
        let (gate_turn, mut healthy) = process.healthy.take().unwrap();
        let (books_turn, listed) = process.listed.take().unwrap();
        let recorded = process.recorded.take().unwrap();
        let (layout_turn, layout) = process.layout.take().unwrap();
        let seen = self.node.versions.len().saturating_sub(lag).max(process.wrote);
        let (version, wish, account) = self.node.at(seen);
        let goes_on =
            |wish: &agent::Wish| account.as_ref().is_some_and(|told| told.stage(&wish.id).is_some());
        let wish = wish.filter(|wish| !self.only_reports || goes_on(wish));
        let is_over = |wish: &agent::Wish| {
            let stage = account.as_ref().and_then(|told| told.stage(&wish.id));
            matches!(stage, Some(agent::Stage::Ended(_)))
        };
        if self.without == Without::Gate && wish.as_ref().is_some_and(|wish| !is_over(wish)) {
            healthy.clear();
        }
        let observation = Observation {
            me: PodUid("agent".to_owned()),
            boot: self.boot.clone(),
            version,
            wish,
            account,
            look: Look {
                gate: Seen { turn: gate_turn, is: Gate::from_devices(Some(&healthy), &layout) },
                books: Seen { turn: books_turn, is: Books::join(Ok(&listed), Ok(&recorded)) },
                layout: Seen { turn: layout_turn, is: layout },
            },
        };
        let step = agent::next(&observation, &process.remembered);
        process.last = Some(step.clone());
        match step {
            Step::Rest | Step::Wait(_) | Step::Look => {}
            Step::Write { what, account, if_version } => {
                self.log.push(format!(
                    "agent writes {what:?} {} {:?}",
                    account.report,
                    account.change.as_ref().map(|c| &c.stage)
                ));
                self.write(what, *account, &if_version, luck);
            }
            Step::Drive { act, slice } => {
                self.log.push(format!("agent {act:?} {slice} ({luck:?})"));
                self.drive(act, &slice, luck);
            }
        }
    }

    fn write(&mut self, what: Writes, account: agent::Account, if_version: &ObjectVersion, luck: Luck) {
        let wrote = luck != Luck::Fails && {
            let account = account.clone();
            self.node.write(if_version, |_, told| *told = Some(account))
        };
        if wrote {
            self.process.writes += 1;
            if what == Writes::Outcome {
                self.outcome();
            }
        }
        match luck {
            Luck::Fine if wrote => {
                self.process.remembered.wrote(&account);
                self.process.wrote = self.node.versions.len();
            }
            // It does not know: it reads the object itself before it goes on, as after a conflict.
            Luck::Fine | Luck::Fails | Luck::AnswerLost => self.process.wrote = self.node.versions.len(),
            Luck::DiesAfter => self.process.dies(),
        }
    }

    fn drive(&mut self, act: Act, slice: &SliceName, luck: Luck) {
        let result = match luck {
            Luck::Fails => Err("not now".to_owned()),
            Luck::Fine | Luck::AnswerLost | Luck::DiesAfter => self.gpus.drive(act, slice),
        };
        if let Ok(Some(serial)) = result {
            let victims = self.kubelet.pods.iter().filter(|pod| pod.is_live() && pod.given.contains(&serial));
            self.breaches.extend(victims.map(|pod| format!("{slice} is taken from {}", pod.uid)));
        }
        let process = &mut self.process;
        let turn = process.tick();
        match (luck, result) {
            (Luck::DiesAfter, _) => process.dies(),
            (Luck::Fine, Ok(_)) => process.remembered.did(act, slice, turn),
            (Luck::AnswerLost, Ok(_)) => process.remembered.failed(act, slice, "no answer", turn),
            (_, Err(said)) => process.remembered.failed(act, slice, &said, turn),
            (Luck::Fails, Ok(_)) => unreachable!("it fails"),
        }
    }
}
