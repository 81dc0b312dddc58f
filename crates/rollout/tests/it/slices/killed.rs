//! Operator and agent are killed in every turn of a change: before what the turn does, when it is done and they have not
//! heard of it, and after it. At that very moment somebody comes whom no cordon keeps away, and asks for a slice that
//! goes. Whoever follows ends the change: nothing stays paused or cordoned, and whoever was given a slice has that very
//! slice, by serial.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Gate, Stage, Step};
use jiff::SignedDuration;
use slicewright_rollout::{Outlook, Phase, StartBlocker};

use super::model::{Ask, Life, Luck, places};
use super::walk::{Dies, GPUS, Walk};

const FIRST: [&str; 2] = ["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"];

/// Every how many rounds somebody has a turn: none of them waits for another.
#[derive(Clone, Copy, Debug)]
struct Pace {
    agent: usize,
    operator: usize,
}

const PACES: [Pace; 3] =
    [Pace { agent: 1, operator: 1 }, Pace { agent: 3, operator: 1 }, Pace { agent: 1, operator: 3 }];

/// Where a change stands before a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Hold,
    Closed,
    Prove,
    Permit,
    Claim,
    Change,
    Open,
}

const STEPS: [At; 7] = [At::Hold, At::Closed, At::Prove, At::Permit, At::Claim, At::Change, At::Open];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Agent,
    Operator,
}

/// When in its turn it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// It has looked, and done nothing.
    Before,
    /// A write to `GpuNode`, or a call of the driver, is done, and the answer is lost.
    Done,
    /// What the operator decided is stored, and nothing of it is done to the node.
    Stored,
    /// The node is patched, or the pods are listed, and the answer is lost.
    Acted,
    /// It has heard of everything.
    After,
}

/// `wants` tells that something is to be changed. `None` where nothing is, or is any more.
fn at(walk: &Walk, wants: bool) -> Option<At> {
    let (_, wish, account) = walk.world.node.now();
    let told = wish.as_ref().zip(account.as_ref());
    let stage = told.and_then(|(wish, account)| account.stage(&wish.id));
    let closed = told.is_some_and(|(wish, account)| account.gate_for(&wish.id) == Some(Gate::Closed));
    let permitted = wish.as_ref().is_some_and(|wish| wish.permit.is_some());
    match (walk.progress.phase, stage) {
        (Phase::Verifying | Phase::Releasing, _) | (_, Some(Stage::Ended(_))) => Some(At::Open),
        (_, Some(Stage::Claimed | Stage::Restoring { .. })) => Some(At::Change),
        (Phase::Idle, None) if wants && !walk.cordoned => Some(At::Hold),
        (Phase::Cordoning, _) => Some(At::Hold),
        (Phase::Quiescing | Phase::Changing, None) => Some(match (closed, permitted) {
            (_, true) => At::Claim,
            (false, _) => At::Closed,
            _ if walk.has_listed() => At::Permit,
            _ => At::Prove,
        }),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug)]
struct Killed {
    victim: Victim,
    moment: Moment,
    /// In which round.
    round: usize,
}

/// One look of the agent, with what comes of it. Says whether it wrote or asked the driver.
fn agent(walk: &mut Walk, moment: Option<Moment>) -> bool {
    // Gate, list, checkpoint, layout.
    for _ in 0..4 {
        walk.world.agent(Luck::Fine, 0);
    }
    match moment {
        Some(Moment::Before) => walk.world.process.dies(),
        Some(Moment::Done) => walk.world.agent(Luck::DiesAfter, 0),
        Some(_) | None => walk.world.agent(Luck::Fine, 0),
    }
    assert!(walk.world.process.is_between_looks());
    let acted = matches!(walk.world.process.last, Some(Step::Write { .. } | Step::Drive { .. }));
    if moment == Some(Moment::After) {
        walk.world.process.dies();
    }
    acted
}

