//! What a scenario waits for of pods. A pod is named as `namespace/name`, or by its name alone if it is the team's.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::phase;
use crate::manifests::{NEIGHBOURS, TEAM};
use crate::scene::Scene;
use crate::wait::until_one;

impl Scene {
    /// The pods of the team.
    #[must_use]
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), TEAM)
    }

    /// The pods of the team and of their neighbours.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(crate) async fn pods_of_tenants(&self) -> anyhow::Result<Vec<Pod>> {
        let mut pods = Vec::new();
        for tenants in [TEAM, NEIGHBOURS] {
            let theirs: Api<Pod> = Api::namespaced(self.client(), tenants);
            pods.extend(theirs.list(&ListParams::default()).await?);
        }
        Ok(pods)
    }

    /// Waits until a pod is as it should be: `None` is its absence.
    async fn until_pod<T>(
        &self,
        pod: &str,
        what: &str,
        judge: impl FnMut(Option<&Pod>) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        let (namespace, name) = pod.split_once('/').unwrap_or((TEAM, pod));
        let pods = Api::namespaced(self.client(), namespace);
        until_one(pods, name, &format!("pod {pod} {what}"), self.patience(), judge).await
    }

    /// Waits until a pod runs; says on which node.
    ///
    /// # Errors
    /// When time is up.
    pub async fn runs(&self, pod: &str) -> anyhow::Result<String> {
        self.until_pod(pod, "runs", |object| {
            let object = object.ok_or("there is no such pod")?;
            match phase(object) {
                "Running" => {
                    let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
                    Ok(self.given_name(node.unwrap_or_default()))
                }
                other => Err(format!("it is {other}")),
            }
        })
        .await
    }

    /// Waits until a workbench of the team runs; says on which node.
    ///
    /// # Errors
    /// When time is up.
    pub async fn workbench_runs(&self, name: &str) -> anyhow::Result<String> {
        self.runs(&format!("{name}-0")).await
    }

    /// Waits until a pod has failed; says why.
    ///
    /// # Errors
    /// When time is up.
    pub async fn fails(&self, pod: &str) -> anyhow::Result<String> {
        self.until_pod(pod, "fails", |object| {
            let object = object.ok_or("there is no such pod")?;
            match phase(object) {
                "Failed" => Ok(object.status.as_ref().and_then(|s| s.reason.clone()).unwrap_or_default()),
                other => Err(format!("it is {other}")),
            }
        })
        .await
    }

    /// Waits until a pod has a node; says which.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_bound(&self, pod: &str) -> anyhow::Result<String> {
        self.until_pod(pod, "is bound", |object| {
            let object = object.ok_or("there is no such pod")?;
            let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            node.map(|node| self.given_name(node)).ok_or_else(|| "it is not".to_owned())
        })
        .await
    }

    /// Waits until the scheduler has found no place for a pod.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_unschedulable(&self, pod: &str) -> anyhow::Result<()> {
        self.until_pod(pod, "is unschedulable", |object| {
            let object = object.ok_or("there is no such pod")?;
            let conditions = object.status.iter().flat_map(|s| s.conditions.iter().flatten());
            let mut said = conditions.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
            said.any(|c| c.reason.as_deref() == Some("Unschedulable"))
                .then_some(())
                .ok_or_else(|| format!("it is {}", phase(object)))
        })
        .await
    }

    /// Waits until a pod is gone.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_gone(&self, pod: &str) -> anyhow::Result<()> {
        self.until_pod(pod, "is gone", |object| match object {
            None => Ok(()),
            Some(object) => Err(format!("it is {}", phase(object))),
        })
        .await
    }

    /// The names of the team's pods that run now.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn running(&self) -> anyhow::Result<Vec<String>> {
        let pods = self.pods().list(&ListParams::default()).await?;
        Ok(pods.iter().filter(|pod| phase(pod) == "Running").map(ResourceExt::name_any).collect())
    }
}
