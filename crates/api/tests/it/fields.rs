//! `docs/reference/fields.md`: every field of our kinds with its type, default, bounds and meaning, and an
//! example that the schema accepts; of a policy's spec, one that an API server has accepted.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Manifests from which the examples of policies are taken; scenarios apply the first. The last has a status.
const POLICIES: [&str; 5] = [
    include_str!("../../../../e2e/scenarios/everything.yaml"),
    include_str!("../../../../examples/fields/static.yaml"),
    include_str!("../../../../examples/fields/demand.yaml"),
    include_str!("../../../../examples/fields/sharing.yaml"),
    include_str!("../fields/policy.yaml"),
];

/// A node in the middle of much, since nobody writes one.
const NODES: [&str; 1] = [include_str!("../fields/node.yaml")];

fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fields.md")
}

/// What can be in a field, in one word or two.
fn kind(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    let word = match schema["type"].as_str().unwrap_or("any") {
        "string" if schema["format"] == "date-time" => "time",
        "string" => "text",
        "integer" | "number" => "number",
        "boolean" => "true or false",
        "array" => return format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            return format!("map to {}", kind(&schema["additionalProperties"]));
        }
        "object" => "object",
        other => other,
    };
    word.to_owned()
}

/// What is allowed, beyond the type.
fn bounds(schema: &Value) -> String {
    let mut bounds = Vec::new();
    if let Some(values) = schema["enum"].as_array() {
        bounds.push(values.iter().map(code).collect::<Vec<_>>().join(", "));
    }
    let number = |key: &str| schema[key].as_f64().map(|number| format!("{number}"));
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => bounds.push(format!("{least} to {most}")),
        (Some(least), None) => bounds.push(format!("at least {least}")),
        (None, Some(most)) => bounds.push(format!("at most {most}")),
        (None, None) => {}
    }
    for (least, most, what) in [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "entries"),
        ("minProperties", "maxProperties", "entries"),
    ] {
        match (number(least).filter(|n| n != "0"), number(most)) {
            (Some(least), Some(most)) => bounds.push(format!("{least} to {most} {what}")),
            (Some(least), None) => bounds.push(format!("at least {least} {what}")),
            (None, Some(most)) => bounds.push(format!("at most {most} {what}")),
            (None, None) => {}
        }
    }
    bounds.extend(rules(schema));
    bounds.join("; ")
}

/// The sentences with which the API server refuses.
fn rules(schema: &Value) -> Vec<String> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules.filter_map(|rule| rule["message"].as_str()).map(str::to_owned).collect()
}

