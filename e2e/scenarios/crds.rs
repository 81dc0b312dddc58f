//! The API server accepts our CRDs and those of others, and refuses what their rules exclude.

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

/// A value that a rule must refuse, and one that it must accept.
#[derive(serde::Deserialize)]
struct Case {
    of: String,
    at: String,
    refuses: Value,
    accepts: Value,
}

/// The table that the rules are tried with in Rust too.
fn cases() -> anyhow::Result<Vec<Case>> {
    Ok(serde_saphyr::from_str(include_str!("../../crates/api/tests/rules.yaml"))?)
}

/// What the API server says to an object with this value in it. Statuses are
/// written to the object that is there; anything else is a dry run.
async fn tried(client: &kube::Client, case: &Case, value: &Value) -> anyhow::Result<kube::Result<()>> {
    let mut object = if case.of == "policy" { right() } else { right_node() };
    let (parent, field) = case.at.rsplit_once('/').unwrap_or_default();
    object.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}"))[field] = value.clone();
    let (api, _) = objects::api_of(client, &object).await?;
    if case.at == "/status" {
        let patch = Patch::Apply(&object);
        return Ok(api.patch_status("n1", &PatchParams::apply("e2e"), &patch).await.map(drop));
    }
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    object["metadata"]["name"] = json!("tried");
    Ok(api.create(&dry, &serde_json::from_value(object)?).await.map(drop))
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
        for case in cases()? {
            let Case { at, refuses, accepts, .. } = &case;
            let Err(error) = tried(&scene.client(), &case, refuses).await? else {
                panic!("{at}: {refuses} is accepted")
            };
            let said = error.to_string();
            assert!(
                rules.iter().any(|rule| said.contains(rule)),
                "{at}: {refuses} is refused otherwise: {said}"
            );
            untried.retain(|rule| !said.contains(rule.as_str()));
            if let Err(error) = tried(&scene.client(), &case, accepts).await? {
                panic!("{at}: {accepts} is refused: {error}");
            }
        }
        assert!(untried.is_empty(), "nothing tried these rules: {untried:#?}");
        Ok(())
    });
}
