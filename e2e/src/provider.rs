//! Where scenarios run. A provider gives a cluster and states its capabilities; scenarios are the same on
//! each.

use std::path::PathBuf;

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use kube::config::Kubeconfig;

use crate::control_plane::ControlPlane;
use crate::objects::OPERATOR_USER;

/// A cluster on which scenarios run.
pub trait Provider: Send + Sync {
    /// Its name, as `--provider` takes it.
    fn name(&self) -> &'static str;

    /// How an administrator reaches it.
    fn administrator(&self) -> Kubeconfig;

    /// The audit log of what the operator does, where there is one.
    fn audit_log(&self) -> Option<PathBuf>;

    /// Whether everything in the cluster is ours, so that it may be emptied.
    fn is_ours_alone(&self) -> bool;

    /// Whether its GPU nodes are there and have kubelets, so that no virtual
    /// ones are made.
    fn has_real_nodes(&self) -> bool {
        false
    }

    /// Restarts the API server, where that can be done.
    ///
    /// # Errors
    /// When it cannot.
    fn restart_api_server(&self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// The control plane, where it is ours to take apart.
    fn control_plane(&self) -> Option<&ControlPlane> {
        None
    }

    /// Fails when a part of it has ended by itself.
    ///
    /// # Errors
    /// Then.
    fn is_well(&self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// What a human should look at after a failure, and keeps it for that.
    fn evidence(&self) -> Option<PathBuf>;
}

/// Which provider is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A control plane of plain processes for each worker.
    #[default]
    Processes,
    /// The cluster of the current kubeconfig. One worker, and only what a
    /// scenario made is removed.
    Kubeconfig,
    /// The kind cluster with its real GPU nodes, reached by the current
    /// kubeconfig. One worker.
    Kind,
}

/// The variable that says which provider is wanted.
pub const VARIABLE: &str = "SLICEWRIGHT_E2E_PROVIDER";

impl Kind {
    /// The one that is asked for.
    ///
    /// # Errors
    /// When it is none that we know.
    pub fn asked_for() -> anyhow::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
        let wanted = std::env::var(VARIABLE).unwrap_or_default();
        wanted.parse()
    }

    /// How many clusters there can be at a time.
    #[must_use]
    pub fn most(self) -> usize {
        match self {
            Self::Processes => usize::MAX,
            Self::Kubeconfig | Self::Kind => 1,
        }
    }

    /// Whether scenarios get GPU nodes with kubelets.
    #[must_use]
    pub fn has_real_nodes(self) -> bool {
        self == Self::Kind
    }

    /// Starts or finds a cluster.
    ///
    /// # Errors
    /// When there is none.
    pub async fn provide(self) -> anyhow::Result<Box<dyn Provider>> {
        Ok(match self {
            Self::Processes => Box::new(Processes(ControlPlane::start(OPERATOR_USER).await?)),
            Self::Kubeconfig | Self::Kind => {
                let kubeconfig = Kubeconfig::read().context("there is no kubeconfig to use")?;
                Box::new(Existing { kubeconfig, real_nodes: self.has_real_nodes() })
            }
        })
    }
}

impl std::str::FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "" | "processes" => Ok(Self::Processes),
            "kubeconfig" => Ok(Self::Kubeconfig),
            "kind" => Ok(Self::Kind),
            other => bail!("there is no provider {other:?}; there are processes, kind and kubeconfig"),
        }
    }
}

/// A control plane of plain processes.
struct Processes(ControlPlane);

impl Provider for Processes {
    fn name(&self) -> &'static str {
        "processes"
    }

    fn administrator(&self) -> Kubeconfig {
        self.0.administrator().clone()
    }

    fn audit_log(&self) -> Option<PathBuf> {
        Some(self.0.audit_log())
    }

    fn is_ours_alone(&self) -> bool {
        true
    }

    fn restart_api_server(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.0.restart_api_server())
    }

    fn control_plane(&self) -> Option<&ControlPlane> {
        Some(&self.0)
    }

    fn is_well(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.0.nobody_ended())
    }

    fn evidence(&self) -> Option<PathBuf> {
        self.0.keep_folder();
        Some(self.0.folder().to_owned())
    }
}

/// A cluster that was there before.
struct Existing {
    kubeconfig: Kubeconfig,
    real_nodes: bool,
}

impl Provider for Existing {
    fn name(&self) -> &'static str {
        if self.real_nodes { "kind" } else { "kubeconfig" }
    }

    fn administrator(&self) -> Kubeconfig {
        self.kubeconfig.clone()
    }

    fn has_real_nodes(&self) -> bool {
        self.real_nodes
    }

    fn audit_log(&self) -> Option<PathBuf> {
        None
    }

    fn is_ours_alone(&self) -> bool {
        false
    }

    fn restart_api_server(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { bail!("the API server of an existing cluster is not ours to restart") })
    }

    fn is_well(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn evidence(&self) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_asked_for_by_its_name() {
        assert_eq!("".parse::<Kind>().unwrap(), Kind::Processes);
        assert_eq!("kubeconfig".parse::<Kind>().unwrap(), Kind::Kubeconfig);
        assert!("kind".parse::<Kind>().unwrap().has_real_nodes());
        let error = "kinder".parse::<Kind>().unwrap_err().to_string();
        assert_eq!(error, "there is no provider \"kinder\"; there are processes, kind and kubeconfig");
    }
}