/// Reads, and takes a step. Says whether it wrote `spec.change`, and whether it did something to the node.
fn operator(walk: &mut Walk, moment: Option<Moment>) -> (bool, bool) {
    walk.step(Dies::Never);
    let (versions, actions) = (walk.world.node.versions.len(), walk.actions.len());
    walk.step(match moment {
        Some(Moment::Before) => Dies::Before,
        Some(Moment::Done) => Dies::AfterSpec,
        Some(Moment::Stored) => Dies::BeforeActions,
        Some(Moment::Acted) => Dies::AfterAction,
        Some(Moment::After) | None => Dies::Never,
    });
    if moment == Some(Moment::After) {
        walk.dies();
    }
    (walk.world.node.versions.len() > versions, walk.actions.len() > actions)
}

/// One round in which nobody is killed: where the change is when each of them has its turn, and what they do in it.
struct Turn {
    /// Where it is, and whether the agent wrote or asked the driver; `None` where it has no turn.
    agent: Option<(Option<At>, bool)>,
    /// Where it is, and whether the operator wrote `spec.change`, and did something to the node.
    operator: Option<(Option<At>, bool, bool)>,
}

impl Turn {
    /// All deaths in this round, with where the change is then. An answer is lost only where one is to come.
    fn deaths(&self) -> Vec<(Victim, Moment, Option<At>)> {
        let mut deaths = Vec::new();
        if let Some((at, acts)) = self.agent {
            let moments = [(Moment::Before, true), (Moment::Done, acts), (Moment::After, true)];
            deaths.extend(moments.map(|(moment, happens)| (Victim::Agent, moment, at, happens)));
        }
        if let Some((at, writes, acts)) = self.operator {
            let moments = [
                (Moment::Before, true),
                (Moment::Done, writes),
                (Moment::Stored, true),
                (Moment::Acted, acts),
                (Moment::After, true),
            ];
            deaths.extend(moments.map(|(moment, happens)| (Victim::Operator, moment, at, happens)));
        }
        deaths
            .into_iter()
            .filter(|death| death.3)
            .map(|(victim, moment, at, _)| (victim, moment, at))
            .collect()
    }
}

/// Two notebooks compute; what is left of the GPU of the first is to be cut anew.
struct Story {
    walk: Walk,
    layout: &'static str,
    gpu: u16,
    computing: BTreeSet<u64>,
}

impl Story {
    fn begin() -> Self {
        let mut walk = Walk::new(FIRST);
        for _ in 0..2 {
            walk.world.kubelet.bind(Ask::Plain, "3g.40gb".parse().unwrap());
        }
        for _ in 0..20 {
            others(&mut walk);
        }
        let computing: BTreeSet<u64> =
            walk.world.kubelet.pods.iter().flat_map(|pod| pod.given.clone()).collect();
        assert_eq!(computing.len(), 2);
        let stays = |gpu: &str, place: &str| {
            let slices = &walk.world.gpus.slices[&agent::GpuUuid(gpu.to_owned())];
            computing.contains(&slices[places(place).first().unwrap()])
        };
        // On whichever of the three halves kubelet put them.
        let (gpu, layout) = match (stays(GPUS[0], "3g@4"), stays(GPUS[1], "3g@0")) {
            (true, _) => (0, "1g@0 1g@1 1g@2 1g@3 3g@4"),
            (false, true) => (0, "3g@0 1g@4 1g@5 1g@6"),
            (false, false) => unreachable!("two of three halves are taken"),
        };
        Self { walk, layout, gpu, computing }
    }

