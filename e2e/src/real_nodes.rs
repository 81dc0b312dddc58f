//! Existing GPU nodes: the workers of the kind cluster, with a kubelet and NVIDIA's own components on each.
//! A scenario borrows those that match its description, under its own names and with its layouts, and
//! returns them in their original state.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster::NodeSpec;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::not_here::NotHere;
use crate::objects::{self, MAP_NAME};
use crate::wait;

/// Where the GPU Operator's stand-in and NVIDIA's components are.
pub(crate) const GPU_OPERATOR_NAMESPACE: &str = "gpu-operator";
/// The label that says which simulated GPUs a worker has: `2xA100-80GB`.
pub(crate) const GPUS: &str = "sim.slicewright.io/gpus";
/// How long anything may take there: MIG manager applies a layout in half a
/// minute, a kubelet hands a changed map on within a minute and a half.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

const LAYOUT: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";
/// Whether a node has cards with MIG. Only there does MIG manager run, and answer.
const CAPABLE: &str = "nvidia.com/mig.capable";
/// By what key the device plugin is configured there. It stays when its policy goes.
const SHARING: &str = "nvidia.com/device-plugin.config";
const RESOURCES: &str = "nvidia.com/";
/// What the operator writes on nodes, and scenarios for it.
const OURS: &str = "slicewright.io/";

/// A node that a scenario has borrowed.
#[derive(Clone, Debug)]
struct Borrowed {
    node: String,
    gpus: u16,
    labels: BTreeMap<String, String>,
}

/// The nodes that a scenario has borrowed, by the names that it gives them.
#[derive(Clone, Debug)]
pub(crate) struct RealNodes {
    borrowed: BTreeMap<String, Borrowed>,
    /// The image of workloads, which is on every worker.
    workload: String,
}

/// What a worker has: how many of which model.
fn gpus_of(node: &Node) -> Option<(u16, &str)> {
    let (count, model) = node.labels().get(GPUS)?.split_once('x')?;
    Some((count.parse().ok()?, model))
}

