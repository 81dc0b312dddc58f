//! The owner of a pod makes the request, whatever name the real controllers give to the pod; and facts
//! about a node apply to that node alone.

use e2e::{Fleet, NodeSpec, POOL, TEAM, a100, mig, objects, pod, policy, scenario};
use kube::ResourceExt;
use serde_json::{Value, json};

/// An object that makes one pod, which asks for a seventh of a GPU.
fn asks(api_version: &str, kind: &str, name: &str) -> Value {
    let one: Value = pod("one", &mig("1g.10gb"), 1).into();
    let labels = json!({"app": name});
    let mut spec = json!({"template": {"metadata": {"labels": labels}, "spec": one["spec"]}});
    if kind == "Job" {
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
    } else {
        spec["selector"] = json!({"matchLabels": labels});
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": TEAM}, "spec": spec})
}

#[test]
fn a_request_is_told_by_the_name_of_who_stands_behind_its_pod() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-7g.80gb")]).await?;
        scene.apply(pod("holds", &mig("7g.80gb"), 1)).await?;
        scene.runs("holds").await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let all = [
            ("apps/v1", "Deployment", "serves"),
            ("apps/v1", "StatefulSet", "keeps"),
            ("batch/v1", "Job", "trains"),
        ];
        for (api_version, kind, name) in all {
            scene.apply(asks(api_version, kind, name)).await?;
            scene.is_unserved("research", name).await?;
        }
        let status = scene.policies().get("research").await?.status.unwrap_or_default();
        let mut asked: Vec<_> = status.unserved.into_iter().flat_map(|unserved| unserved.requests).collect();
        asked.sort_by(|a, b| a.name.cmp(&b.name));
        let asked: Vec<_> =
            asked.iter().map(|request| format!("{} {}", request.kind, request.name)).collect();
        assert_eq!(asked, ["StatefulSet keeps", "Deployment serves", "Job trains"]);
        // Once there is room, all three run.
        scene.delete(pod("holds", &mig("7g.80gb"), 1)).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await?;
        scene
            .policy("research", "has served all", |object| {
                object
                    .status
                    .as_ref()?
                    .unserved
                    .as_ref()
                    .is_none_or(|unserved| unserved.total == 0)
                    .then_some(())
            })
            .await
    });
}

