//! The meaning of the labels and annotations of a node: the requests to NVIDIA's operands and their
//! answers, the marks of other programs, the other controllers that work on the node, and the other
//! managers of its devices. All other code reads these facts and no labels.

use std::collections::BTreeMap;

use mig::GpuResource;
use rollout::observed::{ManagerState, OperandLabels};
use rollout::{OtherManager, OtherWork};

use crate::names;

type Labels = BTreeMap<String, String>;

fn value<'a>(labels: &'a Labels, key: &str) -> &'a str {
    labels.get(key).map_or("", String::as_str)
}

/// What the operands of a node are told by its labels, and what they answer.
#[must_use]
pub fn operands(labels: &Labels) -> OperandLabels {
    let deployed = |wanted: &str| -> Vec<String> {
        let said = names::PAUSED_BY_US.iter().filter(|key| value(labels, key) == wanted);
        said.map(|key| (*key).to_owned()).collect()
    };
    let is_parked = |(key, value): &(&String, &String)| {
        key.starts_with(names::DEPLOY_PREFIX) && *value == names::PAUSED_FOR_MIG
    };
    OperandLabels {
        config: Some(value(labels, names::MIG_CONFIG)).filter(|value| !value.is_empty()).map(str::to_owned),
        state: state(labels),
        parked: labels.iter().filter(is_parked).map(|(key, _)| key.clone()).collect(),
        has_manager: value(labels, names::DEPLOY_MIG_MANAGER) == "true",
        held: deployed(names::PAUSED_FOR_US),
        pausable: deployed("true"),
        counts: labels.iter().filter_map(count).collect(),
        shared: sharing(labels).map(|sharing| sharing.label),
    }
}

/// What MIG manager says.
pub(crate) fn state(labels: &Labels) -> ManagerState {
    match value(labels, names::MIG_CONFIG_STATE) {
        "" => ManagerState::Absent,
        "pending" => ManagerState::Pending,
        "rebooting" => ManagerState::Rebooting,
        "success" => ManagerState::Success,
        "failed" => ManagerState::Failed,
        other => ManagerState::Other(other.to_owned()),
    }
}

/// How many of a resource GPU feature discovery counts.
fn count((key, value): (&String, &String)) -> Option<(String, Option<u64>)> {
    let resource = key.strip_suffix(names::COUNTS)?;
    GpuResource::is_one(resource).then(|| (resource.to_owned(), value.parse().ok()))
}

/// That the devices of a node are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The label by which GPU feature discovery says so, with its value: the
    /// resource counts so many times.
    pub label: String,
    /// How they are shared, where that is said.
    pub by: Option<String>,
}

/// Whether devices of a node are shared: then what it offers are multiples, and
/// may have other names. GPU feature discovery says it of each resource, the
/// GPUs themselves included.
#[must_use]
pub fn sharing(labels: &Labels) -> Option<Sharing> {
    let is_shared = |(key, value): &(&String, &String)| {
        key.starts_with(names::NVIDIA_PREFIX)
            && key.ends_with(names::REPLICAS)
            && value.parse::<u32>().is_ok_and(|n| n > 1)
    };
    let (key, replicas) = labels.iter().find(is_shared)?;
    let by = labels.get(&format!("{}{}", key.trim_end_matches(names::REPLICAS), names::SHARED_BY));
    let by = by.filter(|by| *by != "none").cloned();
    Some(Sharing { label: format!("{key}={replicas}"), by })
}

/// Whether somebody wants the node back from its agent.
#[must_use]
pub fn is_wanted_back(labels: &Labels) -> bool {
    value(labels, names::GIVE_BACK) == names::GIVE_BACK_NOW
}

/// Whether the mark of our cordon is on a node.
#[must_use]
pub fn is_marked(labels: &Labels) -> bool {
    value(labels, names::CORDONED_BY) == names::CORDONED_BY_US
}

/// Whether anybody's mark of a cordon is on a node, as label or annotation.
#[must_use]
pub fn has_any_mark(labels: &Labels, annotations: &Labels) -> bool {
    [labels, annotations].iter().any(|all| !value(all, names::CORDONED_BY).is_empty())
}

/// Whether anybody has parked an operand of a node, for whatever it is.
#[must_use]
pub fn has_parked_operand(labels: &Labels) -> bool {
    labels.iter().any(|(key, value)| {
        let ours = value == names::PAUSED_FOR_US;
        key.starts_with(names::DEPLOY_PREFIX) && value.starts_with("paused-for-") && !ours
    })
}

/// The work of somebody else on a node, the work that is under way first.
#[must_use]
pub fn work(labels: &Labels, annotations: &Labels) -> Option<OtherWork> {
    let annotation = |key: &str| value(annotations, key);
    let upgrade = value(labels, names::DRIVER_UPGRADE_STATE);
    if !matches!(upgrade, "" | "upgrade-done" | "upgrade-required") {
        return Some(OtherWork::DriverUpgrade { state: upgrade.to_owned() });
    }
    let paused = |(key, value): (&String, &String)| {
        // A driver upgrade adds its value to ours.
        key.starts_with(names::DEPLOY_PREFIX) && value.ends_with(names::PAUSED_FOR_DRIVER)
    };
    if labels.iter().any(paused) {
        return Some(OtherWork::OperandsPaused);
    }
    let state = annotation(names::MCO_STATE);
    if !matches!(state, "" | "Done") {
        return Some(OtherWork::MachineConfig { state: state.to_owned() });
    }
    let drain = annotation(names::MCO_DESIRED_DRAIN);
    if drain != annotation(names::MCO_LAST_DRAIN) {
        return Some(OtherWork::MachineConfigDrain { desired: drain.to_owned() });
    }
    let config = annotation(names::MCO_DESIRED_CONFIG);
    if !config.is_empty() && config != annotation(names::MCO_CURRENT_CONFIG) {
        return Some(OtherWork::MachineConfigWanted { desired: config.to_owned() });
    }
    (upgrade == "upgrade-required").then_some(OtherWork::DriverUpgradeAnnounced)
}

