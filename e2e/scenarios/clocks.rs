//! The clock of the operator's machine is set while a node is on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use controller::clock::Clock;
use e2e::{Scene, a100, policy, scenario};
use jiff::SignedDuration;

/// A clock that can be set.
#[derive(Clone, Default)]
struct Settable(Arc<AtomicI64>);

impl Settable {
    fn clock(&self) -> Clock {
        let ahead = Arc::clone(&self.0);
        Clock::told_by(move || {
            controller::clock::now() + SignedDuration::from_secs(ahead.load(Ordering::SeqCst))
        })
    }

    fn moves(&self, by: SignedDuration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

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
        let node = scene.phase("n1", "Idle").await?;
        let progress = node.status.and_then(|status| status.rollout).unwrap_or_default();
        assert_eq!(progress.last_error, None, "set in {phase}: something was held against the node");
    }
    let story = scene.story_of("Node", "n1").await?;
    assert!(!story.contains("Failed") && !story.contains("Healed"), "{story}");
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
