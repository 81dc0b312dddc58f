//! The words that are stored in `GpuNode.status.rollout`, and published as metrics. A node whose rollout is
//! in progress during an upgrade of the operator is read by them: renaming a variant in the code must not
//! change them.

use std::collections::BTreeSet;

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

/// These are pinned, and no variant of the type is left out.
#[track_caller]
fn check_all<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    pinned: &[Value],
) {
    for stored in pinned {
        check(&serde_json::from_value::<T>(stored.clone()).unwrap(), stored);
    }
    // Whoever reads an unknown word lists the known ones.
    let unknown = serde_json::from_value::<T>(json!("?")).unwrap_err().to_string();
    let known: BTreeSet<_> = unknown.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert_eq!(pinned.iter().map(kind).collect::<BTreeSet<_>>(), known, "{unknown}");
}

/// The name of a stored variant.
fn kind(stored: &Value) -> String {
    match stored {
        Value::Object(fields) => fields.keys().next().cloned().unwrap(),
        word => word.as_str().unwrap().to_owned(),
    }
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
    let (pods, refused, who) = (json!([]), json!([]), json!("MCO"));
    let troubles = [
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
        json!({"GpusHeld": {"pods": pods, "refused": refused}}),
        json!({"NotShared": {"missing": "MpsDaemon"}}),
        json!("HoldLifted"),
        json!({"NotProved": {"missing": "the list is too old"}}),
        json!("NotClaimed"),
        json!("AgentAway"),
        json!("AgentSlow"),
        json!({"NotOffered": {"missing": "Offered"}}),
        json!({"AgentEnded": {"said": "Restored"}}),
        json!("ManagerGone"),
        json!({"Interrupted": {"who": who}}),
    ];
    check_all::<Trouble>(&troubles);
    for stored in &troubles {
        let trouble: Trouble = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(trouble.name(), kind(stored), "metrics use the same word");
    }
    check_all::<Unproven>(&[
        json!("NotReady"),
        json!("State"),
        json!("OperandsPaused"),
        json!("PluginPod"),
        json!("DiscoveryPod"),
        json!("MpsDaemon"),
        json!("MpsDaemonLeft"),
        json!({"Allocatable": {"expected": {"nvidia.com/gpu": 2}, "found": {}}}),
        json!({"Shared": {"label": "nvidia.com/gpu.replicas=2"}}),
        json!("CountLabels"),
        json!("Offered"),
        json!({"SharingLabel": {"label": "nvidia.com/gpu.replicas", "expected": "4"}}),
        json!("PluginMapElsewhere"),
        json!({"PluginPodOfBefore": {"pod": {"namespace": "gpu-operator", "name": "plugin-1"}}}),
        json!({"PluginKeyGone": {"key": "slicewright-1"}}),
        json!("Stability"),
    ]);
}

#[test]
fn what_a_human_has_to_look_at_is_stored_in_words_that_stay() {
    check_all::<FailureReason>(&[
        json!({"ChangeFailed": "TooSlow"}),
        json!({"RollBackFailed": "TooSlow"}),
        json!({"RestoreFailed": "TooSlow"}),
        json!({"ForeignLayout": {"found": "theirs", "ours": "slicewright-1"}}),
        json!({"SharingFailed": "TooSlow"}),
        json!({"ForeignSharing": {"found": "theirs", "ours": "slicewright-1"}}),
    ]);
    let rungs = [Rung::First, Rung::Alias, Rung::Restart, Rung::RollBack];
    for (rung, stored) in rungs.into_iter().zip(["First", "Alias", "Restart", "RollBack"]) {
        check(&rung, &json!(stored));
    }
    let stored = json!({"0": {"mig": {"1g.10gb": 7}}, "1": "off"});
    check::<NodeLayout>(&layout("0:1g.10gb*7 1:off"), &stored);
}
