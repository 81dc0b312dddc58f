//! Whoever makes pods on OpenShift AI, as it is: KServe, KubeRay and both of Kubeflow's trainers. What they make is
//! known by the object that a person wrote, waits with an answer, and runs on slices as soon as there is room.

mod profiles;

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::pod_groups::Kind;
use e2e::workload_controllers::Controller;
use e2e::{Fleet, NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

/// What each pod asks for, beside what the controllers add.
fn container(name: &str, resource: Option<&str>) -> Value {
    let mut limits = json!({"cpu": "1", "memory": "2Gi"});
    if let Some(resource) = resource {
        limits[resource] = json!(1);
    }
    json!({"name": name, "image": "registry.example/work:1", "resources": {"requests": limits, "limits": limits}})
}

fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": TEAM}, "spec": spec})
}

/// A head without a GPU, and workers with a slice each.
fn ray_cluster(workers: u32, slice: &str) -> Value {
    let of = |container: Value| json!({"spec": {"containers": [container]}});
    json!({
        "headGroupSpec": {"rayStartParams": {}, "template": of(container("ray-head", None))},
        "workerGroupSpecs": [{
            "groupName": "slices", "replicas": workers, "minReplicas": workers, "maxReplicas": workers,
            "rayStartParams": {}, "template": of(container("ray-worker", Some(slice))),
        }],
    })
}

