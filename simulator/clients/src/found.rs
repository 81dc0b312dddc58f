//! Finds the programs. `cargo xtask clients` sets their locations; tests that are started without it use
//! the programs that were built last, and report what is skipped.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the folder of the shared library.
const LIBRARY: &str = "SLICEWRIGHT_SIM_LIBRARY";

/// The variable that is set where everything must be there.
const STRICT: &str = "SLICEWRIGHT_CLIENTS";

/// The programs that a test asked for, and the library under them.
#[derive(Clone, Debug)]
pub struct Found {
    /// The folder with `libnvidia-ml.so.1`, and with the simulated `nvidia-smi`.
    pub library: PathBuf,
    /// The programs, in the order in which they were asked for.
    pub programs: Vec<PathBuf>,
}

/// The library and these programs (or files that were built with them), or
/// nothing, and a sentence on standard error that says what is left out.
///
/// # Panics
/// If one is missing and `cargo xtask clients` promised that all are there.
#[must_use]
pub fn find(names: &[&'static str]) -> Option<Found> {
    match find_with(names, &tools::variable) {
        Ok(found) => Some(found),
        Err(missing) => {
            let said = format!("{missing} is missing: run `cargo xtask clients`");
            assert!(tools::variable(STRICT).is_none(), "{said}");
            #[expect(clippy::print_stderr, reason = "what a test left out is said where its output goes")]
            {
                eprintln!("left out: {said}");
            }
            None
        }
    }
}

fn find_with(
    names: &[&'static str],
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Found, &'static str> {
    let library = variable(LIBRARY).map(PathBuf::from).filter(|dir| dir.join("libnvidia-ml.so.1").is_file());
    let library = library.ok_or("the simulated libnvidia-ml.so.1")?;
    let programs = names
        .iter()
        .map(|name| {
            // What was built with the library comes before an older one of the same name, and after what is said.
            let beside = library.join(name);
            let said = variable(&tools::variable_of(name)).is_some();
            if !said && beside.is_file() {
                Ok(beside)
            } else {
                tools::find_with(name, variable).map_err(|_| *name)
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(Found { library, programs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_asked_for_first_and_a_variable_comes_before_what_was_built() {
        let dir = tempfile::tempdir().unwrap();
        let built = dir.path().join("bin");
        std::fs::create_dir(&built).unwrap();
        let library = dir.path().join("library");
        std::fs::create_dir(&library).unwrap();
        for name in ["nvidia-mig-parted", "mig-parted-config.yaml", "own", "nvidia-smi"] {
            std::fs::write(built.join(name), "").unwrap();
        }
        for name in ["libnvidia-ml.so.1", "nvidia-smi"] {
            std::fs::write(library.join(name), "").unwrap();
        }
        let without = |name: &str| (name == "SLICEWRIGHT_TOOLS").then(|| dir.path().into());
        assert_eq!(find_with(&[], &without).unwrap_err(), "the simulated libnvidia-ml.so.1");

        let variable = |name: &str| match name {
            LIBRARY => Some(library.clone().into()),
            "SLICEWRIGHT_TOOLS" => Some(dir.path().into()),
            "TEST_ASSET_MIG_PARTED_CONFIG_YAML" => Some(built.join("own").into()),
            _ => None,
        };
        let asked = ["nvidia-mig-parted", "mig-parted-config.yaml", "nvidia-smi"];
        let found = find_with(&asked, &variable).unwrap();
        let expected = [built.join("nvidia-mig-parted"), built.join("own"), library.join("nvidia-smi")];
        assert_eq!(found.programs, expected);
        assert_eq!(find_with(&["gpu-feature-discovery"], &variable).unwrap_err(), "gpu-feature-discovery");
    }
}
