//! The result for each set of values, kept as a snapshot; review the difference.

use packaging::Render;
use serde_json::Value;

use super::{Bench, CONSOLE, MONITORING, value_sets};

/// CRDs and dashboards are files of their own, and checked as such.
fn without_files(mut object: Value) -> Value {
    if object["kind"] == "CustomResourceDefinition" {
        object["spec"] = Value::String("as in docs/reference/crds".to_owned());
    }
    for (_, text) in object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten() {
        *text = Value::String("as in files/dashboards".to_owned());
    }
    object
}

#[test]
fn every_set_of_values_renders_as_reviewed_and_twice_the_same() {
    let bench = Bench::new();
    let sets = value_sets();
    assert!(sets.len() >= 6, "{sets:?}");
    for (name, file) in sets {
        let apis = MONITORING.into_iter().chain([CONSOLE]).collect();
        let render = Render { values: vec![file], apis, ..Render::default() };
        let text = bench.helm.text(&packaging::chart(), &render).unwrap();
        assert_eq!(text, bench.helm.text(&packaging::chart(), &render).unwrap(), "{name}");
        let objects = bench.helm.objects(&packaging::chart(), &render).unwrap();
        let shown: Vec<Value> = objects.into_iter().map(without_files).collect();
        insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!(format!("chart-{name}"), shown);
        });
    }
}

#[test]
fn helm_has_nothing_to_say_about_any_set_of_values() {
    let bench = Bench::new();
    for (name, file) in value_sets() {
        let mut command = bench.helm.command();
        command.args(["lint", "--strict", "--quiet", "--values"]).arg(&file).arg(packaging::chart());
        let said = bench.helm.run(&mut command).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{name}: {said}");
    }
}
