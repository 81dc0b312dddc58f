//! Finds the programs and files that `cargo xtask tools` builds, for the tests that run them.
//!
//! The task that starts the tests sets their location, in the variables of controller-runtime's envtest;
//! tests that are started by hand use the ones that were built last.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program or a file that is nowhere.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{name} is missing: run `cargo xtask tools` (`cargo xtask tools --help` says in which group it is; it needs \
     Go), or set KUBEBUILDER_ASSETS to a folder that has it"
)]
pub struct Missing {
    /// Which one.
    pub name: String,
}

/// A variable that says something: one that is set to nothing is not set,
/// which is how a caller takes it away.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where `name` is: what `TEST_ASSET_NAME` says, else the folder that
/// `KUBEBUILDER_ASSETS` names if it has it, else what was built last.
///
/// # Errors
/// When it is nowhere.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    find_with(name, &variable)
}

/// [`find`], with variables from elsewhere than the environment.
///
/// # Errors
/// When it is nowhere.
pub fn find_with(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, Missing> {
    let given = variable(&variable_of(name)).map(PathBuf::from);
    let folders = [variable("KUBEBUILDER_ASSETS").map(PathBuf::from), built(variable)];
    let in_a_folder = folders.into_iter().flatten().map(|folder| folder.join(name));
    given
        .into_iter()
        .chain(in_a_folder)
        .find(|path| path.exists())
        .ok_or_else(|| Missing { name: name.to_owned() })
}

/// The variable by which a test is told where `name` is, as envtest names it.
#[must_use]
pub fn variable_of(name: &str) -> String {
    format!("TEST_ASSET_{}", name.to_uppercase().replace(['-', '.'], "_"))
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
        for name in ["etcd", "kube-apiserver", "mig-parted-config.yaml"] {
            std::fs::write(built.join(name), "").unwrap();
        }
        let own = dir.path().join("own");
        std::fs::write(&own, "").unwrap();
        std::fs::write(given.join("kube-apiserver"), "").unwrap();
        let environment = |variable: &str| match variable {
            "TEST_ASSET_MIG_PARTED_CONFIG_YAML" => Some(own.clone().into()),
            "KUBEBUILDER_ASSETS" => Some(given.clone().into()),
            "XDG_CACHE_HOME" => Some(cache.clone().into()),
            _ => None,
        };
        assert_eq!(find_with("mig-parted-config.yaml", &environment), Ok(own.clone()));
        assert_eq!(find_with("kube-apiserver", &environment), Ok(given.join("kube-apiserver")));
        assert_eq!(find_with("etcd", &environment), Ok(built.join("etcd")));
        let elsewhere = |name: &str| (name == "SLICEWRIGHT_TOOLS").then(|| dir.path().join("no").into());
        assert!(find_with("etcd", &elsewhere).is_err());
    }

    #[test]
    fn what_is_missing_is_one_clear_sentence() {
        let error = find_with("etcd", &|_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "etcd is missing: run `cargo xtask tools` (`cargo xtask tools --help` says in which group it is; it \
             needs Go), or set KUBEBUILDER_ASSETS to a folder that has it"
        );
    }
}
