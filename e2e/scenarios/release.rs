//! `slicewright release`: administrators take a node back from the operator.

use std::time::Duration;

use controller::calls::Calls;
use controller::clock;
use controller::release::{Outcome, Request, release};
use e2e::objects::OPERATOR_NAMESPACE;
use e2e::{Scene, a100, policy, scenario};

/// What the command does, with the rights of whoever runs it.
async fn ask(scene: &Scene, nodes: &[&str], resume: bool) -> anyhow::Result<Vec<(String, Outcome)>> {
    let request = Request {
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        resume,
        lease: (OPERATOR_NAMESPACE.to_owned(), "slicewright-operator".to_owned()),
    };
    let calls = Calls::new(scene.client(), Duration::from_secs(10));
    Ok(release(&calls, &request, clock::now()).await?)
}

#[test]
fn a_node_that_failed_is_given_up_and_handed_back_when_it_is_mended() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.simulator().turn("n1", "create-fails")?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Failed").await?;
        let outcomes = ask(scene, &[], false).await?;
        let [(node, Outcome::Released { uncordoned: true, left })] = outcomes.as_slice() else {
            anyhow::bail!("{outcomes:?}");
        };
        assert_eq!(node, "n1");
        assert!(left.iter().any(|line| line.contains("nvidia.com/mig.config stays")), "{left:?}");
        scene.phase("n1", "Released").await?;
        let again = ask(scene, &[], false).await?;
        assert!(again.is_empty(), "nothing of it is held any more: {again:?}");
        scene.simulator().clear("n1")?;
        assert_eq!(ask(scene, &["n1"], true).await?, [("n1".to_owned(), Outcome::Resumed)]);
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_node_on_its_way_is_not_given_up_while_the_operator_runs_and_its_policy_is_in_force() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        // The change stands still for five simulated minutes, and is then healed.
        scene.simulator().turn("n1", "does-not-stop device-plugin")?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        let outcomes = ask(scene, &["n1"], false).await?;
        let [(_, Outcome::Refused { why })] = outcomes.as_slice() else { anyhow::bail!("{outcomes:?}") };
        assert!(why.contains("kubectl patch gpupartitionpolicy research"), "{why}");
        scene.stop_operators().await?;
        let outcomes = ask(scene, &["n1"], false).await?;
        let [(_, Outcome::Released { uncordoned: true, .. })] = outcomes.as_slice() else {
            anyhow::bail!("{outcomes:?}");
        };
        scene.phase("n1", "Released").await?;
        Ok(())
    });
}
