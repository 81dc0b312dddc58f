//! A scenario with queues, and with the controllers of others that make pods.

use anyhow::bail;

use crate::kueue::Kueue;
use crate::not_here::NotHere;
use crate::pod_groups::{Kind, PodGroups};
use crate::profile_webhook::{self, ProfileWebhook};
use crate::scene::Scene;
use crate::workload_controllers::{Controller, WorkloadController};

impl Scene {
    /// The controller of such a kind runs in this cluster from here on. Kueue,
    /// if it is started afterwards, knows the kind.
    ///
    /// # Errors
    /// When it does not, or the cluster is not ours alone.
    pub async fn pod_groups(&mut self, kind: Kind) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("controllers of others are put into clusters of our own only"));
        }
        self.pod_groups.push(PodGroups::start(kind, &self.client(), self.administrator()).await?);
        Ok(())
    }

    /// This controller of others runs in this cluster from here on.
    ///
    /// # Errors
    /// When it does not, or the cluster is not ours alone.
    pub async fn workload_controller(&mut self, which: Controller) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("controllers of others are put into clusters of our own only"));
        }
        let started = WorkloadController::start(which, &self.client(), self.administrator()).await?;
        self.workload_controllers.push(started);
        Ok(())
    }

    /// OpenShift AI's webhook for hardware profiles is asked in this cluster from here on.
    ///
    /// # Errors
    /// When it is not, or the cluster is not ours alone.
    pub async fn profile_webhook(&mut self) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("webhooks of others are put into clusters of our own only"));
        }
        // What is there is of another release.
        self.remove_crds(&[profile_webhook::kind()?]).await?;
        let started = ProfileWebhook::start(&self.client(), self.administrator()).await?;
        self.profile_webhook = Some(started);
        Ok(())
    }

    /// Kueue runs in this cluster from here on, and knows the kinds of the
    /// [controllers](Scene::pod_groups) that run already.
    ///
    /// # Errors
    /// When it does not, or the cluster is not ours alone.
    pub async fn queues(&mut self) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("Kueue is put into clusters of our own only"));
        }
        let kinds: Vec<Kind> = self.pod_groups.iter().map(|groups| groups.kind).collect();
        self.kueue = Some(Kueue::start(&self.client(), self.administrator(), &kinds).await?);
        Ok(())
    }

    /// Kueue.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn kueue(&self) -> &Kueue {
        self.kueue.as_ref().expect("the scenario has queues")
    }
}
