//! The clock of the operator's machine is set during a node's rollout.

use e2e::settable::Settable;
use e2e::{Scene, a100, policy, scenario};
use jiff::SignedDuration;

/// Cuts a node anew, and sets the clock in the middle, in one phase after the
/// other: no step is late for it, and none takes an hour more.
async fn is_set_in_each_phase(scene: &mut Scene, by: SignedDuration) -> anyhow::Result<()> {
    scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
    let settable = Settable::default();
    let clock = settable.clock();
    scene.operator_with(|settings| settings.clock = clock).await?;
    let layouts = [("3g.40gb", 2), ("1g.10gb", 7)];
    let phases = ["Mapping", "Quiescing", "Changing", "Verifying"];
    for (phase, layout) in phases.iter().zip(layouts.iter().cycle()) {
        scene.apply(policy("research", "research").always(&[*layout])).await?;
        scene.phase("n1", phase).await?;
        settable.moves(by);
        scene.offers("n1", &[(layout.0, i64::from(layout.1))]).await?;
        scene.converged("research").await?;
    }
    // Nothing was held against the node, and nothing had to be done twice.
    let story = scene.story_of("Node", "n1").await?;
    let plain = ["RepartitionStarted", "LayoutRequested", "RepartitionVerified"];
    let mut told: Vec<&str> = story.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    let mut expected = plain.repeat(phases.len());
    // Events are dated by the clock that was set: their order says nothing.
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected, "{story}");
    Ok(())
}

#[test]
fn a_clock_that_is_put_forward_by_an_hour_makes_no_step_late() {
    scenario(async |scene| is_set_in_each_phase(scene, SignedDuration::from_hours(1)).await);
}

#[test]
fn a_clock_that_is_put_back_by_an_hour_makes_nothing_wait_for_an_hour() {
    scenario(async |scene| is_set_in_each_phase(scene, SignedDuration::from_hours(-1)).await);
}
