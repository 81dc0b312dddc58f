//! What nodes were told and do not have yet goes on, unless another plan is better.

use std::sync::Arc;

use planner::names::NodeName;

use crate::cluster::{Cluster, Until};

fn wants(cluster: &Cluster, node: &str) -> bool {
    let wanted = &cluster.round().gpu_nodes[&NodeName(node.to_owned())];
    !wanted.spec.gpus.is_empty()
}

/// Two machines are alike, so that it is of no account which one is cut: the
/// one that was told goes on, though by itself the planner takes the other.
#[test]
fn what_a_node_was_told_goes_on_though_another_would_do_as_well() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.hgx("n2");
    cluster.pod("asks", "1g.10gb", None);
    let _ = cluster.step(Until::Stored);
    assert!(wants(&cluster, "n1") && !wants(&cluster, "n2"), "by itself the planner takes the first");

    let spec = |cluster: &Cluster, node: &str| cluster.objects.gpu_nodes[node].spec.clone();
    let (first, second) = (spec(&cluster, "n1"), spec(&cluster, "n2"));
    for (node, spec) in [("n1", &second), ("n2", &first)] {
        let gpu_node = Arc::make_mut(cluster.objects.gpu_nodes.get_mut(node).unwrap());
        gpu_node.spec.clone_from(spec);
    }
    assert!(wants(&cluster, "n2") && !wants(&cluster, "n1"), "what the second was told goes on");
}