impl RealNodes {
    /// Borrows a node for each of these: one of the same model, with as many
    /// GPUs or more, the smallest first; and cuts it as its layout says.
    ///
    /// # Errors
    /// [`NotHere`] when the cluster has no such nodes; else what went wrong.
    pub(crate) async fn borrow(client: &Client, specs: &[NodeSpec]) -> anyhow::Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let mut free = nodes.list(&ListParams::default().labels(GPUS)).await?.items;
        free.sort_by_key(|node| (gpus_of(node).map(|(count, _)| count), node.name_any()));
        let mut borrowed = BTreeMap::new();
        for spec in specs {
            let [wanted] = spec.gpus.as_slice() else {
                bail!(NotHere("workers of the kind cluster have GPUs of one model"));
            };
            let fits = |node: &Node| {
                gpus_of(node).is_some_and(|(count, model)| model == wanted.model && count >= wanted.count)
            };
            let Some(at) = free.iter().position(fits) else {
                bail!(NotHere(
                    "the kind cluster has too few nodes with such GPUs; see `cargo xtask kind up --worker`"
                ));
            };
            let node = free.remove(at);
            let (gpus, _) = gpus_of(&node).context("it was chosen by that")?;
            let one = Borrowed { node: node.name_any(), gpus, labels: spec.labels.clone() };
            borrowed.insert(spec.name.clone(), one);
        }
        let this = Self { borrowed, workload: workload(client).await? };
        point_to(client, "").await?;
        for spec in specs {
            this.cut(client, spec).await?;
        }
        for spec in specs {
            this.is_cut(client, spec).await?;
        }
        // As an administrator leaves it who did what a condition of our policies asks for.
        point_to(client, MAP_NAME).await?;
        Ok(this)
    }

    /// Gives them back: to nobody's pool, schedulable, and with the map that
    /// the GPU Operator ships.
    ///
    /// # Errors
    /// When the API server does not let us.
    pub(crate) async fn give_back(&self, client: &Client) -> anyhow::Result<()> {
        for Borrowed { node, labels, .. } in self.borrowed.values() {
            release(client, node, labels.keys()).await?;
        }
        as_brought_up(client).await
    }

    /// The name of the node itself.
    pub(crate) fn real<'a>(&'a self, name: &'a str) -> &'a str {
        self.borrowed.get(name).map_or(name, |borrowed| &borrowed.node)
    }

    /// The name that the scenario gave a node.
    pub(crate) fn given(&self, node: &str) -> String {
        let found = self.borrowed.iter().find(|(_, borrowed)| borrowed.node == node);
        found.map_or(node, |(name, _)| name).to_owned()
    }

    /// How many GPUs a node has.
    pub(crate) fn gpus(&self, name: &str) -> Option<u16> {
        self.borrowed.get(name).map(|borrowed| borrowed.gpus)
    }

    /// Makes a pod of a scenario, or the one of a Notebook, one that a kubelet
    /// can start: with the workload's image, which opens what it is given when
    /// the annotation says so, and with requests that small workers can host.
    pub(crate) fn dress(&self, object: &mut Value) {
        let at = match object["kind"].as_str() {
            Some("Pod") => "/spec",
            Some("Notebook") => "/spec/template/spec",
            _ => return,
        };
        let opens = object["metadata"]["annotations"]["sim.slicewright.io/opens"].as_str().unwrap_or("never");
        let opens = opens.to_owned();
        let Some(spec) = object.pointer_mut(at) else { return };
        // With none at all the API server forgets a pod before its kubelet has ended it.
        spec["terminationGracePeriodSeconds"] = json!(1);
        if let Some(node) = spec["nodeName"].as_str() {
            spec["nodeName"] = json!(self.real(node));
        }
        for container in spec["containers"].as_array_mut().into_iter().flatten() {
            let resources = container["resources"]["limits"].as_object();
            let has_slices = resources.is_some_and(|all| all.keys().any(|name| name.starts_with(RESOURCES)));
            container["image"] = json!(self.workload);
            container["imagePullPolicy"] = json!("Never");
            // What NVIDIA's container toolkit would bring in.
            container["env"] = json!([{"name": "LD_LIBRARY_PATH", "value": "/usr/lib64"}]);
            container["command"] = if has_slices {
                json!(["/usr/bin/slicewright-sim", "node", "work", "--opens", opens])
            } else {
                json!(["/usr/bin/sleep", "infinity"])
            };
            container["volumeMounts"] = json!([{"name": "gpus", "mountPath": "/run/slicewright-sim"}]);
            for kind in ["requests", "limits"] {
                if let Some(resources) = container["resources"][kind].as_object_mut() {
                    resources.insert("cpu".to_owned(), json!("10m"));
                    resources.insert("memory".to_owned(), json!("64Mi"));
                }
            }
        }
        spec["volumes"] = json!([{"name": "gpus", "hostPath": {"path": "/var/lib/slicewright-sim"}}]);
    }

    async fn cut(&self, client: &Client, spec: &NodeSpec) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(client.clone());
        let name = self.real(&spec.name);
        let mut labels: Map<_, _> =
            spec.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let wanted = spec.layout.as_deref().unwrap_or("all-disabled");
        let now = nodes.get(name).await?;
        let says = |key: &str, value: &str| now.labels().get(key).is_some_and(|is| is == value);
        let is_at_hand = says(LAYOUT, wanted) && says(STATE, "success");
        if !is_at_hand && !has_no_mig(&now) {
            if says(LAYOUT, wanted) {
                // The same name again is no change: by way of another one.
                let other = json!({"metadata": {"labels": {LAYOUT: "all-balanced", STATE: Value::Null}}});
                nodes.patch(name, &PatchParams::default(), &Patch::Merge(&other)).await?;
                let what = format!("{name} is on its way to another layout");
                wait::until_one(nodes.clone(), name, &what, PATIENCE, |node| {
                    let state = node.and_then(|node| node.labels().get(STATE));
                    state.is_some_and(|state| state == "success").then_some(()).ok_or(format!("{state:?}"))
                })
                .await?;
            }
            labels.insert(LAYOUT.to_owned(), json!(wanted));
            // What is seen later is of this.
            labels.insert(STATE.to_owned(), Value::Null);
        }
        let patch = json!({"metadata": {"labels": labels}});
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    async fn is_cut(&self, client: &Client, spec: &NodeSpec) -> anyhow::Result<()> {
        let layout = spec.layout.as_deref().unwrap_or("all-disabled").trim_start_matches("all-");
        let resource = match layout {
            "disabled" => format!("{RESOURCES}gpu"),
            profile => format!("{RESOURCES}mig-{profile}"),
        };
        let name = self.real(&spec.name).to_owned();
        let nodes: Api<Node> = Api::all(client.clone());
        wait::until_one(nodes, &name, &format!("{name} is cut into {layout}"), PATIENCE, |node| {
            let node = node.ok_or("there is no such node")?;
            let state = node.labels().get(STATE).map_or("", String::as_str);
            let offered = offered(node);
            let is_done = state == "success" || has_no_mig(node);
            if is_done && offered.len() == 1 && offered.contains_key(&resource) {
                return Ok(());
            }
            Err(format!("MIG manager says {state:?}, and it offers {offered:?}"))
        })
        .await
    }
}

fn has_no_mig(node: &Node) -> bool {
    node.labels().get(CAPABLE).is_some_and(|capable| capable == "false")
}

