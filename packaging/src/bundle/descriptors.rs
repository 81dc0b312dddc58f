//! The console's descriptions of the fields of a kind: they are derived from the schema in its CRD, so that
//! each field has only one description.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Error;

/// The prefix that the console's own descriptors have.
const CONSOLE: &str = "urn:alm:descriptor:com.tectonic.ui:";

/// The descriptors of one part (`spec` or `status`): every field of the first
/// level, and the deeper ones that `shown` names.
///
/// # Errors
/// When `shown` names a field that the schema does not have.
pub(super) fn descriptors(
    kind: &str,
    part: &str,
    schema: &Value,
    shown: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<Value>, Error> {
    let first = schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let paths: BTreeSet<&str> = first.chain(shown.keys().map(String::as_str)).collect();
    paths
        .into_iter()
        .map(|path| {
            let field = path.split('.').try_fold(schema, |at, key| at["properties"].get(key));
            let field = field.ok_or_else(|| Error::NoSuchField {
                kind: kind.to_owned(),
                path: format!("{part}.{path}"),
            })?;
            let mut descriptor = json!({
                "path": path,
                "displayName": display_name(path),
                "description": first_sentence(field["description"].as_str().unwrap_or_default()),
            });
            let known = shown.get(path).map(Vec::as_slice).unwrap_or_default();
            if !known.is_empty() {
                descriptor["x-descriptors"] = known.iter().flat_map(|name| urns(name, field)).collect();
            }
            Ok(descriptor)
        })
        .collect()
}

/// The whole names; a `select` has one for each value that the field may have.
fn urns(name: &str, field: &Value) -> Vec<String> {
    if name.starts_with("urn:") {
        return vec![name.to_owned()];
    }
    if name != "select" {
        return vec![format!("{CONSOLE}{name}")];
    }
    let values = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    values.map(|value| format!("{CONSOLE}select:{value}")).collect()
}

/// `layout.demandDriven` is `Layout: demand driven`.
fn display_name(path: &str) -> String {
    let words = |key: &str| {
        if key == "gpus" {
            return "GPUs".to_owned();
        }
        key.chars().fold(String::new(), |mut text, letter| {
            if letter.is_uppercase() {
                text.push(' ');
            }
            text.extend(letter.to_lowercase());
            text
        })
    };
    let text = path.split('.').map(words).collect::<Vec<_>>().join(": ");
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_its_name_and_its_first_sentence() {
        let schema = json!({"properties": {
            "mode": {"description": "Whether it changes nodes. More is in the guide.", "enum": ["Off", "Preview"]},
            "layout": {"description": "What.", "properties": {"demandDriven": {"description": "By demand."}}},
        }});
        let shown = BTreeMap::from([
            ("mode".to_owned(), vec!["select".to_owned()]),
            ("layout.demandDriven".to_owned(), Vec::new()),
        ]);
        assert_eq!(
            descriptors("Policy", "spec", &schema, &shown).unwrap(),
            [
                json!({"path": "layout", "displayName": "Layout", "description": "What."}),
                json!({
                    "path": "layout.demandDriven",
                    "displayName": "Layout: demand driven",
                    "description": "By demand.",
                }),
                json!({
                    "path": "mode", "displayName": "Mode", "description": "Whether it changes nodes.",
                    "x-descriptors": [
                        "urn:alm:descriptor:com.tectonic.ui:select:Off",
                        "urn:alm:descriptor:com.tectonic.ui:select:Preview",
                    ],
                }),
            ]
        );
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let shown = BTreeMap::from([("gone.away".to_owned(), Vec::new())]);
        let error = descriptors("Policy", "spec", &json!({}), &shown).unwrap_err();
        assert!(error.to_string().contains("Policy has no field spec.gone.away"), "{error}");
    }
}
