//! The CRDs in `docs/reference/crds` equal those of the code, and keep the promises of the documentation:
//! bounds and merge strategies on every list, descriptions on every field.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/crds")
}

/// The chart brings the same files; its templates add labels.
fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/slicewright/files/crds")
}

/// `UPDATE=1` writes the files; the diff is the review.
#[test]
fn the_crds_in_the_repository_are_those_of_the_code() {
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    let update = std::env::var("UPDATE").is_ok();
    for (file, yaml) in api::crds() {
        for path in [folder().join(file), chart().join(file)] {
            if update {
                std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder is made");
                std::fs::write(&path, &yaml).expect("the folder is there");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let path = path.display();
            assert!(found == yaml, "{path} is not up to date: run `UPDATE=1 cargo test -p slicewright-api`");
        }
    }
}

#[test]
fn a_crd_reads_back_as_what_was_written() {
    for (file, yaml) in api::crds() {
        let back: Value = serde_saphyr::from_str(&yaml).expect(file);
        let of_code = if file.contains("gpunodes") {
            api::crd::gpu_nodes()
        } else {
            api::crd::gpu_partition_policies()
        };
        assert_eq!(back, of_code, "{file}");
    }
}

/// Calls `visit` with the path and schema of every field.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, field) in properties {
            walk(&format!("{path}.{name}"), field, visit);
        }
    }
    if let Some(items) = schema.get("items") {
        walk(&format!("{path}[]"), items, visit);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) {
        walk(&format!("{path}{{}}"), values, visit);
    }
}

#[test]
fn every_list_is_bounded_and_says_how_it_merges() {
    for crd in [api::crd::gpu_nodes(), api::crd::gpu_partition_policies()] {
        walk("", api::crd::schema(&crd), &mut |path, schema| {
            if schema["type"] == "array" {
                assert!(schema["maxItems"].is_u64(), "{path} has no bound");
                assert!(schema["x-kubernetes-list-type"].is_string(), "{path} does not say how it merges");
            }
            if schema.get("additionalProperties").is_some() {
                assert!(schema["maxProperties"].is_u64(), "{path} has no bound");
            }
        });
    }
}

#[test]
fn every_field_is_documented_in_whole_sentences() {
    for crd in [api::crd::gpu_nodes(), api::crd::gpu_partition_policies()] {
        walk("", api::crd::schema(&crd), &mut |path, schema| {
            let of_kubernetes = path.is_empty()
                || path.starts_with(".status.conditions[]")
                || path.ends_with("[]")
                || path.ends_with("{}");
            if !of_kubernetes {
                let text = schema["description"].as_str().unwrap_or_default();
                assert!(text.trim_end().ends_with(['.', ':']), "{path} is described as {text:?}");
            }
        });
    }
}

#[test]
fn no_number_has_a_format_that_the_api_server_does_not_know() {
    for crd in [api::crd::gpu_nodes(), api::crd::gpu_partition_policies()] {
        walk("", api::crd::schema(&crd), &mut |path, schema| {
            let format = schema["format"].as_str();
            assert!(
                matches!(format, None | Some("int32" | "int64" | "date-time" | "int-or-string")),
                "{path}: {format:?}"
            );
        });
    }
}

#[test]
fn a_new_object_reads_as_in_progress() {
    let crd = api::crd::gpu_partition_policies();
    let default = &api::crd::schema(&crd)["properties"]["status"]["default"];
    assert_eq!(default["conditions"][0]["type"], "Ready");
    assert_eq!(default["conditions"][0]["status"], "Unknown");
    let status: api::GpuPartitionPolicyStatus =
        serde_json::from_value(default.clone()).expect("the default is a status");
    assert_eq!(status.conditions.len(), 1);
}
