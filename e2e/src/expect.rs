//! Conditions for which a scenario waits. Each returns the state that it saw, and its error shows the last
//! state.

mod pods;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{GpuNode, GpuPartitionPolicy};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use mig::resource::GpuResource;

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::manifests::{POOL, mig};
use crate::not_here::NotHere;
use crate::objects::{OPERATOR_NAMESPACE, OURS};
use crate::scene::Scene;
use crate::served;
use crate::wait::{until, until_one};

/// How much longer the nodes of a large fleet may take, each.
const EACH_NODE: Duration = Duration::from_millis(200);

/// How many of a resource a node offers.
#[must_use]
pub fn allocatable(node: &Node, resource: &str) -> i64 {
    let status = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let quantity = status.and_then(|allocatable| allocatable.get(resource));
    quantity.and_then(|quantity| quantity.0.parse().ok()).unwrap_or(0)
}

/// Whether pods may be scheduled to it, as far as a cordon goes.
#[must_use]
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

/// The operands of a node that we paused for its agent, by label.
pub(crate) fn paused_by_us(node: &Node) -> Vec<String> {
    let labels = node.labels().iter().filter(|(_, value)| *value == "paused-for-slicewright");
    labels.map(|(label, _)| label.clone()).collect()
}

/// Whether a node is one that a scenario works with: on a cluster of
/// somebody else there are others, some of which he cordoned.
pub(crate) fn is_of_a_scenario(node: &Node) -> bool {
    [OURS, POOL, cluster::annotations::NODE].iter().any(|label| node.labels().contains_key(*label))
}

/// What a pod does, in words.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("without a phase")
}

/// A condition of a policy, in words: type, status, reason, message.
fn conditions(policy: &GpuPartitionPolicy) -> String {
    let conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let words = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)
    };
    conditions.map(words).collect::<Vec<_>>().join("; ")
}

