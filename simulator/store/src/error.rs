//! Why a directory cannot be used, and how to solve it.

use std::path::PathBuf;

/// Why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no state.
    #[error(
        "there is no simulated node in {}: set one up with `slicewright-sim node setup --dir {} --gpus a100-80gb=2`, or name another directory with SLICEWRIGHT_SIM_DIR",
        dir.display(),
        dir.display()
    )]
    NotSetUp {
        /// The directory.
        dir: PathBuf,
    },
    /// There are files of somebody else.
    #[error(
        "{} has `{entry}` in it, which is not of a simulated node: choose another directory (--dir, SLICEWRIGHT_SIM_DIR); nothing was changed",
        dir.display()
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// What is there.
        entry: String,
    },
    /// A file of the state does not say what a state says.
    #[error(
        "the simulated node in {} is damaged: `{file}` {problem}; set it up again with `slicewright-sim node setup --dir {} --gpus ...`, which starts anew",
        dir.display(),
        dir.display()
    )]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// Which file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "the simulated node in {} was set up by a newer Slicewright (format {found}; this one knows {known}): use that version, or set it up again with `slicewright-sim node setup --dir {} --gpus ...`, which starts anew",
        dir.display(),
        dir.display()
    )]
    Newer {
        /// The directory.
        dir: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// This process may read the state and not change it.
    #[error(
        "the simulated node in {} cannot be changed by this user: run this as root, or set the node up with --writers everybody",
        dir.display()
    )]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
    },
    /// The files beside the library were to be kept under `/`.
    #[error(
        "files are not kept under /, where the real machine's are: name another folder, and bind-mount from there"
    )]
    RealRoot,
    /// A file under the root is somebody else's.
    #[error("{} has `{path}`, which is not ours: name an empty folder; nothing was changed", root.display())]
    InTheWay {
        /// The root.
        root: PathBuf,
        /// What is there.
        path: String,
    },
    /// The file system said no.
    #[error("{} {}", doing, path.display())]
    Io {
        /// What was tried, such as `cannot read`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}