    /// Plays it, with at most one death.
    fn play(&mut self, pace: Pace, killed: Option<Killed>) -> Vec<Turn> {
        self.walk.want(self.gpu, self.layout);
        let mut turns = Vec::new();
        for round in 0.. {
            assert!(round < 2_000, "{killed:?}: it does not end: {}", self.picture());
            let now = |victim| {
                killed.filter(|killed| killed.round == round && killed.victim == victim).map(|k| k.moment)
            };
            if killed.is_some_and(|killed| killed.round == round) {
                self.walk.world.kubelet.bind(Ask::Plain, "1g.10gb".parse().unwrap());
            }
            let agent = round.is_multiple_of(pace.agent).then(|| {
                let at = at(&self.walk, !self.is_cut());
                (at, agent(&mut self.walk, now(Victim::Agent)))
            });
            let operator = round.is_multiple_of(pace.operator).then(|| {
                let at = at(&self.walk, !self.is_cut());
                let (writes, acts) = operator(&mut self.walk, now(Victim::Operator));
                (at, writes, acts)
            });
            turns.push(Turn { agent, operator });
            others(&mut self.walk);
            assert!(
                self.walk.world.breaches.is_empty(),
                "{killed:?}: {:?}: {}",
                self.walk.world.breaches,
                self.picture()
            );
            if round > 100 {
                // Who came amid the change has what it asked for, or was refused, and goes.
                self.walk.world.kubelet.pods[2..].iter_mut().for_each(|pod| pod.life = Life::Deleted);
            }
            if let Some(Outlook::Holding(StartBlocker::BackedOff { until, .. })) =
                self.walk.last.as_ref().map(|answer| &answer.outlook)
            {
                self.walk.now = self.walk.now.max(*until);
            }
            if self.has_ended() {
                return turns;
            }
        }
        unreachable!("rounds are counted for ever")
    }

    fn has_ended(&self) -> bool {
        let walk = &self.walk;
        self.is_cut()
            && walk.rests()
            && walk.world.kubelet.is_registered()
            && walk.progress.phase == Phase::Idle
    }

    fn is_cut(&self) -> bool {
        self.walk.has(GPUS[usize::from(self.gpu)]) == places(self.layout)
    }

    fn picture(&self) -> String {
        let last = self.walk.last.as_ref().map(|answer| (&answer.outlook, answer.progress.phase));
        let log: Vec<_> = self.walk.world.log.iter().rev().take(30).collect();
        format!("{last:?}, held {}, cordoned {}, {log:#?}", self.walk.held, self.walk.cordoned)
    }
}

/// Kubelet and the plugin, which are as fast as nobody of ours.
fn others(walk: &mut Walk) {
    walk.world.plugin();
    for _ in 0..2 {
        let breaches = walk.world.kubelet.admit(&walk.world.gpus);
        walk.world.breaches.extend(breaches);
    }
    walk.now += SignedDuration::from_secs(1);
}

#[test]
fn whoever_is_killed_in_whichever_turn_the_change_ends_and_nobody_loses_a_slice() {
    let mut table: BTreeMap<(Victim, Moment), BTreeSet<At>> = BTreeMap::new();
    for pace in PACES {
        for (round, turn) in Story::begin().play(pace, None).into_iter().enumerate() {
            for (victim, moment, at) in turn.deaths() {
                let mut story = Story::begin();
                let killed = Killed { victim, moment, round };
                story.play(pace, Some(killed));
                let has = |serial: &u64| story.walk.world.gpus.has_serial(*serial);
                assert!(story.computing.iter().all(has), "{pace:?} {killed:?}: {}", story.picture());
                table.entry((victim, moment)).or_default().extend(at);
            }
        }
    }
    let steps = |steps: &[At]| steps.iter().copied().collect::<BTreeSet<_>>();
    let expected = BTreeMap::from([
        ((Victim::Agent, Moment::Before), steps(&STEPS)),
        ((Victim::Agent, Moment::After), steps(&STEPS)),
        // It reports, tells that the gate is closed, claims, changes and ends, and tells that the gate is open.
        ((Victim::Agent, Moment::Done), steps(&[At::Hold, At::Closed, At::Claim, At::Change, At::Open])),
        ((Victim::Operator, Moment::Before), steps(&STEPS)),
        ((Victim::Operator, Moment::Stored), steps(&STEPS)),
        ((Victim::Operator, Moment::After), steps(&STEPS)),
        // It orders the change, permits it, and takes the order back at the end.
        ((Victim::Operator, Moment::Done), steps(&[At::Hold, At::Permit, At::Open])),
        // It holds the node, lists its pods, and opens it.
        ((Victim::Operator, Moment::Acted), steps(&[At::Hold, At::Prove, At::Open])),
    ]);
    assert_eq!(table, expected);
}
