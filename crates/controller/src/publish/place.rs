//! The one object on which an answer to a request is told: where the person who asks will look.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use observe::controllers::Named;
use observe::{Objects, pods, requests};
use planner::names::RequestId;

/// Where an answer is told.
pub(super) struct Place {
    /// The object.
    pub regarding: ObjectReference,
    /// What tells this object from an earlier one of the same name.
    pub identity: String,
}

/// The objects on which answers can be told.
pub(super) struct Places<'a> {
    objects: &'a Objects,
    /// Pods that have not ended, by who stands behind them.
    pods: BTreeMap<RequestId, Arc<Pod>>,
    /// Owners of what has no pod yet, by kind, namespace and name, once somebody asks for one.
    owners: OnceCell<BTreeMap<Named<'a>, &'a OwnerReference>>,
}

/// An object, as an event refers to it.
pub(super) fn reference(api_version: &str, kind: &str, meta: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectReference::default()
    }
}

impl<'a> Places<'a> {
    pub(super) fn new(objects: &'a Objects) -> Self {
        let lives = |pod: &Pod| pods::life(pod) != pods::Life::Ended;
        let pods = requests::speakers(objects).into_iter().filter(|(_, pod)| lives(pod)).collect();
        Self { objects, pods, owners: OnceCell::new() }
    }

    /// Where the answer to a request is told. OpenShift AI's dashboard shows
    /// the events of a workbench's pod and, while there is no pod, those of its
    /// StatefulSet, but never those of the Notebook. The notebook controller
    /// repeats both on the Notebook, so that an event there too would be read
    /// twice. The Notebook is left for what has neither; then its pod, when it
    /// comes, is told again, since only there the dashboard shows it.
    ///
    /// Others are told on their pod, and while there is none, as in a queue, on
    /// their root owner: OpenShift's console shows the events of both.
    pub(super) fn of_request(&self, id: &RequestId) -> Option<Place> {
        let waits = |pod: &&Arc<Pod>| pods::life(pod) != pods::Life::Bound;
        if let Some(pod) = self.pods.get(id).filter(waits) {
            return Some(on_pod(pod));
        }
        if id.kind != "Notebook" {
            return self.root_owner(id);
        }
        self.without_a_pod(id)
    }

    /// Where something else about a workbench is told: the same, and on its pod also if that has a node.
    pub(super) fn of_workbench(&self, id: &RequestId) -> Option<Place> {
        self.pods.get(id).map(|pod| on_pod(pod)).or_else(|| self.without_a_pod(id))
    }

    fn without_a_pod(&self, id: &RequestId) -> Option<Place> {
        let key = (id.namespace.clone(), id.name.clone());
        let notebook = self.objects.notebooks.get(&key)?;
        let uid = notebook.metadata.uid.clone().unwrap_or_default();
        // A set that says why it makes no pod is there. It has the workbench's
        // name, by which the dashboard looks for its events; its uid is not known.
        if self.objects.unmade.contains_key(&key) {
            let named = ObjectMeta { name: Some(key.1), namespace: Some(key.0), ..ObjectMeta::default() };
            let identity = format!("set of {uid}");
            return Some(Place { regarding: reference("apps/v1", "StatefulSet", &named), identity });
        }
        let regarding = reference("kubeflow.org/v1", "Notebook", &notebook.metadata.whole());
        Some(Place { regarding, identity: uid })
    }

    fn root_owner(&self, id: &RequestId) -> Option<Place> {
        let RequestId { kind, namespace, name, ordinal: _ } = id;
        let owners = self.owners.get_or_init(|| owners(self.objects));
        if let Some(owner) = owners.get(&(kind.as_str(), namespace.as_str(), name.as_str())) {
            let named = ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                uid: Some(owner.uid.clone()).filter(|uid| !uid.is_empty()),
                ..ObjectMeta::default()
            };
            let regarding = reference(&owner.api_version, kind, &named);
            return Some(Place { regarding, identity: owner.uid.clone() });
        }
        // Nobody stands behind a workload that somebody wrote by hand.
        let workload = self.objects.workloads.get(&(namespace.clone(), name.clone()));
        let meta = &workload.filter(|_| kind == "Workload")?.metadata;
        let identity = meta.uid.clone().unwrap_or_default();
        Some(Place { regarding: reference("kueue.x-k8s.io/v1beta2", "Workload", &meta.whole()), identity })
    }
}

