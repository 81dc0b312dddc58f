//! Archives of images. These tests are beside the file and not in it: what makes a node image is part of its
//! key, and another test is no reason to make everybody's anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::archive::{Image, sha256, write};
use crate::call::call;

fn json_in(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_engine_finds_each_image_by_its_names_and_the_sums_of_what_it_is_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one.tar"), dir.path().join("two.tar"));
    fs::write(&one, "the first layer").unwrap();
    fs::write(&two, "the second layer").unwrap();
    let image = |names, layer| Image { names, layer, config: json!({"Entrypoint": ["/pause"]}) };
    let archive = dir.path().join("images.tar");
    let images = [image(&["pause:3.10", "pause:3.10.2"][..], &one), image(&["etcd:1"][..], &two)];
    write(&archive, dir.path(), &images).unwrap();
    assert!(!dir.path().join("archive").exists(), "what it worked in is gone");

    let unpacked = dir.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    call(Command::new("tar").arg("-C").arg(&unpacked).arg("-xf").arg(&archive)).unwrap();
    let manifest = json_in(&unpacked.join("manifest.json"));
    let tags: Vec<_> = manifest.as_array().unwrap().iter().map(|image| &image["RepoTags"]).collect();
    assert_eq!(tags, [&json!(["pause:3.10", "pause:3.10.2"]), &json!(["etcd:1"])]);
    for (image, layer) in manifest.as_array().unwrap().iter().zip([&one, &two]) {
        let sum = sha256(layer).unwrap();
        assert_eq!(image["Layers"], json!([format!("{sum}.tar")]));
        assert_eq!(fs::read(unpacked.join(format!("{sum}.tar"))).unwrap(), fs::read(layer).unwrap());
        let name = image["Config"].as_str().unwrap();
        assert_eq!(format!("{}.json", sha256(&unpacked.join(name)).unwrap()), name);
        let config = json_in(&unpacked.join(name));
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{sum}")]));
        assert_eq!(config["config"], json!({"Entrypoint": ["/pause"]}));
    }
}

#[test]
fn the_same_files_make_the_same_configuration_whenever_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let layer = dir.path().join("layer.tar");
    fs::write(&layer, "a layer").unwrap();
    let config = || {
        let archive = dir.path().join("images.tar");
        let image = Image { names: &["node:1"], layer: &layer, config: json!({}) };
        write(&archive, dir.path(), &[image]).unwrap();
        call(Command::new("tar").arg("-xOf").arg(&archive).arg("./manifest.json")).unwrap()
    };
    assert_eq!(config(), config());
}

#[test]
fn a_layer_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let layer = dir.path().join("gone.tar");
    let image = Image { names: &["node:1"], layer: &layer, config: json!({}) };
    let error = write(&dir.path().join("images.tar"), dir.path(), &[image]).unwrap_err().to_string();
    assert!(error.contains("gone.tar"), "{error}");
}

#[test]
fn a_sum_is_that_of_the_file_whatever_its_name_is() {
    let dir = tempfile::tempdir().unwrap();
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for name in ["plain", "with space", "back\\slash", "-n"] {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        assert_eq!(sha256(&path).unwrap(), of_nothing, "{name}");
    }
}
