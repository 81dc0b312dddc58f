//! What `kubectl explain --recursive` shows of our kinds, with every rule, kept
//! for review: an API is read by people before it is used.

use serde_json::Value;

/// One line for each field, indented as the fields are, with its type, what is
/// required of it, its default and its bounds; then its description, and what
/// its rules say to those who break them.
fn explain(name: &str, schema: &Value, required: bool, depth: usize, text: &mut String) {
    let pad = "  ".repeat(depth);
    let items = schema.get("items");
    let values = schema.get("additionalProperties").filter(|values| values.is_object());
    let of = |schema: &Value| schema["type"].as_str().unwrap_or("integer or string").to_owned();
    let kind = match (items, values) {
        (Some(items), _) => format!("[]{}", of(items)),
        (None, Some(values)) => format!("map of {}", of(values)),
        (None, None) => of(schema),
    };
    let mut marks = Vec::new();
    if required {
        marks.push("required".to_owned());
    }
    for (keyword, word) in [
        ("default", "default"),
        ("enum", "one of"),
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "at least this long"),
        ("maxLength", "at most this long"),
        ("minItems", "at least so many"),
        ("maxItems", "at most so many"),
        ("maxProperties", "at most so many"),
        ("pattern", "matches"),
        ("format", "format"),
        ("x-kubernetes-list-type", "merged as a"),
        ("x-kubernetes-list-map-keys", "by"),
    ] {
        if let Some(value) = schema.get(keyword) {
            marks.push(format!("{word} {value}"));
        }
    }
    let marks = if marks.is_empty() { String::new() } else { format!("  ({})", marks.join(", ")) };
    text.push_str(&format!("{pad}{name} <{kind}>{marks}\n"));
    for line in schema["description"].as_str().unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        text.push_str(&format!("{pad}    {line}\n"));
    }
    let inner = items.or(values).unwrap_or(schema);
    for schema in if std::ptr::eq(inner, schema) { vec![schema] } else { vec![schema, inner] } {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            text.push_str(&format!("{pad}    ! {}\n", rule["message"].as_str().unwrap_or_default()));
        }
    }
    let must = |field: &str| inner["required"].as_array().is_some_and(|all| all.iter().any(|f| f == field));
    for (field, schema) in inner["properties"].as_object().into_iter().flatten() {
        explain(field, schema, must(field), depth + 1, text);
    }
}

fn shown(crd: &Value) -> String {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let mut text = format!(
        "{} {}/{}, {}\nshort names {}, categories {}\n",
        names["kind"].as_str().unwrap_or_default(),
        crd["spec"]["group"].as_str().unwrap_or_default(),
        version["name"].as_str().unwrap_or_default(),
        crd["spec"]["scope"].as_str().unwrap_or_default(),
        names["shortNames"],
        names["categories"],
    );
    for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
        let wide = if column["priority"].as_i64().unwrap_or(0) > 0 { ", wide only" } else { "" };
        let (name, path) = (column["name"].as_str(), column["jsonPath"].as_str());
        text.push_str(&format!("column {}: {}{wide}\n", name.unwrap_or_default(), path.unwrap_or_default()));
    }
    for field in ["spec", "status"] {
        explain(field, &api::crd::schema(crd)["properties"][field], field == "spec", 0, &mut text);
    }
    text
}

#[test]
fn a_policy_reads_well() {
    insta::assert_snapshot!("explain-gpupartitionpolicy", shown(&api::crd::gpu_partition_policies()));
}

#[test]
fn a_gpu_node_reads_well() {
    insta::assert_snapshot!("explain-gpunode", shown(&api::crd::gpu_nodes()));
}
