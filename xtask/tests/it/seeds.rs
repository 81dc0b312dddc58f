//! Random tests are the same at every run: a change is not refused for what it did not do.

use crate::purity::{root, sources};

#[test]
fn every_random_test_has_a_seed() {
    let root = root();
    let mut files = Vec::new();
    for folder in ["crates", "simulator", "e2e", "xtask"] {
        sources(&root.join(folder), &mut files);
    }
    let (mut tests, mut without) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = || text.lines().filter(|line| !line.trim_start().starts_with("//"));
        // Not the text of this test.
        let begins = |line: &&str| line.ends_with(concat!("proptest", "! {"));
        let (blocks, seeds) =
            (code().filter(begins).count(), code().filter(|line| line.contains("rng_seed:")).count());
        tests += blocks;
        if seeds < blocks {
            without.push(file.strip_prefix(&root).unwrap().display().to_string());
        }
    }
    assert!(tests > 20, "{tests}");
    assert!(without.is_empty(), "write `rng_seed: RngSeed::Fixed(1)` into proptest_config of {without:?}");
}
