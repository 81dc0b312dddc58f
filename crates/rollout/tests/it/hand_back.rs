//! A node that its agent changed goes back to MIG manager: pods train on it all the while, and nothing is cut.

use jiff::SignedDuration;
use slicewright_rollout::release::release;
use slicewright_rollout::{Action, Listing, Outlook, Phase, Progress, Report, StartBlocker, names};

use crate::fake::{Caller, Crash, World, layout, seconds, settled};

/// Eight GPUs, as an agent leaves them: no two are cut alike, and MIG manager never heard of any of it.
const EIGHT: &str = "0:3g.40gb*2 1:3g.40gb*1,2g.20gb*1,1g.10gb*2 2:1g.10gb*7 3:7g.80gb*1 \
                     4:2g.20gb*3,1g.10gb*1 5:4g.40gb*1,3g.40gb*1 6:off 7:3g.40gb*1,1g.10gb*3";

/// The node, on which somebody trains on each of its GPUs.
fn handed() -> Caller {
    let mut world = World::new(EIGHT);
    let trains = ["3g.40gb", "2g.20gb", "1g.10gb", "7g.80gb", "2g.20gb", "4g.40gb", "gpu", "3g.40gb"];
    for (gpu, profile) in (0_u16..).zip(trains) {
        let resource = if profile == "gpu" { "gpu".to_owned() } else { format!("mig-{profile}") };
        world.pod(&format!("train-{gpu}"), &resource, gpu);
    }
    world.was_handed_over();
    let mut caller = Caller::new(world, EIGHT);
    caller.progress = Progress {
        applied: Some(names::HANDED_TO_AGENT.to_owned()),
        stood_down: true,
        ..Progress::default()
    };
    caller
}

/// MIG manager has it, found nothing to do, and nobody noticed.
#[track_caller]
fn is_mig_managers(caller: &mut Caller) {
    caller.run(5);
    assert_eq!(caller.settle().clone(), Outlook::Idle, "{}", caller.transcript.join("\n"));
    caller.check_open_with(EIGHT);
    let labels = &caller.world.labels;
    assert_eq!(labels[names::MIG_CONFIG], layout(EIGHT).entry_name());
    assert_eq!(
        (labels[names::DEPLOY_MIG_MANAGER].as_str(), labels[names::MIG_CONFIG_STATE].as_str()),
        ("true", "success")
    );
    assert!(!caller.progress.stood_down);
    caller.check_never("Cordon");
    caller.check_never("SetConfigLabel");
    assert_eq!(caller.world.users.len(), 8);
}

fn holds(caller: &Caller) -> Option<&StartBlocker> {
    match &caller.last.as_ref()?.outlook {
        Outlook::Holding(hold) => Some(hold),
        _ => None,
    }
}

#[test]
fn a_node_whose_agent_only_reports_from_now_on_goes_back_and_no_pod_notices() {
    let mut caller = handed();
    is_mig_managers(&mut caller);
    assert_eq!((caller.did("HandBack"), caller.did("EnsureMapEntry")), (1, 1));
}

#[test]
fn whoever_dies_on_the_way_back_the_end_is_the_same() {
    for crash in [Crash::BeforeStore, Crash::BeforeWrite, Crash::DuringWrite] {
        for call in 1..8 {
            let mut caller = handed();
            caller.crash = Some((call, crash));
            is_mig_managers(&mut caller);
        }
    }
}

/// MIG manager would cut the GPUs to what it is told: an entry that is not what they have takes slices from pods.
#[test]
fn what_the_agent_says_is_not_what_the_node_offers_so_mig_manager_is_told_nothing() {
    let mut caller = handed();
    let other = EIGHT.replace("3:7g.80gb*1", "3:3g.40gb*2");
    caller.world.report = Some(Report { layout: Some(layout(&other)), has_left: false });
    caller.run(30);
    assert!(matches!(holds(&caller), Some(StartBlocker::NotAsVerified { .. })), "{:?}", holds(&caller));
    caller.check_never("HandBack");
    caller.world.report = Some(Report { layout: Some(layout(EIGHT)), has_left: false });
    is_mig_managers(&mut caller);
}

