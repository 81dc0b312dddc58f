//! Policies that select nodes by labels which follow the nodes' layouts.

use observe::labels;
use serde_json::json;

use crate::words::{policy, see};

/// What is told of a selector, as field and first words.
fn told_of(selector: serde_json::Value) -> Vec<String> {
    let mut policy = policy("research");
    policy["spec"]["nodeSelector"] = selector;
    let seen = see(&[policy]);
    let all = seen.problems.iter().filter(|p| p.field.starts_with("spec.nodeSelector"));
    all.map(|p| format!("{} {}: {}", p.severity, p.field, p.message)).collect()
}

#[test]
fn what_no_label_can_be_is_an_error_and_not_a_selector_that_matches_nothing() {
    let told = told_of(json!({
        "matchLabels": {"nvidia.com/gpu present": "true", "pool": "yes please!"},
        "matchExpressions": [
            {"key": "a/b/c", "operator": "Exists"},
            {"key": "zone", "operator": "In", "values": ["", "b", "c d"]},
        ],
    }));
    let begins = [
        "error spec.nodeSelector.matchExpressions[0]: `a/b/c` cannot be the key of a label: write letters,",
        "error spec.nodeSelector.matchExpressions[1]: `c d` cannot be the value of a label: write letters,",
        "error spec.nodeSelector.matchLabels[nvidia.com/gpu present]: `nvidia.com/gpu present` cannot be the key of",
        "error spec.nodeSelector.matchLabels[pool]: `yes please!` cannot be the value of a label: write letters,",
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (told, begins) in told.iter().zip(begins) {
        assert!(told.starts_with(begins), "{told}");
    }
}

#[test]
fn each_selector_on_a_label_that_goes_away_is_warned_of_with_the_labels_that_stay() {
    let told = told_of(json!({
        "matchLabels": {"nvidia.com/mig.capable": "true", "pool": "research"},
        "matchExpressions": [
            {"key": "pool", "operator": "Exists"},
            {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["NVIDIA-A30"]},
            {"key": "nvidia.com/mig.config", "operator": "DoesNotExist"},
        ],
    }));
    let begins = [
        "warning spec.nodeSelector.matchExpressions[1].key: selects nodes by `nvidia.com/gpu.product`, which GPU feature discovery removes",
        "warning spec.nodeSelector.matchExpressions[2].key: selects nodes by `nvidia.com/mig.config`, which describes the present state of a node",
        "warning spec.nodeSelector.matchLabels[nvidia.com/mig.capable]: selects nodes by `nvidia.com/mig.capable`, which GPU feature discovery removes",
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (told, begins) in told.iter().zip(begins) {
        assert!(told.starts_with(begins), "{told}");
        assert!(told.contains("`slicewright.io/pool: research`"), "{told}");
        assert!(told.contains("`nvidia.com/gpu.present: \"true\"`"), "{told}");
    }
}

#[test]
fn labels_that_stay_are_nothing_to_warn_of() {
    let stays = [
        "slicewright.io/pool",
        "kubernetes.io/hostname",
        "feature.node.kubernetes.io/pci-10de.present",
        "nvidia.com/gpu.present",
        "nvidia.com/gpu.workload.config",
        "nvidia.com/device-plugin.config",
    ];
    for key in stays {
        assert_eq!(told_of(json!({"matchLabels": {key: "true"}})), [""; 0], "{key}");
        assert!(!labels::vanishes(key), "{key} is not to be remembered in place of people");
    }
}
