//! The owners of a pod that requests slices, if its controller is itself controlled: a ReplicaSet's
//! Deployment, a RayCluster's RayJob, a Job's JobSet and the TrainJob above it. A workload that has its quota
//! is asked for in the same way, since its pods will have the same owners. Their metadata is read once
//! each; watching all of them would cost more than the rest of the cache.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::Workload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::gvk::GroupVersionKind;
use observe::objects::Key;
use observe::{Objects, owners};

use crate::calls::{CallError, Calls};
use crate::store::trim;

/// A kind and an object of it.
pub(crate) type Named = (String, Key);

/// Kinds that are themselves controlled: kind, group, and name in the API. Each needs the right to `get` it.
const KINDS: [(&str, &str, &str); 6] = [
    ("ReplicaSet", "apps", "replicasets"),
    ("StatefulSet", "apps", "statefulsets"),
    ("Job", "batch", "jobs"),
    ("JobSet", "jobset.x-k8s.io", "jobsets"),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("RayCluster", "ray.io", "rayclusters"),
];

/// The version in which a pod's label names its LeaderWorkerSet: a reference has its own.
const LEADER_WORKER_SET: &str = "leaderworkerset.x-k8s.io/v1";

/// How many are asked for at a time: the rest comes with the next turn.
pub(crate) const AT_A_TIME: usize = 200;

/// How many owners one above the other are asked for. A pod of a TrainJob has three of these kinds above it.
const MOST_STEPS: usize = 8;

/// An object whose owner is to be found out.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The object.
    pub(crate) named: Named,
    /// Where the API has it.
    resource: ApiResource,
}

impl Question {
    /// The object that an owner reference names; `None` for kinds that are not followed. References are written by
    /// tenants, so a version that is none is not put into a path.
    fn about(namespace: &str, owner: &OwnerReference) -> Option<Self> {
        let (kind, group, plural) = KINDS.into_iter().find(|(kind, _, _)| *kind == owner.kind)?;
        let version = owner.api_version.strip_prefix(group)?.strip_prefix('/')?;
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let named = (kind.to_owned(), (namespace.to_owned(), owner.name.clone()));
        is_version(version).then_some(Self { named, resource })
    }

    /// The right that it takes, as `kubectl auth can-i` names it.
    pub(crate) fn right(&self) -> String {
        format!("get {}.{}", self.resource.plural, self.resource.group)
    }
}

/// Whether a text is a version of an API: `v1`, `v1alpha2`, `v2beta1`.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    ["alpha", "beta"]
        .into_iter()
        .find_map(|stage| rest.split_once(stage))
        .map_or_else(|| is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
}

/// What the metadata of a controller says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Who controls it; nobody, if it is gone.
    owner: Option<OwnerReference>,
    /// The label by which its jobs are placed exclusively, if they are.
    placed_alone: Option<String>,
}

/// Controllers that were looked at. One that has no controller of its own is
/// not asked again.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    known: BTreeMap<Named, Known>,
}

/// The way up from many objects.
struct Climb<'a> {
    known: &'a BTreeMap<Named, Known>,
    /// Everybody on the way, of whom it is known or not.
    wanted: BTreeSet<Named>,
    unknown: BTreeMap<Named, Question>,
}

impl Climb<'_> {
    fn from(&mut self, objects: &Objects, namespace: &str, first: Option<&OwnerReference>) {
        let mut above = first;
        for _ in 0..MOST_STEPS {
            let Some(question) = above.and_then(|owner| Question::about(namespace, owner)) else { break };
            // A workbench's StatefulSet has the workbench's name.
            let of_workbench =
                question.named.0 == "StatefulSet" && objects.notebooks.contains_key(&question.named.1);
            if of_workbench {
                break;
            }
            self.wanted.insert(question.named.clone());
            match self.known.get(&question.named) {
                Some(known) => above = known.owner.as_ref(),
                None => {
                    self.unknown.insert(question.named.clone(), question);
                    break;
                }
            }
        }
    }
}

