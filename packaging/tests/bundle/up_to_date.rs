//! The bundle in the repository is what its sources say. `UPDATE=1` writes
//! it; the difference is the review.

use packaging::bundle::{Image, generate, read_folder};

use crate::Bench;

#[test]
fn the_bundle_is_up_to_date() {
    let bench = Bench::new();
    let made = generate(&bench.helm, &Image::unreleased()).unwrap_or_else(|error| panic!("{error:?}"));
    let folder = packaging::root().join("olm-bundle");
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        made.write(&folder).unwrap();
    }
    let found = read_folder(&folder).unwrap_or_default();
    let names = |files: &packaging::bundle::Files| files.0.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&made), "run `UPDATE=1 cargo test -p slicewright-packaging`");
    for (path, text) in &made.0 {
        let same = found.0.get(path) == Some(text);
        assert!(same, "olm-bundle/{path} is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`");
    }
}