#[test]
fn an_agent_that_is_away_for_a_while_is_not_uninstalled_and_one_that_is_gone_for_long_is() {
    let mut caller = handed();
    caller.world.report = Some(Report { layout: Some(layout(EIGHT)), has_left: true });
    caller.turn();
    let since = caller.progress.agent_left_since.expect("it is noted");
    let mut early = caller.progress.clone();
    assert!(!early.agent_gone);
    // A pod of it comes, and the next one goes: it counts anew.
    caller.world.now += SignedDuration::from_mins(9);
    caller.world.report = Some(Report { layout: Some(layout(EIGHT)), has_left: false });
    caller.turn();
    assert_eq!(caller.progress.agent_left_since, None);

    early.agent_left_since = Some(since);
    caller.progress = early;
    caller.world.report = Some(Report { layout: Some(layout(EIGHT)), has_left: true });
    caller.world.now = since + SignedDuration::from_mins(10) - seconds(1);
    caller.turn();
    assert!(!caller.progress.agent_gone);
    assert!(
        caller.last.as_ref().unwrap().wake_at.is_some_and(|at| at <= since + SignedDuration::from_mins(10))
    );
    caller.world.now = since + SignedDuration::from_mins(10);
    caller.turn();
    assert!(caller.progress.agent_gone);
}

#[test]
fn a_mig_manager_that_somebody_else_switched_off_stays_off() {
    let mut caller = handed();
    caller.progress.stood_down = false;
    caller.want(&EIGHT.replace("2:1g.10gb*7", "2:7g.80gb*1"));
    caller.run(5);
    assert_eq!(holds(&caller), Some(&StartBlocker::ManagerDisabled));
    assert_eq!(caller.world.labels[names::DEPLOY_MIG_MANAGER], "false");
    assert_eq!(caller.world.labels[names::MIG_CONFIG], layout(EIGHT).entry_name());
}

#[test]
fn after_a_reboot_without_its_agent_the_node_gets_what_it_had_but_not_under_a_pod() {
    let mut caller = handed();
    let boot_id = caller.world.observe(slicewright_rollout::Listing::Cached).boot_id;
    caller.progress.verified = Some(slicewright_rollout::progress::Verified {
        layout: layout(EIGHT),
        label: names::HANDED_TO_AGENT.to_owned(),
        at: caller.world.now,
        boot_id,
        slices: std::collections::BTreeMap::new(),
    });
    caller.world.reboot();
    caller.world.hardware = layout(EIGHT);
    caller
        .world
        .hardware
        .0
        .values_mut()
        .for_each(|gpu| *gpu = slicewright_rollout::GpuLayout::from_profiles([]));
    caller.world.labels.insert(names::DEPLOY_MIG_MANAGER.to_owned(), "false".to_owned());
    caller.world.report = Some(Report { layout: None, has_left: true });
    caller.run(30);
    // Its pods are bound and wait: they may be given whatever comes.
    caller.check_never("HandBack");
    caller.world.users.clear();
    caller.run(5);
    assert_eq!(caller.did("HandBack"), 1, "{}", caller.transcript.join("\n"));
}

/// The first step of a handover is done, and the agent reports only from now on.
fn stood_down(people: bool) -> Caller {
    let mut caller = settled("0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off", EIGHT);
    caller.world.stood_down();
    caller.progress.stood_down = true;
    if people {
        caller.world.pod("train-0", "mig-3g.40gb", 0);
    }
    caller
}

/// Nothing was handed over: the label still says what the node has.
#[test]
fn a_mig_manager_that_was_switched_off_for_an_agent_that_takes_nothing_over_is_switched_on_again() {
    for crash in [None, Some(Crash::BeforeStore), Some(Crash::BeforeWrite), Some(Crash::DuringWrite)] {
        let mut caller = stood_down(true);
        let label = caller.world.labels[names::MIG_CONFIG].clone();
        caller.crash = crash.map(|crash| (1, crash));
        caller.run(5);
        assert_eq!(caller.settle().clone(), Outlook::Idle, "{}", caller.transcript.join("\n"));
        caller.check_open_with(EIGHT);
        let labels = &caller.world.labels;
        assert_eq!(
            (&labels[names::MIG_CONFIG], labels[names::DEPLOY_MIG_MANAGER].as_str()),
            (&label, "true")
        );
        assert!(!caller.progress.stood_down);
        assert_eq!((caller.world.breaches, caller.world.users.len()), (0, 1));
        caller.check_never("Cordon");
    }
}

/// The soak of 2026-11-26: a reboot in the midst of a handover, whose agent reports only since. The slices that the
/// reboot took were waited for, from a MIG manager that nobody had switched on again.
#[test]
fn after_a_reboot_in_the_midst_of_a_handover_mig_manager_makes_the_slices_again() {
    let mut caller = stood_down(false);
    caller.world.reboot();
    caller.world.report = Some(Report { layout: None, has_left: false });
    caller.run(30);
    assert_eq!(caller.settle().clone(), Outlook::Idle, "{}", caller.transcript.join("\n"));
    caller.check_open_with(EIGHT);
    assert_eq!(caller.world.labels[names::DEPLOY_MIG_MANAGER], "true");
    assert!(!caller.progress.stood_down);
}

