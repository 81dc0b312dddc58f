//! Our own kinds, read strictly.

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::located::{Located, Node};
use crate::schema::{Finding, check, check_field};
use crate::{API_VERSION, GROUP, GpuNode, GpuPartitionPolicy, crd, syntax};

static POLICY: LazyLock<Value> = LazyLock::new(|| crd::schema(&crd::gpu_partition_policies()).clone());
static GPU_NODE: LazyLock<Value> = LazyLock::new(|| crd::schema(&crd::gpu_nodes()).clone());

/// What the API server takes in `metadata`, of this and of earlier releases. A
/// schema of a kind says nothing of it.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string", "nullable": true});
    let number = json!({"type": "integer", "nullable": true});
    let texts = json!({"type": "object", "nullable": true, "additionalProperties": {"type": "string"}});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let list = |items: Value| json!({"type": "array", "nullable": true, "items": items});
    json!({"type": "object", "nullable": true, "properties": {
        "annotations": texts, "labels": texts,
        "name": text, "namespace": text, "generateName": text, "selfLink": text, "uid": text,
        "resourceVersion": text, "creationTimestamp": text, "deletionTimestamp": text, "clusterName": text,
        "generation": number, "deletionGracePeriodSeconds": number,
        "finalizers": list(json!({"type": "string"})),
        "ownerReferences": list(any.clone()), "managedFields": list(any),
    }})
});

/// An object that cannot be used as it is written.
#[derive(Clone, Debug)]
pub struct Refused<T> {
    /// Every field that is unknown, missing, or of a wrong type or size.
    pub findings: Vec<Finding>,
    /// What it says, as far as it can be read all the same: a number beyond its
    /// bound is one. What else is wrong with it can then be said at once.
    pub read: Option<Box<T>>,
}

/// Reads a policy.
///
/// # Errors
/// Every field that is unknown, missing, or of a wrong type or size. Whether
/// the values make sense together is judged later.
pub fn policy(document: &Located) -> Result<GpuPartitionPolicy, Refused<GpuPartitionPolicy>> {
    read(document, &POLICY)
}

/// Reads a `GpuNode`.
///
/// # Errors
/// As for [`policy`].
pub fn gpu_node(document: &Located) -> Result<GpuNode, Refused<GpuNode>> {
    read(document, &GPU_NODE)
}

fn read<T: DeserializeOwned>(document: &Located, schema: &Value) -> Result<T, Refused<T>> {
    let mut findings = Vec::new();
    let version = document.get("apiVersion").and_then(Located::as_str).unwrap_or_default();
    if version != API_VERSION && version.split('/').next() == Some(GROUP) {
        findings.push(Finding {
            path: "apiVersion".to_owned(),
            place: Some(document.place_of("apiVersion")),
            message: format!("is `{version}`; this version of slicewright knows `{API_VERSION}`"),
        });
    }
    let name = document.get("metadata").and_then(|metadata| metadata.get("name"));
    let is_text = |name: &&Located| matches!(name.node, Node::Scalar(Value::String(_) | Value::Null));
    let unnamed = match name.filter(is_text).and_then(Located::as_str) {
        // What it is instead of a text is said below.
        None if name.is_some_and(|name| !is_text(&name)) => None,
        None | Some("") => Some("is missing; a name is needed".to_owned()),
        Some(name) if !syntax::is_name(name) => {
            Some(format!("`{name}` is not a name that the API server takes: write {}", syntax::NAME))
        }
        Some(_) => None,
    };
    findings.extend(unnamed.map(|message| Finding {
        path: "metadata.name".to_owned(),
        place: Some(document.place_of("metadata.name")),
        message,
    }));
    let metadata = document.get("metadata").map(|metadata| check_field("metadata", metadata, &METADATA));
    findings.extend(metadata.into_iter().flatten());
    findings.extend(check(document, schema));
    findings.sort_by_key(|finding| finding.place);
    let read = serde_json::from_value(document.to_value());
    if !findings.is_empty() {
        // What is misspelt is missing elsewhere: then nobody knows what was meant.
        let is_plain = findings.iter().all(|finding| knows(schema, &finding.path));
        return Err(Refused { findings, read: read.ok().filter(|_| is_plain).map(Box::new) });
    }
    read.map_err(|error| {
        // The schema admits what serde does not only in fields that are not
        // of the schema, such as `metadata`.
        let message = error.to_string();
        let finding = Finding { path: String::new(), place: Some(document.place), message };
        Refused { findings: vec![finding], read: None }
    })
}

