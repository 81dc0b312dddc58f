//! Compares `docs/reference/models.md` with the catalogue.

use std::path::Path;

/// `UPDATE=1` writes the page; the diff is the review.
#[test]
#[expect(clippy::disallowed_methods, reason = "whether to write the page is asked from outside the test")]
fn the_page_about_models_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/models.md");
    let page = mig::reference::models_page(mig::Catalog::builtin());
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "models.md is not up to date: run `UPDATE=1 cargo test -p slicewright-mig`");
}
