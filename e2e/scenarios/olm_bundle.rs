//! The API server accepts the content of the OLM bundle: the examples that the console shows to users, and
//! the objects that OLM would create.

use anyhow::Context;
use e2e::{objects, scenario, wait};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use packaging::bundle::read_folder;
use serde_json::{Value, json};

fn manifests() -> anyhow::Result<Vec<Value>> {
    let files = read_folder(&packaging::root().join("olm-bundle"))?;
    let manifests = files.0.iter().filter(|(path, _)| path.starts_with("manifests/"));
    manifests.map(|(_, text)| Ok(serde_saphyr::from_str(text)?)).collect()
}

fn csv() -> anyhow::Result<Value> {
    let csv = manifests()?.into_iter().find(|object| object["kind"] == "ClusterServiceVersion");
    Ok(csv.unwrap_or_default())
}

/// Unknown fields are errors, and nothing is kept.
fn dry() -> PatchParams {
    PatchParams::apply("e2e").force().dry_run().validation_strict()
}

async fn api_of(client: &Client, object: &Value) -> anyhow::Result<(Api<DynamicObject>, String)> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok((objects::api_of(client, object).await?.0, name))
}

#[test]
fn the_examples_of_the_bundle_are_accepted_with_their_statuses() {
    scenario(async |scene| {
        let csv = csv()?;
        let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap_or_default();
        let examples: Vec<Value> = serde_json::from_str(examples)?;
        assert_eq!(examples.len(), 2, "one for each kind");
        for example in examples {
            let (api, name) = api_of(&scene.client(), &example).await?;
            api.patch(&name, &dry(), &Patch::Apply(&example)).await?;
            // A status is judged only when it is written to an object that is there.
            let mut object = example.clone();
            object["status"].take();
            scene.apply(object).await?;
            let judged = api.patch_status(&name, &dry(), &Patch::Apply(&example)).await?;
            assert_eq!(judged.data["status"]["conditions"], example["status"]["conditions"]);

            // And it is judged: what is wrong is refused.
            let mut wrong = example.clone();
            wrong["spec"]["moonlight"] = json!(true);
            let refused = api.patch(&name, &dry(), &Patch::Apply(&wrong)).await.map(drop);
            assert!(refused.is_err_and(|error| error.to_string().contains("moonlight")));
            let mut wrong = example;
            wrong["status"]["moonlight"] = json!(true);
            let refused = api.patch_status(&name, &dry(), &Patch::Apply(&wrong)).await.map(drop);
            assert!(refused.is_err_and(|error| error.to_string().contains("moonlight")));
        }
        Ok(())
    });
}

#[test]
fn every_object_of_the_bundle_is_accepted() {
    scenario(async |scene| {
        let csv = csv()?;
        let mut objects = manifests()?;
        let deployment = &csv["spec"]["install"]["spec"]["deployments"][0];
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": deployment["name"], "labels": deployment["label"]},
            "spec": deployment["spec"],
        }));
        for part in ["permissions", "clusterPermissions"] {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": part.to_lowercase()},
                "rules": csv["spec"]["install"]["spec"][part][0]["rules"],
            }));
        }
        let (mut taken, mut foreign) = (0, Vec::new());
        for mut object in objects {
            let group = object["apiVersion"].as_str().unwrap_or_default().to_owned();
            if group.contains(".coreos.com/") || group.starts_with("console.openshift.io/") {
                foreign.push(object["kind"].as_str().unwrap_or_default().to_owned());
                continue;
            }
            object["metadata"]["namespace"] = json!(scene.operator_namespace());
            let (api, name) = api_of(&scene.client(), &object).await?;
            api.patch(&name, &dry(), &Patch::Apply(&object)).await?;
            taken += 1;
        }
        assert!(taken >= 10, "{taken}");
        // Kinds of others, which this control plane does not have.
        let known = [
            "ClusterServiceVersion",
            "ConsoleCLIDownload",
            "ConsoleQuickStart",
            "ConsoleYAMLSample",
            "PrometheusRule",
            "ServiceMonitor",
        ];
        assert!(foreign.iter().all(|kind| known.contains(&kind.as_str())), "{foreign:?}");
        Ok(())
    });
}

#[test]
fn every_policy_that_the_console_shows_is_accepted() {
    scenario(async |scene| {
        let csv = csv()?;
        let first = csv["metadata"]["annotations"]["operatorframework.io/initialization-resource"].as_str();
        let mut shown: Vec<Value> = vec![serde_json::from_str(first.unwrap_or_default())?];
        for sample in manifests()?.iter().filter(|object| object["kind"] == "ConsoleYAMLSample") {
            shown.push(serde_saphyr::from_str(sample["spec"]["yaml"].as_str().unwrap_or_default())?);
        }
        assert!(shown.len() >= 4, "{shown:?}");
        for policy in shown {
            let (api, name) = api_of(&scene.client(), &policy).await?;
            api.patch(&name, &dry(), &Patch::Apply(&policy)).await?;
        }
        Ok(())
    });
}

/// Whether the operator that OLM installs may do this with hardware profiles in a namespace.
async fn may(client: &Client, verb: &str, namespace: &str) -> anyhow::Result<bool> {
    let question: SubjectAccessReview = serde_json::from_value(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {
            "user": "system:serviceaccount:slicewright-system:slicewright",
            "resourceAttributes": {"group": "infrastructure.opendatahub.io", "resource": "hardwareprofiles",
                "verb": verb, "namespace": namespace},
        },
    }))?;
    let answer =
        Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &question).await?;
    Ok(answer.status.context("an answer has a status")?.allowed)
}

/// The file that docs/guides/olm.md quotes, under its heading on settings.
#[test]
fn with_the_role_of_the_guide_hardware_profiles_may_be_written_in_one_namespace_and_nowhere_else() {
    scenario(async |scene| {
        let applications = "redhat-ods-applications";
        let client = scene.client();
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": applications}}))
            .await?;
        for verb in ["create", "patch", "delete"] {
            assert!(!may(&client, verb, applications).await?, "nobody has granted {verb} yet");
        }
        let file = packaging::root().join("examples/olm/hardware-profiles.yaml");
        for object in std::fs::read_to_string(file)?.split("\n---\n") {
            scene.apply(serde_saphyr::from_str::<Value>(object)?).await?;
        }
        for verb in ["create", "patch", "delete"] {
            // The API server learns of roles by watching them.
            wait::asking("the role is known", wait::PATIENCE, async || {
                let allowed = may(&client, verb, applications).await?;
                Ok(if allowed { Ok(()) } else { Err(format!("{verb} is not allowed")) })
            })
            .await?;
            assert!(!may(&client, verb, e2e::TEAM).await?, "{verb} in the namespace of people");
        }
        assert!(!may(&client, "update", applications).await?, "and nothing else");
        Ok(())
    });
}
