//! The client: how it finds the API server, and what it does on its own.

use std::time::Duration;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::settings::WATCH_TIME;

/// The API server cannot be reached the way it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a service account nor a kubeconfig.
    #[error("failed to find the API server: neither a service account is mounted nor a kubeconfig is there")]
    Infer(#[source] InferConfigError),
    /// The kubeconfig makes no sense.
    #[error("failed to read the kubeconfig")]
    Kubeconfig(#[source] KubeconfigError),
    /// TLS or credentials.
    #[error("failed to make a client")]
    Client(#[source] kube::Error),
}

/// Settings of a client that ours rely on. The client's own retries go: they
/// could keep a write in the air for minutes, and then do it on what is
/// outdated. A connection that says nothing for longer than a watch may last
/// is dead.
#[must_use]
pub fn tamed(mut config: Config) -> Config {
    config.default_retry = false;
    config.read_timeout = Some(WATCH_TIME + Duration::from_secs(30));
    config.connect_timeout = Some(Duration::from_secs(10));
    config
}

/// A client with these settings.
///
/// # Errors
/// When TLS or credentials cannot be set up.
pub fn client(config: Config) -> Result<Client, ConnectError> {
    Client::try_from(tamed(config)).map_err(ConnectError::Client)
}

/// A client for where we are: the service account of the pod, or a kubeconfig
/// (this one and this context, or the usual ones).
///
/// # Errors
/// When there is none that can be used.
pub async fn connect(kubeconfig: Option<&str>, context: Option<&str>) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match (kubeconfig, context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(ConnectError::Kubeconfig)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(ConnectError::Kubeconfig)?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(ConnectError::Kubeconfig)?,
        (None, None) => Config::infer().await.map_err(ConnectError::Infer)?,
    };
    client(config)
}
