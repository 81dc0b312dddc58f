//! The bundle's additions to OpenShift's console: samples beside the editor of policies, a quick start, and
//! the download of the command.

use serde_json::{Value, json};

use super::Error;
use super::base::{self, Base};

/// The objects, by the name of their file among the manifests.
///
/// # Errors
/// When a source cannot be read, or a sample is not of a kind that is owned.
pub(super) fn objects(base: &Base) -> Result<Vec<(String, Value)>, Error> {
    let named = |kind: &str, name: &str, spec: Value| {
        let name = format!("{}-{name}", base.package);
        let file = format!("manifests/{name}_{}.yaml", kind.to_lowercase());
        let object = json!({
            "apiVersion": "console.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        (file, object)
    };
    let mut all = Vec::new();
    for sample in &base.console.samples {
        let object: Value = base::read_yaml(&sample.file)?;
        let kind = object["kind"].as_str().unwrap_or_default();
        if !base.kinds.contains_key(kind) {
            return Err(Error::NotSaid { kind: kind.to_owned() });
        }
        let spec = json!({
            "targetResource": {"apiVersion": object["apiVersion"], "kind": kind},
            "title": sample.title,
            "description": sample.description,
            "yaml": base::read(&sample.file)?,
        });
        all.push(named("ConsoleYAMLSample", &sample.name, spec));
    }
    all.push(named("ConsoleQuickStart", "first-policy", base::read_yaml("console/quick-start.yaml")?));
    let mut download: Value = base::read_yaml("console/cli-download.yaml")?;
    let repository = base.annotations.get("repository").map(String::as_str).unwrap_or_default();
    download["links"] = base
        .console
        .downloads
        .iter()
        .map(|link| json!({"text": link.text, "href": format!("{repository}{}", link.path)}))
        .collect();
    all.push(named("ConsoleCLIDownload", "cli", download));
    Ok(all)
}

/// What the console creates when it is told to create what an installation
/// needs: the first policy.
///
/// # Errors
/// When it cannot be read.
pub(super) fn initialization_resource(base: &Base) -> Result<Value, Error> {
    base::read_yaml(&base.console.first)
}
