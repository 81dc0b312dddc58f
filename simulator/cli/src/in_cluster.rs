//! Functions that commands in a pod of a cluster share: how they reach its API server, and how they are
//! stopped.

use std::path::PathBuf;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The API server.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// How to reach the API server; otherwise as kubectl finds it, or as a pod does.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Server {
    pub(crate) async fn client(&self) -> anyhow::Result<kube::Client> {
        let config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).context("the kubeconfig cannot be read")?;
                kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
            }
            None => kube::Config::infer().await.context("there is no kubeconfig to use")?,
        };
        Ok(kube::Client::try_from(config)?)
    }
}

/// That somebody wants it to stop: a kubelet, or a person at a terminal.
pub(crate) struct StopSignal(Signal);

impl StopSignal {
    /// Listens from now on.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::terminate()).context("cannot be told to stop")?))
    }

    /// Waits for it.
    pub(crate) async fn comes(mut self) -> anyhow::Result<()> {
        tokio::select! {
            _ = self.0.recv() => Ok(()),
            ended = tokio::signal::ctrl_c() => Ok(ended?),
        }
    }
}