impl Owners {
    /// Controllers of pods and of workloads that ask for slices, and controllers above these, of which it is not known
    /// who controls them. What is found out about one may lead to the next: ask until none is left.
    pub(crate) fn unknown(&mut self, objects: &Objects) -> Vec<Question> {
        let mut climb = Climb { known: &self.known, wanted: BTreeSet::new(), unknown: BTreeMap::new() };
        for ((namespace, _), pod) in objects.pods.iter().filter(|(_, pod)| trim::concerns_gpus(pod)) {
            climb.from(objects, namespace, owners::controller(&pod.metadata));
            // Of the references of a worker nobody finds the way up.
            let set = owners::leader_worker_set(pod).map(|name| OwnerReference {
                api_version: LEADER_WORKER_SET.to_owned(),
                kind: "LeaderWorkerSet".to_owned(),
                name: name.clone(),
                ..OwnerReference::default()
            });
            climb.from(objects, namespace, set.as_ref());
        }
        // Who waits for quota is no request.
        let due = |workload: &Workload| workload.has_quota() && trim::asks_for_gpus(workload);
        for ((namespace, _), workload) in objects.workloads.iter().filter(|(_, workload)| due(workload)) {
            climb.from(objects, namespace, owners::of_workload(workload));
        }
        let Climb { wanted, unknown, .. } = climb;
        self.known.retain(|named, _| wanted.contains(named));
        unknown.into_values().collect()
    }

    /// What was found out.
    pub(crate) fn learn(&mut self, named: Named, known: Known) {
        self.known.insert(named, known);
    }

    /// Puts what is known where `observe` looks for it, and nothing else; and of whom it is not known: that somebody has
    /// no owner and that nobody could say are two things.
    pub(crate) fn tell(&self, objects: &mut Objects, unknown: Vec<Question>) {
        objects.unknown_owners = unknown.into_iter().map(|question| question.named).collect();
        let is_followed = |kind: &str| KINDS.iter().any(|(followed, _, _)| *followed == kind);
        objects.owners.retain(|(kind, namespace, name)| {
            let named = || (kind.to_owned(), (namespace.to_owned(), name.to_owned()));
            !is_followed(kind) || self.known.contains_key(&named())
        });
        for ((kind, key), known) in &self.known {
            if let Some(owner) = &known.owner {
                objects.owners.insert(kind, key.clone(), owner.clone());
            }
        }
        let placed_alone =
            |(named, known): (&Named, &Known)| Some((named.clone(), known.placed_alone.clone()?));
        objects.placed_alone = self.known.iter().filter_map(placed_alone).collect();
    }
}

/// Asks who controls an object, and how it places its pods; nothing is known of one that is gone, or if the cluster does
/// not have its kind.
pub(crate) async fn ask(
    calls: std::sync::Arc<Calls>,
    question: Question,
) -> (Question, Result<Known, CallError>) {
    let found = read(&calls, &question).await;
    (question, found)
}

