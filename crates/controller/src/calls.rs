//! Calls to the API server, except watches. Each has a timeout, and returns the resulting version of the
//! object, so that the operator can wait until its watches show it.

pub mod managers;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ObjectList, PartialObjectMeta, Status};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::class::{self, Class};
use crate::store::bounds;
use crate::store::history::Consistent;

/// How much of a refuser's words is quoted.
const LONGEST_WORDS: usize = 300;
/// How often a list in pages is begun.
const BEGUN: u32 = 3;

/// A client with a limit for every call.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    timeout: Duration,
}

/// A call that did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server said no, or did not understand, or the connection broke.
    #[error("failed to {what}")]
    Refused {
        /// What was to be done.
        what: What,
        /// Why not.
        #[source]
        source: kube::Error,
    },
    /// There was no answer; whether it was done is seen later.
    #[error("failed to {what}: no answer within {after:?}")]
    NoAnswer {
        /// What was to be done.
        what: What,
        /// How long we waited.
        after: Duration,
    },
}

/// What a call was to do: a verb and an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct What {
    /// The verb, as RBAC writes it.
    pub verb: Verb,
    /// Kind and name, such as `Node a1`.
    pub object: String,
}

/// The verbs of our calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read all objects of a kind.
    List,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Patch an object (merge patch or server-side apply).
    Patch,
    /// Delete an object.
    Delete,
    /// Evict a pod.
    Evict,
}

impl Verb {
    /// Its name, for metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Evict => "evict",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.name(), self.object)
    }
}

impl CallError {
    /// What it means.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Refused { source, .. } => class::classify(source),
            Self::NoAnswer { .. } => Class::Transient,
        }
    }

    /// What the API server answered, if it did.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { source: kube::Error::Api(status), .. } => Some(status),
            _ => None,
        }
    }

    /// The object is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The object changed since it was decided, or somebody else owns the field.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// The refuser's own words, cut, where the API server refuses what a human
    /// would have to allow.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let status = self.status().filter(|_| self.class() == Class::Blocked)?;
        let words = status.message.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(bounds::cut(words, LONGEST_WORDS))
    }

    /// What was to be done.
    #[must_use]
    pub const fn what(&self) -> &What {
        match self {
            Self::Refused { what, .. } | Self::NoAnswer { what, .. } => what,
        }
    }

    /// Who asked lacks the right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|status| status.code == 403)
    }

    /// What a page of a list goes on from is forgotten.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410)
    }

    /// Whether the write may have been done although no answer says so.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::NoAnswer { .. } => true,
            Self::Refused { source: kube::Error::Api(status), .. } => status.code >= 500,
            Self::Refused { .. } => true,
        }
    }
}

