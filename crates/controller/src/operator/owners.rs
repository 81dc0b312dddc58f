//! The owners of a pod that requests slices, if its controller is itself controlled: a ReplicaSet's
//! Deployment, a Job's CronJob. Their metadata is read once each; watching all of them would cost more than
//! the rest of the cache.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use observe::Objects;
use observe::objects::Key;

use crate::calls::{CallError, Calls};
use crate::store::trim;

/// A kind and an object of it.
pub(crate) type Named = (String, Key);

/// Controllers that were looked at. One that has no controller of its own is
/// not asked again.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    known: BTreeMap<Named, Option<OwnerReference>>,
}

/// Kinds that are themselves controlled.
const KINDS: [&str; 3] = ["ReplicaSet", "StatefulSet", "Job"];

/// How many are asked for at a time: the rest comes with the next turn.
pub(crate) const AT_A_TIME: usize = 200;

impl Owners {
    /// Controllers of pods that ask for slices, of which it is not known who
    /// controls them.
    pub(crate) fn unknown(&mut self, objects: &Objects) -> Vec<Named> {
        let mut wanted = BTreeSet::new();
        for ((namespace, _), pod) in &objects.pods {
            let owner = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
            let Some(owner) = owner.filter(|_| trim::concerns_gpus(pod)) else { continue };
            let key = (namespace.clone(), owner.name.clone());
            // A workbench's StatefulSet has the workbench's name.
            let of_workbench = owner.kind == "StatefulSet" && objects.notebooks.contains_key(&key);
            if KINDS.contains(&owner.kind.as_str()) && !of_workbench {
                wanted.insert((owner.kind.clone(), key));
            }
        }
        self.known.retain(|named, _| wanted.contains(named));
        wanted.into_iter().filter(|named| !self.known.contains_key(named)).take(AT_A_TIME).collect()
    }

    /// What was found out.
    pub(crate) fn learn(&mut self, named: Named, owner: Option<OwnerReference>) {
        self.known.insert(named, owner);
    }

    /// Puts what is known where `observe` looks for it, and nothing else.
    pub(crate) fn tell(&self, objects: &mut Objects) {
        objects
            .owners
            .retain(|named, _| !KINDS.contains(&named.0.as_str()) || self.known.contains_key(named));
        for (named, owner) in &self.known {
            if let Some(owner) = owner {
                objects.owners.insert(named.clone(), owner.clone());
            }
        }
    }
}

/// Asks who controls an object; nobody when it is gone.
pub(crate) async fn ask(
    calls: std::sync::Arc<Calls>,
    named: Named,
) -> (Named, Result<Option<OwnerReference>, CallError>) {
    let found = match named.0.as_str() {
        "ReplicaSet" => controller::<ReplicaSet>(&calls, &named).await,
        "StatefulSet" => controller::<StatefulSet>(&calls, &named).await,
        _ => controller::<Job>(&calls, &named).await,
    };
    (named, found)
}

async fn controller<K>(
    calls: &Calls,
    (kind, (namespace, name)): &Named,
) -> Result<Option<OwnerReference>, CallError>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(calls.client(), namespace);
    let found = calls.get_metadata(&api, &format!("{kind} {namespace}/{name}"), name).await?;
    let owners = found.and_then(|meta| meta.owner_references).unwrap_or_default();
    Ok(owners.into_iter().find(|owner| owner.controller == Some(true)))
}
