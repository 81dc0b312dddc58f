//! The simulator's image: programs, the library that they and others load, and
//! the C library of this machine.

use image::oci::Architecture;
use image::tree::Tree;

use super::build::{Linker, Workspace};
use super::{Base, Contents, c_library, machine};

/// Where nodes are by default; whoever runs the image mounts a volume there
/// when the root is read-only.
const STATE: &str = "run/slicewright-sim";

/// What programs load: a link.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The file, as in a driver root: with the version of the driver that a node has unless it is told another
/// one. Programs that make CDI specifications read the version from there.
const FILE: &str = "libnvidia-ml.so.580.65.06";

pub(super) fn contents(
    workspace: &Workspace,
    architecture: Architecture,
    base: Base,
) -> anyhow::Result<Contents> {
    let target = format!("{}-unknown-linux-gnu", architecture.rust());
    let sim = workspace.build("slicewright-sim-cli", &["--bin", "slicewright-sim"], &target, Linker::Own)?;
    let smi =
        workspace.build("slicewright-sim-nvidia-smi", &["--bin", "nvidia-smi"], &target, Linker::Own)?;
    let nvml = workspace.build("slicewright-sim-libnvml", &["--lib"], &target, Linker::Own)?;
    let mut tree = Tree::new();
    tree.folder_of(image::USER, STATE);
    let (folder, paths) = match base {
        Base::Image => ("/usr/lib64".to_owned(), Vec::new()),
        Base::None => {
            let files: [&[u8]; 3] = [&sim.content, &smi.content, &nvml.content];
            c_library::put(&mut tree, machine::libraries(&files, &[], &[LIBRARY], architecture)?)?
        }
    };
    let folder = folder.trim_start_matches('/');
    let places = vec![
        ("usr/bin/slicewright-sim".to_owned(), sim),
        ("usr/bin/nvidia-smi".to_owned(), smi),
        (format!("{folder}/{FILE}"), nvml),
    ];
    let mut contents = c_library::contents(workspace, tree, &paths, places)?;
    contents.programs.link(&format!("{folder}/{LIBRARY}"), FILE);
    Ok(contents)
}
