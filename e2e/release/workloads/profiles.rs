//! Hardware profiles by OpenShift AI's own webhook, as release 2.25 has it: what it writes is what the stand-in for it
//! writes, and who names a profile, a workbench or a model server, gets its slices.

use anyhow::{Context, ensure};
use api::foreign::HardwareProfile;
use e2e::workload_controllers::Controller;
use e2e::{Fleet, NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use workbenches::profile::{Refused, Workload, of_release, review};

/// Where OpenShift AI keeps its profiles.
const APPLICATIONS: &str = "redhat-ods-applications";

/// The release whose webhook can be had.
const RELEASE: &str = "2.25";

fn profile(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": name, "namespace": APPLICATIONS}, "spec": spec})
}

fn identifier(name: &str, (least, usual, most): (Value, Value, Option<Value>)) -> Value {
    let mut identifier =
        json!({"displayName": name, "identifier": name, "minCount": least, "defaultCount": usual});
    if let Some(most) = most {
        identifier["maxCount"] = most;
    }
    identifier
}

/// A slice, with CPU and memory for it.
fn slice(profile: &str) -> Value {
    let of = |name: &str, count: Value| identifier(name, (count.clone(), count.clone(), Some(count)));
    json!([of("cpu", json!("1")), of("memory", json!("2Gi")), of(&mig(profile), json!(1))])
}

/// Profiles that say different things.
fn profiles() -> Vec<Value> {
    let range = |most: Option<Value>| json!([identifier("cpu", (json!("500m"), json!("1"), most))]);
    let node = json!({"nodeSelector": {"accelerator": "a100"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]});
    let queue = json!({"localQueueName": "gpus", "priorityClass": "None"});
    vec![
        profile("slice", json!({"identifiers": slice("3g.40gb")})),
        profile("limited", json!({"identifiers": range(Some(json!("4")))})),
        profile("unlimited", json!({"identifiers": range(None)})),
        profile(
            "queue",
            json!({"identifiers": slice("1g.10gb"),
            "scheduling": {"type": "Queue", "kueue": queue}}),
        ),
        profile(
            "node",
            json!({"identifiers": slice("1g.10gb"), "scheduling": {"type": "Node", "node": node}}),
        ),
        profile("only-node", json!({"scheduling": {"type": "Node", "node": node}})),
        profile("nothing", json!({})),
    ]
}

fn notebook(profile: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": name, "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": profile,
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": {"template": {"spec": spec}}})
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "registry.example/lab:1"})
}

/// Workbenches of different shapes, without the profile that they name.
fn notebooks(profile: &str) -> Vec<Value> {
    let mut modest = container("modest");
    modest["resources"] = json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "2"}});
    let placed = json!({"containers": [container("placed")], "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "spot", "operator": "Exists"}]});
    let mut unplaced = notebook(profile, "astray", json!({"containers": [container("astray")]}));
    unplaced["metadata"]["annotations"]
        .as_object_mut()
        .expect("it has annotations")
        .remove("opendatahub.io/hardware-profile-namespace");
    let proxied = json!({"containers": [container("proxied"), container("oauth-proxy")]});
    vec![
        notebook(profile, "plain", json!({"containers": [container("plain")]})),
        notebook(profile, "proxied", proxied),
        notebook(profile, "modest", json!({"containers": [modest]})),
        notebook(profile, "placed", placed),
        unplaced,
    ]
}

/// Model servers of different shapes, without the profile that they name.
fn servers(profile: &str) -> Vec<Value> {
    let server = |name: &str, predictor: Value| {
        json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
            "metadata": {"name": name, "namespace": TEAM, "annotations": {
                "opendatahub.io/hardware-profile-name": profile,
                "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
            }},
            "spec": {"predictor": predictor}})
    };
    let format = json!({"name": "example"});
    let modest = json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "2"}});
    vec![
        server("plain", json!({"model": {"modelFormat": format}})),
        server("modest", json!({"model": {"modelFormat": format, "resources": modest}})),
        server(
            "placed",
            json!({"model": {"modelFormat": format}, "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "spot", "operator": "Exists"}]}),
        ),
        server("custom", json!({"containers": [container("kserve-container")]})),
    ]
}

/// What a webhook may write into.
fn written(notebook: &Value) -> Value {
    json!({"labels": notebook["metadata"]["labels"], "annotations": notebook["metadata"]["annotations"],
        "spec": notebook["spec"]})
}

async fn applications(scene: &Scene) -> anyhow::Result<()> {
    scene.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}})).await
}

