//! A thousand admissions that race with forty recuts on a node with eight GPUs: pods whose `nodeName` somebody wrote by
//! hand come at any moment, no cordon keeps them away, and kubelet gives them the first free slice, which is where the
//! next recut is. No pod that was given a slice loses it, by the serial of the slice.
//!
//! Without the gate pods do, and with the gate but without the proof they do, too.

use std::collections::BTreeSet;

use agent::{GpuUuid, Outcome, Place, Step};

use crate::model::{Ask, Life, Luck, Patience, Without, World, places};

const GPUS: [&str; 8] = ["gpu-a", "gpu-b", "gpu-c", "gpu-d", "gpu-e", "gpu-f", "gpu-g", "gpu-h"];
const LAYOUTS: [&str; 6] = [
    "1g@0 1g@1 2g@2 3g@4",
    "3g@0 3g@4",
    "1g@0 1g@1 1g@2 1g@3 3g@4",
    "2g@0 2g@2 3g@4",
    "3g@0 2g@4 1g@6",
    "2g@0 1g@2 1g@3 2g@4 1g@6",
];
const PROFILES: [&str; 3] = ["1g.10gb", "2g.20gb", "3g.40gb"];

const ADMISSIONS: usize = 1_000;
const RECUTS: usize = 40;
/// Turns after which the operator takes back what the agent has not claimed.
const PATIENCE: usize = 600;
/// A race that takes longer does not end.
const LONGEST: usize = 1_000_000;

/// What comes next: the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % n as u64).unwrap()
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// How pods come.
#[derive(Clone, Copy)]
struct Pace {
    admissions: usize,
    /// Of as many times at which a pod could come one does.
    one_of: usize,
    /// For as many turns at most kubelet waits in the midst of an admission: the plugin is slow to answer.
    longest_wait: usize,
}

/// There is always somebody on his way.
const CROWD: Pace = Pace { admissions: ADMISSIONS, one_of: 1, longest_wait: 150 };
/// One comes now and then, and the plugin answers soon. In a crowd hardly anything can be proved while the gate is open, since
/// somebody is always on his way: the proof puts the recuts off until nobody comes any more.
const BRISK: Pace = Pace { admissions: 400, one_of: 8, longest_wait: 20 };
/// One comes now and then, and may stay on his way for as long as a change takes.
const SLOW: Pace = Pace { admissions: 200, one_of: 12, longest_wait: 600 };

struct Race {
    pace: Pace,
    world: World,
    dice: Dice,
    bound: usize,
    /// When the present change began.
    since: usize,
    turn: usize,
    /// Until when kubelet waits in the midst of an admission.
    waits_until: usize,
}

impl Race {
    fn new(seed: u64, pace: Pace) -> Self {
        let mut world = World::new(&GPUS.map(|gpu| (gpu, LAYOUTS[0])));
        world.controller.released = true;
        Self { pace, world, dice: Dice(seed), bound: 0, since: 0, turn: 0, waits_until: 0 }
    }

    fn done(&self) -> usize {
        self.world.controller.ended.iter().filter(|ended| **ended == Some(Outcome::Done)).count()
    }

    /// The places of a GPU that a live pod was given.
    fn held(&self, gpu: &GpuUuid) -> BTreeSet<Place> {
        let live = self.world.kubelet.pods.iter().filter(|pod| pod.is_live());
        let given: BTreeSet<u64> = live.flat_map(|pod| pod.given.iter().copied()).collect();
        let slices = &self.world.gpus.slices[gpu];
        slices.iter().filter(|(_, serial)| given.contains(*serial)).map(|(place, _)| *place).collect()
    }

    /// As the planner does: what goes is free, as far as anybody knows.
    fn plan(&mut self) {
        let layout = self.dice.pick(&LAYOUTS);
        for name in GPUS {
            let gpu = GpuUuid(name.to_owned());
            let (held, wanted) = (self.held(&gpu), places(layout));
            let present: BTreeSet<_> = self.world.gpus.slices[&gpu].keys().copied().collect();
            if present.is_subset(&wanted) || !held.is_subset(&wanted) {
                continue;
            }
            self.world.controller.plan(name, layout);
            self.since = self.turn;
            return;
        }
    }

    fn bind(&mut self) {
        let waiting = self.world.kubelet.pods.iter().filter(|pod| pod.life == Life::Bound).count();
        let comes = self.dice.below(self.pace.one_of) == 0;
        if comes && waiting < 3 && self.bound < self.pace.admissions {
            let ask = [Ask::Plain, Ask::Plain, Ask::OnlyInit, Ask::Two][self.dice.below(4)];
            self.world.kubelet.bind(ask, self.dice.pick(&PROFILES).parse().unwrap());
            self.bound += 1;
        }
    }

