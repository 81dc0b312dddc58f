//! The writes of the GPU Operator that follow from its observations.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, Node};
use kube::ResourceExt;
use kube::core::DynamicObject;
use operands::Operand;
use serde_json::{Map, Value, json};

/// The name that the Helm chart gives its ClusterPolicy.
const POLICY: &str = "cluster-policy";

/// The map of layouts that the Operator ships.
const SHIPPED_MAP: &str = "default-mig-parted-config";
/// The device plugin's configurations that the manifests come with.
const SHIPPED_PLUGIN_MAP: &str = "device-plugin-config";

/// NFD's labels of a node with a GPU of NVIDIA's: any of them will do.
const FOUND: [&str; 3] = [
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
];

const PRESENT: &str = "nvidia.com/gpu.present";
const DEPLOY: &str = "nvidia.com/gpu.deploy.";
const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";
const MIG_CONFIG: &str = "nvidia.com/mig.config";

/// On no node: a DaemonSet that selects it has no pods. The Operator deletes
/// what is switched off; here the manifest stays.
const SWITCHED_OFF: &str = "sim.slicewright.io/switched-off";

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Every ClusterPolicy; the first one counts, by name.
    pub policies: Vec<DynamicObject>,
    /// Every node.
    pub nodes: Vec<Node>,
    /// The DaemonSets of the Operator's namespace.
    pub daemon_sets: Vec<DaemonSet>,
}

/// A write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The first ClusterPolicy, with this content.
    MakePolicy(String, Value),
    /// A merge patch of a node.
    Node(String, Value),
    /// A strategic merge patch of a DaemonSet.
    DaemonSet(String, Value),
    /// A merge patch of a ClusterPolicy's status.
    PolicyStatus(String, Value),
}

/// The writes that are due; none when everything is as it should be.
#[must_use]
pub fn due(seen: &Seen, namespace: &str) -> Vec<Write> {
    let Some(policy) = seen.policies.iter().min_by_key(|policy| policy.name_any()) else {
        let spec = json!({
            "mig": {"strategy": "mixed"},
            "migManager": {"enabled": true, "config": {"name": "", "default": "all-disabled"}},
            "devicePlugin": {"enabled": true},
        });
        return vec![Write::MakePolicy(POLICY.to_owned(), json!({"spec": spec}))];
    };
    let spec = &policy.data["spec"];
    let mut due = Vec::new();
    due.extend(seen.nodes.iter().filter_map(|node| of_node(node, spec)));
    due.extend(seen.daemon_sets.iter().filter_map(|set| of_daemon_set(set, spec)));
    // What has just been changed is not ready before it was seen again.
    let state = if due.is_empty() && seen.daemon_sets.iter().all(is_ready) { "ready" } else { "notReady" };
    if policy.data["status"]["state"] != state {
        let status = json!({"status": {"state": state, "namespace": namespace}});
        due.push(Write::PolicyStatus(policy.name_any(), status));
    }
    due
}

fn manager_is_on(spec: &Value) -> bool {
    spec["migManager"]["enabled"].as_bool().unwrap_or(true)
}

/// The labels of a node that are to be written.
fn of_node(node: &Node, spec: &Value) -> Option<Write> {
    let labels = node.labels();
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|is| is == value);
    let mut patch = Map::new();
    let has_gpu = FOUND.iter().any(|key| is(key, "true"));
    if !has_gpu && labels.get(PRESENT).is_none_or(|value| value == "false") {
        return None;
    }
    let present = if has_gpu { "true" } else { "false" };
    if !is(PRESENT, present) {
        patch.insert(PRESENT.to_owned(), json!(present));
    }
    if !has_gpu || is(OPERANDS, "false") {
        let gone = labels.keys().filter(|key| key.starts_with(DEPLOY) && *key != OPERANDS);
        patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    } else {
        let lacks = |key: &str| labels.get(key).is_none_or(String::is_empty);
        let capable = is_capable(labels);
        let own =
            ["driver", "container-toolkit", "node-status-exporter"].map(|part| format!("{DEPLOY}{part}"));
        let operands = Operand::ALL.iter().filter(|operand| match operand {
            Operand::MigManager => capable && manager_is_on(spec),
            Operand::MpsControlDaemon => false,
            Operand::DevicePlugin
            | Operand::GpuFeatureDiscovery
            | Operand::DcgmExporter
            | Operand::Dcgm
            | Operand::OperatorValidator => true,
        });
        let wanted = own.into_iter().chain(operands.map(|operand| operand.deploy_label().to_owned()));
        patch.extend(wanted.filter(|key| lacks(key)).map(|key| (key, json!("true"))));
        let default = spec["migManager"]["config"]["default"].as_str();
        if capable && manager_is_on(spec) && default == Some("all-disabled") && lacks(MIG_CONFIG) {
            patch.insert(MIG_CONFIG.to_owned(), json!("all-disabled"));
        }
    }
    (!patch.is_empty()).then(|| Write::Node(node.name_any(), json!({"metadata": {"labels": patch}})))
}