#[test]
fn the_stand_in_for_the_webhook_of_2_25_writes_and_refuses_what_the_real_one_does() {
    scenario(async |scene| {
        scene.profile_webhook().await?;
        applications(scene).await?;
        let profiles = profiles();
        for profile in &profiles {
            scene.apply(profile.clone()).await?;
        }
        let find = |namespace: &str, name: &str| {
            let found = profiles.iter().find(|profile| {
                profile["metadata"]["namespace"] == namespace && profile["metadata"]["name"] == name
            });
            serde_json::from_value::<HardwareProfile>(found?.clone()).ok()
        };
        let rules = of_release(RELEASE).context("there are rules of that release")?;
        let tried = PostParams { dry_run: true, ..PostParams::default() };
        let names = profiles.iter().filter_map(|profile| profile["metadata"]["name"].as_str());
        for name in names.chain(["missing"]) {
            for asked in notebooks(name).into_iter().chain(servers(name)) {
                let workload = asked["kind"].as_str().and_then(Workload::of_kind);
                let workload = workload.context("it is a kind that names profiles")?;
                let (api, _) = objects::api_of(&scene.client(), &asked).await?;
                let real = api.create(&tried, &serde_json::from_value(asked.clone())?).await;
                let what = format!("{} {} with the profile {name}", asked["kind"], asked["metadata"]["name"]);
                match (real, review(rules, workload, asked, None, find)) {
                    (Ok(real), Ok(played)) => {
                        let real = serde_json::to_value(real)?;
                        assert_eq!(written(&played.object), written(&real), "{what}");
                    }
                    (Err(real), Err(Refused(played))) => {
                        ensure!(real.to_string().contains(&played), "{what}: {played}\n{real}");
                    }
                    (real, played) => anyhow::bail!("{what}: {real:?}\n{played:?}"),
                }
            }
        }
        Ok(())
    });
}

/// A model server that says nothing of what it needs but a profile, and what runs its kind of models.
fn model_server() -> [Value; 2] {
    let runtime = json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime",
        "metadata": {"name": "runs-models", "namespace": TEAM},
        "spec": {"supportedModelFormats": [{"name": "example", "version": "1", "autoSelect": true}],
            "containers": [{"name": "kserve-container", "image": "registry.example/server:1"}]}});
    let server = json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": "served",
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": {"predictor": {"minReplicas": 1, "maxReplicas": 1,
            "model": {"modelFormat": {"name": "example"}, "runtime": "runs-models"}}}});
    [runtime, server]
}

/// Two nodes of eight GPUs, with somebody on five of one.
async fn a_fleet(scene: &mut Scene) -> anyhow::Result<()> {
    let uncut =
        |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
    scene.world(Fleet { nodes: ["n1", "n2"].map(uncut).into(), ..Fleet::default() }).await?;
    scene.apply(pod("holds", &mig("7g.80gb"), 5)).await?;
    scene.runs("holds").await?;
    Ok(())
}

/// How many slices of the simulated GPUs pods have whose name begins so.
fn held_by(scene: &Scene, node: &str, pod: &str) -> anyhow::Result<usize> {
    let truth = scene.simulator().truth(node)?;
    let holders = truth.iter().flat_map(|gpu| &gpu.slices).filter_map(|slice| slice.holder.as_deref());
    let begins = format!("{TEAM}/{pod}");
    Ok(holders.filter(|holder| holder.starts_with(&begins)).count())
}

#[test]
fn who_names_a_profile_gets_its_slices_and_on_2_25_one_for_each_container_of_a_workbench() {
    scenario(async |scene| {
        scene.workload_controller(Controller::KServe).await?;
        scene.profile_webhook().await?;
        applications(scene).await?;
        scene.apply(profile("slice", json!({"identifiers": slice("3g.40gb")}))).await?;
        scene.apply(profile("served", json!({"identifiers": slice("2g.20gb")}))).await?;
        a_fleet(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;

        let proxied = json!({"containers": [container("lab"), container("oauth-proxy")]});
        scene.apply(notebook("slice", "lab", proxied)).await?;
        for object in model_server() {
            scene.apply(object).await?;
        }
        let node = scene.workbench_runs("lab").await?;
        let held = held_by(scene, &node, "lab-0")?;
        ensure!(held == 2, "the workbench and its proxy have a slice each: {held}");
        let predictor = wait::asking("the model server runs", scene.patience(), async || {
            let chosen = ListParams::default().labels("serving.kserve.io/inferenceservice=chat");
            let pods = scene.pods().list(&chosen).await?.items;
            let running = pods.into_iter().find(|pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            });
            Ok(running.and_then(|pod| pod.spec?.node_name).ok_or_else(|| "it does not".to_owned()))
        })
        .await?;
        let held = held_by(scene, &predictor, "chat")?;
        ensure!(held == 1, "the model server has its slice: {held}");
        let stored: Api<DynamicObject> = objects::api_of(&scene.client(), &model_server()[1]).await?.0;
        let asked = &stored.get("chat").await?.data["spec"]["predictor"]["model"]["resources"]["limits"];
        ensure!(asked[mig("2g.20gb")] == "1", "the webhook has written it: {asked}");
        scene.runs("holds").await?;
        scene.converged("research").await
    });
}