/// What people write, and how many pods with a slice come of it.
fn asked() -> [(Value, usize); 7] {
    let slice = mig("1g.10gb");
    let replica = |n: u32| {
        json!({"replicas": n, "restartPolicy": "OnFailure", "template": {"spec": {
            "containers": [container("pytorch", Some(&slice))],
        }}})
    };
    let server = json!({"predictor": {"minReplicas": 1, "maxReplicas": 1,
        "containers": [container("kserve-container", Some(&slice))]}});
    let job = json!({"entrypoint": "python score.py", "rayClusterSpec": ray_cluster(2, &slice)});
    let mut per_node = container("unused", Some(&slice))["resources"].clone();
    per_node["limits"]["cpu"] = json!("2");
    per_node["requests"]["cpu"] = json!("2");
    let training = json!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "resourcesPerNode": per_node}});
    let model = json!({"uri": "hf://example/model", "name": "example/model"});
    let of_model = json!({"containers": [container("main", Some(&slice))]});
    let on_one_node = json!({"model": model, "replicas": 1, "template": of_model});
    let on_two_nodes = json!({"model": model, "replicas": 1, "parallelism": {"data": 2, "dataLocal": 1},
        "template": of_model, "worker": of_model});
    [
        (object("serving.kserve.io/v1beta1", "InferenceService", "chat", server), 1),
        (object("serving.kserve.io/v1alpha1", "LLMInferenceService", "assistant", on_one_node), 1),
        (object("serving.kserve.io/v1alpha1", "LLMInferenceService", "mixtral", on_two_nodes), 2),
        (object("ray.io/v1", "RayJob", "score", job), 2),
        (object("ray.io/v1", "RayCluster", "lab", ray_cluster(1, &slice)), 1),
        (object("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune", training), 2),
        (
            object(
                "kubeflow.org/v1",
                "PyTorchJob",
                "finetune",
                json!({"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(1)}}),
            ),
            2,
        ),
    ]
}

fn kind_and_name(object: &Value) -> (&str, &str) {
    (object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"].as_str().unwrap_or_default())
}

async fn their_controllers_run(scene: &mut Scene) -> anyhow::Result<()> {
    for kind in [Kind::JobSet, Kind::LeaderWorkerSet] {
        scene.pod_groups(kind).await?;
    }
    let all = [
        Controller::KServe,
        Controller::KServeLlm,
        Controller::KubeRay,
        Controller::Trainer,
        Controller::TrainingOperator,
    ];
    for which in all {
        scene.workload_controller(which).await?;
    }
    // What their installations bring along, and what people refer to.
    let runtime = tools::find("trainer-manifests")?.join("runtimes/torch_distributed.yaml");
    for runtime in objects::documents(&std::fs::read_to_string(runtime)?)? {
        scene.apply(runtime).await?;
    }
    for file in std::fs::read_dir(tools::find("kserve-config")?.join("llmisvcconfig"))? {
        for mut template in objects::documents(&std::fs::read_to_string(file?.path())?)? {
            if template["kind"] == "LLMInferenceServiceConfig" {
                template["metadata"]["namespace"] = json!("kserve");
                scene.apply(template).await?;
            }
        }
    }
    Ok(())
}

/// Two nodes of eight GPUs, all in use: who is on `n2` ends later.
async fn a_full_fleet(scene: &mut Scene) -> anyhow::Result<()> {
    let full = |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
    scene.world(Fleet { nodes: vec![full("n1"), full("n2")], ..Fleet::default() }).await?;
    for (name, node) in [("serves", "n1"), ("ends", "n2")] {
        let holder = pod(name, &mig("7g.80gb"), 8);
        scene.apply(holder.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
        scene.runs(name).await?;
    }
    Ok(())
}

/// Who waits, as the policy names them, and how many of each.
async fn who_waits(scene: &Scene) -> anyhow::Result<BTreeMap<String, usize>> {
    let status = scene.policies().get("research").await?.status.unwrap_or_default();
    let mut counted = BTreeMap::new();
    for request in status.unserved.into_iter().flat_map(|unserved| unserved.requests) {
        *counted.entry(format!("{} {}", request.kind, request.name)).or_insert(0) += 1;
    }
    Ok(counted)
}

/// The pods that ask for slices of a profile, whether they run or not.
async fn with_slices(scene: &Scene, profile: &str) -> anyhow::Result<Vec<Pod>> {
    let pods = scene.pods().list(&ListParams::default()).await?.items;
    let asks = |pod: &Pod| {
        pod.spec.iter().flat_map(|spec| &spec.containers).any(|container| {
            let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            limits.is_some_and(|limits| limits.contains_key(&mig(profile)))
        })
    };
    Ok(pods.into_iter().filter(asks).collect())
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

#[test]
fn what_real_controllers_make_is_known_by_the_object_that_a_person_wrote_and_runs_once_there_is_room() {
    scenario(async |scene| {
        their_controllers_run(scene).await?;
        a_full_fleet(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;

        let asked = asked();
        for (object, _) in &asked {
            scene.apply(object.clone()).await?;
        }
        let expected: BTreeMap<String, usize> = asked
            .iter()
            .map(|(object, pods)| {
                let (kind, name) = kind_and_name(object);
                (format!("{kind} {name}"), *pods)
            })
            .collect();
        wait::asking("everybody is known by what a person wrote", scene.patience(), async || {
            let waits = who_waits(scene).await?;
            Ok(if waits == expected { Ok(()) } else { Err(format!("{waits:?}")) })
        })
        .await?;
        // Each is told on its pod: what an owner of many pods would be told for each of them.
        let waiting = with_slices(scene, "1g.10gb").await?;
        let wanted: usize = asked.iter().map(|(_, pods)| pods).sum();
        ensure!(waiting.len() == wanted, "{:?}", names(&waiting));
        for pod in names(&waiting) {
            scene.told("Pod", &pod, "pod team-a/ends ends (or moves)").await?;
        }

        scene.delete(pod("ends", &mig("7g.80gb"), 8)).await?;
        wait::asking("all of them run", scene.patience(), async || {
            let run: Vec<Pod> = with_slices(scene, "1g.10gb").await?.into_iter().filter(runs).collect();
            let is_it = run.len() == wanted;
            Ok(if is_it { Ok(()) } else { Err(format!("only {:?}", names(&run))) })
        })
        .await?;
        ensure!(who_waits(scene).await?.is_empty(), "nobody waits");
        scene.runs("serves").await?;
        scene.converged("research").await
    });
}
