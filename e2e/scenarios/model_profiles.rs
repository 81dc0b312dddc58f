//! Model servers that ask for nothing but a hardware profile: OpenShift AI's webhooks put a slice into them, their pods
//! ask for it, and the operator knows them by the server that a person wrote. The webhooks are stand-ins by the rules of
//! each release; what KServe makes of a server is made here, of the object that the API server stores.

use anyhow::{Context, ensure};
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::injector::{Injector, profile_with};
use crate::menu::APPLICATIONS;

fn server(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": "slice",
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": spec,
    })
}

/// A model server.
fn chat() -> Value {
    let model = json!({"modelFormat": {"name": "onnx"}});
    server("serving.kserve.io/v1beta1", "InferenceService", "chat", json!({"predictor": {"model": model}}))
}

/// A server of a large language model, with a container beside the one that serves.
fn granite() -> Value {
    let container = |name: &str| json!({"name": name, "image": "registry.example/vllm:1"});
    let template = json!({"containers": [container("main"), container("sidecar")]});
    let spec = json!({"model": {"uri": "hf://granite"}, "template": template});
    server("serving.kserve.io/v1alpha1", "LLMInferenceService", "granite", spec)
}

/// What a server's pods run as: the container of the runtime asks for what the model asks for, and a server of a large
/// language model says itself what runs.
fn pod_of(stored: &DynamicObject) -> (Value, Value) {
    let spec = &stored.data["spec"];
    if spec["predictor"].is_object() {
        let container = json!({"name": "kserve-container", "image": "registry.example/server:1",
            "resources": spec["predictor"]["model"]["resources"]});
        (json!({"serving.kserve.io/inferenceservice": stored.name_any()}), json!({"containers": [container]}))
    } else {
        let labels = json!({"app.kubernetes.io/component": "llminferenceservice-workload",
            "app.kubernetes.io/name": stored.name_any()});
        (labels, spec["template"].clone())
    }
}

/// A person writes a server, and KServe makes a Deployment of what is stored. Says the labels of its pods.
async fn serve(scene: &Scene, server: Value) -> anyhow::Result<Value> {
    scene.apply(server.clone()).await?;
    let (api, resource) = objects::api_of(&scene.client(), &server).await?;
    let stored = api.get(server["metadata"]["name"].as_str().context("it has a name")?).await?;
    let (labels, spec) = pod_of(&stored);
    let owner = json!({"apiVersion": resource.api_version, "kind": resource.kind, "name": stored.name_any(),
        "uid": stored.uid(), "controller": true});
    scene
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("{}-serves", stored.name_any()), "namespace": TEAM,
                "ownerReferences": [owner]},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec}},
        }))
        .await?;
    Ok(labels)
}

/// Waits until the only pod with these labels runs.
async fn serves(scene: &Scene, labels: &Value) -> anyhow::Result<()> {
    let labels = labels.as_object().into_iter().flatten();
    let labels: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let chosen = ListParams::default().labels(&labels.join(","));
    wait::asking(&format!("{labels:?} serves"), scene.patience(), async || {
        let found = scene.pods().list(&chosen).await?.items;
        let [pod] = &found[..] else { return Ok(Err(format!("there are {} pods", found.len()))) };
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        Ok(if phase == "Running" { Ok(()) } else { Err(phase) })
    })
    .await
}

/// All GPUs are in use while both servers come. Who waits is known by its server, with as many slices as the release
/// makes its pod ask for; and once somebody ends, both serve.
fn servers_get_their_slices(release: &'static str, of_the_language_model: u32) {
    scenario(async |scene| {
        let node = NodeSpec::new("n1", 2, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.nodes_are([node]).await?;
        scene.apply(pod("holds", &mig("7g.80gb"), 2)).await?;
        scene.runs("holds").await?;
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}}))
            .await?;
        scene.apply(profile_with("slice", &mig("3g.40gb"))).await?;
        let injector = Injector::of_release(scene, release).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let labels = [serve(scene, chat()).await?, serve(scene, granite()).await?];
        let expected = [
            format!("InferenceService {TEAM}/chat: 1 x 3g.40gb"),
            format!("LLMInferenceService {TEAM}/granite: {of_the_language_model} x 3g.40gb"),
        ];
        scene
            .policy("research", "names both servers with their slices", |object| {
                let unserved = object.status.as_ref()?.unserved.as_ref()?;
                let mut named: Vec<String> = unserved
                    .requests
                    .iter()
                    .map(|asks| format!("{} {}/{}: {}", asks.kind, asks.namespace, asks.name, asks.slices))
                    .collect();
                named.sort();
                (named == expected).then_some(())
            })
            .await?;
        scene.delete(pod("holds", &mig("7g.80gb"), 2)).await?;
        for labels in &labels {
            serves(scene, labels).await?;
        }
        let truth = scene.simulator().truth("n1")?;
        let held = truth.iter().flat_map(|gpu| &gpu.slices).filter(|slice| slice.holder.is_some()).count();
        let asked = usize::try_from(of_the_language_model)? + 1;
        ensure!(held == asked, "{held} slices are held, and {asked} were asked for");
        scene.converged("research").await?;
        injector.ends(scene).await?;
        // Their kinds stay, for the next scenario.
        scene.delete(chat()).await?;
        scene.delete(granite()).await
    });
}

#[test]
fn on_3_0_a_model_server_gets_the_slice_of_its_profile_and_one_of_a_language_model_one_for_each_container() {
    servers_get_their_slices("3.0", 2);
}

#[test]
fn on_3_5_a_model_server_gets_the_slice_of_its_profile_and_one_of_a_language_model_too() {
    servers_get_their_slices("3.5", 1);
}