async fn read(calls: &Calls, question: &Question) -> Result<Known, CallError> {
    let Question { named: (kind, (namespace, name)), resource } = question;
    let api: Api<DynamicObject> = Api::namespaced_with(calls.client(), namespace, resource);
    let found = calls.get_metadata(&api, &format!("{kind} {namespace}/{name}"), name).await?;
    let meta = found.unwrap_or_default();
    let placed_alone = observe::placed_alone::label_of(kind, meta.annotations.as_ref());
    let owners = meta.owner_references.unwrap_or_default();
    Ok(Known { owner: owners.into_iter().find(|owner| owner.controller == Some(true)), placed_alone })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// What is known of one that somebody controls, or nobody.
    fn below(owner: Option<OwnerReference>) -> Known {
        Known { owner, placed_alone: None }
    }

    fn with_pod(objects: &mut Objects, name: &str, by: &OwnerReference) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "vision", "ownerReferences": [by]},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
        }))
        .unwrap();
        objects.pods.insert(("vision".to_owned(), name.to_owned()), Arc::new(pod));
    }

    /// Asks until nothing is unknown; says what was asked.
    fn all(owners: &mut Owners, objects: &Objects, cluster: &[(&str, &str, OwnerReference)]) -> Vec<String> {
        let mut asked = Vec::new();
        loop {
            let unknown = owners.unknown(objects);
            if unknown.is_empty() {
                return asked;
            }
            for question in unknown {
                let (kind, (_, name)) = &question.named;
                asked.push(format!("{} {name} ({})", question.right(), question.resource.api_version));
                let above = cluster.iter().find(|(of, named, _)| of == kind && named == name);
                owners.learn(question.named.clone(), below(above.map(|(_, _, owner)| owner.clone())));
            }
        }
    }

    #[test]
    fn everybody_above_a_pod_is_asked_for_once_up_to_the_one_whom_people_know() {
        let mut objects = Objects::default();
        for n in 0..4 {
            with_pod(&mut objects, &format!("tune-node-0-{n}"), &owner("batch/v1", "Job", "tune-node-0"));
        }
        with_pod(&mut objects, "ray-worker", &owner("ray.io/v1alpha1", "RayCluster", "score-x7x2p"));
        with_pod(&mut objects, "web", &owner("apps/v1", "ReplicaSet", "web-1"));
        let cluster = [
            ("Job", "tune-node-0", owner("jobset.x-k8s.io/v1alpha2", "JobSet", "tune")),
            ("JobSet", "tune", owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune")),
            ("RayCluster", "score-x7x2p", owner("ray.io/v1", "RayJob", "score")),
        ];
        let mut owners = Owners::default();
        assert_eq!(
            all(&mut owners, &objects, &cluster),
            [
                "get jobs.batch tune-node-0 (batch/v1)",
                "get rayclusters.ray.io score-x7x2p (ray.io/v1alpha1)",
                "get replicasets.apps web-1 (apps/v1)",
                "get jobsets.jobset.x-k8s.io tune (jobset.x-k8s.io/v1alpha2)",
            ]
        );
        owners.tell(&mut objects, Vec::new());
        let above = |kind: &str, name: &str| {
            objects.owners.get(kind, "vision", name).map(|owner| owner.kind.as_str())
        };
        assert_eq!(above("JobSet", "tune"), Some("TrainJob"));
        assert_eq!(above("RayCluster", "score-x7x2p"), Some("RayJob"));
        // When the pods are gone, so is what was known.
        objects.pods.clear();
        assert!(owners.unknown(&objects).is_empty());
        owners.tell(&mut objects, Vec::new());
        assert!(objects.owners.is_empty());
    }

    /// A workload has no pods before it is let go, and then those of the same owner.
    #[test]
    fn whoever_stands_above_a_workload_with_quota_is_asked_for_and_of_one_without_nobody_is() {
        let mut objects = Objects::default();
        for (name, quota) in [("granite", "True"), ("waits", "False")] {
            let set = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name);
            let workload: Workload = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "vision", "ownerReferences": [set]},
                "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [
                    {"name": "main", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}]},
                "status": {"conditions": [{"type": "QuotaReserved", "status": quota, "reason": "", "message": "",
                    "lastTransitionTime": "2026-11-21T08:00:00Z"}]},
            }))
            .unwrap();
            objects.workloads.insert(("vision".to_owned(), name.to_owned()), Arc::new(workload));
        }
        let server = owner("serving.kserve.io/v1alpha1", "LLMInferenceService", "granite");
        let cluster = [("LeaderWorkerSet", "granite", server)];
        let mut owners = Owners::default();
        let asked = ["get leaderworkersets.leaderworkerset.x-k8s.io granite (leaderworkerset.x-k8s.io/v1)"];
        assert_eq!(all(&mut owners, &objects, &cluster), asked);
        owners.tell(&mut objects, Vec::new());
        assert_eq!(objects.owners.iter().count(), 1);

        // How it places its groups is told as long as somebody wants it.
        let set = ("LeaderWorkerSet".to_owned(), ("vision".to_owned(), "granite".to_owned()));
        owners.learn(set.clone(), Known { owner: None, placed_alone: Some("rack".to_owned()) });
        owners.tell(&mut objects, Vec::new());
        assert_eq!(objects.placed_alone, BTreeMap::from([(set, "rack".to_owned())]));
        objects.workloads.clear();
        assert!(owners.unknown(&objects).is_empty());
        owners.tell(&mut objects, Vec::new());
        assert!(objects.placed_alone.is_empty());
    }

    /// Its set is controlled by its leader, which is a pod.
    #[test]
    fn a_worker_of_a_leader_worker_set_leads_to_the_set_by_its_label() {
        let mut objects = Objects::default();
        with_pod(&mut objects, "granite-0-1", &owner("apps/v1", "StatefulSet", "granite-0"));
        let pod = Arc::make_mut(objects.pods.values_mut().next().unwrap());
        let label = ("leaderworkerset.sigs.k8s.io/name".to_owned(), "granite".to_owned());
        pod.metadata.labels = Some(BTreeMap::from([label]));
        let cluster = [
            ("StatefulSet", "granite-0", owner("v1", "Pod", "granite-0")),
            (
                "LeaderWorkerSet",
                "granite",
                owner("serving.kserve.io/v1alpha1", "LLMInferenceService", "granite"),
            ),
        ];
        let mut owners = Owners::default();
        assert_eq!(all(&mut owners, &objects, &cluster).len(), 2);
        owners.tell(&mut objects, Vec::new());
        let root = observe::owners::root(&objects, objects.pods.values().next().unwrap());
        assert_eq!((root.kind.as_str(), root.name.as_str()), ("LLMInferenceService", "granite"));
    }

    #[test]
    fn a_reference_of_another_group_or_without_a_version_is_not_asked_for() {
        let mut objects = Objects::default();
        let strange = [
            "v1",
            "batch/v1/../../secrets",
            "batch/v1?x",
            "batch/",
            "batch/v1alpha",
            "batch.volcano.sh/v1alpha1",
        ];
        for (n, api_version) in strange.iter().enumerate() {
            with_pod(&mut objects, &format!("pod-{n}"), &owner(api_version, "Job", &format!("job-{n}")));
        }
        assert!(Owners::default().unknown(&objects).is_empty());
    }

    /// After a change of leader nobody is known, and not all are asked at once. Who has no owner is known.
    #[test]
    fn whoever_is_not_asked_yet_is_named_to_the_round_and_whoever_has_no_owner_is_not() {
        let mut objects = Objects::default();
        for n in 0..=AT_A_TIME {
            let job = format!("job-{n:03}");
            with_pod(&mut objects, &format!("{job}-0"), &owner("batch/v1", "Job", &job));
        }
        let mut owners = Owners::default();
        for question in owners.unknown(&objects).into_iter().take(AT_A_TIME) {
            owners.learn(question.named, below(None));
        }
        let unknown = owners.unknown(&objects);
        owners.tell(&mut objects, unknown);
        let last = ("Job".to_owned(), ("vision".to_owned(), format!("job-{AT_A_TIME:03}")));
        assert_eq!(objects.unknown_owners, BTreeSet::from([last.clone()]));
        // The API server answers.
        owners.learn(last, below(Some(owner("jobset.x-k8s.io/v1alpha2", "JobSet", "tune"))));
        let unknown = owners.unknown(&objects);
        owners.tell(&mut objects, unknown);
        let above = ("JobSet".to_owned(), ("vision".to_owned(), "tune".to_owned()));
        assert_eq!(objects.unknown_owners, BTreeSet::from([above]), "who stands above it is next");
    }

    /// A ring is of somebody's own making.
    #[test]
    fn owners_that_own_each_other_are_asked_for_once_each() {
        let mut objects = Objects::default();
        with_pod(&mut objects, "pod", &owner("batch/v1", "Job", "a"));
        let cluster =
            [("Job", "a", owner("batch/v1", "Job", "b")), ("Job", "b", owner("batch/v1", "Job", "a"))];
        assert_eq!(all(&mut Owners::default(), &objects, &cluster).len(), 2);
    }
}
