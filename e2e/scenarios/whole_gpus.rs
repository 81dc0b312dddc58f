//! Nodes of which some GPUs stay whole, for pods that need several with peer-to-peer, beside GPUs that are cut.

use e2e::manifests::of_neighbours;
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
        let lab = pod("lab", &mig("1g.10gb"), 1).of_neighbours();
        scene.apply(lab.clone()).await?;
        scene.runs(&of_neighbours("lab")).await?;
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

#[test]
fn a_pod_that_asks_for_two_gpus_gets_them_on_the_idle_node_and_they_are_cut_again_when_slices_are_asked_for()
{
    scenario(async |scene| {
        let server = |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research");
        scene.nodes_are([server("n1"), server("n2")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.offers("n1", &[("1g.10gb", 56)]).await?;
        scene.offers("n2", &[("1g.10gb", 56)]).await?;

        // A notebook is on one of the nodes, so that MIG cannot go off there.
        let lab = pod("lab", &mig("1g.10gb"), 1).of_neighbours();
        scene.apply(lab).await?;
        let busy = scene.runs(&of_neighbours("lab")).await?;
        let idle = if busy == "n1" { "n2" } else { "n1" };
        let demand = json!({"type": "DemandDriven", "demandDriven": {"wholeGpus": {"maxCount": 8}}});
        scene.apply(policy("research", "research").spec("/layout", demand)).await?;
        scene.converged("research").await?;
        let train = pod("train", "nvidia.com/gpu", 2);
        scene.apply(train.clone()).await?;
        assert_eq!(scene.runs("train").await?, idle);
        scene.offers_resources(idle, &[("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.10gb", 42)]).await?;
        scene.offers(&busy, &[("1g.10gb", 56)]).await?;
        let status = scene.policies().get("research").await?.status.unwrap_or_default();
        let whole = status.supply.iter().find(|supply| supply.profile == "gpu").expect("it has whole GPUs");
        assert_eq!((whole.present, whole.unserved), (2, 0));

        // Nobody is on a node as a whole, so who asks next is told so.
        let next = pod("next", "nvidia.com/gpu", 1);
        scene.apply(next.clone()).await?;
        let answer = scene.is_unserved("research", "next").await?;
        assert_eq!(answer.reason, "NoIdleNode");
        scene.delete(next).await?;

        // The pod ends, and eight large slices of one node need both of its whole GPUs.
        scene.delete(train).await?;
        scene.apply(pod("wide", &mig("7g.80gb"), 8)).await?;
        assert_eq!(scene.runs("wide").await?, idle);
        scene.offers(idle, &[("7g.80gb", 8)]).await?;
        assert_eq!(scene.runs(&of_neighbours("lab")).await?, busy);
        scene.converged("research").await
    });
}