/// What makes pods on clusters with KubeRay, JobSet, LeaderWorkerSet and both trainers: group, version, kind, plural.
/// The kinds of model servers are on every cluster of the scenarios.
const OTHERS: [(&str, &str, &str, &str); 6] = [
    ("ray.io", "v1", "RayJob", "rayjobs"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
];

/// A CRD that takes any object of a kind.
fn any_object((group, version, kind, plural): (&str, &str, &str, &str)) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

/// The object of others that stands between a person and the pods: kind, name and version.
type Link = (&'static str, &'static str, &'static str);

/// What KubeRay, JobSet, LeaderWorkerSet, the trainers and KServe would make: each is controlled by the one before it.
/// What makes the pods is real.
struct Chain {
    /// From the top.
    above: &'static [Link],
    /// The kind that makes the pods, its name, and how many.
    makes: (&'static str, &'static str, u32),
}

/// KubeRay and the training operator make pods themselves, JobSet indexed Jobs, LeaderWorkerSet a StatefulSet for the
/// leaders of its groups, and KServe a Deployment for a server on one node, a LeaderWorkerSet for one that spans nodes.
const CHAINS: [Chain; 6] = [
    Chain {
        above: &[("RayJob", "score", "ray.io/v1"), ("RayCluster", "score-x7x2p", "ray.io/v1")],
        makes: ("Pod", "score-x7x2p-worker", 1),
    },
    Chain {
        above: &[
            ("TrainJob", "tune", "trainer.kubeflow.org/v1alpha1"),
            ("JobSet", "tune", "jobset.x-k8s.io/v1alpha2"),
        ],
        makes: ("Job", "tune-node-0", 2),
    },
    Chain {
        above: &[("LeaderWorkerSet", "granite", "leaderworkerset.x-k8s.io/v1")],
        makes: ("StatefulSet", "granite", 2),
    },
    Chain { above: &[("PyTorchJob", "finetune", "kubeflow.org/v1")], makes: ("Pod", "finetune-worker-0", 1) },
    Chain {
        above: &[("InferenceService", "chat", "serving.kserve.io/v1beta1")],
        makes: ("Deployment", "chat-predictor", 2),
    },
    Chain {
        above: &[
            ("LLMInferenceService", "mixtral", "serving.kserve.io/v1alpha1"),
            ("LeaderWorkerSet", "mixtral-kserve-mn", "leaderworkerset.x-k8s.io/v1"),
        ],
        makes: ("StatefulSet", "mixtral-kserve-mn", 1),
    },
];

/// What makes the pods of a chain.
fn maker((kind, name, count): (&str, &str, u32)) -> Value {
    match kind {
        "Pod" => pod(name, &mig("1g.10gb"), 1).into(),
        "Job" => {
            let mut job = asks("batch/v1", "Job", name);
            job["spec"]["completionMode"] = json!("Indexed");
            job["spec"]["completions"] = json!(count);
            job["spec"]["parallelism"] = json!(count);
            job
        }
        "Deployment" => {
            let mut set = asks("apps/v1", "Deployment", name);
            set["spec"]["replicas"] = json!(count);
            let server = name.strip_suffix("-predictor").unwrap_or(name);
            set["spec"]["template"]["metadata"]["labels"]["serving.kserve.io/inferenceservice"] =
                json!(server);
            set
        }
        _ => {
            let mut set = asks("apps/v1", "StatefulSet", name);
            set["spec"]["replicas"] = json!(count);
            set["spec"]["podManagementPolicy"] = json!("Parallel");
            set["spec"]["template"]["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = json!(name);
            set
        }
    }
}

/// Who waits is known by the object that a person wrote. The nodes are a fleet with all of its slices in use.
#[test]
fn whoever_stands_above_a_ray_cluster_an_indexed_job_or_a_leader_worker_set_is_named_and_so_are_model_servers()
 {
    scenario(async |scene| {
        let crds: Vec<Value> = OTHERS.into_iter().map(any_object).collect();
        objects::install_crds(&scene.client(), &crds).await?;
        let full =
            |name: &str| NodeSpec::new(name, 4, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.world(Fleet { nodes: vec![full("n1"), full("n2")], ..Fleet::default() }).await?;
        for n in 0..8 {
            scene.apply(pod(&format!("holds-{n}"), &mig("7g.80gb"), 1)).await?;
            scene.runs(&format!("holds-{n}")).await?;
        }
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        for Chain { above, makes } in CHAINS {
            let mut owner: Option<Value> = None;
            for (kind, name, api_version) in above {
                let mut object = json!({"apiVersion": api_version, "kind": kind,
                    "metadata": {"name": name, "namespace": TEAM}, "spec": {}});
                if let Some(owner) = &owner {
                    object["metadata"]["ownerReferences"] = json!([owner]);
                }
                scene.apply(object.clone()).await?;
                let (api, _) = objects::api_of(&scene.client(), &object).await?;
                let uid = api.get(name).await?.uid();
                owner = Some(json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
                    "controller": true}));
            }
            let mut maker = maker(makes);
            maker["metadata"]["ownerReferences"] = json!([owner]);
            scene.apply(maker).await?;
        }
        // One line for each pod, under the name of who stands behind it.
        let expected = [
            "InferenceService chat",
            "InferenceService chat",
            "LLMInferenceService mixtral",
            "LeaderWorkerSet granite",
            "LeaderWorkerSet granite",
            "PyTorchJob finetune",
            "RayJob score",
            "TrainJob tune",
            "TrainJob tune",
        ];
        scene
            .policy("research", "names who stands behind each pod", |object| {
                let unserved = object.status.as_ref()?.unserved.as_ref()?;
                let mut named: Vec<String> =
                    unserved.requests.iter().map(|r| format!("{} {}", r.kind, r.name)).collect();
                named.sort();
                (named == expected).then_some(())
            })
            .await?;
        // The next scenario on this control plane knows none of these kinds.
        for Chain { makes, .. } in CHAINS {
            // A Job's pods stay by default.
            let maker = maker(makes);
            let (api, _) = objects::api_of(&scene.client(), &maker).await?;
            api.delete(makes.1, &kube::api::DeleteParams::background()).await?;
        }
        for (kind, name, api_version) in CHAINS.iter().flat_map(|chain| chain.above) {
            // Their kinds stay.
            if api_version.starts_with("serving.kserve.io/") {
                let server = json!({"apiVersion": api_version, "kind": kind,
                    "metadata": {"name": name, "namespace": TEAM}});
                scene.delete(server).await?;
            }
        }
        scene
            .policy("research", "has nobody who waits", |object| {
                let unserved = object.status.as_ref()?.unserved.as_ref();
                unserved.is_none_or(|unserved| unserved.total == 0).then_some(())
            })
            .await?;
        scene.remove_crds(&crds).await
    });
}

#[test]
fn what_was_known_of_another_node_of_the_same_name_is_forgotten() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        // Kubernetes would take it away itself if its owner were gone.
        let other = scene.nodes().get("n2").await?.uid();
        let known = json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "spec": {},
            "metadata": {"name": "n1", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": other},
            ]},
        });
        scene.apply(known).await?;
        let before = scene.gpu_nodes().get("n1").await?.uid();
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)]).at_a_time(2)).await?;
        scene.converged("research").await?;
        let after = scene.gpu_nodes().get("n1").await?;
        assert_ne!(after.uid(), before);
        let node = scene.nodes().get("n1").await?.uid();
        assert_eq!(after.owner_references().first().map(|owner| owner.uid.clone()), node);
        Ok(())
    });
}
