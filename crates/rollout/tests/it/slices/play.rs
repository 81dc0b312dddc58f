//! Random schedules: operator, agent and kubelet take their steps in any order, and die at any of them.

use agent::{Act, GpuUuid, SliceName};
use planner::policy::Drain;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use slicewright_rollout::{Outlook, StartBlocker};

use super::model::{Ask, Life, Luck, places};
use super::walk::{Dies, GPUS, Walk};

#[derive(Clone)]
struct Schedule(Vec<(u8, u8)>);

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const LAYOUTS: &[&str] =
    &["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4", "1g@0 1g@1 1g@2 1g@3 3g@4", "2g@0 2g@2 1g@4", "4g@0 1g@4", "7g@0"];
const PROFILES: &[&str] = &["1g.10gb", "2g.20gb", "3g.40gb"];

fn luck(n: u8) -> Luck {
    match n % 16 {
        0 => Luck::Fails,
        1 => Luck::AnswerLost,
        2 => Luck::DiesAfter,
        _ => Luck::Fine,
    }
}

fn happens(walk: &mut Walk, what: u8, how: u8) {
    let pick = usize::from(how);
    match what % 32 {
        0..=9 => walk.world.agent(luck(how), usize::from(how / 16 % 3)),
        10..=15 => walk.step(match how % 16 {
            0 => Dies::Before,
            1 => Dies::AfterSpec,
            2 => Dies::BeforeActions,
            _ => Dies::Never,
        }),
        16..=21 => {
            let breaches = walk.world.kubelet.admit(&walk.world.gpus);
            walk.world.breaches.extend(breaches);
        }
        22..=24 => walk.world.plugin(),
        25 => walk.they_go(),
        26 => {
            let ask = [Ask::Plain, Ask::OnlyInit, Ask::Two][pick % 3];
            walk.world.kubelet.bind(ask, PROFILES[pick / 3 % 3].parse().unwrap());
        }
        27 => {
            let live: Vec<_> = walk.world.kubelet.pods.iter_mut().filter(|pod| pod.is_live()).collect();
            let many = live.len().max(1);
            if let Some(pod) = live.into_iter().nth(pick % many) {
                pod.life = if how > 127 { Life::Ended } else { Life::Deleted };
            }
        }
        28 => walk.want(u16::from(how % 2), LAYOUTS[pick / 2 % LAYOUTS.len()]),
        29 => match how % 8 {
            0 => walk.world.process.dies(),
            1 => walk.dies(),
            2 => walk.world.kubelet.restart(),
            3 => walk.lose(&[GPUS[pick / 8 % 2]], how < 128),
            4 => walk.all_answer(),
            5 => walk.only_reports(),
            6 => walk.cannot_read(GPUS[pick / 8 % 2]),
            _ => walk.alive = !walk.alive,
        },
        30 => {
            let place = places(LAYOUTS[pick % LAYOUTS.len()]).pop_first().unwrap();
            let slice = SliceName { gpu: GpuUuid(GPUS[pick % 2].to_owned()), place };
            let act = if how.is_multiple_of(3) { Act::Destroy } else { Act::Create };
            walk.world.gpus.refuses.insert((act, slice), u32::from(how % 12));
        }
        _ => walk.now += jiff::SignedDuration::from_secs(i64::from(how)),
    }
}

/// Everybody goes on; pods in the way end, so that what is wanted can be had.
fn settles(walk: &mut Walk) {
    walk.alive = true;
    walk.world.only_reports = false;
    walk.all_answer();
    // What it answered before may be older than what is wanted now.
    walk.last = None;
    walk.world.gpus.refuses.clear();
    for pod in &mut walk.world.kubelet.pods {
        pod.life = if pod.is_live() { Life::Deleted } else { pod.life };
    }
    for turn in 0..4_000 {
        walk.world.agent(Luck::Fine, 0);
        while !walk.world.process.is_between_looks() {
            walk.world.agent(Luck::Fine, 0);
        }
        walk.step(Dies::Never);
        walk.world.plugin();
        let breaches = walk.world.kubelet.admit(&walk.world.gpus);
        walk.world.breaches.extend(breaches);
        // Whoever was amid a look when each GPU answered again looks once more.
        if turn >= 4 && walk.rests() && walk.world.kubelet.is_registered() {
            return;
        }
        walk.now += jiff::SignedDuration::from_secs(5);
        if let Some(Outlook::Holding(StartBlocker::BackedOff { until, .. })) =
            walk.last.as_ref().map(|answer| &answer.outlook)
        {
            walk.now = walk.now.max(*until);
        }
    }
    let last = walk.last.as_ref().map(|answer| (&answer.outlook, answer.progress.phase));
    let log: Vec<_> = walk.world.log.iter().rev().take(30).collect();
    panic!("it does not end: {last:?}, held {}, {log:#?}", walk.held);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(20), max_shrink_time: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn no_slice_that_a_pod_was_given_is_destroyed_and_no_node_stays_held(
        schedule in proptest::collection::vec(any::<(u8, u8)>(), 0..400).prop_map(Schedule),
        drain in prop_oneof![Just(Drain::Never), Just(Drain::Evict)],
    ) {
        let mut walk = Walk::new([LAYOUTS[0], LAYOUTS[1]]);
        walk.drain = drain;
        walk.want(0, LAYOUTS[2]);
        let check = |walk: &Walk| -> Result<(), TestCaseError> {
            prop_assert!(walk.world.breaches.is_empty(), "{:?}: {:#?}", walk.world.breaches, walk.world.log);
            Ok(())
        };
        for (what, how) in &schedule.0 {
            happens(&mut walk, *what, *how);
            check(&walk)?;
        }
        settles(&mut walk);
        check(&walk)?;
        prop_assert!(drain == Drain::Evict || walk.evicted.is_empty());
        for (index, places) in walk.wanted.clone() {
            prop_assert_eq!(walk.has(GPUS[usize::from(index.0)]), places);
        }
    }
}
