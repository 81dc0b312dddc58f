//! Changes are gathered for a moment, and planned with once.

use std::time::Duration;

use anyhow::Context;
use e2e::{a100, mig, pod, policy, scenario};
use tokio::time::Instant;

#[test]
fn many_changes_at_once_are_planned_with_once() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        let delay = Duration::from_millis(1_500);
        scene.operator_with(|settings| settings.batch_delay = delay).await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        let before = scene.operators().first().context("it was started")?.rounds().await?;
        let begin = Instant::now();
        let names: Vec<_> = (0..7).map(|i| format!("p{i}")).collect();
        for name in &names {
            scene.apply(pod(name, &mig("1g.10gb"), 1)).await?;
        }
        for name in &names {
            scene.runs(name).await?;
        }
        let rounds = scene.operators().first().context("it was started")?.rounds().await? - before;
        // Each pod was made, bound, admitted and started: each of that alone would be a round.
        let most = begin.elapsed().as_millis() / delay.as_millis() + 1;
        assert!(rounds >= 1, "nobody looked");
        assert!(u128::from(rounds) <= most, "{rounds} rounds in {:?}", begin.elapsed());
        Ok(())
    });
}
