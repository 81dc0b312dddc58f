//! Nodes of which some GPUs stay whole, for pods that need several with peer-to-peer, beside GPUs that are cut.

use e2e::{NodeSpec, POOL, mig, pod, policy, scenario};
use serde_json::json;

/// Two GPUs of each node are whole, the six others are cut.
fn two_whole(slices: &[(&str, u32)]) -> serde_json::Value {
    let slices: Vec<_> =
        slices.iter().map(|(profile, count)| json!({"profile": profile, "count": count})).collect();
    json!({"type": "Static", "static": {"gpus": [{"indices": [0, 1], "mig": "Disabled"}, {"slices": slices}]}})
}

#[test]
fn two_of_eight_gpus_become_whole_for_a_pod_the_others_are_cut_beside_it_and_all_are_cut_again() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 8, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.offers("n1", &[("1g.10gb", 56)]).await?;
        scene.converged("research").await?;

        // MIG does not go off while a notebook is on any GPU of the node.
        let lab = pod("lab", &mig("1g.10gb"), 1);
        scene.apply(lab.clone()).await?;
        scene.runs("lab").await?;
        scene.apply(policy("research", "research").spec("/layout", two_whole(&[("1g.10gb", 7)]))).await?;
        let waits = scene.waits_for("research", "lab").await?;
        assert!(waits.contains("n1/gpu0: MIG has to be switched there, which clears the node"), "{waits}");
        scene.offers("n1", &[("1g.10gb", 56)]).await?;
        scene.delete(lab).await?;
        let whole_and_cut = [("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.10gb", 42)];
        scene.offers_resources("n1", &whole_and_cut).await?;

        // A pod has both of them while the six others are cut anew.
        let train = pod("train", "nvidia.com/gpu", 2);
        scene.apply(train.clone()).await?;
        scene.runs("train").await?;
        scene.apply(policy("research", "research").spec("/layout", two_whole(&[("3g.40gb", 2)]))).await?;
        scene.offers_resources("n1", &[("nvidia.com/gpu", 2), ("nvidia.com/mig-3g.40gb", 12)]).await?;
        scene.converged("research").await?;
        assert_eq!(scene.runs("train").await?, "n1");
        let status = scene.policies().get("research").await?.status.unwrap_or_default();
        let whole = status.supply.iter().find(|supply| supply.profile == "gpu").expect("it has whole GPUs");
        assert_eq!((whole.present, whole.allocated, whole.free, whole.planned), (2, 2, 0, 2));

        // Back: nothing of the node changes until the pod has ended.
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.waits_for("research", "train").await?;
        scene.delete(train).await?;
        scene.offers("n1", &[("3g.40gb", 16)]).await?;
        scene.converged("research").await
    });
}
