//! Checks a located document against a structural schema: the same schema
//! that the API server gets, with messages that say what to write instead.

use std::fmt;

use serde_json::Value;

use crate::located::{Located, Node, Place};
use crate::spelling::nearest;

/// Something wrong in a document: where, what, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, such as `spec.layout.type`.
    pub path: String,
    /// Where it stands, if the document came from a text.
    pub place: Option<Place>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Finding {}

/// Everything in `document` that `schema` does not allow.
///
/// Patterns and CEL rules are not judged here: the domain validation says the
/// same with better words.
#[must_use]
pub fn check(document: &Located, schema: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    Check { findings: &mut findings }.object("", document, schema, &["apiVersion", "kind", "metadata"]);
    // In the order of the text.
    findings.sort_by_key(|finding| finding.place);
    findings
}

/// Everything in the value of the field `path` that `schema` does not allow.
#[must_use]
pub fn check_field(path: &str, value: &Located, schema: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    Check { findings: &mut findings }.value(path, value, schema);
    findings
}

struct Check<'a> {
    findings: &'a mut Vec<Finding>,
}

impl Check<'_> {
    fn say(&mut self, path: &str, place: Place, message: String) {
        self.findings.push(Finding { path: path.to_owned(), place: Some(place), message });
    }

    fn value(&mut self, path: &str, value: &Located, schema: &Value) {
        if let Node::Scalar(Value::Null) = value.node {
            if schema["nullable"] != true {
                self.say(path, value.place, format!("has no value; {} is needed", needed(schema)));
            }
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            match &value.node {
                Node::Scalar(Value::Number(n)) if n.is_i64() => {}
                Node::Scalar(Value::String(_)) => {}
                _ => self.say(
                    path,
                    value.place,
                    format!("is {}; a whole number or a text is needed", shown(value)),
                ),
            }
            return;
        }
        match (schema["type"].as_str().unwrap_or_default(), &value.node) {
            ("object", Node::Map(_)) => self.object(path, value, schema, &[]),
            ("array", Node::List(items)) => self.list(path, value, items, schema),
            ("string", Node::Scalar(Value::String(text))) => self.text(path, value.place, text, schema),
            ("integer", Node::Scalar(Value::Number(n))) if n.is_i64() => {
                self.number(path, value.place, n.as_i64().unwrap_or_default(), schema);
            }
            ("boolean", Node::Scalar(Value::Bool(_))) => {}
            ("string", Node::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))))
                // As one of a few words it would be refused with quotes, too.
                if schema.get("enum").is_none() =>
            {
                let write = match of_duration(schema) {
                    // With quotes it would still be without its unit.
                    Some(what) => format!("is {}; {what}", shown(value)),
                    None => format!(
                        "is {}; {} is needed: write \"{scalar}\", with quotes",
                        shown(value),
                        needed(schema)
                    ),
                };
                self.say(path, value.place, write);
            }
            _ => self.say(path, value.place, format!("is {}; {} is needed", shown(value), needed(schema))),
        }
    }

    fn object(&mut self, path: &str, value: &Located, schema: &Value, also: &[&str]) {
        let Node::Map(entries) = &value.node else {
            self.say(path, value.place, format!("is {}; a map is needed", shown(value)));
            return;
        };
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        // `false` only says that the properties are all there are.
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            for (key, _, value) in entries {
                self.value(&join(path, key), value, values);
            }
            self.size(
                path,
                value.place,
                entries.len(),
                schema,
                ("minProperties", "maxProperties"),
                "entries",
            );
            return;
        }
        for (key, place, value) in entries {
            if let Some(field) = properties.get(key) {
                self.value(&join(path, key), value, field);
            } else if !also.contains(&key.as_str()) {
                let known = || properties.keys().map(String::as_str).chain(also.iter().copied());
                let meant = match nearest(key, known()) {
                    Some(right) => format!("; did you mean `{right}`?"),
                    None => String::new(),
                };
                let allowed: Vec<_> = known().collect();
                self.say(
                    &join(path, key),
                    *place,
                    format!("unknown field{meant} Allowed here: {}", allowed.join(", "))
                        .replace("field Allowed", "field. Allowed"),
                );
            }
        }
        for field in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(field).is_none() {
                let what = properties.get(field).map(needed).unwrap_or_default();
                self.say(&join(path, field), value.place, format!("is missing; {what} is needed"));
            }
        }
    }

    fn list(&mut self, path: &str, value: &Located, items: &[Located], schema: &Value) {
        self.size(path, value.place, items.len(), schema, ("minItems", "maxItems"), "items");
        for (index, item) in items.iter().enumerate() {
            self.value(&format!("{path}[{index}]"), item, &schema["items"]);
        }
        let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect(),
            Some("set") => Vec::new(),
            _ => return,
        };
        let key_of = |item: &Located| match keys.as_slice() {
            [] => Some(item.to_value().to_string()),
            keys => keys.iter().map(|key| item.get(key).map(|v| v.to_value().to_string())).collect(),
        };
        for (index, item) in items.iter().enumerate() {
            let Some(key) = key_of(item) else { continue };
            if let Some(first) = items[..index].iter().position(|other| key_of(other).as_ref() == Some(&key))
            {
                let what = keys.first().map(|key| format!("{key} ")).unwrap_or_default();
                self.say(
                    &format!("{path}[{index}]"),
                    item.place,
                    format!(
                        "{what}{} is already in {path}[{first}]; each may be listed only once: combine the two entries",
                        key.replace('"', "`")
                    ),
                );
            }
        }
    }

    fn text(&mut self, path: &str, place: Place, text: &str, schema: &Value) {
        if let Some(allowed) = schema["enum"].as_array() {
            let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
            if !allowed.contains(&text) {
                let meant = match nearest(text, allowed.iter().copied()) {
                    Some(right) => format!("; did you mean `{right}`?"),
                    None => ".".to_owned(),
                };
                self.say(path, place, format!("is `{text}`{meant} Allowed: {}", allowed.join(", ")));
            }
        }
        self.size(path, place, text.chars().count(), schema, ("minLength", "maxLength"), "characters");
    }

    fn number(&mut self, path: &str, place: Place, number: i64, schema: &Value) {
        let (low, high) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
        if low.is_some_and(|low| number < low) || high.is_some_and(|high| number > high) {
            let allowed = match (low, high) {
                (Some(low), Some(high)) => format!("{low} to {high} are allowed"),
                (Some(low), None) => format!("{low} or more is allowed"),
                (None, Some(high)) => format!("{high} or less is allowed"),
                (None, None) => return,
            };
            self.say(path, place, format!("is {number}; {allowed}"));
        }
    }

    fn size(
        &mut self,
        path: &str,
        place: Place,
        size: usize,
        schema: &Value,
        (low, high): (&str, &str),
        what: &str,
    ) {
        let size = size as u64;
        if let Some(low) = schema[low].as_u64().filter(|low| size < *low) {
            self.say(path, place, format!("has {size} {what}; at least {low} are needed"));
        }
        if let Some(high) = schema[high].as_u64().filter(|high| size > *high) {
            self.say(path, place, format!("has {size} {what}; at most {high} are allowed"));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// What a duration has to be, in words, if a schema is one of a duration.
fn of_duration(schema: &Value) -> Option<&str> {
    let rules = schema["x-kubernetes-validations"].as_array()?;
    let rule =
        rules.iter().find(|rule| rule["rule"].as_str().is_some_and(|r| r.contains("duration(self)")))?;
    rule["message"].as_str()
}

/// What a schema wants, in words.
fn needed(schema: &Value) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", allowed.join(", "));
    }
    match schema["type"].as_str() {
        Some("object") => "a map",
        Some("array") => "a list",
        Some("string") => "a text",
        Some("integer") => "a whole number",
        Some("boolean") => "true or false",
        _ => "a value",
    }
    .to_owned()
}

/// A value as the reader wrote it, with what it is.
fn shown(value: &Located) -> String {
    match &value.node {
        Node::Map(_) => "a map".to_owned(),
        Node::List(_) => "a list".to_owned(),
        Node::Scalar(Value::String(text)) => format!("the text `{text}`"),
        Node::Scalar(Value::Number(n)) => format!("the number {n}"),
        Node::Scalar(other) => format!("{other}"),
    }
}
