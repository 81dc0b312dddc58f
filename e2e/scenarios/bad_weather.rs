//! The connection to the API server is bad for a while, or the leader is stopped completely: nothing is
//! broken by it, and the final state is correct.

use std::time::Duration;

use anyhow::Context;
use controller::Settings;
use e2e::audit::Request;
use e2e::operator::Operator;
use e2e::weather::Weather;
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario, wait};

/// A fleet on which somebody is at work, and of which a node is free: which GPU
/// a pod holds a slice of, nobody can tell where all GPUs are alike.
async fn busy_fleet(scene: &mut Scene) -> anyhow::Result<()> {
    let node = |name| NodeSpec::new(name, 4, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
    scene.nodes_are(["n1", "n2", "n3"].map(node)).await?;
    scene.operator_with(hurried).await?;
    scene.apply(policy("research", "research")).await?;
    for name in ["trains", "evaluates"] {
        scene.apply(pod(name, &mig("1g.10gb"), 1)).await?;
        scene.runs(name).await?;
    }
    scene.converged("research").await
}

/// Gives up a call, and the lease, sooner than real ones do.
fn hurried(settings: &mut Settings) {
    settings.call_timeout = Duration::from_millis(500);
    settings.longest_retry = Duration::from_secs(1);
    settings.lease.duration = Duration::from_millis(2_000);
    settings.lease.renew_deadline = Duration::from_millis(1_500);
    settings.lease.retry = Duration::from_millis(300);
}

fn turns(scene: &Scene, weather: Weather) -> anyhow::Result<()> {
    scene.operators().first().context("an operator runs")?.wire().turns(weather);
    Ok(())
}

/// Somebody asks while it is like this, and is served while it is.
fn is_borne(weather: Weather) {
    scenario(async |scene| {
        busy_fleet(scene).await?;
        turns(scene, weather)?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        scene.apply(pod("asks-too", &mig("2g.20gb"), 2)).await?;
        scene.runs("asks-too").await?;
        turns(scene, Weather::Fair)?;
        scene.converged("research").await
    });
}

#[test]
fn when_three_of_ten_answers_are_errors_who_asks_is_served_all_the_same() {
    is_borne(Weather::Errors(30));
}

#[test]
fn when_every_answer_comes_late_who_asks_is_served_all_the_same() {
    is_borne(Weather::Late(Duration::from_millis(250)));
}

#[test]
fn when_watches_are_cut_after_every_other_message_who_asks_is_served_all_the_same() {
    is_borne(Weather::WatchesCut(2));
}

#[test]
fn when_pods_are_seen_two_seconds_after_nodes_nobody_loses_a_slice() {
    is_borne(Weather::Lagging("pods", Duration::from_secs(2)));
}

#[test]
fn when_nodes_are_seen_two_seconds_after_pods_nobody_loses_a_slice() {
    is_borne(Weather::Lagging("nodes", Duration::from_secs(2)));
}

/// Nothing can be done while it is like this; in the middle of a change, until
/// the lease is lost.
fn is_waited_out(weather: Weather) {
    scenario(async |scene| {
        busy_fleet(scene).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        let node = scene.first_cordoned().await?;
        scene.phase(&node, "Changing").await?;
        turns(scene, weather)?;
        let operator = scene.operators().first().context("an operator runs")?;
        stops_writing(operator).await?;
        turns(scene, Weather::Fair)?;
        scene.runs("asks").await?;
        scene.converged("research").await?;
        let known = scene.phase(&node, "Idle").await?;
        let error = known.status.and_then(|status| status.rollout).and_then(|rollout| rollout.last_error);
        assert_eq!(error, None, "what could not be seen was held against the node");
        Ok(())
    });
}

async fn stops_writing(operator: &Operator) -> anyhow::Result<()> {
    wait::asking("the operator has lost its lease", wait::PATIENCE, async || {
        let log = operator.log().messages();
        let lost = log.iter().any(|line| line.contains("this replica stops writing"));
        Ok(if lost { Ok(()) } else { Err(format!("{log:#?}")) })
    })
    .await
}

#[test]
fn when_every_answer_comes_too_late_nothing_is_done_and_then_it_goes_on() {
    is_waited_out(Weather::Late(Duration::from_millis(600)));
}

#[test]
fn when_nobody_listens_nothing_is_done_and_then_it_goes_on() {
    is_waited_out(Weather::Refused);
}

#[test]
fn when_nobody_answers_nothing_is_done_and_then_it_goes_on() {
    is_waited_out(Weather::Silent);
}

/// Stops the leader where it is in each of these phases, as a machine that is
/// suspended; the other replica goes on. When the first one wakes it believes
/// for a moment that it leads.
fn the_leader_is_stopped_in(phases: &'static [&'static str]) {
    scenario(async |scene| {
        let node = NodeSpec::new("n1", 4, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
        scene.nodes_are([node]).await?;
        scene.operator_with(hurried).await?;
        scene.operator_again().await?;
        let layouts = [[("3g.40gb", 2)], [("1g.10gb", 7)]];
        for (phase, layout) in phases.iter().zip(layouts.iter().cycle()) {
            scene.apply(policy("research", "research").always(layout)).await?;
            scene.phase("n1", phase).await?;
            let leader = scene.leader().await?;
            let operator = scene.take_operator(&leader).context("the leader runs")?;
            operator.freezes();
            let (profile, count) = layout[0];
            scene.each_gpu_offers("n1", &[(profile, i64::from(count))]).await?;
            scene.converged("research").await?;
            assert_ne!(scene.leader().await?, leader, "stopped in {phase}");
            scene.is_quiet().await?;
            let audit = scene.audit_from_now()?;
            operator.thaws();
            stops_writing(&operator).await?;
            operator.stop().await?;
            // What was on its way when it was stopped is of before, and is refused; news has no version.
            let is_taken =
                |write: &Request| write.response_status.code < 300 && write.object_ref.resource != "events";
            let taken = audit.writes()?.into_iter().filter(is_taken);
            let taken: Vec<String> = taken.map(|write| write.to_string()).collect();
            assert_eq!(taken, Vec::<String>::new(), "stopped in {phase}: it wrote after it woke");
            scene.operator_again().await?;
        }
        Ok(())
    });
}

#[test]
fn a_leader_that_is_stopped_before_the_change_writes_nothing_when_it_wakes() {
    the_leader_is_stopped_in(&["Mapping", "Cordoning", "Quiescing"]);
}

#[test]
fn a_leader_that_is_stopped_after_the_label_writes_nothing_when_it_wakes() {
    the_leader_is_stopped_in(&["Changing", "Verifying", "Releasing"]);
}
