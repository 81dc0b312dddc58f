//! A fleet as data: how the cluster is set up, and its nodes. Read from a file
//! or built in code.

use std::collections::BTreeMap;

use gpu::{DriverBranch, Machine, Model};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use operands::{Flavour, ManagerVersion, PluginVersion, Release, Setup, Stack, Strategy, Timings};
use serde::{Deserialize, Serialize};

/// A fleet of virtual GPU nodes, and the cluster around them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Fleet {
    /// How many times faster than real the simulated time runs.
    pub speed: f64,
    /// How the GPU Operator was installed.
    pub flavour: Flavour,
    /// `spec.mig.strategy` of the ClusterPolicy that is made when there is none.
    pub strategy: Strategy,
    /// Which versions of NVIDIA's components come together: a release of the
    /// GPU Operator, or `go-modules`.
    pub release: String,
    /// Another MIG manager than the release's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerVersion>,
    /// Another device plugin (and GFD) than the release's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginVersion>,
    /// Who hands devices to pods: the device plugin, under a ClusterPolicy, or
    /// DRA, under a `GPUCluster`.
    pub stack: Stack,
    /// `WITH_REBOOT` of MIG manager.
    pub with_reboot: bool,
    /// Where the GPU Operator's pods are.
    pub namespace: String,
    /// Whether OpenShift AI is there: its CRDs are installed, and Notebooks
    /// become pods.
    #[serde(rename = "openShiftAI")]
    pub openshift_ai: bool,
    /// How long things take, before `speed` shortens them.
    pub timings: Timings,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            speed: 1.0,
            flavour: Flavour::default(),
            strategy: Strategy::default(),
            release: Release::default().name,
            manager: None,
            plugin: None,
            stack: Stack::default(),
            with_reboot: false,
            namespace: "nvidia-gpu-operator".to_owned(),
            openshift_ai: true,
            timings: Timings::default(),
            nodes: Vec::new(),
        }
    }
}

/// One node, or several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    /// Its name. With `count`, the beginning of their names: `gpu` and 3 are
    /// `gpu-1`, `gpu-2`, `gpu-3`.
    pub name: String,
    /// How many such nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Its GPUs, in the order of their indices.
    pub gpus: Vec<GpuSpec>,
    /// Labels beside those of NFD, GFD and the GPU Operator.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Cores.
    pub cpu: u32,
    /// Memory, as Kubernetes writes it.
    pub memory: String,
    /// How many pods it takes.
    pub pods: u32,
    /// Devices of other plugins, by resource: `nvidia.com/hostdev: 8` are eight
    /// network cards of NVIDIA's Network Operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, u32>,
    /// The name of the MIG configuration that was applied long ago. Without
    /// one MIG is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            count: None,
            gpus: Vec::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            cpu: 64,
            memory: "512Gi".to_owned(),
            pods: 250,
            devices: BTreeMap::new(),
            layout: None,
        }
    }
}

/// So many GPUs of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// The model, such as `A100-80GB`; `display` is a card without MIG that
    /// drives a screen.
    pub model: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u16,
}

const fn one() -> u16 {
    1
}

/// What is wrong with a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It is not the format.
    #[error("the fleet cannot be read: {0}")]
    Syntax(String),
    /// A value that cannot be.
    #[error("{field} is `{value}`; {allowed}")]
    Value {
        /// Where.
        field: String,
        /// What it says.
        value: String,
        /// What it may say.
        allowed: String,
    },
    /// No such release.
    #[error(transparent)]
    Release(#[from] operands::ReleaseError),
    /// A node cannot be what it is said to be.
    #[error("node `{node}` cannot be set up")]
    Node {
        /// The node.
        node: String,
        /// Why not.
        #[source]
        source: NodeError,
    },
}

/// Why a node cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No such GPU.
    #[error(transparent)]
    Model(#[from] gpu::NotNamed),
    /// Its layout is not possible.
    #[error(transparent)]
    Setup(#[from] operands::SetupError),
}

impl Fleet {
    /// Reads a fleet from YAML.
    ///
    /// # Errors
    /// Says what cannot be read, or which value is not possible.
    pub fn from_yaml(text: &str) -> Result<Self, FleetError> {
        let fleet: Self =
            serde_saphyr::from_str(text).map_err(|error| FleetError::Syntax(error.to_string()))?;
        fleet.check()?;
        Ok(fleet)
    }

    /// Whether it is possible; every node is set up once for that.
    ///
    /// # Errors
    /// The first value that is not.
    pub fn check(&self) -> Result<(), FleetError> {
        let wrong = |field: &str, value: &str, allowed: &str| FleetError::Value {
            field: field.to_owned(),
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        };
        if !(self.speed.is_finite() && (0.01..=10_000.0).contains(&self.speed)) {
            return Err(wrong("speed", &self.speed.to_string(), "it is a number from 0.01 to 10000"));
        }
        self.versions()?;
        let mut names = std::collections::BTreeSet::new();
        for spec in self.each_node() {
            if !is_name(&spec.name) {
                let allowed = "a node's name is lower-case letters, digits, `-` and `.`";
                return Err(wrong("nodes.name", &spec.name, allowed));
            }
            if let Some(resource) = spec.devices.keys().find(|resource| !is_of_others(resource)) {
                let allowed = "a resource is DOMAIN/NAME, and those of GPUs are not devices of others";
                return Err(wrong("nodes.devices", resource, allowed));
            }
            if !names.insert(spec.name.clone()) {
                return Err(wrong("nodes.name", &spec.name, "each name is given once"));
            }
            self.node(&spec, None, Timestamp::UNIX_EPOCH)?;
        }
        Ok(())
    }

    /// Every single node, counts resolved.
    pub fn each_node(&self) -> impl Iterator<Item = NodeSpec> + '_ {
        self.nodes.iter().flat_map(|spec| {
            let single = |name: String| NodeSpec { name, count: None, ..spec.clone() };
            match spec.count {
                None => vec![single(spec.name.clone())],
                Some(count) => (1..=count).map(|i| single(format!("{}-{i}", spec.name))).collect(),
            }
        })
    }

    /// MIG manager and device plugin.
    ///
    /// # Errors
    /// The release is not known.
    pub fn versions(&self) -> Result<(ManagerVersion, PluginVersion), FleetError> {
        let Release { manager, plugin, name: _ } = Release::find(&self.release)?;
        Ok((self.manager.unwrap_or(manager), self.plugin.unwrap_or(plugin)))
    }

    /// The engine of one node. `map` is what MIG manager reads; without it,
    /// the configurations that it generates.
    ///
    /// # Errors
    /// Why it is not possible.
    pub fn node(
        &self,
        spec: &NodeSpec,
        map: Option<&str>,
        now: Timestamp,
    ) -> Result<operands::Node, FleetError> {
        let failed = |source| FleetError::Node { node: spec.name.clone(), source };
        let mut machine = Machine::new(&spec.name, DriverBranch::default(), now);
        for GpuSpec { model, count } in &spec.gpus {
            let model = Model::named(model).map_err(|error| failed(error.into()))?;
            for _ in 0..*count {
                machine = machine.with_gpu(&model);
            }
        }
        let (manager, plugin) = self.versions()?;
        let setup = Setup {
            flavour: self.flavour,
            stack: self.stack,
            strategy: self.strategy,
            without_manager: false,
            manager,
            plugin,
            with_reboot: self.with_reboot,
            timings: self.timings.clone(),
        };
        operands::Node::new(setup, machine, spec.labels.clone(), map, spec.layout.as_deref())
            .map_err(|error| failed(error.into()))
    }
}

