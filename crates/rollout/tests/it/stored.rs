//! The words that are stored in `GpuNode.status.rollout`, and published as metrics. A node whose rollout is
//! in progress during an upgrade of the operator is read by them: renaming a variant in the code must not
//! change them.

use serde_json::{Value, json};
use slicewright_rollout::{FailureReason, NodeLayout, Phase, Rung, Trouble, Unproven};

use crate::fake::layout;

#[track_caller]
fn check<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    value: &T,
    stored: &Value,
) {
    assert_eq!(serde_json::to_value(value).unwrap(), *stored);
    assert_eq!(serde_json::from_value::<T>(stored.clone()).unwrap(), *value, "and is read again");
}

#[test]
fn a_phase_is_stored_and_told_by_one_word() {
    let words = [
        "Idle",
        "Mapping",
        "Cordoning",
        "Quiescing",
        "Changing",
        "Verifying",
        "Healing",
        "Relabelling",
        "Releasing",
        "Retreating",
        "Failed",
        "Released",
    ];
    assert_eq!(Phase::ALL.map(Phase::name), words);
    for phase in Phase::ALL {
        check(&phase, &json!(phase.name()));
    }
}

#[test]
fn what_went_wrong_is_stored_in_words_that_stay() {
    let kind = |stored: &Value| match stored {
        Value::Object(fields) => fields.keys().next().cloned().unwrap(),
        word => word.as_str().unwrap().to_owned(),
    };
    let (pods, refused, who) = (json!([]), json!([]), json!("MCO"));
    for stored in [
        json!("WriteNotSeen"),
        json!({"PodsNotStarting": {"pods": pods}}),
        json!({"PodsInTheWay": {"pods": pods, "refused": refused}}),
        json!("Uncordoned"),
        json!("NotPickedUp"),
        json!("ManagerFailed"),
        json!("ManagerWedged"),
        json!("TooSlow"),
        json!("NotBack"),
        json!({"NotSchedulable": {"missing": "PluginPod"}}),
        json!("ManagerGone"),
        json!({"Interrupted": {"who": who}}),
    ] {
        let trouble: Trouble = serde_json::from_value(stored.clone()).unwrap();
        check(&trouble, &stored);
        assert_eq!(trouble.name(), kind(&stored), "metrics use the same word");
    }
    for stored in [
        json!("NotReady"),
        json!("State"),
        json!("OperandsPaused"),
        json!("PluginPod"),
        json!({"Allocatable": {"expected": {"nvidia.com/gpu": 2}, "found": {}}}),
        json!({"Shared": {"label": "nvidia.com/gpu.replicas=2"}}),
        json!("CountLabels"),
        json!({"SharingLabel": {"label": "nvidia.com/gpu.replicas", "expected": "4"}}),
        json!("PluginMapElsewhere"),
        json!({"PluginKeyGone": {"key": "slicewright-1"}}),
        json!("Stability"),
    ] {
        check(&serde_json::from_value::<Unproven>(stored.clone()).unwrap(), &stored);
    }
}

#[test]
fn what_a_human_has_to_look_at_is_stored_in_words_that_stay() {
    for stored in [
        json!({"ChangeFailed": "TooSlow"}),
        json!({"RollBackFailed": "TooSlow"}),
        json!({"RestoreFailed": "TooSlow"}),
        json!({"ForeignLayout": {"found": "theirs", "ours": "slicewright-1"}}),
    ] {
        check(&serde_json::from_value::<FailureReason>(stored.clone()).unwrap(), &stored);
    }
    let rungs = [Rung::First, Rung::Alias, Rung::Restart, Rung::RollBack];
    for (rung, stored) in rungs.into_iter().zip(["First", "Alias", "Restart", "RollBack"]) {
        check(&rung, &json!(stored));
    }
    let stored = json!({"0": {"mig": {"1g.10gb": 7}}, "1": "off"});
    check::<NodeLayout>(&layout("0:1g.10gb*7 1:off"), &stored);
}
