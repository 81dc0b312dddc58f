//! CRDs may be upgraded in place: crdify, whose rules OLM v1 uses, finds no problem between those of the
//! previous chart and the present ones.

use std::path::Path;
use std::process::Command;

use packaging::previous;
use serde_json::Value;
use tempfile::TempDir;

/// The rules of OLM, which does not hold an upgrade back for another
/// description of a field, nor for a word more in an enumeration; crdify alone would.
const RULES: &str = "validations: [{name: description, enforcement: None}, \
    {name: enum, enforcement: Error, configuration: {additionPolicy: Allow}}]\n";

/// What crdify says about the way from one CRD to the other; nothing when it is safe.
fn compared(before: &str, after: &str) -> Option<String> {
    let home = TempDir::new().unwrap();
    let place = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let url = |name: &str, text: &str| format!("file://{}", place(name, text).display());
    let crdify = tools::find("crdify").unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(crdify)
        .arg("--config")
        .arg(place("config.yaml", RULES))
        .args([url("before.yaml", before), url("after.yaml", after)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| said.into_owned())
}

/// The CRDs of the chart before, each with that of today.
fn both() -> Vec<(String, String, String)> {
    let before = previous::files().unwrap();
    let crds = before.iter().filter(|(path, _)| path.starts_with("files/crds/"));
    crds.map(|(path, before)| {
        let today = packaging::chart().join(Path::new(path));
        let after = std::fs::read_to_string(&today)
            .unwrap_or_else(|_| panic!("{path} is gone: what it holds is lost"));
        (path.clone(), before.clone(), after)
    })
    .collect()
}

/// What a rule of a static layout says. crdify cannot judge rules in CEL that are new, and finds them all unsafe.
const STATIC_RULE: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/layout/properties\
    /static/properties/gpus/items";

/// What a policy says, and its layout.
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
const LAYOUT: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/layout";

/// The CRD of policies before, with the rules that its static layouts have got since. They are safe: before,
/// every one had `slices`, and none had `mig`, of which the rules say that there is exactly one. The rules about
/// sharing are safe, too: before, no policy had `sharing`, and none had a layout of type `None`.
fn with_rules_that_every_object_before_meets(before: &str, after: &str) -> String {
    let parsed = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let (mut before, after) = (parsed(before), parsed(after));
    let rules = &after.pointer(STATIC_RULE).unwrap()["x-kubernetes-validations"];
    let said: Vec<&str> =
        rules.as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(said, ["!has(self.mig) || !has(self.slices)", "has(self.mig) || has(self.slices)"]);
    let of_before = before.pointer_mut(STATIC_RULE).unwrap();
    assert!(of_before["required"].as_array().unwrap().contains(&"slices".into()));
    assert!(of_before["properties"].get("mig").is_none());
    of_before["x-kubernetes-validations"] = rules.clone();

    let spec = &after.pointer(SPEC).unwrap()["x-kubernetes-validations"];
    let said: Vec<&str> =
        spec.as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        [
            "self.layout.type != 'None' || has(self.sharing)",
            "!has(self.sharing) || self.sharing.type != 'MPS' || self.layout.type == 'None'",
            "!has(self.sharing) || self.layout.type != 'None' || !has(self.sharing.rules) || self.sharing.rules.all(r, r.resource == 'nvidia.com/gpu')",
        ]
    );
    let of_before = before.pointer_mut(SPEC).unwrap();
    assert!(of_before["properties"].get("sharing").is_none());
    of_before["x-kubernetes-validations"] = spec.clone();

    let new = "self.type != 'None' || (!has(self.static) && !has(self.demandDriven))";
    let layout = &after.pointer(LAYOUT).unwrap()["x-kubernetes-validations"];
    let rules = layout.as_array().unwrap();
    let of_before = before.pointer_mut(LAYOUT).unwrap();
    let types = of_before["properties"]["type"]["enum"].as_array().unwrap();
    assert!(!types.contains(&"None".into()));
    let others: Vec<Value> = rules.iter().filter(|rule| rule["rule"] != new).cloned().collect();
    assert_eq!(of_before["x-kubernetes-validations"], Value::Array(others));
    of_before["x-kubernetes-validations"] = layout.clone();
    before.to_string()
}

#[test]
fn the_crds_are_safe_to_upgrade_from_those_of_the_chart_before() {
    let both = both();
    assert_eq!(both.len(), 2);
    for (path, before, after) in both {
        let before = match path.contains("gpupartitionpolicies") {
            true => with_rules_that_every_object_before_meets(&before, &after),
            false => before,
        };
        if let Some(said) = compared(&before, &after) {
            panic!(
                "{path} cannot be upgraded in place (packaging/previous/README.md says what to do):\n{said}"
            );
        }
    }
}

#[test]
fn a_crd_that_is_not_safe_to_upgrade_to_is_found() {
    let (_, before, after) =
        both().into_iter().find(|(path, ..)| path.contains("gpupartitionpolicies")).unwrap();
    for (from, to, about) in [
        ("scope: Cluster", "scope: Namespaced", "scope"),
        ("unrequested:", "unasked:", "unrequested"),
        ("- Preview", "- Rehearse", "Preview"),
    ] {
        assert!(after.contains(from), "{from}");
        let said =
            compared(&before, &after.replace(from, to)).unwrap_or_else(|| panic!("{from} -> {to} was taken"));
        assert!(said.contains(about), "{said}");
    }
}
