//! What somebody else has done to the GPUs of a node.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Cluster;

impl Cluster {
    /// Somebody has cut all GPUs of a node into so many slices of one profile.
    pub fn is_cut(&mut self, name: &str, profile: &str, count: u32) {
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.retain(|key, _| !(key.starts_with("nvidia.com/mig-") && key.ends_with(".count")));
            labels.insert("nvidia.com/mig.config".to_owned(), format!("all-{profile}"));
            labels.insert(format!("nvidia.com/mig-{profile}.count"), count.to_string());
            let allocatable = node.status.get_or_insert_default().allocatable.get_or_insert_default();
            allocatable.retain(|resource, _| !resource.starts_with("nvidia.com/mig-"));
            allocatable.insert(format!("nvidia.com/mig-{profile}"), Quantity(count.to_string()));
        });
    }
}
