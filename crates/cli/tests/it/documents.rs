//! The documents show the output of the command: every block marked `console` is run, from the root of the
//! repository. In these tests the machine is a simulated workstation.

use std::path::Path;

use crate::support::{Node, workstation};

#[test]
fn the_examples_in_the_documents_print_what_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The only test of this program: nobody else is moved.
    std::env::set_current_dir(root).unwrap();
    let node = Node::with(workstation());
    trycmd::TestCases::new()
        .env(store::DIRECTORY_VARIABLE, node.directory().display().to_string())
        .env("LD_LIBRARY_PATH", node.libraries().display().to_string())
        .env("SLICEWRIGHT_SIM_PRIVILEGED", "1")
        .case("README.md")
        .case("docs/results.md")
        .case("docs/guides/*.md");
}
