//! Recognises the pods of the GPU Operator. Any user can give a pod their labels and names; only users with
//! write access to the Operator's namespace can create a pod there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use rollout::Operand;

/// The annotation in which the maps that an operand's pod mounts stand, where its volumes are not kept. Whoever keeps
/// objects writes it in the place of what stood there.
pub const MAPS: &str = "slicewright.io/mounted-maps";

/// How long their names may be together. An operand mounts two or three maps.
const LONGEST_MAPS: usize = 1 << 10;

/// The maps that a pod mounts which reads a key of the device plugin's configuration. Nothing of other pods, and where
/// neither its volumes are kept nor anything is noted of them.
fn maps(pod: &Pod) -> Option<BTreeSet<&str>> {
    let app = pod.metadata.labels.as_ref()?.get("app")?;
    let reads_a_key = match Operand::named(app)? {
        Operand::DevicePlugin | Operand::FeatureDiscovery | Operand::MpsControlDaemon => true,
        Operand::MigManager | Operand::Validator => false,
    };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).filter(|_| reads_a_key);
    if let Some(volumes) = volumes {
        let maps = volumes.iter().filter_map(|volume| volume.config_map.as_ref());
        return Some(maps.map(|map| map.name.as_str()).collect());
    }
    let noted = pod.metadata.annotations.as_ref()?.get(MAPS).filter(|_| reads_a_key)?;
    Some(noted.split(',').filter(|name| !name.is_empty()).collect())
}

/// The maps that it mounts as an annotation; none of other pods.
#[must_use]
pub fn noted(pod: &Pod) -> Option<(String, String)> {
    let names: Vec<&str> = maps(pod)?.into_iter().collect();
    let text = names.join(",");
    (text.len() <= LONGEST_MAPS).then(|| (MAPS.to_owned(), text))
}

/// Whether a pod reads keys of another map than this one, as far as it is known what it mounts.
pub(crate) fn reads_another(pod: &Pod, map: &str) -> bool {
    maps(pod).is_some_and(|maps| !maps.contains(map))
}

/// What a pod does for the GPU Operator, whose namespace is given: it is there,
/// and is owned by the DaemonSet that is named like its `app` label. The
/// Operator's checks are made by one of its pods, and owned by the
/// `ClusterPolicy` or by the DaemonSet of the pod that made them.
#[must_use]
pub fn operand(pod: &Pod, gpu_operator_namespace: &str) -> Option<Operand> {
    if pod.metadata.namespace.as_deref() != Some(gpu_operator_namespace) {
        return None;
    }
    let app = pod.metadata.labels.as_ref()?.get("app")?;
    let operand = Operand::named(app)?;
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let is_owned = match operand {
        Operand::DevicePlugin
        | Operand::FeatureDiscovery
        | Operand::MigManager
        | Operand::MpsControlDaemon => {
            owner.is_some_and(|owner| owner.kind == "DaemonSet" && owner.name == *app)
        }
        Operand::Validator => true,
    };
    is_owned.then_some(operand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HERE: &str = "nvidia-gpu-operator";

    #[track_caller]
    fn check(namespace: &str, app: &str, owner: Option<(&str, &str)>, expect: Option<Operand>) {
        let owners: Vec<_> = owner
            .map(|(kind, name)| {
                json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true})
            })
            .into_iter()
            .collect();
        let pod = json!({"metadata": {"namespace": namespace, "name": format!("{app}-x"),
            "labels": {"app": app}, "ownerReferences": owners}});
        let pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(operand(&pod, HERE), expect, "{namespace}/{app} of {owner:?}");
    }

    #[test]
    fn a_pod_is_an_operand_by_its_namespace_and_its_owner_and_not_by_its_label() {
        let (manager, plugin) = ("nvidia-mig-manager", "nvidia-device-plugin-daemonset");
        check(HERE, manager, Some(("DaemonSet", manager)), Some(Operand::MigManager));
        check(HERE, plugin, Some(("DaemonSet", plugin)), Some(Operand::DevicePlugin));
        check(HERE, "nvidia-cuda-validator", Some(("ClusterPolicy", "cluster")), Some(Operand::Validator));
        check(HERE, manager, None, None);
        check(HERE, manager, Some(("DaemonSet", plugin)), None);
        check(HERE, manager, Some(("ReplicaSet", manager)), None);
        check(HERE, "dcgm", Some(("DaemonSet", "dcgm")), None);
        for (app, _) in Operand::APPS {
            check("a-team", app, Some(("DaemonSet", app)), None);
        }
    }
}
