//! Does the writes of a node against the API server, and drives the node: lets its time pass, does the
//! resulting writes, and waits for the next moment.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::clock::real_now;
use crate::error::is;
use crate::kept::Kept;
use crate::shared::Shared;
use crate::write::{Answer, Write};

/// How long one call may take. The API server answers within milliseconds or
/// is not there.
const CALL: Duration = Duration::from_secs(10);
/// How many statuses of pods one node writes at the same time.
const AT_ONCE: usize = 8;

/// Drives one node until it is taken away or everything stops.
pub(crate) async fn drive(shared: Arc<Shared>, kept: Arc<Kept>) {
    let mut backoff = Duration::from_millis(50);
    loop {
        let due = kept.with(|host| {
            host.advance(shared.clock.now());
            shared.tell(host);
            (!host.is_gone()).then(|| (host.due(real_now()), host.next_event()))
        });
        let Some((writes, next)) = due else { break };
        if kept.stop.is_cancelled() {
            break;
        }
        if writes.is_empty() {
            let wait = next.map_or(Duration::from_secs(60), |at| shared.clock.until(at));
            tokio::select! {
                () = kept.stop.cancelled() => break,
                () = kept.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            continue;
        }
        if do_all(&shared, &kept, writes).await {
            backoff = Duration::from_millis(50);
        } else {
            tokio::select! {
                () = kept.stop.cancelled() => break,
                () = tokio::time::sleep(backoff) => {}
            }
            backoff = (backoff * 2).min(Duration::from_secs(2));
        }
    }
    shared.remove(&kept).await;
}

/// Does the writes in their order; statuses of pods, which do not depend on
/// one another, several at a time. Says whether all of them were done.
async fn do_all(shared: &Shared, kept: &Kept, writes: Vec<Write>) -> bool {
    let mut all = true;
    let (statuses, first): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|write| matches!(write, Write::PatchPodStatus(..)));
    for write in first {
        all &= do_one(shared, kept, write).await;
    }
    let done = futures::stream::iter(statuses).map(|write| do_one(shared, kept, write));
    all & done.buffer_unordered(AT_ONCE).fold(true, async |all, one| all & one).await
}

async fn do_one(shared: &Shared, kept: &Kept, write: Write) -> bool {
    let permit = shared.writes.acquire().await;
    let answer = match timeout(CALL, perform(&shared.client, &write)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::debug!(?write, error = &error as &dyn std::error::Error, "a write failed");
            Answer::Failed
        }
        Err(_) => {
            tracing::debug!(?write, "a write took too long");
            Answer::Failed
        }
    };
    drop(permit);
    let done = !matches!(answer, Answer::Failed);
    kept.with(|host| host.wrote(&write, answer, shared.clock.now()));
    done
}

async fn perform(client: &Client, write: &Write) -> kube::Result<Answer> {
    let nodes: Api<core::Node> = Api::all(client.clone());
    let pods = |namespace: &str| -> Api<core::Pod> { Api::namespaced(client.clone(), namespace) };
    let merge = PatchParams { field_manager: Some("slicewright-sim".to_owned()), ..PatchParams::default() };
    let result = match write {
        Write::CreateNode(node) => {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            match nodes.create(&PostParams::default(), node).await {
                Err(error) if is(&error, 409) => nodes.get(name).await,
                other => other,
            }
            .map(|node| Answer::Node(Box::new(node)))
        }
        Write::PatchNode { node, patch } => {
            nodes.patch(node, &merge, &Patch::Merge(patch)).await.map(|node| Answer::Node(Box::new(node)))
        }
        Write::PatchNodeStatus { node, patch } => nodes
            .patch_status(node, &merge, &Patch::Strategic(patch))
            .await
            .map(|node| Answer::Node(Box::new(node))),
        Write::CreatePod(pod) => {
            let api = pods(pod.metadata.namespace.as_deref().unwrap_or_default());
            let answer = match api.create(&PostParams::default(), pod).await {
                Err(error) if is(&error, 409) => {
                    api.get(pod.metadata.name.as_deref().unwrap_or_default()).await
                }
                other => other,
            };
            // A namespace that is not there yet is no pod that is gone.
            return Ok(answer.map_or(Answer::Failed, |pod| Answer::Pod(Box::new(pod))));
        }
        Write::PatchPodStatus(name, patch) => pods(&name.namespace)
            .patch_status(&name.name, &merge, &Patch::Strategic(patch))
            .await
            .map(|pod| Answer::Pod(Box::new(pod))),
        Write::DeletePod { name, uid, grace } => {
            let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
            let params =
                DeleteParams { grace_period_seconds: *grace, preconditions, ..DeleteParams::default() };
            match pods(&name.namespace).delete(&name.name, &params).await {
                Ok(_) if *grace == Some(0) => Ok(Answer::Gone),
                Ok(deleted) => Ok(deleted.left().map_or(Answer::Done, |pod| Answer::Pod(Box::new(pod)))),
                // Another pod has the name now.
                Err(error) if is(&error, 409) => Ok(Answer::Gone),
                Err(error) => Err(error),
            }
        }
        Write::ApplyMap(map) => {
            let namespace = map.metadata.namespace.as_deref().unwrap_or_default();
            let name = map.metadata.name.as_deref().unwrap_or_default();
            let api: Api<core::ConfigMap> = Api::namespaced(client.clone(), namespace);
            // Its name is the node's alone; a map of an earlier pod is taken over.
            let params = PatchParams::apply("nvidia-mig-manager").force();
            api.patch(name, &params, &Patch::Apply(map)).await.map(|_| Answer::Done)
        }
        Write::CreateEvent(event) => {
            let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
            let api: Api<core::Event> = Api::namespaced(client.clone(), namespace);
            match api.create(&PostParams::default(), event).await {
                Err(error) if !is(&error, 409) => Err(error),
                _ => Ok(Answer::Done),
            }
        }
    };
    match result {
        Err(error) if is(&error, 404) => Ok(Answer::Gone),
        other => other,
    }
}