/// Whether GFD says so, or the product's name does.
fn is_capable(labels: &BTreeMap<String, String>) -> bool {
    let product = labels.get("nvidia.com/gpu.product").map(|name| name.to_ascii_lowercase());
    labels.get("nvidia.com/mig.capable").is_some_and(|value| value == "true")
        || product.is_some_and(|name| ["h100", "a100", "a30"].iter().any(|part| name.contains(part)))
}

/// The settings of a DaemonSet that follow the ClusterPolicy.
fn of_daemon_set(set: &DaemonSet, spec: &Value) -> Option<Write> {
    let pods = &set.spec.as_ref()?.template;
    let app = pods.metadata.as_ref()?.labels.as_ref()?.get("app")?;
    let pod = pods.spec.as_ref()?;
    let mut patch = Map::new();
    let named = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (volume, mounted);
    let mut variables: BTreeMap<String, Option<String>> = BTreeMap::new();
    if app == Operand::MigManager.app() {
        let map = named(&spec["migManager"]["config"]["name"]).unwrap_or_else(|| SHIPPED_MAP.to_owned());
        (volume, mounted) = ("mig-parted-config", map);
        for variable in spec["migManager"]["env"].as_array().into_iter().flatten() {
            if let Some(name) = named(&variable["name"]) {
                variables.insert(name, named(&variable["value"]));
            }
        }
        let selects = pod.node_selector.as_ref().is_some_and(|selector| selector.contains_key(SWITCHED_OFF));
        if selects == manager_is_on(spec) {
            let wanted = if manager_is_on(spec) { Value::Null } else { json!("true") };
            patch.insert("nodeSelector".to_owned(), json!({SWITCHED_OFF: wanted}));
        }
    } else if app == Operand::DevicePlugin.app() || app == Operand::GpuFeatureDiscovery.app() {
        variables.insert("MIG_STRATEGY".to_owned(), named(&spec["mig"]["strategy"]));
        // The Operator leaves config-manager out where no map is named; here it has the shipped one then.
        let config = &spec["devicePlugin"]["config"];
        let (map, default) = match named(&config["name"]) {
            Some(map) => (map, named(&config["default"])),
            None => (SHIPPED_PLUGIN_MAP.to_owned(), Some("default".to_owned())),
        };
        (volume, mounted) = ("available", map);
        variables.insert("DEFAULT_CONFIG".to_owned(), default);
    } else {
        return None;
    }
    let there = pod.volumes.iter().flatten().find(|there| there.name == volume);
    let now = there.and_then(|there| there.config_map.as_ref()).map(|source| source.name.as_str());
    if now.is_some_and(|now| now != mounted) {
        patch.insert("volumes".to_owned(), json!([{"name": volume, "configMap": {"name": mounted}}]));
    }
    for (field, containers) in
        [("initContainers", pod.init_containers.as_deref()), ("containers", Some(pod.containers.as_slice()))]
    {
        let changed: Vec<Value> = containers
            .into_iter()
            .flatten()
            .filter_map(|container| {
                let patch = of_container(container, app, &variables);
                (!patch.is_empty()).then(|| json!({"name": container.name, "env": patch}))
            })
            .collect();
        if !changed.is_empty() {
            patch.insert(field.to_owned(), json!(changed));
        }
    }
    let patch = json!({"spec": {"template": {"spec": patch}}});
    let empty = json!({"spec": {"template": {"spec": {}}}});
    (patch != empty).then(|| Write::DaemonSet(set.name_any(), patch))
}

/// What changes in a container's variables. The component's own container has
/// its settings; config-manager, beside it, which configuration is the default.
fn of_container(
    container: &Container,
    app: &str,
    variables: &BTreeMap<String, Option<String>>,
) -> Vec<Value> {
    let is_config_manager = container.name.starts_with("config-manager");
    let mut patch = Vec::new();
    for (name, wanted) in variables {
        let for_config_manager = name == "DEFAULT_CONFIG" && app != Operand::MigManager.app();
        if is_config_manager != for_config_manager {
            continue;
        }
        let now = container.env.iter().flatten().find(|variable| variable.name == *name);
        let now = now.and_then(|variable| variable.value.as_ref());
        match wanted {
            Some(value) if now != Some(value) => patch.push(json!({"name": name, "value": value})),
            None if now.is_some() => patch.push(json!({"name": name, "$patch": "delete"})),
            Some(_) | None => {}
        }
    }
    patch
}

/// Whether all pods of a DaemonSet are of its newest kind, and ready.
fn is_ready(set: &DaemonSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        status.observed_generation == set.metadata.generation
            && status.number_ready == status.desired_number_scheduled
            && status.updated_number_scheduled.unwrap_or(0) == status.desired_number_scheduled
    })
}
