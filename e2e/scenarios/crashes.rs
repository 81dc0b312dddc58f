//! The operator is killed, its leader is killed, the API server restarts, and watches fall silent.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::wire::{Fault, Wire};
use e2e::{a100, mig, pod, policy, scenario};

/// Every phase in which a node is on its way when nothing goes wrong.
const PHASES: [&str; 6] = ["Mapping", "Cordoning", "Quiescing", "Changing", "Verifying", "Releasing"];

#[test]
fn an_operator_that_is_killed_at_any_step_converges_when_it_is_back() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layouts = [[("3g.40gb", 2)], [("1g.10gb", 7)]];
        for (phase, layout) in PHASES.iter().zip(layouts.iter().cycle()) {
            scene.apply(policy("research", "research").always(layout)).await?;
            scene.phase("n1", phase).await?;
            scene.kill_operators();
            scene.operator_again().await?;
            let (profile, count) = layout[0];
            scene.offers("n1", &[(profile, i64::from(count))]).await?;
            scene.converged("research").await?;
        }
        Ok(())
    });
}

#[test]
fn an_operator_that_dies_after_each_of_its_writes_gets_there_all_the_same() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let mut kinds = BTreeMap::new();
        let mut deaths = 0;
        // A life that begins while a node quiesces proves anew that nobody can lose a slice, and writes that
        // down before it acts; one that always died right there would never act. So after such a death the
        // next life has one more write.
        let mut before = 0;
        loop {
            let wire = Wire::dying_after(before);
            scene.operator_through(wire.clone(), |_| ()).await?;
            let converged = tokio::select! {
                () = wire.is_written() => false,
                converged = scene.converged("research") => { converged?; true }
            };
            scene.kill_operators();
            if converged {
                break;
            }
            let tried = wire.tried();
            before = usize::from(before == 0 && tried.keys().eq(["status of a GpuNode"].iter()));
            for kind in tried.into_keys() {
                *kinds.entry(kind).or_insert(0) += 1;
            }
            deaths += 1;
            assert!(deaths < 200, "it does not get anywhere: {kinds:?}");
        }
        for kind in ["GpuNode", "status of a GpuNode", "map", "node", "status of a policy", "event"] {
            assert!(kinds.contains_key(kind), "it never died after a write of this kind: {kind}; {kinds:?}");
        }
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        // The first to live finishes what is left to be said.
        scene.operator_through(Wire::failing(&[]), |_| ()).await?;
        scene.converged("research").await
    });
}

#[test]
fn answers_that_fail_once_in_every_way_for_every_kind_of_write_change_nothing_in_the_end() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        let wire = Wire::failing(&Fault::ALL);
        scene
            .operator_through(wire.clone(), |settings| {
                settings.call_timeout = Duration::from_millis(1_000);
                settings.longest_retry = Duration::from_millis(500);
            })
            .await?;
        // A write that was done and got no answer is seen, and not tried again: so every other way to fail
        // needs a change of its own.
        for (profile, count) in [("3g.40gb", 2), ("2g.20gb", 3), ("7g.80gb", 1), ("1g.10gb", 7)] {
            scene.apply(policy("research", "research").always(&[(profile, count)])).await?;
            scene.offers("n1", &[(profile, i64::from(count))]).await?;
            scene.converged("research").await?;
        }
        let tried = wire.tried();
        for kind in ["GpuNode", "status of a GpuNode", "map", "node", "status of a policy"] {
            let times = tried.get(kind).copied().unwrap_or_default();
            assert!(times > Fault::ALL.len(), "{kind} was tried {times} times only: {tried:?}");
        }
        Ok(())
    });
}

/// Kills the leader in each of these phases; the other replica goes on, and a
/// new one stands by for the next.
fn the_leader_is_killed_in(phases: &'static [&'static str]) {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        let short = |settings: &mut controller::Settings| {
            settings.lease.duration = Duration::from_millis(2_000);
            settings.lease.renew_deadline = Duration::from_millis(1_500);
            settings.lease.retry = Duration::from_millis(300);
        };
        scene.operator_with(short).await?;
        scene.operator_again().await?;
        let layouts = [[("3g.40gb", 2)], [("1g.10gb", 7)]];
        for (phase, layout) in phases.iter().zip(layouts.iter().cycle()) {
            scene.apply(policy("research", "research").always(layout)).await?;
            scene.phase("n1", phase).await?;
            let leader = scene.leader().await?;
            let operator = scene.take_operator(&leader);
            operator.unwrap_or_else(|| panic!("{leader} has the lease and does not run")).kill();
            let (profile, count) = layout[0];
            scene.offers("n1", &[(profile, i64::from(count))]).await?;
            scene.converged("research").await?;
            assert_ne!(scene.leader().await?, leader, "killed in {phase}");
            scene.operator_again().await?;
        }
        Ok(())
    });
}

#[test]
fn when_the_leader_is_killed_before_the_change_the_other_replica_goes_on() {
    the_leader_is_killed_in(&PHASES[..3]);
}

#[test]
fn when_the_leader_is_killed_after_the_label_the_other_replica_goes_on() {
    the_leader_is_killed_in(&PHASES[3..]);
}

#[test]
fn an_api_server_that_restarts_mid_way_changes_nothing_in_the_end() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        scene.restart_api_server().await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

/// The connection is open, and nothing comes: by what the operator saw last,
/// MIG manager never took the change up.
#[test]
fn watches_that_fall_silent_mid_way_make_no_node_look_late() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        let wire = Wire::failing(&[]);
        scene.operator_through(wire.clone(), |settings| settings.unseen_for = Duration::from_secs(1)).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        wire.falls_silent();
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        let node = scene.phase("n1", "Idle").await?;
        let error = node.status.and_then(|s| s.rollout).and_then(|r| r.last_error);
        assert_eq!(error, None, "something was held against it");
        insta::assert_snapshot!(scene.story_of("Node", "n1").await?, @r"
        RepartitionStarted: the node is cordoned while its GPUs are repartitioned
        LayoutRequested: no pod can lose a slice, so MIG manager is instructed to apply the new layout
        RepartitionVerified: pods can use the slices, so the node is uncordoned
        ");
        scene.kill_operators();
        scene.operator_again().await?;
        scene.converged("research").await
    });
}

/// The connection is open, and nothing comes any more: whoever asks for a slice
/// from then on would be seen by nobody.
#[test]
fn a_silent_watch_is_given_up_and_what_it_hid_is_seen() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        let wire = Wire::failing(&[]);
        scene.operator_through(wire.clone(), |settings| settings.watch_time = Duration::from_secs(2)).await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        wire.open_watches_fall_silent();
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        let log = scene.operators().iter().flat_map(|operator| operator.log().messages()).collect::<Vec<_>>();
        assert!(log.iter().any(|line| line.contains("a watch broke")), "{log:#?}");
        scene.converged("research").await
    });
}
