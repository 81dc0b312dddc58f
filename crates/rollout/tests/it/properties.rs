//! For any events in any order: no rule is broken, and once there are no more events, no node is left
//! behind without a message.

use crate::fake::{Caller, Crash, Fault, judge, layout, settled};
use jiff::SignedDuration;
use planner::policy::Drain;
use proptest::prelude::*;
use slicewright_rollout::{
    Admission, Listing, Outlook, Phase, PodPhase, Progress, Rung, StartBlocker, advance, names,
};

const A: &str = "0:1g.10gb*7 1:3g.40gb*2";
const B: &str = "0:2g.20gb*3 1:3g.40gb*2";
const C: &str = "0:1g.10gb*7 1:7g.80gb*1";

/// What people, kubelet, the network and bad luck do.
#[derive(Clone, Copy, Debug)]
enum Event {
    Want(&'static str),
    WantNothing,
    PodComes { gpu: u16, started: bool },
    PodStarts,
    PodEnds,
    PodGoes,
    HumanCordons,
    HumanUncordons,
    MarkGoes,
    Reboots,
    ManagerRestarts,
    Breaks(Fault),
    ForeignLabel,
    GiveBack,
    WindowCloses,
    WindowOpens,
    Drain(bool),
    DriverUpgrade(bool),
    CallerDies(Crash),
    MemoryLost,
    LooksBack,
    AgentTells,
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    prop_oneof![
        6 => prop::sample::select(vec![A, B, C]).prop_map(Want),
        1 => Just(WantNothing),
        4 => (0..2u16, any::<bool>()).prop_map(|(gpu, started)| PodComes { gpu, started }),
        2 => Just(PodStarts),
        3 => Just(PodEnds),
        1 => Just(PodGoes),
        1 => Just(HumanCordons),
        2 => Just(HumanUncordons),
        1 => Just(MarkGoes),
        1 => Just(Reboots),
        1 => Just(ManagerRestarts),
        4 => prop::sample::select(vec![
            Fault::WedgePending, Fault::FailParked, Fault::Fail, Fault::SuccessParked,
            Fault::PluginBroken, Fault::Reboot,
        ]).prop_map(Breaks),
        1 => Just(ForeignLabel),
        1 => Just(GiveBack),
        1 => Just(WindowCloses),
        1 => Just(WindowOpens),
        1 => any::<bool>().prop_map(Drain),
        1 => any::<bool>().prop_map(DriverUpgrade),
        3 => prop::sample::select(vec![Crash::BeforeStore, Crash::BeforeWrite, Crash::DuringWrite])
            .prop_map(CallerDies),
        1 => Just(MemoryLost),
        2 => Just(LooksBack),
        1 => Just(AgentTells),
    ]
}

/// Lets an event happen. Answers whether what is lost from now on may be
/// others' doing: a foreign label changes GPUs under anybody's pods.
fn happen(caller: &mut Caller, event: Event) -> bool {
    let world = &mut caller.world;
    match event {
        Event::Want(text) => caller.wanted = Some(layout(text)),
        Event::WantNothing => caller.wanted = None,
        Event::PodComes { gpu, started } => {
            // The scheduler and kubelet let it in: the node is open and offers such a slice.
            let index = planner::names::GpuIndex(gpu);
            let slicewright_rollout::GpuLayout::Mig(slices) = &world.hardware.0[&index] else { return false };
            let Some(profile) = slices.keys().next().copied() else { return false };
            let resource = profile.resource_name();
            let offered = world.allocatable.get(&resource).is_some_and(|n| *n > 0);
            if world.unschedulable || !world.ready || !offered || world.users.len() >= 3 {
                return false;
            }
            let name = format!("pod{}", world.version);
            let resource = resource.trim_start_matches("nvidia.com/").to_owned();
            let user = world.pod(&name, &resource, gpu);
            user.pod.phase = if started { PodPhase::Started } else { PodPhase::Pending };
        }
        Event::PodStarts => {
            world.users.iter_mut().for_each(|user| user.pod.phase = PodPhase::Started);
        }
        Event::PodEnds => {
            world.users.pop();
        }
        Event::PodGoes => {
            let gone = world.now + SignedDuration::from_mins(2);
            if let Some(user) = world.users.first_mut() {
                user.pod.terminating = true;
                user.gone_at = Some(gone);
            }
        }
        Event::HumanCordons => world.somebody_cordons(),
        Event::HumanUncordons => world.opens(),
        Event::MarkGoes => world.mark_goes(),
        Event::Reboots => world.reboot(),
        Event::ManagerRestarts => world.restart_manager(),
        Event::Breaks(fault) => world.faults = vec![fault],
        Event::ForeignLabel => {
            let hour = SignedDuration::from_hours(1);
            world.map.insert("theirs".to_owned(), (layout("0:7g.80gb*1 1:7g.80gb*1"), world.now - hour));
            world.set(names::MIG_CONFIG, "theirs");
            return true;
        }
        Event::GiveBack => {
            if let Some(ours) = caller.progress.applied.clone() {
                world.set(names::MIG_CONFIG, &ours);
                return true;
            }
        }
        Event::WindowCloses => caller.rules.admission = Admission::Held(StartBlocker::Window { opens: None }),
        Event::WindowOpens => caller.rules.admission = Admission::Admitted,
        Event::Drain(evict) => caller.rules.drain = if evict { Drain::Evict } else { Drain::Never },
        Event::DriverUpgrade(on) => {
            let state = if on { "pod-restart-required" } else { "upgrade-done" };
            world.labels.insert(names::DRIVER_UPGRADE_STATE.to_owned(), state.to_owned());
            world.version += 1;
        }
        Event::CallerDies(crash) => caller.crash = Some((caller.calls + 1, crash)),
        Event::MemoryLost => caller.progress = Progress::default(),
        Event::LooksBack => {
            caller.stale = Some(world.observe(Listing::Cached));
            let later = world.now + SignedDuration::from_secs(8);
            world.pass(later);
        }
        Event::AgentTells => {
            world.users.iter_mut().for_each(|user| user.pod.gpus = Some(user.on.clone()));
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Rules are judged at every call (see `fake::judge`); here also: nobody
    /// loses a slice, and the end is never silent.
    #[test]
    fn nothing_is_broken_on_the_way_and_nothing_is_left_in_silence(
        script in prop::collection::vec((event(), 0..30usize), 0..25)
    ) {
        let mut caller = settled("0:off 1:off", A);
        caller.world.managed_fields = true;
        let mut others = false;
        for (event, rounds) in &script {
            others |= happen(&mut caller, *event);
            for _ in 0..*rounds {
                let until = caller.turn();
                let most = caller.world.now + SignedDuration::from_mins(2);
                caller.world.pass(until.min(most));
            }
        }
        if !others {
            prop_assert_eq!(caller.world.breaches, 0, "{}", caller.transcript.join("\n"));
        }
        // Now it is quiet: everybody goes home, and gives back what is ours.
        caller.stale = None;
        caller.world.users.clear();
        caller.world.faults.clear();
        caller.world.labels.remove(names::DRIVER_UPGRADE_STATE);
        caller.rules.admission = Admission::Admitted;
        if caller.world.unschedulable && !caller.world.ours {
            caller.world.opens();
        }
        caller.world.version += 1;
        let wanted = caller.wanted.clone();
        caller.run(60 * 27);
        let story = caller.transcript.join("\n");
        let outlook = caller.last.as_ref().unwrap().outlook.clone();
        let cordoned = caller.world.unschedulable;
        match &outlook {
            Outlook::Idle => {
                prop_assert!(!cordoned, "idle and cordoned:\n{}", story);
                if let Some(wanted) = wanted {
                    prop_assert_eq!(&caller.world.hardware, &wanted, "{}", story);
                }
            }
            Outlook::Failed(failure) => {
                prop_assert!(!failure.why.help("n1").is_empty());
            }
            // Somebody else's label: frozen, or (our memory being lost) not our run to heal.
            Outlook::Holding(StartBlocker::ForeignLayout { .. } | StartBlocker::RunInProgress { .. }) => {
                prop_assert!(others && !cordoned, "{}", story);
            }
            // The plugin broke on a node at rest: said, and nothing is changed over it.
            Outlook::Holding(StartBlocker::NotAsVerified { .. }) => prop_assert!(!cordoned, "{}", story),
            other => prop_assert!(false, "ends with {:?}:\n{}", other, story),
        }
    }

    /// Any recorded progress, even one that no run of ours leads to, on any
    /// picture of a node: an answer, and no rule broken.
    #[test]
    fn any_progress_on_any_node_is_answered(
        script in prop::collection::vec((event(), 0..12usize), 0..10),
        phase in prop::sample::select(Phase::ALL.to_vec()),
        rung in prop::sample::select(vec![Rung::First, Rung::Alias, Rung::Restart, Rung::RollBack]),
        restore in any::<bool>(),
        keeps_target in any::<bool>(),
        ago in 0..100_000i64,
    ) {
        let mut caller = settled("0:off 1:off", A);
        for (event, rounds) in &script {
            happen(&mut caller, *event);
            for _ in 0..*rounds {
                caller.round();
            }
        }
        let mut progress = caller.progress.clone();
        progress.phase = phase;
        progress.since = Some(caller.world.now - SignedDuration::from_secs(ago));
        if let Some(target) = progress.target.as_mut() {
            (target.rung, target.restore) = (rung, restore);
        }
        if !keeps_target {
            progress.target = None;
        }
        for listing in [Listing::Cached, Listing::Consistent { at: caller.world.now }] {
            let seen = caller.world.observe(listing);
            let now = caller.world.now;
            let once = advance(&seen, caller.wanted.as_ref(), &caller.rules, &progress, now);
            judge(&seen, &caller.rules, &once, now);
            let twice = advance(&seen, caller.wanted.as_ref(), &caller.rules, &progress, now);
            prop_assert_eq!(once, twice);
        }
    }
}
