//! Floors and spares, and a floor that cannot be met.

use e2e::{a100, mig, pod, policy, scenario};
use serde_json::json;

#[test]
fn floors_and_spares_are_there_before_anybody_asks() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-7g.80gb"), a100("n2", "all-7g.80gb")]).await?;
        scene.operator().await?;
        let bounds = policy("research", "research")
            .at_a_time(2)
            .bounds("1g.10gb", &json!({"minCount": 4}))
            .bounds("3g.40gb", &json!({"spareCount": 1}));
        scene.apply(bounds).await?;
        scene.converged("research").await?;
        scene.says("research", "Planned", "True", "DemandServed").await?;
        // The spare is taken, and there is another one.
        scene.apply(pod("p", &mig("3g.40gb"), 1)).await?;
        scene.runs("p").await?;
        scene.converged("research").await?;
        scene.apply(pod("q", &mig("3g.40gb"), 1)).await?;
        scene.runs("q").await?;
        Ok(())
    });
}

#[test]
fn a_floor_that_cannot_be_met_is_met_as_far_as_it_goes_and_says_so() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").bounds("3g.40gb", &json!({"minCount": 3}))).await?;
        let message = scene.says("research", "Planned", "False", "BoundUnmet").await?;
        assert!(message.contains("minCount wants 3, and 2 can be reached"), "{message}");
        scene.says("research", "Degraded", "True", "BoundUnmet").await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await
    });
}
