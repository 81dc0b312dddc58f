//! The node agent's image: one program, and the C library that it and NVIDIA's driver library need.

use image::oci::Architecture;
use image::tree::Tree;

use super::build::{Linker, Workspace};
use super::{Base, Contents, c_library, machine};

const PROGRAM: &str = "usr/bin/slicewright-agent";

/// What NVIDIA's `libnvidia-ml.so.1` asks for. The agent loads it from the driver's installation on the node, whose own C
/// library is not there. Since glibc 2.34 all but the first two are empty, but the loader still asks for the files.
const OF_THE_DRIVER: [&str; 5] = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];

pub(super) fn contents(
    workspace: &Workspace,
    architecture: Architecture,
    base: Base,
) -> anyhow::Result<Contents> {
    let target = format!("{}-unknown-linux-gnu", architecture.rust());
    let program = workspace.for_every_node().build(
        "slicewright-node-agent",
        &["--bin", "slicewright-agent"],
        &target,
        Linker::Own,
    )?;
    let mut tree = Tree::new();
    let paths = match base {
        Base::Image => Vec::new(),
        Base::None => {
            let libraries = machine::libraries(&[&program.content], &OF_THE_DRIVER, &[], architecture)?;
            c_library::put(&mut tree, libraries)?.1
        }
    };
    c_library::contents(workspace, tree, &paths, vec![(PROGRAM.to_owned(), program)])
}
