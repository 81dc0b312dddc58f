//! What OpenShift AI's dashboard lists of a workbench.

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};

use crate::manifests::TEAM;
use crate::scene::Scene;

impl Scene {
    /// The events of a workbench of the team as the dashboard asks for them: of
    /// its pod, by uid.
    ///
    /// # Errors
    /// When it has no pod, or the events cannot be listed.
    pub async fn event_log(&self, workbench: &str) -> anyhow::Result<Vec<Event>> {
        let pod = self.pods().get(&format!("{workbench}-0")).await?;
        let uid = pod.metadata.uid.unwrap_or_default();
        let of_pod =
            ListParams::default().fields(&format!("involvedObject.kind=Pod,involvedObject.uid={uid}"));
        let events: Api<Event> = Api::namespaced(self.client(), TEAM);
        Ok(events.list(&of_pod).await?.items)
    }
}