fn code(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Whether what stands in the field is fields of ours, which have rows of their own.
fn has_fields_below(schema: &Value) -> bool {
    match schema["type"].as_str() {
        Some("array") => schema["items"]["properties"].is_object(),
        // The selectors of Kubernetes are described where they are, and what the operator keeps for itself nowhere.
        _ => schema["properties"].is_object(),
    }
}

/// The first value at this path in these examples.
fn example(examples: &[&str], path: &[String]) -> Option<Value> {
    fn find(value: &Value, path: &[String]) -> Option<Value> {
        let Some((name, rest)) = path.split_first() else { return Some(value.clone()) };
        match value {
            Value::Array(items) => items.iter().find_map(|item| find(item, path)),
            Value::Null => None,
            _ => find(value.get(name)?, rest),
        }
    }
    examples.iter().find_map(|text| {
        let manifest: Value = serde_saphyr::from_str(text).expect("an example is YAML");
        find(&manifest, path)
    })
}

/// One line in a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// The rows of an object's fields, those below it included.
fn rows(path: &[String], schema: &Value, examples: &[&str], page: &mut String) {
    let inner = |schema: &Value| -> Value {
        let mut schema = schema.clone();
        loop {
            let next = ["items", "additionalProperties"].iter().find(|key| schema[**key].is_object());
            let Some(next) = next else { return schema };
            schema = schema[*next].clone();
        }
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path: Vec<String> = path.iter().chain([name]).cloned().collect();
        let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
        let default = match (required, field.get("default")) {
            (_, Some(default)) => code(default),
            (true, None) => "required".to_owned(),
            (false, None) => String::new(),
        };
        let meaning = cell(field["description"].as_str().unwrap_or_default());
        let _ = write!(
            page,
            "| `{}` | {} | {} | {} | {meaning} |",
            path.join("."),
            kind(field),
            cell(&default),
            cell(&bounds(field))
        );
        // What stands below is shown there.
        let leaf = example(examples, &path).filter(|_| !has_fields_below(field));
        let _ = writeln!(page, " {} |", leaf.map(|value| cell(&code(&value))).unwrap_or_default());
        let below = inner(field);
        // Selectors are those of Kubernetes, and are described where they are.
        if below["properties"].is_object() {
            rows(&path, &below, examples, page);
        }
    }
}

fn page() -> String {
    let mut page = "# Every field\n\n<!-- Generated from the CRDs: cargo xtask codegen. -->\n\nWhat `kubectl explain --recursive` says, on one page. The sentences under \"allowed\" are those with which the API server\nrefuses. Examples of a policy's spec are of a manifest that a scenario applies, and of those in `examples/fields`. What the operator\nand the agents write is shown by one node and one policy of which much is to be told.\n".to_owned();
    for (file, _) in api::crds() {
        let crd = if file.contains("gpunodes") {
            api::crd::gpu_nodes()
        } else {
            api::crd::gpu_partition_policies()
        };
        let version = &crd["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        let kind = crd["spec"]["names"]["kind"].as_str().expect("a kind");
        let short = crd["spec"]["names"]["shortNames"][0].as_str();
        let _ = write!(page, "\n## {kind}\n\n{}\n", schema["description"].as_str().unwrap_or_default());
        let _ = writeln!(
            page,
            "\n`apiVersion: {}/{}`{}.",
            crd["spec"]["group"].as_str().expect("a group"),
            version["name"].as_str().expect("a version"),
            short.map(|short| format!("; `kubectl get {short}`")).unwrap_or_default()
        );
        for part in ["spec", "status"] {
            let schema = &schema["properties"][part];
            if !schema["properties"].is_object() {
                continue;
            }
            let said = schema["description"].as_str().unwrap_or_default();
            let examples: &[&str] = if kind == "GpuNode" { &NODES } else { &POLICIES };
            let _ = write!(page, "\n### {part} of {kind}\n\n{said}\n");
            let rules = rules(schema);
            for rule in &rules {
                let _ = write!(page, "\n- {rule}");
            }
            if !rules.is_empty() {
                page.push('\n');
            }
            let _ = write!(
                page,
                "\n| field | type | default | allowed | meaning | example |\n|---|---|---|---|---|---|\n"
            );
            rows(&[part.to_owned()], schema, examples, &mut page);
        }
    }
    page.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn the_page_of_every_field_is_up_to_date() {
    let page = page();
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(page_file(), &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(page_file()).unwrap_or_default();
    assert!(found == page, "docs/reference/fields.md is not up to date: run cargo xtask codegen");
}

/// Whoever adds a field adds an example of it.
#[test]
fn every_field_has_an_example() {
    fn lacking(path: &[String], schema: &Value, examples: &[&str], found: &mut Vec<String>) -> usize {
        let mut many = 0;
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path: Vec<String> = path.iter().chain([name]).cloned().collect();
            many += 1;
            let inner = if field["type"] == "array" { &field["items"] } else { field };
            if has_fields_below(field) {
                many += lacking(&path, inner, examples, found);
            } else if example(examples, &path).is_none() {
                found.push(path.join("."));
            }
        }
        many
    }
    for (crd, examples, least) in
        [(api::crd::gpu_nodes(), &NODES[..], 100), (api::crd::gpu_partition_policies(), &POLICIES[..], 100)]
    {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let (mut found, mut many) = (Vec::new(), 0);
        for part in ["spec", "status"] {
            many += lacking(&[part.to_owned()], &schema["properties"][part], examples, &mut found);
        }
        assert!(many > least, "{many}");
        assert!(found.is_empty(), "{}: no example of {found:?}", crd["spec"]["names"]["kind"]);
    }
}

#[test]
fn the_examples_are_what_the_schema_takes_to_the_last_field() {
    let read = |text: &str| api::located::documents(text).remove(0).expect("an example is YAML");
    for text in POLICIES {
        api::strict::policy(&read(text)).unwrap_or_else(|refused| panic!("{:?}", refused.findings));
    }
    for text in NODES {
        let node = api::strict::gpu_node(&read(text));
        let node = node.unwrap_or_else(|refused| panic!("{:?}", refused.findings));
        // What the agent said is what the operator reads: a schema takes more than that.
        let account = api::node_agent::account(&node.status.expect("it has a status"));
        assert!(account.expect("the account of an agent").is_some());
        api::node_agent::wish(&node.spec.change.expect("it has a change"))
            .expect("a change that the agent reads");
    }
}