/// The same a step later, on cards that lose MIG mode too: the agent has the node, and never knew where its slices were.
#[test]
fn after_a_reboot_at_the_end_of_a_handover_mig_manager_makes_what_was_verified() {
    let mut caller = stood_down(false);
    caller.world.labels.insert(names::MIG_CONFIG.to_owned(), names::HANDED_TO_AGENT.to_owned());
    caller.world.reboot();
    caller.world.hardware = layout("0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off");
    caller.world.report = Some(Report { layout: Some(caller.world.hardware.clone()), has_left: false });
    caller.run(30);
    assert_eq!(caller.settle().clone(), Outlook::Idle, "{}", caller.transcript.join("\n"));
    caller.check_open_with(EIGHT);
    assert_eq!(caller.world.labels[names::DEPLOY_MIG_MANAGER], "true");
    // It was told so at once, and not first that there is nothing.
    caller.check_never("SetConfigLabel");
}

/// Its label does not say what it has, and MIG manager would cut it to that under a pod.
#[test]
fn a_node_that_has_not_what_its_label_says_is_given_back_with_what_it_has() {
    let mut caller = stood_down(true);
    let other = layout(&EIGHT.replace("3:7g.80gb*1", "3:3g.40gb*2"));
    caller.world.labels.insert(names::MIG_CONFIG.to_owned(), other.entry_name());
    caller.world.map.insert(other.entry_name(), (other, caller.world.now));
    caller.run(5);
    assert_eq!(caller.settle().clone(), Outlook::Idle, "{}", caller.transcript.join("\n"));
    caller.check_open_with(EIGHT);
    assert_eq!(caller.world.labels[names::MIG_CONFIG], layout(EIGHT).entry_name());
    assert_eq!(caller.world.labels[names::DEPLOY_MIG_MANAGER], "true");
    assert_eq!(caller.world.breaches, 0);
}

/// The operator forgot a change of the agent's that is over: nobody else lifts the pause.
#[test]
fn operands_that_are_still_paused_for_an_agent_that_changes_nothing_are_resumed() {
    let mut caller = handed();
    let plugin = names::PAUSED_BY_US[0];
    caller.world.labels.insert(plugin.to_owned(), names::PAUSED_FOR_US.to_owned());
    is_mig_managers(&mut caller);
    assert_eq!(caller.world.labels[plugin], "true");
    assert_eq!(caller.did("ResumeOperands"), 1);
}

/// The plugin would stay away for good. A node is opened after it may come back: pods that came before would be refused.
#[test]
fn a_release_amid_a_change_of_the_agent_lifts_the_pause_and_then_the_cordon() {
    let mut caller = handed();
    for label in names::PAUSED_BY_US {
        caller.world.labels.insert(label.to_owned(), names::PAUSED_FOR_US.to_owned());
    }
    caller.world.unschedulable = true;
    caller.world.labels.insert(names::CORDONED_BY.to_owned(), names::CORDONED_BY_US.to_owned());
    let seen = caller.world.observe(Listing::Cached);
    let released = release(&seen, &caller.progress);
    let [Action::ResumeOperands { labels, .. }, Action::Uncordon { .. }] = &released.actions[..] else {
        panic!("{:?}", released.actions);
    };
    assert_eq!(labels.iter().map(String::as_str).collect::<Vec<_>>(), names::PAUSED_BY_US);
    assert_eq!(released.progress.phase, Phase::Released);
    // Where nothing is paused there is nothing to resume.
    for label in names::PAUSED_BY_US {
        caller.world.labels.insert(label.to_owned(), "true".to_owned());
    }
    let seen = caller.world.observe(Listing::Cached);
    let actions = release(&seen, &caller.progress).actions;
    assert!(matches!(actions[..], [Action::Uncordon { .. }]), "{actions:?}");
}

/// The uninstall hook ends before the agent is gone for long enough.
#[test]
fn a_node_of_an_agent_that_is_released_says_how_mig_manager_gets_it_back() {
    let mut caller = handed();
    caller.turn();
    let seen = caller.world.observe(Listing::Cached);
    let released = release(&seen, &caller.progress);
    assert!(
        released.left.iter().any(|left| left.contains("nvidia.com/gpu.deploy.mig-manager to `true`")),
        "{:?}",
        released.left
    );
    // One that MIG manager has already is not told so.
    let mut caller = handed();
    is_mig_managers(&mut caller);
    let seen = caller.world.observe(Listing::Cached);
    let left = release(&seen, &caller.progress).left;
    assert!(!left.iter().any(|left| left.contains("deploy.mig-manager")), "{left:?}");
}
