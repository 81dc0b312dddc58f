//! Finds the binaries of the control plane. `cargo xtask e2e` sets their location; tests that are started
//! without it use the ones that `cargo xtask tools` built last.

use std::path::PathBuf;

use tools::Missing;

/// The binaries of one control plane.
#[derive(Clone, Debug)]
pub struct Assets {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub api_server: PathBuf,
    /// kube-controller-manager.
    pub controller_manager: PathBuf,
    /// kube-scheduler.
    pub scheduler: PathBuf,
}

impl Assets {
    /// Looks in the places that envtest knows, and then where `cargo xtask
    /// tools` puts them.
    ///
    /// # Errors
    /// When one is nowhere.
    pub fn find() -> Result<Self, Missing> {
        Ok(Self {
            etcd: tools::find("etcd")?,
            api_server: tools::find("kube-apiserver")?,
            controller_manager: tools::find("kube-controller-manager")?,
            scheduler: tools::find("kube-scheduler")?,
        })
    }
}
