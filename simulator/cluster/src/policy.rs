//! What the ClusterPolicy says, as far as it matters to the nodes.

use std::collections::BTreeMap;

use api::foreign::ClusterPolicy;
use kube::core::DynamicObject;
use operands::{Flavour, Strategy};

use crate::fleet::Fleet;

/// What the ClusterPolicy says, and the maps that it could name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Its name.
    pub(crate) name: String,
    /// How slices are offered.
    pub(crate) strategy: Strategy,
    /// The map that it names; empty for generated layouts.
    pub(crate) config: String,
    /// Whether MIG manager is installed.
    pub(crate) manager: bool,
    /// The content of every map of layouts in the namespace that could be named.
    pub(crate) maps: BTreeMap<String, String>,
    /// The ConfigMap with the device plugin's configurations that it names;
    /// empty for none.
    pub(crate) plugin_config: String,
    /// Which of them counts where a node does not say.
    pub(crate) plugin_default: String,
    /// Every ConfigMap of the namespace that could be that one.
    pub(crate) files: BTreeMap<String, BTreeMap<String, String>>,
    /// The state that was last written.
    pub(crate) state: Option<bool>,
}

impl Policy {
    /// What the fleet's ClusterPolicy will say when there is none yet.
    pub(crate) fn for_fleet(fleet: &Fleet) -> Self {
        let name = match fleet.flavour {
            Flavour::OpenShift => "gpu-cluster-policy",
            Flavour::Helm => "cluster-policy",
        };
        Self { name: name.to_owned(), strategy: fleet.strategy, manager: true, ..Self::default() }
    }

    /// The content of the map that is named; nothing when none is, or it is
    /// not there.
    pub(crate) fn map(&self) -> Option<String> {
        self.maps.get(&self.config).cloned()
    }

    /// Whether a map is named, so that nothing is generated.
    pub(crate) const fn names_a_map(&self) -> bool {
        !self.config.is_empty()
    }

    /// The device plugin's configurations; nothing where none are named.
    pub(crate) fn plugin_files(&self) -> Option<BTreeMap<String, String>> {
        let named = (!self.plugin_config.is_empty()).then(|| self.files.get(&self.plugin_config));
        named.map(|files| files.cloned().unwrap_or_default())
    }

    /// Which of them counts where a node does not say.
    pub(crate) fn plugin_default(&self) -> &str {
        &self.plugin_default
    }

    /// Takes in what the object says.
    pub(crate) fn take(&mut self, policy: &ClusterPolicy, raw: &DynamicObject) {
        self.strategy = match policy.spec.mig.strategy.as_str() {
            "single" => Strategy::Single,
            "none" => Strategy::None,
            "" => Strategy::Configured,
            _ => Strategy::Mixed,
        };
        self.manager = policy.spec.mig_manager.enabled.unwrap_or(true);
        let of_plugin = &raw.data["spec"]["devicePlugin"]["config"];
        of_plugin["name"].as_str().unwrap_or_default().clone_into(&mut self.plugin_config);
        of_plugin["default"].as_str().unwrap_or_default().clone_into(&mut self.plugin_default);
        let config = policy.spec.mig_manager.config.as_ref();
        self.config = config.map(|config| config.name.clone()).unwrap_or_default();
    }
}
