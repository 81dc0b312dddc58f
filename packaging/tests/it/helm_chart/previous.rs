//! The values of the previous chart are accepted as they are: with `--reuse-values` Helm gives the new
//! templates the old defaults, which lack every new value.

use std::path::Path;

use packaging::{REGISTRY, Render, previous};
use tempfile::TempDir;

use super::{Bench, CONSOLE, MONITORING, the};

#[test]
fn every_set_of_values_of_the_chart_before_is_taken_with_its_own_defaults_below() {
    let bench = Bench::new();
    let before = previous::files().unwrap();
    let home = TempDir::new().unwrap();
    // A copy without defaults of its own, which is what --reuse-values makes of it.
    let chart = home.path().join("slicewright");
    copy(&packaging::chart(), &chart);
    std::fs::write(chart.join("values.yaml"), &before["values.yaml"]).unwrap();
    let mut seen = 0;
    for (path, text) in before.iter().filter(|(path, _)| path.starts_with("ci/")) {
        let file = home.path().join(path.trim_start_matches("ci/"));
        std::fs::write(&file, text).unwrap();
        let render = Render {
            values: vec![file],
            set: vec![REGISTRY.to_owned()],
            apis: MONITORING.into_iter().chain([CONSOLE]).collect(),
        };
        for chart in [&packaging::chart(), &chart] {
            let objects =
                bench.helm.objects(chart, &render).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(objects.iter().any(|object| object["kind"] == "Deployment"), "{path}");
        }
        seen += 1;
    }
    assert!(seen >= 6, "{seen} sets");
    // What was a list of names is still one.
    let mirrored = Render {
        set: vec![REGISTRY.to_owned(), r#"imagePullSecrets=["mirror"]"#.to_owned()],
        ..Render::default()
    };
    let objects = bench.helm.objects(&chart, &mirrored).unwrap();
    let pod = &the(&objects, "Deployment", "slicewright")["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], serde_json::json!([{"name": "mirror"}]));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &place) } else { assert!(std::fs::copy(&path, &place).is_ok()) }
    }
}
