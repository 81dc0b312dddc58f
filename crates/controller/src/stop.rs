//! Stops the operator before nodes are released, as an uninstallation does: its
//! Deployment is scaled to zero, and the lease shows when no operator writes
//! any more.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use crate::calls::{CallError, Calls};
use crate::{clock, release};

/// How often the lease is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It runs no more.
    Now,
    /// There is no such Deployment: it was stopped, or installed otherwise.
    NotThere,
}

/// Why the operator may still run.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The API server did not answer as hoped.
    #[error("the operator cannot be stopped")]
    Call(#[from] CallError),
    /// Somebody still renews the lease.
    #[error(
        "{holder} still has the lease {lease} after {}s, though the Deployment {deployment} has no replicas: stop what runs it, then run this again",
        .after.as_secs()
    )]
    StillThere {
        /// Who has the lease.
        holder: String,
        /// Namespace and name of the lease.
        lease: String,
        /// The Deployment that was scaled down.
        deployment: String,
        /// How long was waited.
        after: Duration,
    },
}

/// Scales the operator's Deployment to nothing and waits until nobody has the
/// lease, at most for `patience`: a replica that stops gives it back when the
/// action that it is at is done, and one that was killed loses it after the
/// lease's duration.
///
/// # Errors
/// When the API server refuses, or somebody keeps the lease.
pub async fn stop(
    calls: &Calls,
    deployment: &str,
    (namespace, name): &(String, String),
    patience: Duration,
) -> Result<Stopped, StopError> {
    let deployments: Api<Deployment> = Api::namespaced(calls.client(), namespace);
    let stopped = match calls.scale_to_nothing(&deployments, deployment).await {
        Ok(()) => Stopped::Now,
        Err(error) if error.is_not_found() => Stopped::NotThere,
        Err(error) => return Err(error.into()),
    };
    let leases: Api<Lease> = Api::namespaced(calls.client(), namespace);
    let title = format!("Lease {namespace}/{name}");
    let mut waited = Duration::ZERO;
    loop {
        let lease = calls.get(&leases, &title, name).await?;
        let Some(holder) = lease.and_then(|lease| release::holder(&lease, clock::now())) else {
            return Ok(stopped);
        };
        if waited >= patience {
            let lease = format!("{namespace}/{name}");
            return Err(StopError::StillThere {
                holder,
                lease,
                deployment: deployment.to_owned(),
                after: waited,
            });
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}
