//! Which nodes count for the menu, and what their taints and their sizes make of it.

use super::*;
use k8s_openapi::api::core::v1::Taint;

fn taint(cluster: &mut Cluster, node: &str, taints: &[(&str, &str)]) {
    cluster.edit_node(node, |node| {
        let taint = |(key, effect): &(&str, &str)| Taint {
            key: (*key).to_owned(),
            effect: (*effect).to_owned(),
            ..Default::default()
        };
        node.spec.get_or_insert_default().taints = Some(taints.iter().map(taint).collect());
    });
}

/// What Kubernetes sets passes by itself, and what only asks pods to go elsewhere keeps nobody away: neither takes anything
/// off the menu, and neither is tolerated.
#[test]
fn taints_that_pass_or_keep_nobody_away_change_nothing_on_the_menu() {
    let mut cluster = fleet();
    taint(
        &mut cluster,
        "n1",
        &[("node.kubernetes.io/disk-pressure", "NoSchedule"), ("nvidia.com/gpu", "NoSchedule")],
    );
    taint(&mut cluster, "n2", &[("maintenance", "PreferNoSchedule")]);
    assert_eq!(round(&mut cluster).len(), 6);
    assert_eq!(cluster.round().menu.problems, []);
    let mut softly = fleet();
    for node in ["n1", "n2"] {
        taint(&mut softly, node, &[("maintenance", "PreferNoSchedule")]);
    }
    assert_eq!(round(&mut softly).len(), 6);
    let small = name(&cluster, &["1g-10gb"]);
    let spec = json!(profile(&mut cluster, &small).spec);
    assert_eq!(
        spec["scheduling"]["node"]["tolerations"],
        json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
    );
    // The one that is left alone is as good as both.
    taint(&mut cluster, "n1", &[("dedicated", "NoExecute")]);
    taint(&mut cluster, "n2", &[]);
    assert_eq!(minutes(&mut cluster, 1), [""; 0]);
    assert_eq!(stand(&cluster, &small), Some(Stand::Outdated), "without the toleration it is another");
}

/// The CPU of a slice is a share of the node's, too. The menu is never without what both offer.
#[test]
fn nodes_with_much_more_cpu_make_other_profiles_at_the_moment_at_which_the_old_ones_go() {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    round(&mut cluster);
    for node in ["n1", "n2"] {
        cluster.edit_node(node, |node| {
            let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
            allocatable.get_mut("cpu").unwrap().0 = "256".to_owned();
        });
    }
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    let done = minutes(&mut cluster, 1);
    for what in
        ["create gpu-research-", "withdraw gpu-research-", "create gpu-q-gpus-", "withdraw gpu-q-gpus-"]
    {
        assert_eq!(done.iter().filter(|done| done.starts_with(what)).count(), 6, "{what}: {done:?}");
    }
}
