//! The API server takes our CRDs, those of others, and refuses what they say
//! is wrong.

use std::collections::BTreeSet;

use api::GpuPartitionPolicy;
use e2e::{objects, scenario};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// A policy that nothing is wrong with.
fn right() -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GpuPartitionPolicy",
        "metadata": {"name": "right"},
        "spec": {
            "nodeSelector": {"matchLabels": {"slicewright.io/pool": "research"}},
            "layout": {"type": "DemandDriven"},
        },
    })
}

/// A GpuNode that nothing is wrong with.
fn right_node() -> Value {
    json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {}})
}

#[test]
fn a_new_policy_reads_as_in_progress_before_anybody_has_looked_at_it() {
    scenario(async |scene| {
        scene.apply(right()).await?;
        let api: Api<GpuPartitionPolicy> = Api::all(scene.client());
        let policy = api.get("right").await?;
        let conditions = policy.status.unwrap_or_default().conditions;
        let shown: Vec<_> =
            conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
        assert_eq!(shown, [("Ready", "Unknown", "Pending")]);
        Ok(())
    });
}

#[test]
fn the_real_crds_of_others_are_accepted_where_they_are_at_hand() {
    scenario(async |scene| {
        for (file, crd) in objects::crds_in(&objects::real_crds())? {
            // Two of them are two releases of one CRD; each has to come fresh.
            let crd = [crd];
            scene.remove_crds(&crd).await?;
            objects::install_crds(&scene.client(), &crd).await.map_err(|e| e.context(file))?;
        }
        Ok(())
    });
}

/// Each rule of our CRDs: where an object is changed to what is wrong, and
/// what the API server must say.
fn wrong() -> Vec<(Value, &'static str, Value)> {
    let layout = "/spec/layout";
    let slices = |bounds: Value| json!({"type": "DemandDriven", "demandDriven": {"slices": [bounds]}});
    let expression = |expression: Value| json!({"matchExpressions": [expression]});
    let gpus = json!([{"slices": [{"profile": "1g.10gb", "count": 7}]}]);
    let rollout = "/spec/rollout";
    let window = |duration: &str| json!({"windows": [{"schedule": "0 22 * * *", "duration": duration}]});
    let policy = [
        ("/spec/nodeSelector", json!({})),
        ("/spec/nodeSelector", expression(json!({"key": "pool", "operator": "In"}))),
        ("/spec/nodeSelector", expression(json!({"key": "pool", "operator": "Exists", "values": ["a"]}))),
        (layout, json!({"type": "DemandDriven", "static": {"gpus": gpus}})),
        (layout, json!({"type": "Static", "static": {"gpus": gpus}, "demandDriven": {}})),
        (layout, json!({"type": "Static"})),
        (layout, slices(json!({"profile": "1g.10gb", "minCount": 5, "maxCount": 4}))),
        (layout, slices(json!({"profile": "1g.10gb", "spareCount": 5, "maxCount": 4}))),
        (rollout, json!({"maxUnavailable": 0})),
        (rollout, json!({"maxUnavailable": "0%"})),
        (rollout, json!({"cooldown": "200h"})),
        (rollout, json!({"cooldown": ""})),
        (rollout, window("0s")),
        (rollout, window("169h")),
    ];
    let slice = json!({"profile": "1g.10gb", "used": "Idle", "by": [{"namespace": "a", "name": "p"}]});
    let gpu = json!({"index": 0, "model": "A100-80GB", "migEnabled": true, "slices": [slice]});
    let observed = json!({"by": "Controller", "at": "2026-01-01T00:00:00Z", "gpus": [gpu]});
    let gpu_node = [("/status", json!({"observed": observed}))];
    let of = |kind: fn() -> Value| move |(at, value)| (kind(), at, value);
    policy.into_iter().map(of(right)).chain(gpu_node.into_iter().map(of(right_node))).collect()
}

/// The messages of all rules in a schema.
fn messages(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
            {
                into.insert(rule["message"].as_str().unwrap_or_default().to_owned());
            }
            fields.values().for_each(|field| messages(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| messages(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_rule_of_our_crds_refuses_what_is_wrong_and_says_what_to_write() {
    scenario(async |scene| {
        let mut rules = BTreeSet::new();
        objects::our_crds().iter().for_each(|crd| messages(crd, &mut rules));
        assert!(rules.len() > 8, "{rules:?}");
        let mut untried = rules.clone();
        for object in [right(), right_node()] {
            scene.apply(object).await?;
        }
        for (right, at, value) in wrong() {
            let mut object = right;
            let (parent, field) = at.rsplit_once('/').unwrap_or_default();
            object.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}"))[field] =
                value.clone();
            let (api, _) = objects::api_of(&scene.client(), &object).await?;
            let name = "n1";
            let answer = match at {
                "/status" => api.patch_status(name, &PatchParams::apply("e2e"), &Patch::Apply(&object)).await,
                _ => {
                    let dry = PostParams { dry_run: true, ..PostParams::default() };
                    object["metadata"]["name"] = json!("wrong");
                    api.create(&dry, &serde_json::from_value(object)?).await
                }
            };
            let Err(error) = answer else { panic!("{at}: {value} is accepted") };
            let said = error.to_string();
            assert!(
                rules.iter().any(|rule| said.contains(rule)),
                "{at}: {value} is refused otherwise: {said}"
            );
            untried.retain(|rule| !said.contains(rule.as_str()));
        }
        assert!(untried.is_empty(), "nothing tried these rules: {untried:#?}");
        Ok(())
    });
}