fn on_pod(pod: &Pod) -> Place {
    let identity = pod.metadata.uid.clone().unwrap_or_default();
    Place { regarding: reference("v1", "Pod", &pod.metadata), identity }
}

/// Everybody who owns something that may be a request, by kind, namespace and name.
fn owners(objects: &Objects) -> BTreeMap<Named<'_>, &OwnerReference> {
    let mut owners = BTreeMap::new();
    for ((namespace, _), workload) in &objects.workloads {
        for owner in &workload.metadata.owner_references {
            owners.insert((owner.kind.as_str(), namespace.as_str(), owner.name.as_str()), owner);
        }
    }
    for ((_, namespace, _), owner) in objects.owners.iter() {
        owners.insert((owner.kind.as_str(), namespace, owner.name.as_str()), owner);
    }
    owners
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    /// Two nodes with eight GPUs, all of them held by somebody else, and a check of ours.
    fn full_fleet() -> Objects {
        let mut objects = Objects::default();
        for node in ["n1", "n2"] {
            add(
                &mut objects,
                "v1",
                "Node",
                json!({"metadata": {"name": node, "labels": {
                    "pool": "research", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8",
                    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.capable": "true",
                    "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.config": "all-7g.80gb",
                    "nvidia.com/mig.config.state": "success"}},
                "spec": {}, "status": {"allocatable": {"cpu": "256", "memory": "2Ti", "pods": "250",
                    "nvidia.com/gpu": "0", "nvidia.com/mig-7g.80gb": "8"},
                    "conditions": [{"type": "Ready", "status": "True"}]}}),
            );
            for n in 0..8 {
                let pod = pod(&format!("holder-{node}-{n}"), "", None, Some(node));
                add(&mut objects, "v1", "Pod", pod);
            }
        }
        let policy = json!({"apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy", "metadata": {"name": "research"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "research"}}, "layout": {"type": "DemandDriven"}}});
        objects.policies.insert("research".to_owned(), serde_json::from_value(policy).expect("a policy"));
        add(
            &mut objects,
            "kueue.x-k8s.io/v1beta2",
            "AdmissionCheck",
            json!({"metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}}),
        );
        objects
    }

    fn add(objects: &mut Objects, api_version: &str, kind: &str, object: Value) {
        objects.add_value(api_version, kind, object, &mut |problem| panic!("{problem}"));
    }

    fn by(api_version: &str, kind: &str, name: &str) -> Value {
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
    }

    /// A pod that asks for a whole GPU as one slice.
    fn pod(name: &str, owner: &str, owned: Option<&Value>, on: Option<&str>) -> Value {
        let owned = owned.cloned().unwrap_or_else(|| match owner {
            "" => json!([]),
            set => by("apps/v1", "ReplicaSet", set),
        });
        let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]);
        json!({
            "metadata": {"namespace": "team", "name": name, "uid": format!("uid-{name}"), "ownerReferences": owned,
                "creationTimestamp": "2026-11-21T08:00:00Z"},
            "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-7g.80gb": "1"}}}]},
            "status": {"phase": if on.is_some() { "Running" } else { "Pending" },
                "conditions": if on.is_some() { json!([]) } else { waits }},
        })
    }

    /// A workload of Kueue with two pods, which waits for our check.
    fn workload(name: &str, owned: Value) -> Value {
        json!({
            "metadata": {"namespace": "team", "name": name, "uid": format!("uid-{name}"), "ownerReferences": owned,
                "creationTimestamp": "2026-11-21T08:00:00Z"},
            "spec": {"queueName": "research", "podSets": [{"name": "main", "count": 2, "template": {"spec": {
                "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-7g.80gb": "1"}}}]}}}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "reason": "", "message": "",
                "lastTransitionTime": "2026-11-21T08:00:00Z"}],
                "admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": ""}]},
        })
    }

    /// Where those who wait are told, as `apiVersion kind/name uid`.
    fn told_on(objects: &Objects) -> BTreeSet<String> {
        let input = reconcile::Input {
            objects,
            local: &BTreeMap::new(),
            map_changed: None,
            obstacles: &reconcile::Obstacles::NONE,
            settings: &reconcile::Settings::default(),
            now: "2026-11-21T09:00:00Z".parse().expect("a moment"),
        };
        let round = reconcile::round(&input);
        assert!(!round.answers.is_empty());
        let places = Places::new(objects);
        let on = |answer: &reconcile::answers::Answer| {
            let place = places.of_request(&answer.id).expect("everybody is told somewhere");
            let ObjectReference { api_version, kind, name, uid, .. } = place.regarding;
            let words = [api_version, kind.zip(name).map(|(kind, name)| format!("{kind}/{name}")), uid];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        round.answers.iter().map(on).collect()
    }

    /// Who makes pods, as the components of OpenShift AI have it, and a kind that nobody has heard of.
    const OWNERS: [(&str, &str); 9] = [
        ("serving.kserve.io/v1beta1", "InferenceService"),
        ("serving.kserve.io/v1alpha1", "LLMInferenceService"),
        ("ray.io/v1", "RayJob"),
        ("ray.io/v1", "RayCluster"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("example.com/v1", "Quagga"),
    ];

    #[test]
    fn whoever_waits_in_a_queue_without_a_pod_is_told_on_the_root_owner_whatever_it_is() {
        for (api_version, kind) in OWNERS {
            let mut objects = full_fleet();
            add(
                &mut objects,
                "kueue.x-k8s.io/v1beta2",
                "Workload",
                workload("w", by(api_version, kind, "granite")),
            );
            assert_eq!(
                told_on(&objects),
                [format!("{api_version} {kind}/granite uid-granite")].into(),
                "both of its pods"
            );
        }
    }

    #[test]
    fn the_owner_above_the_owner_of_a_workload_is_told_and_a_workload_of_nobody_itself() {
        let mut objects = full_fleet();
        let job = json!({"metadata": {"namespace": "team", "name": "train-node-0",
            "ownerReferences": by("jobset.x-k8s.io/v1alpha2", "JobSet", "train")}});
        add(&mut objects, "batch/v1", "Job", job);
        add(
            &mut objects,
            "kueue.x-k8s.io/v1beta2",
            "Workload",
            workload("w", by("batch/v1", "Job", "train-node-0")),
        );
        add(&mut objects, "kueue.x-k8s.io/v1beta2", "Workload", workload("by-hand", json!([])));
        let expected = [
            "jobset.x-k8s.io/v1alpha2 JobSet/train uid-train",
            "kueue.x-k8s.io/v1beta2 Workload/by-hand uid-by-hand",
        ];
        assert_eq!(told_on(&objects), expected.map(str::to_owned).into());
    }

    #[test]
    fn whoever_has_pods_is_told_on_each_of_them_and_not_on_the_owner() {
        let mut objects = full_fleet();
        for (n, (api_version, kind)) in OWNERS.into_iter().enumerate() {
            let owner = by(api_version, kind, &format!("o{n}"));
            for random in ["x", "y"] {
                add(&mut objects, "v1", "Pod", pod(&format!("p{n}-{random}"), "", Some(&owner), None));
            }
            let mut queued = workload(&format!("w{n}"), owner);
            queued["status"]["admissionChecks"][0]["state"] = json!("Ready");
            add(&mut objects, "kueue.x-k8s.io/v1beta2", "Workload", queued);
        }
        let told = told_on(&objects);
        assert_eq!(told.len(), 2 * OWNERS.len(), "{told:?}");
        assert!(told.iter().all(|on| on.starts_with("v1 Pod/p")), "{told:?}");
    }

    #[test]
    fn each_pod_of_a_deployment_that_waits_is_told_although_their_names_have_no_number() {
        let mut objects = full_fleet();
        for name in ["llama-7f9-b", "llama-7f9-a", "llama-7f9-c"] {
            add(&mut objects, "v1", "Pod", pod(name, "llama-7f9", None, None));
        }
        assert_eq!(told_on(&objects).len(), 3);
    }
}