    fn end_one(&mut self) {
        let mut admitted: Vec<_> =
            self.world.kubelet.pods.iter_mut().filter(|pod| pod.life == Life::Admitted).collect();
        if admitted.len() > 8 {
            let at = self.dice.below(admitted.len());
            admitted[at].life = if self.dice.below(2) == 0 { Life::Ended } else { Life::Deleted };
        }
    }

    fn turn(&mut self) {
        self.turn += 1;
        let begun = self.world.controller.begun;
        match self.dice.below(32) {
            0..=9 => self.world.agent(Luck::Fine, 0),
            10..=15 => {
                let late = self.turn - self.since > PATIENCE;
                self.world.controller(if late { Patience::HasEnough } else { Patience::Waits });
            }
            16..=22 if self.turn < self.waits_until => {}
            16..=22 => {
                if self.dice.below(12) == 0 {
                    self.waits_until = self.turn + self.dice.below(self.pace.longest_wait);
                }
                let breaches = self.world.kubelet.admit(&self.world.gpus);
                self.world.breaches.extend(breaches);
            }
            23..=25 => self.world.plugin(),
            26..=28 => self.bind(),
            29..=30 => self.end_one(),
            _ if self.dice.below(4) == 0
                && self.world.controller.plans.is_empty()
                && self.world.controller.ended.len() == self.world.controller.begun =>
            {
                self.plan();
            }
            _ => {}
        }
        if self.world.controller.begun > begun {
            self.since = self.turn;
        }
    }

    fn is_over(&self) -> bool {
        let World { controller, process, .. } = &self.world;
        self.bound >= self.pace.admissions
            && self.done() >= RECUTS
            && controller.ended.len() == controller.begun
            && process.last == Some(Step::Rest)
    }

    #[track_caller]
    fn run(mut self) -> Self {
        while !self.is_over() {
            self.turn();
            assert!(self.world.breaches.is_empty(), "{:?}: {:#?}", self.world.breaches, self.world.log);
            assert!(self.turn < LONGEST, "{} recuts, {} pods", self.done(), self.bound);
        }
        self
    }
}

#[test]
fn of_a_thousand_admissions_that_race_with_forty_recuts_no_pod_loses_its_slice() {
    let (mut given, mut withdrawn) = (0, 0);
    for seed in 1..=3 {
        let race = Race::new(seed, CROWD).run();
        assert!(race.done() >= RECUTS);
        given += race.world.kubelet.pods.iter().filter(|pod| !pod.given.is_empty()).count();
        withdrawn += race.world.controller.ended.iter().filter(|ended| ended.is_none()).count();
        let of_them = race.world.kubelet.pods.len();
        assert!(of_them >= ADMISSIONS, "{of_them}");
    }
    // They did meet: pods got slices, and some of them one that was to go.
    assert!(given > 400, "{given} pods were given a slice, {withdrawn} recuts were taken back");
    assert!(withdrawn > 8, "{withdrawn} recuts were taken back, {given} pods were given a slice");
}

/// Races until a pod loses its slice, or until all is over.
fn loses_a_slice(without: Without, seed: u64, pace: Pace) -> bool {
    let mut race = Race::new(seed, pace);
    race.world.without = without;
    while !race.is_over() {
        race.turn();
        if !race.world.breaches.is_empty() {
            return true;
        }
        assert!(race.turn < LONGEST, "{} recuts, {} pods", race.done(), race.bound);
    }
    false
}

/// The same without what protects, or the race would show nothing.
#[track_caller]
fn only_protected_nobody_loses_a_slice(without: Without, pace: Pace) {
    for seed in 1..=3 {
        assert!(!loses_a_slice(Without::Nothing, seed, pace), "seed {seed}");
        assert!(loses_a_slice(without, seed, pace), "{without:?}, seed {seed}");
    }
}

/// Who is bound after the list of the proof gets a slice that goes.
#[test]
fn without_the_gate_pods_lose_their_slices_in_the_same_race() {
    only_protected_nobody_loses_a_slice(Without::Gate, BRISK);
}

/// A choice that kubelet made before the plugin went is in no book yet, and the plugin has answered.
#[test]
fn with_the_gate_and_without_the_proof_pods_lose_their_slices_in_the_same_race() {
    only_protected_nobody_loses_a_slice(Without::Proof, SLOW);
}
