//! The documents show what the command prints: every block marked `console` is
//! run, from the root of the repository.

use std::path::Path;

#[test]
fn the_examples_in_the_documents_print_what_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The only test of this program: nobody else is moved.
    std::env::set_current_dir(root).unwrap();
    trycmd::TestCases::new().case("README.md").case("docs/guides/*.md");
}
