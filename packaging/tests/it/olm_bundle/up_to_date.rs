//! The bundle and the catalog in the repository agree with their sources. `UPDATE=1` writes them; review
//! the difference.

use std::path::Path;

use packaging::bundle::{Contact, Files, Image, Maintainer, generate, read_folder};
use packaging::catalog;
use packaging::project::Project;
use tempfile::TempDir;

use super::helm;

#[track_caller]
fn check(folder: &str, made: &Files) {
    let place = packaging::root().join(folder);
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        made.write(&place).unwrap();
    }
    let found = read_folder(&place).unwrap_or_default();
    let names = |files: &Files| files.0.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(made), "{folder}: run `UPDATE=1 cargo test -p slicewright-packaging`");
    for (path, text) in &made.0 {
        let same = found.0.get(path) == Some(text);
        assert!(
            same,
            "{folder}/{path} is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`"
        );
    }
}

fn bundle() -> Files {
    let name = Project::read().unwrap().maintainer.name;
    let nobody = Maintainer { name, contact: Contact::unreleased() };
    generate(&helm(), &Image::unreleased(), &nobody).unwrap_or_else(|error| panic!("{error:?}"))
}

fn catalog_after(before: &Files, image: &Image) -> Files {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("bundle");
    bundle().write(&folder).unwrap();
    let opm = tools::find("opm").unwrap_or_else(|error| panic!("{error}"));
    catalog::generate(&opm, &folder, image, before).unwrap_or_else(|error| panic!("{error}"))
}

fn validate(folder: &Path) -> Result<String, catalog::Error> {
    let opm = tools::find("opm").unwrap_or_else(|error| panic!("{error}"));
    catalog::opm(&opm, &["validate", folder.to_str().unwrap()])
}

#[test]
fn the_bundle_is_up_to_date() {
    check("olm-bundle", &bundle());
}

#[test]
fn the_catalog_is_up_to_date_and_opm_takes_it() {
    let before = read_folder(&packaging::root().join("olm-catalog/catalog")).unwrap_or_default();
    check("olm-catalog/catalog", &catalog_after(&before, &Image::unreleased_bundle()));
    validate(&packaging::root().join("olm-catalog/catalog")).unwrap_or_else(|error| panic!("{error}"));
}

/// The next version: the one before it stays, and leads to it.
#[test]
fn opm_takes_a_catalog_in_which_a_version_follows_another() {
    let home = TempDir::new().unwrap();
    let published =
        "registry.example.com/slicewright/slicewright-bundle@sha256:".to_owned() + &"7".repeat(64);
    let first = catalog_after(&Files::default(), &published.parse().unwrap());
    let (path, text) = first.0.iter().find(|(path, _)| path.contains(".v")).unwrap();
    let version = packaging::bundle::version().unwrap();
    // As if it had been an earlier one.
    let older = |text: &str| text.replace(&version, "0.0.9").replace(&"0".repeat(64), &"8".repeat(64));
    let before = Files([(older(path), older(text))].into());
    let both = catalog_after(&before, &Image::unreleased_bundle());
    assert_eq!(both.0.get(&older(path)), Some(&older(text)));
    let package = &both.0["slicewright/package.yaml"];
    assert!(package.contains("replaces: slicewright.v0.0.9"), "{package}");
    let folder = home.path().join("catalog");
    both.write(&folder).unwrap();
    validate(&folder).unwrap_or_else(|error| panic!("{error}"));

    // And it looks: a channel that leads to what is not there is refused.
    let broken = Files([("package.yaml".to_owned(), package.clone())].into());
    let folder = home.path().join("broken");
    broken.write(&folder).unwrap();
    assert!(validate(&folder).is_err());
}