/// Who manages the devices of a node: by the cluster's `GPUCluster`, the node's
/// labels, and every resource in its capacity or allocatable. A resource that
/// counts zero tells as much as another: the slicer's plugin may be away for a
/// while.
#[must_use]
pub fn manager<'a>(
    gpu_cluster: bool,
    labels: &Labels,
    resources: impl IntoIterator<Item = &'a String>,
) -> Option<OtherManager> {
    if gpu_cluster || value(labels, names::DEPLOY_DRA) == "true" {
        return Some(OtherManager::Dra);
    }
    resources.into_iter().any(|name| name.starts_with(names::DAS_PREFIX)).then_some(OtherManager::Das)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: Option<&str>, annotations: &[(&str, &str)], expect: Option<(&str, bool)>) {
        let label = label.map(|state| (names::DRIVER_UPGRADE_STATE.to_owned(), state.to_owned()));
        let prefix = "machineconfiguration.openshift.io/";
        let annotations =
            annotations.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned()));
        let found = work(&label.into_iter().collect(), &annotations.collect());
        let found = found.map(|work| (work.to_string(), work.is_under_way()));
        assert_eq!(found, expect.map(|(text, under_way)| (text.to_owned(), under_way)));
    }

    #[test]
    fn one_answer_says_who_else_works_on_a_node() {
        let done = [("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "a")];
        check(None, &[], None);
        check(Some("upgrade-done"), &done, None);
        check(Some("upgrade-required"), &done, Some(("a driver upgrade (upgrade-required)", false)));
        check(Some("drain-required"), &[], Some(("a driver upgrade (drain-required)", true)));
        check(None, &[("state", "Working")], Some(("the Machine Config Operator (Working)", true)));
        let wants = [("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "b")];
        check(None, &wants, Some(("the Machine Config Operator (it wants b)", true)));
        check(Some("upgrade-required"), &wants, Some(("the Machine Config Operator (it wants b)", true)));
        let drains = [("desiredDrain", "drain-b"), ("lastAppliedDrain", "uncordon-a")];
        check(None, &drains, Some(("the Machine Config Operator (drain-b)", true)));
    }

    #[test]
    fn a_slicers_resource_tells_of_it_even_when_it_counts_nothing() {
        let das = "mig.das.com/mig-1g.10gb".to_owned();
        let nic = "nvidia.com/hostdev".to_owned();
        let labels = BTreeMap::new();
        assert_eq!(manager(false, &labels, [&nic]), None);
        assert_eq!(manager(false, &labels, [&nic, &das]), Some(OtherManager::Das));
        assert_eq!(manager(true, &labels, [&das]), Some(OtherManager::Dra));
    }

    #[test]
    fn what_operands_are_told_and_answer_is_read_from_labels() {
        let labels = |all: &[(&str, &str)]| {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Labels>()
        };
        assert_eq!(operands(&labels(&[])), OperandLabels::default());
        let read = operands(&labels(&[
            ("nvidia.com/mig.config", "all-1g.10gb"),
            ("nvidia.com/mig.config.state", "rebooting"),
            ("nvidia.com/gpu.deploy.dcgm", "paused-for-mig-change"),
            ("nvidia.com/gpu.deploy.driver", "paused-for-driver-upgrade"),
            ("nvidia.com/gpu.deploy.mig-manager", "true"),
            ("nvidia.com/gpu.deploy.device-plugin", "paused-for-slicewright"),
            ("nvidia.com/gpu.deploy.dcgm-exporter", "true"),
            ("nvidia.com/mig-1g.10gb.count", "7"),
            ("nvidia.com/gpu.count", "many"),
            ("nvidia.com/hostdev.count", "8"),
            ("nvidia.com/gpu.replicas", "4"),
        ]));
        let counts = [("nvidia.com/gpu", None), ("nvidia.com/mig-1g.10gb", Some(7))];
        assert_eq!(
            read,
            OperandLabels {
                config: Some("all-1g.10gb".to_owned()),
                state: ManagerState::Rebooting,
                parked: vec!["nvidia.com/gpu.deploy.dcgm".to_owned()],
                has_manager: true,
                held: vec!["nvidia.com/gpu.deploy.device-plugin".to_owned()],
                pausable: vec!["nvidia.com/gpu.deploy.dcgm-exporter".to_owned()],
                counts: counts.map(|(resource, n)| (resource.to_owned(), n)).into(),
                shared: Some("nvidia.com/gpu.replicas=4".to_owned()),
            }
        );
        // An empty label is none, and a word that nobody knows is kept as it is.
        let read =
            operands(&labels(&[("nvidia.com/mig.config", ""), ("nvidia.com/mig.config.state", "odd")]));
        assert_eq!((read.config, read.state), (None, ManagerState::Other("odd".to_owned())));
    }
}