/// Whether a field, such as `spec.sharing.rules[0].replicas`, is one of the schema.
fn knows(schema: &Value, path: &str) -> bool {
    let mut of = schema;
    for part in path.split('.') {
        let name = part.split('[').next().unwrap_or(part);
        let fields = [&of["properties"][name], &of["additionalProperties"]];
        let Some(found) = fields.into_iter().find(|field| field.is_object()) else { return false };
        of = if part.ends_with(']') { &found["items"] } else { found };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::located::documents;

    const HEAD: &str =
        "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {name: research}\n";

    /// Reads `HEAD` and `spec`, and compares what is found, line by line.
    #[track_caller]
    fn check(spec: &str, expect: &[&str]) {
        let text = format!("{HEAD}{spec}");
        let document = documents(&text).remove(0).expect("well formed");
        let found = match policy(&document) {
            Ok(_) => Vec::new(),
            Err(refused) => refused.findings.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn the_smallest_policy_has_all_defaults() {
        let text = format!(
            "{HEAD}spec:\n  nodeSelector: {{matchLabels: {{pool: research}}}}\n  layout: {{type: DemandDriven}}\n"
        );
        let policy = policy(&documents(&text).remove(0).expect("well formed")).expect("right");
        assert_eq!(policy.spec.mode, crate::policy::Mode::Enforce);
        assert_eq!(policy.spec.rollout, crate::policy::Rollout::default());
    }

    #[test]
    fn a_name_that_the_api_server_refuses_is_refused_here_too() {
        let text = format!(
            "{}spec:\n  nodeSelector: {{matchLabels: {{a: b}}}}\n  layout: {{type: DemandDriven}}\n",
            HEAD.replace("research", "Research_1")
        );
        let refused = policy(&documents(&text).remove(0).expect("well formed")).expect_err("not a name");
        let found: Vec<_> = refused.findings.iter().map(ToString::to_string).collect();
        let says = format!(
            "3:18: metadata.name: `Research_1` is not a name that the API server takes: write {}",
            syntax::NAME
        );
        assert_eq!(found, [says]);
    }

    #[test]
    fn a_misspelt_field_gets_its_place_and_the_right_name() {
        check(
            "spec:\n  nodeSelector: {matchLabels: {a: b}}\n  layout:\n    type: DemandDriven\n    demandDriven:\n      slices:\n        - profile: 1g.10gb\n          minCuont: 4\n",
            &[
                "11:11: spec.layout.demandDriven.slices[0].minCuont: unknown field; did you mean `minCount`? Allowed here: maxCount, minCount, profile, spareCount",
            ],
        );
    }

    /// What is found in a policy with this `metadata`.
    fn of_metadata(metadata: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata:\n{metadata}spec: {{nodeSelector: {{matchLabels: {{a: b}}}}, layout: {{type: None}}}}\n"
        );
        match policy(&documents(&text).remove(0).expect("well formed")) {
            Ok(_) => Vec::new(),
            Err(refused) => refused.findings.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn what_is_misspelt_in_metadata_is_no_less_an_error() {
        let allowed = "Allowed here: annotations, clusterName, creationTimestamp, deletionGracePeriodSeconds, deletionTimestamp, finalizers, generateName, generation, labels, managedFields, name, namespace, ownerReferences, resourceVersion, selfLink, uid";
        assert_eq!(
            of_metadata("  name: a\n  lables: {a: b}\n  annotation: {c: d}\n  team: x\n"),
            [
                format!("5:3: metadata.lables: unknown field; did you mean `labels`? {allowed}"),
                format!("6:3: metadata.annotation: unknown field; did you mean `annotations`? {allowed}"),
                format!("7:3: metadata.team: unknown field. {allowed}"),
            ]
        );
        assert_eq!(
            of_metadata("  name: 7\n  labels: {a: 1}\n  annotations: [x]\n"),
            [
                "4:9: metadata.name: is the number 7; a text is needed: write \"7\", with quotes",
                "5:15: metadata.labels.a: is the number 1; a text is needed: write \"1\", with quotes",
                "6:16: metadata.annotations: is a list; a map is needed",
            ]
        );
    }

    #[test]
    fn what_the_api_server_writes_into_metadata_is_read() {
        let written = "  name: a\n  namespace: \"\"\n  generateName: a-\n  uid: 0-1\n  resourceVersion: \"12\"\n  generation: 3\n  creationTimestamp: null\n  deletionTimestamp: 2026-11-20T08:00:00Z\n  deletionGracePeriodSeconds: 0\n  selfLink: /x\n  labels: {a: b}\n  annotations:\n  finalizers: [x/y]\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: \"1\", controller: true}]\n  managedFields:\n    - {manager: kubectl, operation: Apply, apiVersion: slicewright.io/v1alpha1, time: 2026-11-20T08:00:00Z, fieldsType: FieldsV1, fieldsV1: {\"f:spec\": {}}}\n";
        assert_eq!(of_metadata(written), [""; 0]);
    }

    #[test]
    fn an_unknown_field_lists_what_is_allowed() {
        check(
            "spec:\n  nodeSelector: {matchLabels: {a: b}}\n  layout: {type: DemandDriven}\n  replicas: 3\n",
            &[
                "7:3: spec.replicas: unknown field. Allowed here: layout, mode, nodeSelector, priority, rollout, sharing",
            ],
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        check(
            "spec:\n  mode: Preview\n",
            &[
                "5:3: spec.layout: is missing; a map is needed",
                "5:3: spec.nodeSelector: is missing; a map is needed",
            ],
        );
    }

    /// YAML reads `Off` as false. With quotes, neither would be one of the words.
    #[test]
    fn a_boolean_in_place_of_one_of_a_few_words_is_not_to_be_quoted() {
        check(
            "spec:\n  nodeSelector: {matchLabels: {a: b}}\n  layout:\n    type: Static\n    static:\n      gpus:\n        - {mig: Off}\n",
            &["10:17: spec.layout.static.gpus[0].mig: is false; one of Disabled is needed"],
        );
    }

    #[test]
    fn a_wrong_type_a_wrong_word_and_a_wrong_number_say_what_is_needed() {
        check(
            "spec:\n  nodeSelector: {matchLabels: {a: 1}}\n  mode: enforce\n  layout:\n    type: Static\n    static:\n      gpus:\n        - slices:\n            - {profile: 1g.10gb, count: 17}\n            - {profile: 1g.10gb, count: seven}\n",
            &[
                "5:35: spec.nodeSelector.matchLabels.a: is the number 1; a text is needed: write \"1\", with quotes",
                "6:9: spec.mode: is `enforce`; did you mean `Enforce`? Allowed: Enforce, Preview, Paused",
                "12:41: spec.layout.static.gpus[0].slices[0].count: is 17; 1 to 16 are allowed",
                "13:15: spec.layout.static.gpus[0].slices[1]: profile `1g.10gb` is already in spec.layout.static.gpus[0].slices[0]; each may be listed only once: combine the two entries",
                "13:41: spec.layout.static.gpus[0].slices[1].count: is the text `seven`; a whole number is needed",
            ],
        );
    }

    /// In quotes it would be refused again.
    #[test]
    fn a_duration_without_its_unit_says_what_a_duration_is() {
        check(
            "spec:\n  nodeSelector: {matchLabels: {a: b}}\n  layout: {type: None}\n  rollout:\n    cooldown: 30\n    windows: [{schedule: \"0 1 * * *\", duration: 6}]\n",
            &[
                "8:15: spec.rollout.cooldown: is the number 30; cooldown is a duration of hours, minutes and seconds up to 168h, such as 10m or 1h30m",
                "9:49: spec.rollout.windows[0].duration: is the number 6; duration is a duration of hours, minutes and seconds from 1m up to 168h, such as 6h or 1h30m",
            ],
        );
    }

    #[test]
    fn another_version_of_our_group_is_refused() {
        let text = "apiVersion: slicewright.io/v1\nkind: GpuPartitionPolicy\nmetadata: {}\nspec: {nodeSelector: {}, layout: {type: Static}}\n";
        let document = documents(text).remove(0).expect("well formed");
        let found: Vec<_> =
            policy(&document).expect_err("wrong").findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "1:13: apiVersion: is `slicewright.io/v1`; this version of slicewright knows `slicewright.io/v1alpha1`",
                "3:11: metadata.name: is missing; a name is needed",
            ]
        );
    }

    #[test]
    fn a_number_beyond_its_bound_can_be_read_all_the_same_and_what_is_misspelt_cannot() {
        let read = |spec: &str| {
            let text = format!(
                "{HEAD}spec:\n  nodeSelector: {{matchLabels: {{a: b}}}}\n  layout: {{type: None}}\n{spec}"
            );
            let refused = policy(&documents(&text).remove(0).expect("well formed")).expect_err("refused");
            (refused.findings.len(), refused.read.is_some())
        };
        assert_eq!(read("  priority: 2000000000\n"), (1, true));
        assert_eq!(read("  priority: 2000000000\n  sharng: {type: None}\n"), (2, false));
        assert_eq!(read("  priority: many\n"), (1, false));
    }
}