/// Whether a resource may be one of another device plugin.
fn is_of_others(resource: &str) -> bool {
    let parts = resource.split_once('/');
    parts.is_some_and(|(domain, name)| is_name(domain) && !name.is_empty())
        && !mig::resource::GpuResource::is_one(resource)
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !name.is_empty() && name.len() <= 63 && name.chars().all(fits) && !name.starts_with(['-', '.'])
}

impl NodeSpec {
    /// A node with so many GPUs of a model.
    #[must_use]
    pub fn new(name: &str, count: u16, model: &str) -> Self {
        let gpus = vec![GpuSpec { model: model.to_owned(), count }];
        Self { name: name.to_owned(), gpus, ..Self::default() }
    }

    /// The MIG configuration that was applied long ago.
    #[must_use]
    pub fn layout(mut self, name: &str) -> Self {
        self.layout = Some(name.to_owned());
        self
    }

    /// One label more.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// So many devices of another plugin.
    #[must_use]
    pub fn devices(mut self, resource: &str, count: u32) -> Self {
        self.devices.insert(resource.to_owned(), count);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_read_and_counts_are_resolved() {
        let fleet = Fleet::from_yaml(
            "speed: 50\nflavour: helm\nnodes:\n\
             - {name: gpu, count: 2, gpus: [{model: A100-80GB, count: 2}], labels: {pool: research}}\n\
             - {name: big, gpus: [{model: H100-80GB}], layout: all-3g.40gb, cpu: 128}\n",
        )
        .expect("it is one");
        let names: Vec<_> = fleet.each_node().map(|node| node.name).collect();
        assert_eq!(names, ["gpu-1", "gpu-2", "big"]);
        assert_eq!(fleet.flavour, Flavour::Helm);
        let big = fleet.each_node().last().expect("the last");
        let node = fleet.node(&big, None, Timestamp::UNIX_EPOCH).expect("it is possible");
        assert_eq!(node.allocatable().get("nvidia.com/mig-3g.40gb"), Some(&2));
    }

    /// Why a fleet is not possible, in one line.
    #[track_caller]
    fn why(yaml: &str) -> String {
        let error = Fleet::from_yaml(yaml).expect_err("it is not possible");
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    }

    #[track_caller]
    fn refused(yaml: &str, expect: &str) {
        let text = why(yaml);
        assert!(text.contains(expect), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_is_allowed() {
        refused("speed: 0", "speed is `0`; it is a number from 0.01 to 10000");
        refused("nodes: [{name: Gpu}]", "nodes.name is `Gpu`; a node's name is lower-case letters");
        refused(
            "nodes: [{name: a, devices: {nvidia.com/gpu: 8}}]",
            "nodes.devices is `nvidia.com/gpu`; a resource is DOMAIN/NAME",
        );
        refused("nodes: [{name: a, devices: {hostdev: 8}}]", "nodes.devices is `hostdev`; ");
        refused("nodes: [{name: a}, {name: a}]", "nodes.name is `a`; each name is given once");
        assert_eq!(
            why("nodes: [{name: a, gpus: [{model: voodoo2}]}]"),
            "node `a` cannot be set up: no GPU model with MIG is called `voodoo2`. Known are A100-40GB, A100-80GB, A30, \
             H100-80GB, H100-94GB, GH200-96GB, GH200-144GB, H200-141GB, B200-180GB, GB200-186GB, B300, GB300, \
             RTX-PRO-6000-96GB; without MIG: display, P4, P40, P100, V100-16GB, V100-32GB, T4, A2, A10, A10G, A16, A40, \
             L4, L20, L40, L40S"
        );
        refused(
            "nodes: [{name: a, gpus: [{model: A30}], layout: all-9g}]",
            "mig-config not present: `all-9g`",
        );
        refused("nodez: []", "the fleet cannot be read: ");
    }
}
