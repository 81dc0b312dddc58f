//! What people can read of others in what the operator writes where they look: events, messages in what waits in queues,
//! hardware profiles.

use std::collections::BTreeSet;

use serde_json::Value;

/// The first namespace of other people that a text names: written as `namespace/name` of an object in it.
pub(crate) fn named_in_text<'a>(
    text: &'a str,
    namespace: &str,
    namespaces: &BTreeSet<String>,
) -> Option<&'a str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-./".contains(c)));
    let mut others = words.filter_map(|word| word.split_once('/').map(|(of, _)| of));
    others.find(|of| *of != namespace && namespaces.contains(*of))
}

/// The first namespace of other people that an object names anywhere: in a key or in a value, alone or before the name of
/// an object. What is offered to everybody names nobody's.
pub(crate) fn named_in_object<'a>(
    object: &'a Value,
    namespace: &str,
    namespaces: &BTreeSet<String>,
) -> Option<&'a str> {
    texts(object).into_iter().find_map(|text| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut words = text.split(|c| !is_name(c));
        words.find(|word| *word != namespace && namespaces.contains(*word))
    })
}

/// Every key and every text of an object.
fn texts(object: &Value) -> Vec<&str> {
    match object {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| std::iter::once(key.as_str()).chain(texts(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespaces() -> BTreeSet<String> {
        ["team-a", "team-b", "redhat-ods-applications"].map(str::to_owned).into()
    }

    #[test]
    fn a_note_may_name_pods_of_its_own_namespace_and_no_others() {
        let note = "3g.40gb is held by team-a/alice-0, which ends";
        assert_eq!(named_in_text(note, "team-a", &namespaces()), None);
        assert_eq!(named_in_text(note, "team-b", &namespaces()), Some("team-a"));
        assert_eq!(named_in_text("0/3 nodes; gpu-1/gpu0", "team-b", &namespaces()), None);
    }

    #[test]
    fn a_hardware_profile_names_no_namespace_of_people_in_any_of_its_fields() {
        let offered = json!({
            "metadata": {"namespace": "redhat-ods-applications", "labels": {"app.kubernetes.io/managed-by": "slicewright"}},
            "spec": {"identifiers": [{"identifier": "nvidia.com/mig-3g.40gb", "defaultCount": 1}]},
        });
        let within = "redhat-ods-applications";
        assert_eq!(named_in_object(&offered, within, &namespaces()), None);
        for (at, told) in [
            ("/metadata/labels", json!({"slicewright.io/for-team-b": "", "team-b": "x"})),
            ("/metadata/namespace", json!("team-b")),
            ("/spec/identifiers", json!([{"displayName": "3g.40gb, as pod team-b/bob-0 has"}])),
        ] {
            let mut leaks = offered.clone();
            *leaks.pointer_mut(at).unwrap() = told;
            assert_eq!(named_in_object(&leaks, within, &namespaces()), Some("team-b"), "{at}");
        }
    }
}
