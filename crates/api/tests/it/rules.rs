//! The rules of our CRDs, evaluated in Rust: each refuses invalid input with its own message and accepts
//! similar valid input. The API server gets the same table.

use std::collections::BTreeSet;

use kube_cel::Validator;
use kube_cel::cel::{self, Context, Program};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    of: String,
    at: String,
    refuses: Value,
    accepts: Value,
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("../rules.yaml")).expect("the table can be read")
}

/// An object that nothing is wrong with, and the schema of its kind.
fn right(of: &str) -> (Value, Value) {
    let (kind, crd, spec) = match of {
        "policy" => (
            "GpuPartitionPolicy",
            api::crd::gpu_partition_policies(),
            json!({
                "nodeSelector": {"matchLabels": {"slicewright.io/pool": "research"}},
                "layout": {"type": "DemandDriven"},
            }),
        ),
        "node" => ("GpuNode", api::crd::gpu_nodes(), json!({})),
        other => panic!("there is no `{other}`"),
    };
    let object =
        json!({"apiVersion": api::API_VERSION, "kind": kind, "metadata": {"name": "right"}, "spec": spec});
    (object, api::crd::schema(&crd).clone())
}

/// What the rules say of an object with another value somewhere; defaults are
/// filled in before, as the API server does it.
fn said(of: &str, at: &str, value: &Value) -> Vec<String> {
    let (mut object, schema) = right(of);
    let (parent, field) = at.rsplit_once('/').expect("a path");
    object.pointer_mut(parent).expect("it is there")[field] = value.clone();
    let mut said: Vec<String> = match Validator::new().validate(&schema, &object, None) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.as_slice().iter().map(|error| error.message.clone()).collect(),
    };
    said.retain(|message| !message.starts_with("rule references 'type'"));
    by_type(&schema, &kube_cel::apply_defaults(&schema, &object), &mut said);
    said
}

/// The rules that ask for the type of a value, which the validator cannot do;
/// the interpreter below it can be taught.
fn by_type(schema: &Value, value: &Value, said: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = rule["rule"].as_str().expect("a rule");
        if !text.contains("type(self)") {
            continue;
        }
        let mut context = Context::default();
        context.add_function("type", |value: cel::Value| value.type_of().to_string());
        context.add_variable_from_value("int", "int".to_owned());
        match value {
            Value::Number(n) => context.add_variable_from_value("self", n.as_i64().expect("an integer")),
            other => context.add_variable_from_value("self", other.as_str().expect("a text").to_owned()),
        }
        let program = Program::compile(text).expect("a rule can be read");
        match program.execute(&context).expect("a rule can be evaluated") {
            cel::Value::Bool(true) => {}
            cel::Value::Bool(false) => said.push(rule["message"].as_str().expect("a message").to_owned()),
            other => panic!("{text} gives {other:?}"),
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            by_type(field, value, said);
        }
    }
}

/// The messages of all rules in a schema.
fn messages(schema: &Value, into: &mut BTreeSet<String>) {
    if let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) {
        into.extend(rules.iter().map(|rule| rule["message"].as_str().unwrap_or_default().to_owned()));
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| messages(field, into)),
        Value::Array(items) => items.iter().for_each(|item| messages(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn all_messages() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for of in ["policy", "node"] {
        messages(&right(of).1, &mut rules);
    }
    rules
}

#[test]
fn every_rule_refuses_what_is_wrong_in_its_own_words() {
    let rules = all_messages();
    let mut untried = rules.clone();
    for Case { of, at, refuses, .. } in cases() {
        let said = said(&of, &at, &refuses);
        assert!(!said.is_empty(), "{at}: {refuses} is accepted");
        assert!(said.iter().all(|text| rules.contains(text)), "{at}: {refuses}: {said:?}");
        untried.retain(|rule| !said.contains(rule));
    }
    assert!(untried.is_empty(), "nothing tried these rules: {untried:#?}");
}

#[test]
fn what_stands_beside_it_is_accepted() {
    for Case { of, at, accepts, .. } in cases() {
        assert_eq!(said(&of, &at, &accepts), [""; 0], "{at}: {accepts}");
    }
}

#[test]
fn every_message_says_what_to_write_instead() {
    for message in all_messages() {
        let helps = ["such as", "remove", "write", "lower", "from 1", "leave"];
        assert!(helps.iter().any(|word| message.contains(word)), "{message}");
    }
}
