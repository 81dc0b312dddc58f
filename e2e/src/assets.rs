//! Where the binaries of the control plane are. `cargo xtask e2e` says it;
//! whoever starts the tests without it gets what `cargo xtask tools` built
//! last.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// A binary that is nowhere.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{name} is missing: run `cargo xtask tools` (it needs Go), or set KUBEBUILDER_ASSETS to a folder that has it"
)]
pub struct Missing {
    /// Which one.
    pub name: &'static str,
}

impl Assets {
    /// Looks in the places that envtest knows, and then where `cargo xtask
    /// tools` puts them.
    ///
    /// # Errors
    /// When one is nowhere.
    pub fn find() -> Result<Self, Missing> {
        Self::find_with(&|variable| {
            #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
            std::env::var_os(variable).filter(|value| !value.is_empty())
        })
    }

    fn find_with(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Missing> {
        let find = |name: &'static str| -> Result<PathBuf, Missing> {
            let own = format!("TEST_ASSET_{}", name.to_uppercase().replace('-', "_"));
            if let Some(path) = variable(&own) {
                return Ok(path.into());
            }
            let folder = variable("KUBEBUILDER_ASSETS").map(PathBuf::from);
            [folder, built(variable)]
                .into_iter()
                .flatten()
                .map(|folder| folder.join(name))
                .find(|path| path.is_file())
                .ok_or(Missing { name })
        };
        Ok(Self {
            etcd: find("etcd")?,
            api_server: find("kube-apiserver")?,
            controller_manager: find("kube-controller-manager")?,
            scheduler: find("kube-scheduler")?,
        })
    }
}

/// The folder in which `cargo xtask tools` links what it built.
fn built(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(tools) = variable("SLICEWRIGHT_TOOLS") {
        return Some(Path::new(&tools).join("bin"));
    }
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()).or_else(home)?;
    Some(base.join("slicewright/tools/bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_its_own_comes_before_the_folder_and_the_folder_before_what_was_built() {
        let dir = tempfile::tempdir().unwrap();
        let (given, cache) = (dir.path().join("given"), dir.path().join("cache"));
        let built = cache.join("slicewright/tools/bin");
        for folder in [&given, &built] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            std::fs::write(built.join(name), "").unwrap();
        }
        std::fs::write(given.join("kube-apiserver"), "").unwrap();
        let environment = |variable: &str| match variable {
            "TEST_ASSET_ETCD" => Some(OsString::from("/my/etcd")),
            "KUBEBUILDER_ASSETS" => Some(given.clone().into()),
            "XDG_CACHE_HOME" => Some(cache.clone().into()),
            _ => None,
        };
        let found = Assets::find_with(&environment).unwrap();
        assert_eq!(found.etcd, Path::new("/my/etcd"));
        assert_eq!(found.api_server, given.join("kube-apiserver"));
        assert_eq!(found.scheduler, built.join("kube-scheduler"));
    }

    #[test]
    fn what_is_missing_is_one_clear_sentence() {
        let error = Assets::find_with(&|_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "etcd is missing: run `cargo xtask tools` (it needs Go), or set KUBEBUILDER_ASSETS to a folder that has it"
        );
    }
}
