//! The operator is killed, its leader is, the API server restarts.

use e2e::{a100, policy, scenario};

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
fn when_the_leader_is_killed_the_other_replica_goes_on() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.operator_again().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        let leader = scene.leader().await?;
        let operator = scene.take_operator(&leader);
        operator.unwrap_or_else(|| panic!("{leader} has the lease and does not run")).kill();
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        assert_ne!(scene.leader().await?, leader);
        Ok(())
    });
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
