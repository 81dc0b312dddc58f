//! The files around the manifests in a bundle's folder, and the folder as files.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Error;
use super::base::Base;

/// The first line of what is made.
const HEAD: &str =
    "# Generated from the chart, the CRDs and packaging/olm by `cargo xtask codegen`; do not edit.\n";

/// The image of the scorecard's tests, as upstream publishes it with the
/// version of them that `tools/scorecard` pins.
const SCORECARD: &str = "quay.io/operator-framework/scorecard-test:v1.42.3";

/// The scorecard's tests: suite and name.
pub const SCORECARD_TESTS: [(&str, &str); 6] = [
    ("basic", "basic-check-spec"),
    ("olm", "olm-bundle-validation"),
    ("olm", "olm-crds-have-validation"),
    ("olm", "olm-crds-have-resources"),
    ("olm", "olm-spec-descriptors"),
    ("olm", "olm-status-descriptors"),
];

/// A folder's files: path in it, and text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(pub BTreeMap<String, String>);

impl Files {
    /// Adds an object as YAML.
    pub(super) fn put(&mut self, path: &str, object: &Value) {
        let text = serde_saphyr::to_string(object).expect("JSON can be written as YAML");
        self.0.insert(path.to_owned(), format!("{HEAD}{text}"));
    }

    /// Writes the folder anew: what else is in it goes.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(fail(folder))?;
        }
        for (path, text) in &self.0 {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(fail(parent))?;
            std::fs::write(&path, text).map_err(fail(&path))?;
        }
        Ok(())
    }
}

/// The files of a folder, as they are.
///
/// # Errors
/// When one cannot be read.
pub fn read_folder(folder: &Path) -> Result<Files, Error> {
    let mut files = Files::default();
    let mut open = vec![folder.to_owned()];
    while let Some(dir) = open.pop() {
        let fail = |source| Error::Read { path: dir.clone(), source };
        for entry in std::fs::read_dir(&dir).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path)
                .map_err(|source| Error::Read { path: path.clone(), source })?;
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.0.insert(name, text);
        }
    }
    Ok(files)
}

/// Everything but the manifests.
pub(super) fn around(base: &Base) -> Files {
    let bundle = |key: &str| format!("operators.operatorframework.io.bundle.{key}.v1");
    let pairs = [
        (bundle("mediatype"), "registry+v1".to_owned()),
        (bundle("manifests"), "manifests/".to_owned()),
        (bundle("metadata"), "metadata/".to_owned()),
        (bundle("package"), base.package.clone()),
        (bundle("channels"), base.channels.join(",")),
        (bundle("channel.default"), base.default_channel.clone()),
        ("operators.operatorframework.io.test.mediatype.v1".to_owned(), "scorecard+v1".to_owned()),
        ("operators.operatorframework.io.test.config.v1".to_owned(), "tests/scorecard/".to_owned()),
        ("com.redhat.openshift.versions".to_owned(), base.openshift_versions.clone()),
        ("operatorframework.io/cluster-monitoring".to_owned(), "true".to_owned()),
        ("operatorframework.io/suggested-namespace".to_owned(), base.namespace.clone()),
    ];
    let mut files = Files::default();
    let annotations: BTreeMap<_, _> = pairs.iter().cloned().collect();
    files.put("metadata/annotations.yaml", &json!({"annotations": annotations}));
    let mut image = format!("{HEAD}FROM scratch\n\nLABEL com.redhat.delivery.operator.bundle=true\n");
    for (key, value) in &annotations {
        image.push_str(&format!("LABEL {key}={value}\n"));
    }
    image.push_str(
        "\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests/scorecard /tests/scorecard/\n",
    );
    files.0.insert("bundle.Dockerfile".to_owned(), image);
    let tests: Vec<Value> = SCORECARD_TESTS
        .iter()
        .map(|(suite, test)| {
            json!({
                "image": SCORECARD,
                "entrypoint": ["scorecard-test", test],
                "labels": {"suite": suite, "test": format!("{test}-test")},
                "storage": {"spec": {"mountPath": {}}},
            })
        })
        .collect();
    files.put(
        "tests/scorecard/config.yaml",
        &json!({
            "apiVersion": "scorecard.operatorframework.io/v1alpha3",
            "kind": "Configuration",
            "metadata": {"name": "config"},
            "stages": [{"parallel": true, "tests": tests}],
            "storage": {"spec": {"mountPath": {}}},
        }),
    );
    files
}
