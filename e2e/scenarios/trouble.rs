//! MIG manager hangs, the driver refuses changes, and nothing helps.

use e2e::{a100, policy, scenario};

#[test]
fn a_mig_manager_that_gave_up_without_a_word_is_healed() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.simulator().turn("n1", "does-not-stop dcgm-exporter")?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Healing").await?;
        scene.simulator().clear("n1")?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        scene.nothing_is_parked("n1").await
    });
}

#[test]
fn a_failure_after_a_full_run_leaves_operands_parked_and_is_healed() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.converged("research").await?;
        // From now on a failure of this MIG manager no longer brings the operands back.
        scene.simulator().turn("n1", "create-fails 2")?;
        scene.apply(policy("research", "research").always(&[("2g.20gb", 3)])).await?;
        scene.offers("n1", &[("2g.20gb", 3)]).await?;
        scene.converged("research").await?;
        scene.nothing_is_parked("n1").await
    });
}

#[test]
fn a_failed_change_is_rolled_back_to_the_layout_that_was_verified_last() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.converged("research").await?;
        scene.simulator().turn("n1", "create-fails 4")?;
        scene.apply(policy("research", "research").always(&[("2g.20gb", 3)])).await?;
        let message = scene.says("research", "Ready", "False", "Waiting").await?;
        assert!(message.contains("retried at "), "{message}");
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        let node = scene.phase("n1", "Idle").await?;
        let error = node.status.and_then(|s| s.rollout).and_then(|r| r.last_error);
        assert!(error.is_some(), "the GpuNode does not say what went wrong");
        Ok(())
    });
}

#[test]
fn a_node_that_cannot_be_mended_is_failed_stays_cordoned_and_says_what_to_do() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.simulator().turn("n1", "create-fails")?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Failed").await?;
        let message = scene.says("research", "Ready", "False", "RolloutFailed").await?;
        assert!(message.contains("slicewright release n1"), "{message}");
        scene.says("research", "Stalled", "True", "RolloutFailed").await?;
        scene.stays_cordoned("n1");
        Ok(())
    });
}
