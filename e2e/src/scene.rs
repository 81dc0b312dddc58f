//! One scenario: a cluster, and what happens in it.

use std::panic::AssertUnwindSafe;

use anyhow::Context;
use futures::FutureExt;
use kube::Client;
use serde_json::Value;

use crate::control_plane::client_of;
use crate::empty::empty;
use crate::objects;
use crate::pool::{self, Lent};
use crate::provider::{Kind, Provider};

/// A cluster in which one scenario happens.
pub struct Scene {
    provider: Box<dyn Provider>,
    client: Client,
}

/// Tells a scenario on a cluster of its own, which is empty but for our CRDs
/// and those of others; and holds it to what every scenario must keep.
///
/// # Panics
/// When the scenario fails, or leaves behind what none may.
#[expect(
    clippy::print_stderr,
    reason = "where the logs of a failed test are is told to whoever reads its output"
)]
pub fn scenario(story: impl AsyncFnOnce(&mut Scene) -> anyhow::Result<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    let mut reusable = None;
    let outcome = runtime.block_on(async {
        let mut scene = Scene::open().await.context("there is no cluster for the scenario")?;
        let told = AssertUnwindSafe(story(&mut scene)).catch_unwind().await;
        if !matches!(told, Ok(Ok(())))
            && let Some(folder) = scene.provider.evidence()
        {
            eprintln!("the logs of the control plane are in {}", folder.display());
        }
        reusable = scene.close().await;
        anyhow::Ok(told)
    });
    runtime.shutdown_background();
    pool::give_back(reusable);
    match outcome {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) | Err(error) => panic!("{error:#}"),
        // It was told already.
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
    }
}

impl Scene {
    async fn open() -> anyhow::Result<Self> {
        let kind = Kind::asked_for()?;
        let (provider, is_new) = match pool::take(kind) {
            Lent::Used(provider) => (provider, false),
            Lent::None => (kind.provide().await?, true),
        };
        let client = client_of(&provider.administrator()).await?;
        let scene = Self { provider, client };
        objects::install_crds(&scene.client, &objects::our_crds()).await?;
        if is_new {
            empty(&scene.client, scene.provider.is_ours_alone()).await?;
        }
        Ok(scene)
    }

    /// Empties the cluster; gives it up when it is not well.
    async fn close(self) -> Option<Box<dyn Provider>> {
        let Self { provider, client } = self;
        provider.is_well().await.ok()?;
        empty(&client, provider.is_ours_alone()).await.ok()?;
        Some(provider)
    }

    /// An administrator's client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Applies an object as a human would.
    ///
    /// # Errors
    /// What the API server says against it.
    pub async fn apply(&self, object: Value) -> anyhow::Result<()> {
        objects::apply(&self.client, &object).await?;
        Ok(())
    }

    /// Restarts the API server.
    ///
    /// # Errors
    /// When the provider cannot.
    pub async fn restart_api_server(&self) -> anyhow::Result<()> {
        self.provider.restart_api_server().await
    }
}
