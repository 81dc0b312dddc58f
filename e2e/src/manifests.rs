//! Manifests of users in few words: policies, workbenches, pods, profiles. Each word sets one thing; the
//! rest has the values that a reader would expect.

use cluster::NodeSpec;
use serde_json::{Value, json};

/// The label by which policies of scenarios select nodes.
pub const POOL: &str = "slicewright.io/pool";
/// The namespace in which people of scenarios work.
pub const TEAM: &str = "team-a";

/// The namespace of the others who work on the same nodes. What the team reads does not name what is in it.
pub const NEIGHBOURS: &str = "team-b";

/// How a scenario names a pod of theirs.
#[must_use]
pub fn of_neighbours(pod: &str) -> String {
    format!("{NEIGHBOURS}/{pod}")
}

/// An object that is being written.
#[derive(Clone, Debug)]
pub struct Manifest(Value);

impl From<Manifest> for Value {
    fn from(manifest: Manifest) -> Self {
        manifest.0
    }
}

impl Manifest {
    /// Sets what is at a JSON pointer, and makes the way there.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut at = &mut self.0;
        for part in pointer.split('/').skip(1) {
            let key = part.replace("~1", "/").replace("~0", "~");
            at = match key.parse::<usize>() {
                Ok(index) if at.is_array() => &mut at[index],
                _ => &mut at[key],
            };
        }
        *at = value.into();
        self
    }

    /// An annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// A label.
    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// One of the others who work on the same nodes.
    #[must_use]
    pub fn of_neighbours(self) -> Self {
        self.in_namespace(NEIGHBOURS)
    }

    /// In another namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.0["metadata"]["namespace"] = json!(namespace);
        self
    }
}

/// A policy for the nodes of a pool, driven by demand, without a cooldown.
#[must_use]
pub fn policy(name: &str, pool: &str) -> Policy {
    Policy(Manifest(json!({
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GpuPartitionPolicy",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"matchLabels": {POOL: pool}},
            "layout": {"type": "DemandDriven"},
            "rollout": {"cooldown": "0s"},
        },
    })))
}

/// A policy that is being written.
#[derive(Clone, Debug)]
pub struct Policy(Manifest);

impl From<Policy> for Value {
    fn from(policy: Policy) -> Self {
        policy.0.into()
    }
}

impl Policy {
    /// Sets what is at a JSON pointer below `spec`.
    #[must_use]
    pub fn spec(self, pointer: &str, value: impl Into<Value>) -> Self {
        Self(self.0.with(&format!("/spec{pointer}"), value))
    }

    /// Preview or Paused.
    #[must_use]
    pub fn mode(self, mode: &str) -> Self {
        self.spec("/mode", mode)
    }

    /// The same layout on each GPU, whatever is asked for.
    #[must_use]
    pub fn always(self, slices: &[(&str, u32)]) -> Self {
        let slices: Vec<_> =
            slices.iter().map(|(profile, count)| json!({"profile": profile, "count": count})).collect();
        self.spec("/layout", json!({"type": "Static", "static": {"gpus": [{"slices": slices}]}}))
    }

    /// Bounds of a profile, such as `{"minCount": 2}`.
    #[must_use]
    pub fn bounds(mut self, profile: &str, bounds: &Value) -> Self {
        let mut entry = json!({"profile": profile});
        if let (Some(entry), Some(bounds)) = (entry.as_object_mut(), bounds.as_object()) {
            entry.extend(bounds.clone());
        }
        let slices = &mut self.0.0["spec"]["layout"]["demandDriven"]["slices"];
        match slices.as_array_mut() {
            Some(slices) => slices.push(entry),
            None => *slices = json!([entry]),
        }
        self
    }

    /// So many nodes at a time.
    #[must_use]
    pub fn at_a_time(self, nodes: u32) -> Self {
        self.spec("/rollout/maxUnavailable", nodes)
    }

    /// Pods in the way are evicted.
    #[must_use]
    pub fn evicts(self) -> Self {
        self.spec("/rollout/drain", "Evict")
    }
}

/// A pod that asks for slices of a resource, such as `nvidia.com/mig-1g.10gb`,
/// and holds them until it is deleted.
#[must_use]
pub fn pod(name: &str, resource: &str, count: u32) -> Manifest {
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container("work", resource, count)],
        },
    }))
}

/// A workbench that asks for slices of a resource, as the dashboard of
/// OpenShift AI makes one without a hardware profile.
#[must_use]
pub fn workbench(name: &str, resource: &str, count: u32) -> Manifest {
    let container = container(name, resource, count);
    Manifest(json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }))
}

fn container(name: &str, resource: &str, count: u32) -> Value {
    json!({
        "name": name,
        "image": "registry.example/workbench:1",
        "resources": {
            "requests": {"cpu": "1", "memory": "2Gi", resource: count.to_string()},
            "limits": {"cpu": "1", "memory": "2Gi", resource: count.to_string()},
        },
    })
}

/// The resource of a profile, under strategy `mixed`.
#[must_use]
pub fn mig(profile: &str) -> String {
    format!("nvidia.com/mig-{}", profile.replace('+', "."))
}

/// A node of the pool `research` with an A100-80GB that is cut as its layout
/// says, such as `all-1g.10gb`.
#[must_use]
pub fn a100(name: &str, layout: &str) -> NodeSpec {
    NodeSpec::new(name, 1, "A100-80GB").label(POOL, "research").layout(layout)
}