impl Scene {
    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client())
    }

    /// All policies.
    #[must_use]
    pub fn policies(&self) -> Api<GpuPartitionPolicy> {
        Api::all(self.client())
    }

    /// All `GpuNode`s.
    #[must_use]
    pub fn gpu_nodes(&self) -> Api<GpuNode> {
        Api::all(self.client())
    }

    /// Waits until a node offers exactly these slices, and pods may use them.
    ///
    /// # Errors
    /// When time is up.
    pub async fn offers(&self, node: &str, slices: &[(&str, i64)]) -> anyhow::Result<()> {
        let wanted: Vec<_> = slices.iter().map(|(profile, count)| (mig(profile), *count)).collect();
        let wanted: Vec<_> = wanted.iter().map(|(resource, count)| (resource.as_str(), *count)).collect();
        self.offers_resources(node, &wanted).await
    }

    /// The same, for resources by their names.
    ///
    /// # Errors
    /// When time is up.
    pub async fn offers_resources(&self, node: &str, wanted: &[(&str, i64)]) -> anyhow::Result<()> {
        let what = format!("{node} offers {wanted:?} and is schedulable");
        let node = self.real_name(node);
        until_one(self.nodes(), node, &what, self.patience(), |object| {
            let object = object.ok_or("there is no such node")?;
            let allocatable_now = object.status.iter().flat_map(|s| s.allocatable.iter().flatten());
            let mut offered: Vec<_> = allocatable_now
                .filter(|(resource, count)| GpuResource::is_one(resource) && count.0 != "0")
                .map(|(resource, _)| (resource.as_str(), allocatable(object, resource)))
                .collect();
            let mut expected = wanted.to_vec();
            offered.sort_unstable();
            expected.sort_unstable();
            if offered != expected {
                return Err(format!("it offers {offered:?}"));
            }
            if is_cordoned(object) {
                return Err("it is cordoned".to_owned());
            }
            Ok(())
        })
        .await
    }

    /// Waits until each GPU of a node is cut like this, and pods may use the
    /// slices: a node may have more GPUs than the scenario asked for.
    ///
    /// # Errors
    /// When time is up.
    pub async fn each_gpu_offers(&self, node: &str, slices: &[(&str, i64)]) -> anyhow::Result<()> {
        let gpus = i64::from(self.gpus(node)?);
        let all: Vec<_> = slices.iter().map(|(profile, count)| (*profile, count * gpus)).collect();
        self.offers(node, &all).await
    }

    /// Waits until a node offers no GPU and no slice of one, as in the midst of
    /// a change.
    ///
    /// # Errors
    /// When time is up.
    pub async fn offers_nothing(&self, node: &str) -> anyhow::Result<()> {
        self.node(node, "offers nothing", |object| {
            let resources = object.status.as_ref()?.allocatable.as_ref()?;
            let some = resources.iter().any(|(name, n)| GpuResource::is_one(name) && n.0 != "0");
            (!some).then_some(())
        })
        .await
    }

    /// Every one of these nodes is ready, and free of Kubernetes' own taints.
    ///
    /// One watch for all of them: with one each, a thousand nodes would be
    /// read a thousand times.
    pub(crate) async fn take_pods(&self, names: &[String]) -> anyhow::Result<()> {
        let patience = self.patience() + EACH_NODE * u32::try_from(names.len())?;
        until(self.nodes(), "every node is ready", patience, |seen| {
            let ready = |name: &&String| seen.get(*name).is_some_and(takes_pods);
            let waits: Vec<_> = names.iter().filter(|name| !ready(name)).collect();
            if waits.is_empty() { Ok(()) } else { Err(format!("these are not: {waits:?}")) }
        })
        .await
    }

    /// Waits until something is true of a node.
    ///
    /// # Errors
    /// When time is up.
    pub async fn node<T>(
        &self,
        name: &str,
        what: &str,
        mut judge: impl FnMut(&Node) -> Option<T>,
    ) -> anyhow::Result<T> {
        let name = self.real_name(name);
        until_one(self.nodes(), name, &format!("{name} {what}"), self.patience(), |object| {
            object.and_then(&mut judge).ok_or_else(|| "it is not so".to_owned())
        })
        .await
    }

    /// Waits until some node of the scenario is cordoned; says which.
    ///
    /// # Errors
    /// When time is up.
    pub async fn first_cordoned(&self) -> anyhow::Result<String> {
        until(self.nodes(), "a node is cordoned", self.patience(), |seen| {
            let mut ours = seen.values().filter(|node| is_of_a_scenario(node));
            let found = ours.find(|node| is_cordoned(node)).map(|node| self.given_name(&node.name_any()));
            found.ok_or_else(|| "none is".to_owned())
        })
        .await
    }

    /// Waits until something is true of a `GpuNode`.
    ///
    /// # Errors
    /// When time is up.
    pub async fn gpu_node<T>(
        &self,
        name: &str,
        what: &str,
        mut judge: impl FnMut(&GpuNode) -> Option<T>,
    ) -> anyhow::Result<T> {
        let name = self.real_name(name);
        until_one(self.gpu_nodes(), name, &format!("GpuNode {name} {what}"), self.patience(), |object| {
            object.and_then(&mut judge).ok_or_else(|| "it is not so".to_owned())
        })
        .await
    }

    /// Waits until a node's rollout is in a phase.
    ///
    /// # Errors
    /// When time is up.
    pub async fn phase(&self, node: &str, phase: &str) -> anyhow::Result<GpuNode> {
        self.gpu_node(node, &format!("is {phase}"), |object| {
            let rollout = object.status.as_ref()?.rollout.as_ref()?;
            (rollout.phase == phase).then(|| object.clone())
        })
        .await
    }

    /// Waits until nothing on a node is parked by MIG manager.
    ///
    /// # Errors
    /// When time is up.
    pub async fn nothing_is_parked(&self, node: &str) -> anyhow::Result<()> {
        self.node(node, "has no parked operands", |object| {
            let parked = object.labels().values().any(|value| value.starts_with("paused-"));
            (!parked).then_some(())
        })
        .await
    }

    /// Waits until there is no `GpuNode` of a name.
    ///
    /// # Errors
    /// When time is up.
    pub async fn has_no_gpu_node(&self, name: &str) -> anyhow::Result<()> {
        let name = self.real_name(name);
        until_one(self.gpu_nodes(), name, &format!("there is no GpuNode {name}"), self.patience(), |object| {
            object.map_or(Ok(()), |_| Err("there is one".to_owned()))
        })
        .await
    }

    /// Waits until some operator has the lease; says which.
    ///
    /// # Errors
    /// When time is up.
    pub async fn leader(&self) -> anyhow::Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(), OPERATOR_NAMESPACE);
        until(leases, "somebody has the lease", self.patience(), |seen| {
            let mut holders = seen.values().filter_map(|lease| lease.spec.as_ref()?.holder_identity.clone());
            holders.find(|holder| !holder.is_empty()).ok_or_else(|| "nobody has it".to_owned())
        })
        .await
    }

    /// Removes CRDs, and waits until they are gone and no longer served.
    ///
    /// # Errors
    /// When time is up.
    pub async fn remove_crds(&self, crds: &[Value]) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for crd in crds {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default();
            if let Some(found) = api.get_opt(name).await? {
                if !found.labels().contains_key(OURS) {
                    anyhow::bail!(NotHere("a CRD of somebody else would have to go"));
                }
                api.delete(name, &DeleteParams::default()).await?;
                until_one(api.clone(), name, &format!("CRD {name} is gone"), self.patience(), |crd| {
                    crd.map_or(Ok(()), |_| Err("it is there".to_owned()))
                })
                .await?;
                // What was there may be of another release than what is given.
                served::vanishes(&self.client(), &serde_json::to_value(found)?).await?;
            }
        }
        Ok(())
    }

    /// Counts from now on how many nodes of the scenario are cordoned at a
    /// time.
    #[must_use]
    pub fn count_cordons(&self) -> Cordons {
        let most = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&most);
        let nodes = self.nodes();
        let patience = self.patience() * 10;
        let task = tokio::spawn(async move {
            let counting = until(nodes, "the scenario ends", patience, |seen| {
                let cordoned = |node: &&Node| is_of_a_scenario(node) && is_cordoned(node);
                counted.fetch_max(seen.values().filter(cordoned).count(), Ordering::Relaxed);
                Err::<(), _>(String::new())
            });
            // It is ended from outside.
            let _ = counting.await;
        });
        Cordons { most, task }
    }

    /// Waits until a policy that was seen as it is now has a condition of this
    /// type, status and reason; says its message.
    ///
    /// # Errors
    /// When time is up.
    pub async fn says(&self, policy: &str, kind: &str, status: &str, reason: &str) -> anyhow::Result<String> {
        let what = format!("policy {policy} says {kind}={status} {reason}");
        until_one(self.policies(), policy, &what, self.patience(), |object| {
            let object = object.ok_or("there is no such policy")?;
            let generation = object.metadata.generation;
            let conditions_now = object.status.iter().flat_map(|s| &s.conditions);
            let mut found = conditions_now.filter(|c| c.type_ == kind && c.observed_generation == generation);
            match found.find(|c| c.status == status && c.reason == reason) {
                Some(condition) => Ok(condition.message.clone()),
                None => Err(format!("it says {}", conditions(object))),
            }
        })
        .await
    }

    /// Waits until a policy waits, and for this: at first it may be for
    /// something else, such as MIG manager's pod. Says its message.
    ///
    /// # Errors
    /// When time is up.
    pub async fn waits_for(&self, policy: &str, part: &str) -> anyhow::Result<String> {
        self.policy(policy, &format!("waits for {part:?}"), |object| {
            let generation = object.metadata.generation;
            let mut ready = object.status.iter().flat_map(|s| &s.conditions).filter(|c| {
                c.type_ == "Ready" && c.reason == "Waiting" && c.observed_generation == generation
            });
            ready.next().map(|c| c.message.clone()).filter(|message| message.contains(part))
        })
        .await
    }

    /// Waits until every node of a policy has its layout.
    ///
    /// # Errors
    /// When time is up.
    pub async fn converged(&self, policy: &str) -> anyhow::Result<()> {
        self.says(policy, "Ready", "True", "Converged").await.map(drop)
    }

    /// Waits until something is true of a policy's status.
    ///
    /// # Errors
    /// When time is up.
    pub async fn policy<T>(
        &self,
        name: &str,
        what: &str,
        mut judge: impl FnMut(&GpuPartitionPolicy) -> Option<T>,
    ) -> anyhow::Result<T> {
        until_one(self.policies(), name, &format!("policy {name} {what}"), self.patience(), |object| {
            let object = object.ok_or("there is no such policy")?;
            judge(object).ok_or_else(|| format!("it says {}", conditions(object)))
        })
        .await
    }

    /// Waits until the policy gives this reason for not serving a request of
    /// this name; says the whole answer.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_unserved(&self, policy: &str, request: &str) -> anyhow::Result<UnservedAnswer> {
        self.policy(policy, &format!("answers why {request} is not served"), |object| {
            let unserved = object.status.as_ref()?.unserved.as_ref()?;
            let answer = unserved.requests.iter().find(|answer| answer.name == request)?;
            Some(UnservedAnswer { reason: answer.reason.clone(), message: answer.message.clone() })
        })
        .await
    }

    /// Waits until an event about an object has been told that contains this
    /// text; says the whole note.
    ///
    /// # Errors
    /// When time is up.
    pub async fn told(&self, kind: &str, name: &str, part: &str) -> anyhow::Result<String> {
        let events: Api<Event> = Api::all(self.client());
        let name = self.real_name(name);
        until(events, &format!("{kind} {name} is told {part:?}"), self.patience(), |seen| {
            let about = |e: &&Event| {
                let about = &e.involved_object;
                is_shown_on(kind, name, about.kind.as_deref(), about.name.as_deref())
            };
            let told: Vec<_> = seen.values().filter(about).filter_map(|e| e.message.clone()).collect();
            let found = told.iter().find(|note| note.contains(part)).cloned();
            found.ok_or_else(|| format!("it was told {told:?}"))
        })
        .await
    }

    /// How things stand, for a human who looks at a failure.
    pub(crate) async fn picture(&self) -> String {
        let params = ListParams::default();
        let mut lines = Vec::new();
        for policy in self.policies().list(&params).await.into_iter().flatten() {
            lines.push(format!("policy {}: {}", policy.name_any(), conditions(&policy)));
        }
        for node in self.gpu_nodes().list(&params).await.into_iter().flatten() {
            let rollout = node.status.as_ref().and_then(|s| s.rollout.as_ref());
            let rollout = rollout.map(|r| serde_json::to_string(r).unwrap_or_default());
            lines.push(format!("GpuNode {}: {}", node.name_any(), rollout.unwrap_or_default()));
        }
        for pod in self.pods().list(&params).await.into_iter().flatten() {
            lines.push(format!("pod {}: {}", pod.name_any(), phase(&pod)));
        }
        let events: Api<Event> = Api::all(self.client());
        for event in events.list(&params).await.into_iter().flatten() {
            let Event { involved_object: about, reason, message, .. } = event;
            let (kind, name) = (about.kind.unwrap_or_default(), about.name.unwrap_or_default());
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            lines.push(format!("event on {kind} {name}: {reason}: {message}"));
        }
        for request in self.audit().and_then(|audit| audit.writes()).into_iter().flatten() {
            let mut line = request.to_string();
            line.truncate((0..=160).rev().find(|i| line.is_char_boundary(*i)).unwrap_or_default());
            lines.push(format!("written: {line}"));
        }
        lines.join("\n")
    }

    /// What the operator told about an object so far, in order: reason and note.
    ///
    /// # Errors
    /// When the events cannot be listed.
    pub async fn story_of(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(self.client());
        let mut events = events.list(&ListParams::default()).await?.items;
        let name = self.real_name(name);
        events.retain(|event| {
            let about = event.regarding.as_ref();
            event.reporting_controller.as_deref() == Some("slicewright.io/operator")
                && about.is_some_and(|a| is_shown_on(kind, name, a.kind.as_deref(), a.name.as_deref()))
        });
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let line = |e: &k8s_openapi::api::events::v1::Event| {
            format!("{}: {}", e.reason.clone().unwrap_or_default(), e.note.clone().unwrap_or_default())
        };
        Ok(events.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

/// Counts nodes that are cordoned at the same time.
#[derive(Debug)]
pub struct Cordons {
    most: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Cordons {
    /// The most that were seen.
    #[must_use]
    pub fn most(self) -> usize {
        self.task.abort();
        self.most.load(Ordering::Relaxed)
    }
}

/// What a policy says of a request that it does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedAnswer {
    /// In one word.
    pub reason: String,
    /// In a sentence, with what would help.
    pub message: String,
}

fn takes_pods(node: &Node) -> bool {
    let ready = |node: &Node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        Some(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    };
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready(node) == Some(true)
        && taints.is_none_or(|taints| taints.iter().all(|t| !t.key.starts_with("node.kubernetes.io/")))
}

/// Whether an event about `(about_kind, about_name)` is among those that
/// people read on this object. The notebook controller of OpenShift AI repeats
/// on a Notebook what is told on its pod and on its StatefulSet.
#[must_use]
pub fn is_shown_on(kind: &str, name: &str, about_kind: Option<&str>, about_name: Option<&str>) -> bool {
    let is = |kind: &str, name: &str| about_kind == Some(kind) && about_name == Some(name);
    let repeated = || is("StatefulSet", name) || is("Pod", &format!("{name}-0"));
    is(kind, name) || kind == "Notebook" && repeated()
}
