//! The client: how it finds the API server, and what it does on its own.

use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::class::chain;
use crate::settings::WATCH_TIME;

/// The API server cannot be reached the way it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a service account nor a kubeconfig.
    #[error(
        "failed to find the API server: no kubeconfig ({}), and no service account of a pod ({})",
        plain(kubeconfig),
        chain(pod)
    )]
    NoServer {
        /// Why no kubeconfig can be used.
        kubeconfig: KubeconfigError,
        /// Why this is no pod of a cluster.
        pod: InClusterError,
    },
    /// The kubeconfig makes no sense.
    #[error("failed to read the kubeconfig: {}", plain(.0))]
    Kubeconfig(KubeconfigError),
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
        // What `Config::infer` does; its error says the same things twice, and names no file plainly.
        (None, None) => match Config::from_kubeconfig(&options).await {
            Ok(config) => config,
            Err(kubeconfig) => {
                Config::incluster().map_err(|pod| ConnectError::NoServer { kubeconfig, pod })?
            }
        },
    };
    client(config)
}

/// Why a kubeconfig cannot be used, with its path as people write it.
fn plain(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(cause, path) => format!("{}: {cause}", path.display()),
        other => chain(other),
    }
}
