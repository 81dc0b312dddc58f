//! The number of nodes that may be unavailable at a time.

use e2e::{a100, policy, scenario};

#[test]
fn of_ten_nodes_not_more_than_the_budget_are_down_at_a_time() {
    scenario(async |scene| {
        let names: Vec<_> = (0..10).map(|i| format!("n{i}")).collect();
        scene.nodes_are(names.iter().map(|name| a100(name, "all-1g.10gb"))).await?;
        scene.operator().await?;
        let cordons = scene.count_cordons();
        scene.apply(policy("research", "research").at_a_time(4).always(&[("3g.40gb", 2)])).await?;
        for name in &names {
            scene.offers(name, &[("3g.40gb", 2)]).await?;
        }
        scene.converged("research").await?;
        let most = cordons.most();
        assert!((1..=4).contains(&most), "{most} nodes were cordoned at a time");
        Ok(())
    });
}
