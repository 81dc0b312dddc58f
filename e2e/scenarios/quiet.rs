//! Messages that the operator does not send.

use e2e::{a100, policy, scenario};
use serde_json::Value;

/// How many times nothing new is looked at.
const ROUNDS: u64 = 5;

#[test]
fn an_operator_at_rest_looks_again_without_a_word() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        scene.is_quiet().await?;
        let log = scene.operators()[0].log();
        let before = log.messages();
        assert!(before.iter().any(|line| line.contains("the map of layouts is written")), "{before:#?}");
        let rounds = scene.operators()[0].rounds().await?;
        for round in 1..=ROUNDS {
            let mut seen: Value = policy("research", "research").always(&[("3g.40gb", 2)]).into();
            seen["metadata"]["annotations"]["example.com/seen"] = round.to_string().into();
            scene.apply(seen).await?;
            scene.operators()[0].has_run_rounds(rounds + round).await?;
        }
        let after = log.messages();
        assert!(after.len() == before.len(), "it said: {:#?}", &after[before.len()..]);
        Ok(())
    });
}
