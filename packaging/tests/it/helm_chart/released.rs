//! The chart of a checkout that was released: it needs no value, since its values say where its images are.

use std::path::Path;

use packaging::archives::below;
use packaging::{Render, values};

use super::{Bench, the};

/// A copy of the chart whose values name the images of this publisher.
fn released(prefix: &str, into: &Path) {
    for file in below(&packaging::chart(), "").unwrap() {
        let path = into.join(file.path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.content).unwrap();
    }
    let text = std::fs::read_to_string(into.join("values.yaml")).unwrap();
    std::fs::write(into.join("values.yaml"), values::published(&text, prefix).unwrap()).unwrap();
}

#[test]
fn the_chart_of_a_released_checkout_installs_its_own_images_without_a_value() {
    let bench = Bench::new();
    let version = packaging::bundle::version().unwrap();
    let folder = tempfile::tempdir().unwrap();
    released("quay.dev:8443/gpu/team", folder.path());
    let set = vec!["agent.enabled=true".to_owned()];
    for (set, of_the_agent) in [(Vec::new(), false), (set, true)] {
        let render = Render { set, ..Render::default() };
        let objects = bench.helm.objects(folder.path(), &render).unwrap();
        let image = |kind: &str, name: &str| {
            the(&objects, kind, name)["spec"]["template"]["spec"]["containers"][0]["image"].clone()
        };
        let operator = format!("quay.dev:8443/gpu/team/slicewright:{version}");
        assert_eq!(image("Deployment", "slicewright"), operator);
        assert_eq!(image("Job", "slicewright-release"), operator);
        if of_the_agent {
            let agent = format!("quay.dev:8443/gpu/team/agent:{version}");
            assert_eq!(image("DaemonSet", "slicewright-agent"), agent);
        }
    }
    // A mirror of the release is named once, and has the same repositories.
    let set = vec![r#"image.registry="mirror.dev""#.to_owned()];
    let objects = bench.helm.objects(folder.path(), &Render { set, ..Render::default() }).unwrap();
    let image =
        &the(&objects, "Deployment", "slicewright")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("mirror.dev/gpu/team/slicewright:{version}"));
}
