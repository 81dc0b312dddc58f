//! Every record of a rollout can be read back unchanged from its `GpuNode`.

use std::collections::BTreeMap;

use api::{GpuNode, GpuNodeSpec, GpuNodeStatus};
use jiff::Timestamp;
use mig::ProfileName;
use planner::names::{GpuIndex, PodRef};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use reconcile::remembered;
use rollout::outlook::{FailureReason, Trouble, Unproven};
use rollout::progress::{Rung, SetBack, Target, Verified};
use rollout::{GpuLayout, GpuSlices, ListAsked, NodeLayout, Phase, Progress, SliceChange, SlicePlace};

fn at() -> impl Strategy<Value = Timestamp> {
    (0i64..4_000_000_000, 0i32..1_000_000_000).prop_map(|(s, n)| Timestamp::new(s, n).unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{0,20}", "\\PC{0,12}"]
}

fn profile() -> impl Strategy<Value = ProfileName> {
    prop::sample::select(vec!["1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "7g.80gb"])
        .prop_map(|name| name.parse().unwrap())
}

fn layout() -> impl Strategy<Value = NodeLayout> {
    let gpu = prop_oneof![Just(GpuLayout::Off), btree_map(profile(), 0u8..8, 0..4).prop_map(GpuLayout::Mig),];
    btree_map((0u16..300).prop_map(GpuIndex), gpu, 0..5).prop_map(NodeLayout)
}

fn resources() -> impl Strategy<Value = BTreeMap<String, u64>> {
    btree_map(text(), 0u64..1 << 50, 0..3)
}

fn pods() -> impl Strategy<Value = Vec<PodRef>> {
    vec((text(), text()).prop_map(|(namespace, name)| PodRef { namespace, name }), 0..3)
}

fn unproven() -> impl Strategy<Value = Unproven> {
    prop_oneof![
        Just(Unproven::NotReady),
        Just(Unproven::State),
        Just(Unproven::OperandsPaused),
        Just(Unproven::PluginPod),
        Just(Unproven::CountLabels),
        Just(Unproven::Stability),
        Just(Unproven::Offered),
        text().prop_map(|label| Unproven::Shared { label }),
        (resources(), resources()).prop_map(|(expected, found)| Unproven::Allocatable { expected, found }),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(Trouble::WriteNotSeen),
        pods().prop_map(|pods| Trouble::PodsNotStarting { pods }),
        (pods(), vec(text(), 0..3)).prop_map(|(pods, refused)| Trouble::PodsInTheWay { pods, refused }),
        Just(Trouble::Uncordoned),
        Just(Trouble::NotPickedUp),
        Just(Trouble::ManagerFailed),
        Just(Trouble::ManagerWedged),
        Just(Trouble::TooSlow),
        Just(Trouble::NotBack),
        unproven().prop_map(|missing| Trouble::NotSchedulable { missing }),
        Just(Trouble::ManagerGone),
        Just(Trouble::HoldLifted),
        text().prop_map(|missing| Trouble::NotProved { missing }),
        Just(Trouble::NotClaimed),
        Just(Trouble::AgentAway),
        Just(Trouble::AgentSlow),
        unproven().prop_map(|missing| Trouble::NotOffered { missing }),
        text().prop_map(|said| Trouble::AgentEnded { said }),
        text().prop_map(|who| Trouble::Interrupted { who }),
        (pods(), vec(text(), 0..3)).prop_map(|(pods, refused)| Trouble::GpusHeld { pods, refused }),
        unproven().prop_map(|missing| Trouble::NotShared { missing }),
    ]
}

fn failed() -> impl Strategy<Value = FailureReason> {
    prop_oneof![
        trouble().prop_map(FailureReason::ChangeFailed),
        trouble().prop_map(FailureReason::RollBackFailed),
        trouble().prop_map(FailureReason::RestoreFailed),
        (of(text()), text()).prop_map(|(found, ours)| FailureReason::ForeignLayout { found, ours }),
        trouble().prop_map(FailureReason::SharingFailed),
        (of(text()), of(text())).prop_map(|(found, ours)| FailureReason::ForeignSharing { found, ours }),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    let names = (layout(), text(), of(layout()), of(text()), text(), of(text()), of(text()));
    let rung = prop::sample::select(vec![Rung::First, Rung::Alias, Rung::Restart, Rung::RollBack]);
    let state = (rung, any::<bool>(), any::<u32>(), any::<bool>(), any::<bool>(), vec(text(), 0..3));
    let times = (of(at()), of(at()), of(at()), of(at()));
    let devices = prop::collection::btree_map(text(), any::<u64>(), 0..3);
    let sharing = (config(), of(config()), of(config()), devices, any::<bool>());
    let sharing = sharing.prop_map(|(config, before, told_before, devices, goes_back)| {
        rollout::SharingChange { config, before, told_before, devices, goes_back }
    });
    let after = (of(slices()), of(sharing), of(config()));
    (names, state, times, after).prop_map(|(names, state, times, (slices, sharing, followed_by))| {
        let (layout, label, from, label_before, boot_id, plugin_before, manager_before) = names;
        let (rung, restore, attempt, healed, cleared, bystanders) = state;
        let (mapped_at, key_mapped_at, cordoned_at, written_at) = times;
        Target {
            layout,
            label,
            from,
            label_before,
            rung,
            restore,
            attempt,
            healed,
            mapped_at,
            followed_by,
            key_mapped_at,
            cordoned_at,
            written_at,
            boot_id,
            plugin_before,
            manager_before,
            cleared,
            bystanders,
            slices,
            sharing,
        }
    })
}

fn config() -> impl Strategy<Value = rollout::PluginConfig> {
    prop_oneof![
        Just(rollout::PluginConfig::default()),
        (2u32..49, any::<bool>(), any::<bool>()).prop_map(|(replicas, rename, one_each)| {
            rollout::PluginConfig::of_gpus(replicas, rename, one_each)
        }),
        (2u32..49).prop_map(|replicas| {
            let replicas = [("nvidia.com/mig-1g.10gb".to_owned(), replicas)].into();
            let sharing =
                rollout::Shared { by: rollout::Method::Mps, rename: true, one_each: true, replicas };
            rollout::PluginConfig { strategy: Some(rollout::Strategy::Mixed), sharing: Some(sharing) }
        }),
    ]
}

fn slices() -> impl Strategy<Value = SliceChange> {
    let place = || (profile(), any::<u8>()).prop_map(|(profile, start)| SlicePlace { profile, start });
    let gpu = (any::<u16>(), text(), vec(place(), 0..3), vec(place(), 0..3));
    let gpu =
        gpu.prop_map(|(gpu, uuid, before, after)| GpuSlices { gpu: GpuIndex(gpu), uuid, before, after });
    let asked = (any::<u64>(), at(), of(at()));
    let asked = asked.prop_map(|(report, at, older)| ListAsked { report, at, older });
    (text(), vec(gpu, 0..3), of(asked), any::<bool>()).prop_map(|(id, gpus, listed, drained)| SliceChange {
        id,
        gpus,
        listed,
        drained,
    })
}

fn progress() -> impl Strategy<Value = Progress> {
    let place = (profile(), any::<u8>()).prop_map(|(profile, start)| SlicePlace { profile, start });
    let slices = proptest::collection::btree_map(text(), vec(place, 0..3), 0..3);
    let verified = (layout(), text(), at(), text(), slices)
        .prop_map(|(layout, label, at, boot_id, slices)| Verified { layout, label, at, boot_id, slices });
    let set_back = (layout(), trouble(), any::<u32>(), at(), any::<bool>()).prop_map(
        |(layout, why, times, until, rolled_back)| SetBack { layout, why, times, until, rolled_back },
    );
    let parts = (
        prop::sample::select(Phase::ALL.to_vec()),
        of(target()),
        of(text()),
        of(verified),
        of(set_back),
        of(trouble()),
        of(failed()),
    );
    let times = (of(at()), of(at()), of(at()), of(at()), of(at()), of(at()));
    let agent = (of(at()), any::<bool>(), any::<bool>(), of(at()), of(at()));
    let sharing_back = (config(), trouble(), any::<u32>(), at(), any::<bool>()).prop_map(
        |(config, why, times, until, rolled_back)| rollout::progress::SharingSetBack {
            config,
            why,
            times,
            until,
            rolled_back,
        },
    );
    let sharing = (of(config()), of(at()), of(sharing_back));
    (parts, times, agent, sharing).prop_map(
        |(parts, times, agent, (shared_as, shared_at, sharing_set_back))| {
            let (agent_left_since, agent_gone, stood_down, mapped, offers_otherwise_since) = agent;
            let (phase, target, applied, verified, set_back, last_error, failed) = parts;
            let (since, cooldown_until, matched_since, interrupted_since, changed_at, marked_again_at) =
                times;
            Progress {
                phase,
                since,
                target,
                applied,
                verified,
                cooldown_until,
                changed_at,
                shared_at,
                marked_again_at,
                set_back,
                last_error,
                failed,
                matched_since,
                interrupted_since,
                offers_otherwise_since,
                agent_left_since,
                agent_gone,
                stood_down,
                shared_as,
                sharing_set_back,
                hands_back: mapped
                    .map(|at| rollout::progress::Mapped { entry: "slicewright-0".to_owned(), at }),
            }
        },
    )
}

fn stored(progress: &Progress) -> GpuNode {
    let mut node = GpuNode::new("n1", GpuNodeSpec::default());
    let rollout = Some(remembered::write(progress, None));
    node.status = Some(GpuNodeStatus { rollout, ..GpuNodeStatus::default() });
    // Through the API server and back.
    serde_json::from_str(&serde_json::to_string(&node).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_of_a_progress_is_lost(progress in progress()) {
        prop_assert_eq!(remembered::read(Some(&stored(&progress))).unwrap(), progress);
    }

    #[test]
    fn what_people_read_says_the_same(progress in progress()) {
        let rollout = stored(&progress).status.unwrap().rollout.unwrap();
        prop_assert_eq!(rollout.phase, format!("{:?}", progress.phase));
        prop_assert_eq!(rollout.applied, progress.applied);
        prop_assert_eq!(rollout.cooldown_until, progress.cooldown_until);
    }
}

#[test]
fn a_node_of_which_nothing_is_stored_was_never_touched() {
    assert_eq!(remembered::read(None).unwrap(), Progress::default());
    let node = GpuNode::new("n1", GpuNodeSpec::default());
    assert_eq!(remembered::read(Some(&node)).unwrap(), Progress::default());
}
