//! Nodes of which no GPU is cut, and the device plugin's word on how several pods share each.

use api::foreign::cluster_policy::DevicePluginConfig;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rollout::PluginConfig;
use serde_json::{Value, json};

use super::{Cluster, OPERATOR, read};

/// Our map of the device plugin's configurations.
const MAP: &str = "slicewright-plugin-config";

impl Cluster {
    /// A node with eight whole GPUs of a product, each for one pod.
    pub fn uncut(&mut self, name: &str, product: &str) {
        self.node(name);
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.retain(|key, _| !key.contains("/mig"));
            labels.insert("nvidia.com/gpu.product".to_owned(), product.to_owned());
            labels.insert("nvidia.com/gpu.count".to_owned(), "8".to_owned());
            let allocatable = node.status.get_or_insert_default().allocatable.get_or_insert_default();
            allocatable.remove("nvidia.com/mig-7g.80gb");
            allocatable.insert("nvidia.com/gpu".to_owned(), Quantity("8".to_owned()));
        });
    }

    /// The policy cuts no GPU, and shares them so.
    pub fn shares_gpus(&mut self, sharing: Value) {
        self.policy(json!({"type": "None"}));
        self.edit_policy(|policy| policy.spec.sharing = read(sharing));
    }

    /// The device plugin and feature discovery of a node with eight whole GPUs do what a configuration of ours says.
    pub fn is_shared(&mut self, name: &str, config: &PluginConfig) {
        let key = (OPERATOR.to_owned(), MAP.to_owned());
        let map = self.objects.config_maps.entry(key).or_insert_with(|| {
            read(json!({"metadata": {"name": MAP, "namespace": OPERATOR, "resourceVersion": "9"}}))
        });
        map.data.get_or_insert_default().insert(config.key(), config.render());
        let operator = self.objects.cluster_policies.get_mut("gpu-cluster-policy").expect("there is one");
        operator.spec.device_plugin.config =
            Some(DevicePluginConfig { name: MAP.to_owned(), default: String::new() });
        let seats = config.seats();
        let by = config.sharing.as_ref().map_or("none", |shared| shared.by.label());
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            let product = labels["nvidia.com/gpu.product"].trim_end_matches("-SHARED").to_owned();
            let keeps_its_name = seats.is_shared() && seats.resource == "nvidia.com/gpu";
            for (name, value) in [
                ("device-plugin.config", config.key()),
                ("gpu.product", format!("{product}{}", if keeps_its_name { "-SHARED" } else { "" })),
                ("gpu.replicas", seats.replicas.to_string()),
                ("gpu.sharing-strategy", by.to_owned()),
            ] {
                labels.insert(format!("nvidia.com/{name}"), value);
            }
            let allocatable = node.status.get_or_insert_default().allocatable.get_or_insert_default();
            allocatable.retain(|resource, _| !resource.starts_with("nvidia.com/gpu"));
            allocatable.insert(seats.resource.clone(), Quantity((8 * seats.replicas).to_string()));
        });
    }
}