/// What came of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It goes.
    Going,
    /// It is gone already, or another pod has its name.
    Gone,
    /// Not now: what the API server said.
    Refused(String),
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Calls {
    /// Calls through this client, each of at most `timeout`.
    #[must_use]
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// The client, for watches.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    async fn limit<T>(
        &self,
        verb: Verb,
        object: impl Into<String>,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        let what = What { verb, object: object.into() };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(source)) => Err(CallError::Refused { what, source }),
            Err(_) => Err(CallError::NoAnswer { what, after: self.timeout }),
        }
    }

    /// Reads one object, or finds that it is not there.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn get<K>(&self, api: &Api<K>, title: &str, name: &str) -> Result<Option<K>, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        self.limit(Verb::Get, title, api.get_opt(name)).await
    }

    /// Reads all objects of a kind, in one answer. For commands; the operator
    /// has watches.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn list<K>(&self, api: &Api<K>, title: &str, params: &ListParams) -> Result<Vec<K>, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        Ok(self.limit(Verb::List, title, api.list(params)).await?.items)
    }

    /// Reads all objects of a kind, in pages. A list that takes too long for
    /// its pages to fit together is begun again, a few times.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn list_pages<K>(
        &self,
        api: &Api<K>,
        title: &str,
        params: &ListParams,
        page: u32,
    ) -> Result<Vec<K>, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        self.pages(title, params, page, async |params| api.list(params).await).await
    }

    /// The same of the metadata alone.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn list_metadata_pages<K>(
        &self,
        api: &Api<K>,
        title: &str,
        params: &ListParams,
        page: u32,
    ) -> Result<Vec<PartialObjectMeta<K>>, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        self.pages(title, params, page, async |params| api.list_metadata(params).await).await
    }

    async fn pages<K: Clone>(
        &self,
        title: &str,
        params: &ListParams,
        page: u32,
        list: impl AsyncFn(&ListParams) -> kube::Result<ObjectList<K>>,
    ) -> Result<Vec<K>, CallError> {
        let first = params.clone().limit(page);
        let (mut all, mut params, mut begun) = (Vec::new(), first.clone(), 1);
        loop {
            match self.limit(Verb::List, title, list(&params)).await {
                Ok(listed) => {
                    all.extend(listed.items);
                    let next = listed.metadata.continue_.filter(|token| !token.is_empty());
                    let Some(token) = next else { return Ok(all) };
                    params.continue_token = Some(token);
                }
                // What the pages before it showed is forgotten by now.
                Err(error) if error.is_expired() && params.continue_token.is_some() && begun < BEGUN => {
                    begun += 1;
                    all.clear();
                    params = first.clone();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The version of the API server, and whatever else the client asks that
    /// is no object.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn ask<T>(
        &self,
        title: &str,
        question: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        self.limit(Verb::Get, title, question).await
    }

    /// Reads the metadata of one object, or finds that it is not there.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn get_metadata<K>(
        &self,
        api: &Api<K>,
        title: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        let found = self.limit(Verb::Get, title, api.get_metadata_opt(name)).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// When it was not, or may not have been, created.
    pub async fn create<K>(
        &self,
        api: &Api<K>,
        title: &str,
        manager: &str,
        object: &K,
    ) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + Serialize + fmt::Debug,
    {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        self.limit(Verb::Create, title, api.create(&params, object)).await
    }

    /// Replaces an object, if its version is still that of `object`.
    ///
    /// # Errors
    /// When it was not, or may not have been, replaced.
    pub async fn replace<K>(
        &self,
        api: &Api<K>,
        title: &str,
        manager: &str,
        object: &K,
    ) -> Result<K, CallError>
    where
        K: Resource + Clone + DeserializeOwned + Serialize + fmt::Debug,
    {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let name = object.meta().name.clone().unwrap_or_default();
        self.limit(Verb::Update, title, api.replace(&name, &params, object)).await
    }

    /// Deletes an object under conditions; one that is gone is as good as deleted.
    ///
    /// # Errors
    /// When it was not, or may not have been, deleted.
    pub async fn delete<K>(
        &self,
        api: &Api<K>,
        title: &str,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        match self.limit(Verb::Delete, title, api.delete(name, params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Server-side apply of an object or its status. `body` carries the
    /// version that it was decided on.
    ///
    /// # Errors
    /// When it was not, or may not have been, applied.
    pub async fn apply<K>(
        &self,
        api: &Api<K>,
        title: &str,
        manager: &Manager,
        target: Target,
        name: &str,
        body: &Value,
    ) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        let mut params = PatchParams::apply(manager.name);
        params.force = manager.ours_alone;
        let patch = Patch::Apply(body);
        match target {
            Target::Object => self.limit(Verb::Patch, title, api.patch(name, &params, &patch)).await,
            Target::Status => self.limit(Verb::Patch, title, api.patch_status(name, &params, &patch)).await,
        }
    }

    /// A merge patch of an object that others own, under the condition that
    /// it still has the version that `body` names.
    ///
    /// # Errors
    /// When it was not, or may not have been, patched.
    pub async fn merge<K>(
        &self,
        api: &Api<K>,
        title: &str,
        manager: &Manager,
        target: Target,
        name: &str,
        body: &Value,
    ) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        let params = PatchParams { field_manager: Some(manager.name.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(body);
        match target {
            Target::Object => self.limit(Verb::Patch, title, api.patch(name, &params, &patch)).await,
            Target::Status => self.limit(Verb::Patch, title, api.patch_status(name, &params, &patch)).await,
        }
    }

    /// Scales a Deployment to nothing, through its `scale` alone.
    ///
    /// # Errors
    /// When it was not, or may not have been, scaled.
    pub async fn scale_to_nothing(&self, api: &Api<Deployment>, name: &str) -> Result<(), CallError> {
        let params =
            PatchParams { field_manager: Some(managers::RELEASE.name.to_owned()), ..PatchParams::default() };
        let body = json!({"spec": {"replicas": 0}});
        let patch = Patch::Merge(&body);
        let title = format!("the scale of Deployment {name}");
        self.limit(Verb::Patch, title, api.patch_scale(name, &params, &patch)).await?;
        Ok(())
    }

    /// A node as it is, by a consistent read. (A list of one: who may watch
    /// nodes may do so, and needs no other right.)
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn node(&self, name: &str) -> Result<Consistent<Option<Node>>, CallError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let list = self.limit(Verb::List, format!("Node {name}"), api.list(&params)).await?;
        let Consistent { found, version } = Consistent::from(list);
        Ok(Consistent { found: found.into_iter().next(), version })
    }

    /// All pods bound to a node, by a consistent read: no resource version, so
    /// the API server asks its quorum and not its cache.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn pods_of(&self, node: &str) -> Result<Consistent<Vec<Pod>>, CallError> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let list = self.limit(Verb::List, format!("pods of Node {node}"), api.list(&params)).await?;
        Ok(list.into())
    }

    /// Whether this pod has a node by now, by a consistent read. (A list of one, as for [`Self::node`].)
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn is_assigned(&self, namespace: &str, name: &str) -> Result<bool, CallError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let list = self.limit(Verb::List, format!("Pod {namespace}/{name}"), api.list(&params)).await?;
        let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        Ok(list.items.iter().any(has_node))
    }

    /// Evicts a pod, if it still is the pod of this uid. What the API server
    /// refuses for a disruption budget (429) is an answer, not an error.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str) -> Result<Evicted, CallError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // The client's own `evict` writes `delete_options`, which the API
        // server ignores: the condition would be lost without a word.
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let params = PostParams::default();
        let call = api.create_subresource::<_, Value>("eviction", name, &params, &eviction);
        match self.limit(Verb::Evict, format!("Pod {namespace}/{name}"), call).await {
            Ok(_) => Ok(Evicted::Going),
            Err(error) => match error.status() {
                Some(status) if status.code == 404 || status.code == 409 => Ok(Evicted::Gone),
                Some(status) if status.code == 429 => Ok(Evicted::Refused(status.message.clone())),
                _ => Err(error),
            },
        }
    }

    /// Deletes a pod, if it still is the pod of this uid. One that is gone is
    /// as good as deleted.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn delete_pod(&self, namespace: &str, name: &str, uid: &str) -> Result<(), CallError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams::default()
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        match self.limit(Verb::Delete, format!("Pod {namespace}/{name}"), api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A merge patch of a node's labels and its cordon, if the node still has
    /// this version. `None` removes a label.
    ///
    /// # Errors
    /// When it was not, or may not have been, patched.
    pub async fn patch_node(
        &self,
        name: &str,
        if_version: &str,
        manager: &Manager,
        labels: &[(String, Option<String>)],
        unschedulable: Option<bool>,
    ) -> Result<Node, CallError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut body = json!({"metadata": {"resourceVersion": if_version, "labels": labels}});
        match unschedulable {
            Some(true) => body["spec"] = json!({"unschedulable": true}),
            // As kubectl does it: the field goes, it does not become false.
            Some(false) => body["spec"] = json!({"unschedulable": null}),
            None => {}
        }
        self.merge(&api, &format!("Node {name}"), manager, Target::Object, name, &body).await
    }
}

/// What of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything but the status.
    Object,
    /// The status.
    Status,
}

/// A field manager: one for each concern, so that whose a field is can be read
/// from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    /// Its name.
    pub name: &'static str,
    /// Nobody else may write these fields: they are taken from an older
    /// release of ours under another name. Never for fields that others write.
    pub ours_alone: bool,
}
