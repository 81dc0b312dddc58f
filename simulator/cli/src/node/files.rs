//! `slicewright-sim node files`: the files that other programs read beside the library.

use std::io::Write;
use std::path::PathBuf;

use store::Store;

/// Keeps the files that programs read beside the library under a folder, in step with the node.
///
/// They are laid out as on a real machine: proc/modules, proc/devices, proc/driver/nvidia (version,
/// gpus, capabilities), proc/driver/nvidia-caps/mig-minors, sys/bus/pci/devices, sys/module/nvidia,
/// dev/nvidia*, dev/nvidia-caps. Device files are devices where this process may make them, else
/// plain files. Whoever changes the node brings them up to date.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  slicewright-sim node files --root /run/slicewright-root
  slicewright-sim node files           # where they are, and whether up to date
  slicewright-sim node files --remove

For a program that does not know of another root, bind-mount from there in a
mount namespace of its own, or mount them into its container.")]
pub(super) struct Args {
    /// The folder; it is made, or must have nothing in the way.
    #[arg(long, value_name = "DIR", conflicts_with = "remove")]
    root: Option<PathBuf>,
    /// Takes them away.
    #[arg(long)]
    remove: bool,
}

pub(super) fn run(store: &Store, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { root, remove } = args;
    if let Some(root) = root {
        store.keep_files(&root)?;
    } else if remove {
        store.drop_files()?;
    }
    let Some(root) = store.read(|state| state.files.clone())? else {
        writeln!(out, "no files are kept")?;
        return Ok(());
    };
    let how = match store.files_are_current()? {
        Some(true) => "up to date",
        Some(false) => "behind: whoever may write there and changes the node next brings them up to date",
        None => "not to be seen from here",
    };
    writeln!(out, "the files are under {}, {how}", root.display())?;
    Ok(())
}