/// What a node offers of NVIDIA's resources.
pub(crate) fn offered(node: &Node) -> BTreeMap<String, String> {
    let allocatable = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
    let ours = allocatable.filter(|(name, count)| name.starts_with(RESOURCES) && count.0 != "0");
    ours.map(|(name, count)| (name.clone(), count.0.clone())).collect()
}

/// The image of the simulator, as the cluster has it: workloads are started
/// from it.
async fn workload(client: &Client) -> anyhow::Result<String> {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), GPU_OPERATOR_NAMESPACE);
    let drivers = sets.list(&ListParams::default().labels("app=nvidia-driver-daemonset")).await?;
    let image = drivers.items.into_iter().find_map(|set| {
        let containers = set.spec?.template.spec?.containers;
        containers.into_iter().find_map(|container| container.image)
    });
    image.context("the cluster has no simulated drivers: bring it up with `cargo xtask kind up`")
}

/// The one ClusterPolicy.
async fn cluster_policy(client: &Client) -> anyhow::Result<(Api<DynamicObject>, String)> {
    let like = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"});
    let (api, _) = objects::api_of(client, &like).await?;
    let policies = api.list(&ListParams::default()).await?;
    let policy = policies.items.first().context("the cluster has no ClusterPolicy")?.name_any();
    Ok((api, policy))
}

/// Changes what the ClusterPolicy says.
async fn change_cluster_policy(client: &Client, spec: &Value) -> anyhow::Result<()> {
    let (api, policy) = cluster_policy(client).await?;
    let patch = Patch::Merge(json!({"spec": spec}));
    api.patch(&policy, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// MIG manager reads this map; the one that is shipped for an empty name.
async fn point_to(client: &Client, map: &str) -> anyhow::Result<()> {
    change_cluster_policy(client, &json!({"migManager": {"config": {"name": map}}})).await
}

/// MIG manager reads the map that is shipped, and the device plugin nobody's, as the cluster is brought up.
async fn as_brought_up(client: &Client) -> anyhow::Result<()> {
    let spec = json!({"migManager": {"config": {"name": ""}}, "devicePlugin": {"config": Value::Null}});
    change_cluster_policy(client, &spec).await
}

/// Takes off a node what scenarios and the operator put there.
async fn release(client: &Client, node: &str, more: impl Iterator<Item = &String>) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let now = nodes.get(node).await?;
    let gone = |keys: &BTreeMap<String, String>| {
        let ours = keys.keys().filter(|key| key.starts_with(OURS));
        ours.map(|key| (key.clone(), Value::Null)).collect::<Map<_, _>>()
    };
    let mut labels = gone(now.labels());
    labels.extend(more.map(|key| (key.clone(), Value::Null)));
    labels.insert(SHARING.to_owned(), Value::Null);
    let patch = json!({
        "metadata": {"labels": labels, "annotations": gone(now.annotations())},
        "spec": {"unschedulable": Value::Null},
    });
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Puts right what an interrupted run left of itself on the workers.
///
/// # Errors
/// When the API server does not let us.
pub(crate) async fn clear(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&ListParams::default().labels(GPUS)).await? {
        release(client, &node.name_any(), std::iter::empty()).await?;
    }
    as_brought_up(client).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{mig, pod, workbench};

    #[test]
    fn a_pod_of_a_scenario_becomes_one_that_a_small_worker_can_start() {
        let one = Borrowed { node: "worker".to_owned(), gpus: 2, labels: BTreeMap::new() };
        let nodes = RealNodes { borrowed: [("n1".to_owned(), one)].into(), workload: "sim:1".to_owned() };
        let mut object: Value = pod("p", &mig("1g.10gb"), 1)
            .annotated("sim.slicewright.io/opens", "at-once")
            .with("/spec/nodeName", "n1")
            .into();
        nodes.dress(&mut object);
        let container = &object["spec"]["containers"][0];
        assert_eq!(container["image"], "sim:1");
        assert_eq!(container["command"][4], "at-once");
        assert_eq!(container["resources"]["limits"]["nvidia.com/mig-1g.10gb"], "1");
        assert_eq!(container["resources"]["requests"]["cpu"], "10m");
        assert_eq!(object["spec"]["nodeName"], "worker");
        let mut lab: Value = workbench("lab", &mig("1g.10gb"), 1).into();
        nodes.dress(&mut lab);
        let pod_of_lab = &lab["spec"]["template"]["spec"];
        assert_eq!(pod_of_lab["containers"][0]["command"][4], "never", "an idle notebook");
        assert_eq!(pod_of_lab["containers"][0]["image"], "sim:1");
        let mut beside: Value = pod("p", "cpu", 1).into();
        nodes.dress(&mut beside);
        assert_eq!(beside["spec"]["containers"][0]["command"][0], "/usr/bin/sleep");
        assert_eq!((nodes.real("n1"), nodes.given("worker").as_str()), ("worker", "n1"));
    }
}
