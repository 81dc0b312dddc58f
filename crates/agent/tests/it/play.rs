//! Random schedules against both halves: whatever happens in whichever order,
//! no slice that a pod was given is destroyed, and every change ends.

use agent::{Act, GpuUuid, Outcome, SliceName, Step};
use proptest::prelude::*;

use crate::model::{Ask, Life, Luck, Patience, Plugin, World, places};

/// What happens, and how: printed in one line.
#[derive(Clone)]
struct Schedule(Vec<(u8, u8)>);

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn schedules() -> impl Strategy<Value = Schedule> {
    proptest::collection::vec(any::<(u8, u8)>(), 0..400).prop_map(Schedule)
}

/// What may go wrong in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Nothing but pods that come and go.
    None,
    /// Everything dies, fails and forgets.
    Crashes,
    /// And a foreign hand lifts the label.
    ForeignHand,
}

const LAYOUTS: &[&str] =
    &["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4", "1g@0 1g@1 1g@2 1g@3 3g@4", "2g@0 2g@2 1g@4", "4g@0 1g@4", "7g@0"];
const PROFILES: &[&str] = &["1g.10gb", "2g.20gb", "3g.40gb"];

fn luck(n: u8, trouble: Trouble) -> Luck {
    match n % 16 {
        _ if trouble == Trouble::None => Luck::Fine,
        0 => Luck::Fails,
        1 => Luck::AnswerLost,
        2 => Luck::DiesAfter,
        _ => Luck::Fine,
    }
}

fn happens(world: &mut World, what: u8, how: u8, trouble: Trouble) {
    let pick = usize::from(how);
    match what % 32 {
        0..=9 => world.agent(luck(how, trouble), usize::from(how / 16 % 3)),
        10..=15 => world.controller(Patience::Waits),
        16..=21 => {
            let breaches = world.kubelet.admit(&world.gpus);
            world.breaches.extend(breaches);
        }
        22..=24 => world.plugin(),
        25..=26 => {
            let ask = [Ask::Plain, Ask::OnlyInit, Ask::Two][pick % 3];
            world.kubelet.bind(ask, PROFILES[pick / 3 % 3].parse().unwrap());
        }
        27 => {
            let live: Vec<_> = world.kubelet.pods.iter_mut().filter(|pod| pod.is_live()).collect();
            let many = live.len().max(1);
            if let Some(pod) = live.into_iter().nth(pick % many) {
                pod.life = if how > 127 { Life::Ended } else { Life::Deleted };
            }
        }
        28 if world.controller.plans.len() + world.controller.begun < 4 => {
            world.controller.plan(["gpu-a", "gpu-b"][pick % 2], LAYOUTS[pick / 2 % LAYOUTS.len()]);
        }
        _ if trouble == Trouble::None => world.agent(Luck::Fine, 0),
        29 => match how % 4 {
            0 => world.process.dies(),
            1 => world.controller.dies(),
            2 if !world.foreign => world.kubelet.restart(),
            _ => world.controller(if how < 32 { Patience::HasEnough } else { Patience::Waits }),
        },
        30 => {
            let place = *places(LAYOUTS[pick % LAYOUTS.len()])
                .iter()
                .next()
                .unwrap_or(&places("1g@0").pop_first().unwrap());
            let slice = SliceName { gpu: GpuUuid(["gpu-a", "gpu-b"][pick % 2].to_owned()), place };
            let act = if how.is_multiple_of(3) { Act::Destroy } else { Act::Create };
            world.gpus.refuses.insert((act, slice), u32::from(how % 12));
        }
        _ if trouble == Trouble::ForeignHand
            && world.kubelet.plugin == Plugin::Absent
            && world.process.is_between_looks() =>
        {
            world.log.push("a foreign hand lifts the label".to_owned());
            world.controller.released = true;
            world.foreign = true;
        }
        _ => {}
    }
}

/// Everybody goes on until nobody has anything left to do.
fn settles(world: &mut World) {
    for round in 0..2_000 {
        let patience = if round % 200 == 199 { Patience::HasEnough } else { Patience::Waits };
        world.agent(Luck::Fine, 0);
        while !world.process.is_between_looks() {
            world.agent(Luck::Fine, 0);
        }
        for _ in 0..3 {
            world.controller(patience);
        }
        world.plugin();
        let breaches = world.kubelet.admit(&world.gpus);
        world.breaches.extend(breaches);
        let idle =
            world.controller.plans.is_empty() && world.controller.ended.len() == world.controller.begun;
        let waits = world.kubelet.pods.iter().any(|pod| pod.life == Life::Bound);
        if idle && !waits && world.kubelet.is_registered() && world.process.last == Some(Step::Rest) {
            return;
        }
    }
    panic!(
        "it does not end: {:?}, {:#?}",
        world.process.last,
        world.log.iter().rev().take(40).collect::<Vec<_>>()
    );
}

fn play(schedule: &[(u8, u8)], trouble: Trouble) -> Result<(), TestCaseError> {
    let mut world = World::new(&[("gpu-a", LAYOUTS[0]), ("gpu-b", LAYOUTS[1])]);
    world.controller.released = true;
    world.controller.plan("gpu-a", LAYOUTS[2]);
    world.controller.plan("gpu-b", LAYOUTS[3]);
    for (what, how) in schedule {
        happens(&mut world, *what, *how, trouble);
        prop_assert!(world.breaches.is_empty(), "{:?}: {:#?}", world.breaches, world.log);
    }
    settles(&mut world);
    prop_assert!(world.breaches.is_empty(), "{:?}: {:#?}", world.breaches, world.log);
    if trouble == Trouble::None {
        prop_assert!(
            world.controller.most_writes <= 12,
            "{} writes: {:#?}",
            world.controller.most_writes,
            world.log
        );
        let left = world
            .controller
            .ended
            .iter()
            .flatten()
            .find(|o| matches!(o, Outcome::Left { .. } | Outcome::Restored { .. }));
        prop_assert!(left.is_none(), "{left:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(20), max_shrink_time: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn no_slice_that_a_pod_was_given_is_destroyed_and_every_change_ends(
        schedule in schedules(),
    ) {
        play(&schedule.0, Trouble::None)?;
    }

    #[test]
    fn nor_when_everything_dies_fails_and_forgets(
        schedule in schedules(),
    ) {
        play(&schedule.0, Trouble::Crashes)?;
    }

    #[test]
    fn nor_when_a_foreign_hand_lifts_the_label_and_the_agent_sees_it(
        schedule in schedules(),
    ) {
        play(&schedule.0, Trouble::ForeignHand)?;
    }
}
