//! Runs workbenches: watches Notebooks, hardware profiles and the resulting objects, and does the writes of
//! [`Book`]. Kinds that are not served yet are retried, so that OpenShift AI may be installed later.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::foreign::HardwareProfile;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use operands::PodName;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, real_now};
use crate::error::is;
use crate::names::name_of;
use crate::notebooks::{Book, Culling, Write, take};
use crate::watch::{Seen, follow, never};

const CULLER: &str = "notebook-controller-culler-config";

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn notebook() -> ApiResource {
    resource("kubeflow.org", "v1", "Notebook")
}

/// What the watches and the writer share.
struct Desk {
    book: Mutex<Book>,
    wake: Notify,
}

impl Desk {
    fn write_down(&self, change: impl FnOnce(&mut Book)) {
        change(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }
}

/// Keeps the workbenches of a cluster going until stopped, whoever keeps its
/// nodes: real kubelets start their pods as virtual ones do. Culling counts by
/// this clock.
pub async fn keep_workbenches(client: Client, clock: Clock, stop: CancellationToken) {
    let desk = Desk { book: Mutex::default(), wake: Notify::new() };
    let workbench = Config::default().labels("notebook-name");

    let notebooks: Api<DynamicObject> = Api::all_with(client.clone(), &notebook());
    let on_notebook = |seen: Seen<DynamicObject, PodName>| {
        desk.write_down(|book| match seen {
            Seen::There(object) => take(&mut book.notebooks, name_of(&object.metadata), object),
            Seen::Gone(name) => drop(book.notebooks.remove(&name)),
        });
    };
    let on_set = |seen: Seen<StatefulSet, PodName>| {
        desk.write_down(|book| match seen {
            Seen::There(object) => take(&mut book.sets, name_of(&object.metadata), object),
            Seen::Gone(name) => drop(book.sets.remove(&name)),
        });
    };
    let on_pod = |seen: Seen<Pod, PodName>| {
        desk.write_down(|book| match seen {
            Seen::There(object) => take(&mut book.pods, name_of(&object.metadata), object),
            Seen::Gone(name) => drop(book.pods.remove(&name)),
        });
    };
    let profiles: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("infrastructure.opendatahub.io", "v1", "HardwareProfile"));
    let on_profile = |seen: Seen<DynamicObject, PodName>| {
        desk.write_down(|book| match seen {
            Seen::There(object) => {
                let name = name_of(&object.metadata);
                let read = serde_json::to_value(object).and_then(serde_json::from_value::<HardwareProfile>);
                if let Ok(profile) = read {
                    book.profiles.insert(name, profile);
                }
            }
            Seen::Gone(name) => drop(book.profiles.remove(&name)),
        });
    };
    let on_culler = |seen: Seen<ConfigMap, ()>| {
        desk.write_down(|book| {
            book.culling = match seen {
                Seen::There(map) => Culling::from_data(&map.data.unwrap_or_default()),
                Seen::Gone(()) => Culling::default(),
            };
        });
    };
    let on_event = |seen: Seen<Event, PodName>| {
        desk.write_down(|book| match seen {
            Seen::There(event) => book.heard(event),
            Seen::Gone(of) => book.reissued.expired(&of),
        });
    };
    let about = |kind: &str| Config::default().fields(&format!("involvedObject.kind={kind}"));
    let events = || -> Api<Event> { Api::all(client.clone()) };
    let event_name = |event: &Event| name_of(&event.metadata);
    let maps = Config::default().fields(&format!("metadata.name={CULLER}"));
    futures::join!(
        follow(notebooks, Config::default(), stop.clone(), never(), |o| name_of(&o.metadata), on_notebook),
        follow(
            Api::all(client.clone()),
            workbench.clone(),
            stop.clone(),
            never(),
            |o: &StatefulSet| name_of(&o.metadata),
            on_set
        ),
        follow(
            Api::all(client.clone()),
            workbench,
            stop.clone(),
            never(),
            |o: &Pod| name_of(&o.metadata),
            on_pod
        ),
        follow(profiles, Config::default(), stop.clone(), never(), |o| name_of(&o.metadata), on_profile),
        follow(events(), about("Pod"), stop.clone(), never(), event_name, on_event),
        follow(events(), about("StatefulSet"), stop.clone(), never(), event_name, on_event),
        follow(Api::all(client.clone()), maps, stop.clone(), never(), |_| (), on_culler),
        write(&client, &clock, &stop, &desk),
    );
}

/// Does what is due, one write after the other.
async fn write(client: &Client, clock: &Clock, stop: &CancellationToken, desk: &Desk) {
    loop {
        let (due, next) = {
            let mut book = desk.book.lock().unwrap_or_else(PoisonError::into_inner);
            (book.due(clock.now(), real_now()), book.next_event())
        };
        let mut wait = next.map_or(Duration::from_secs(60), |at| clock.until(at));
        let idle = due.is_empty();
        let mut failed = false;
        for one in due {
            match tokio::time::timeout(Duration::from_secs(10), perform(client, &one)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(answer))) => desk.write_down(|book| match answer {
                    Answer::Notebook(object) => {
                        take(&mut book.notebooks, name_of(&object.metadata), *object);
                    }
                    Answer::Set(set) => take(&mut book.sets, name_of(&set.metadata), *set),
                    Answer::Status(object, of) => {
                        let name = name_of(&object.metadata);
                        take(&mut book.notebooks, name.clone(), *object);
                        book.reconciled(name, of);
                    }
                    Answer::Said(of) => book.reissued.said(&of),
                }),
                Ok(Err(error)) => {
                    tracing::debug!(write = ?one, error = &error as &dyn std::error::Error, "a write failed");
                    failed = true;
                }
                Err(_) => failed = true,
            }
        }
        if failed {
            wait = Duration::from_millis(300);
        } else if !idle {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = desk.wake.notified(), if !failed => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

enum Answer {
    Notebook(Box<DynamicObject>),
    Set(Box<StatefulSet>),
    /// With the digest of what the status was made of.
    Status(Box<DynamicObject>, String),
    /// Which event was said again.
    Said(PodName),
}

async fn perform(client: &Client, write: &Write) -> kube::Result<Option<Answer>> {
    let params = PatchParams { field_manager: Some("slicewright-sim".to_owned()), ..PatchParams::default() };
    let sets = |namespace: &str| -> Api<StatefulSet> { Api::namespaced(client.clone(), namespace) };
    let notebooks = |namespace: &str| -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &notebook())
    };
    match write {
        Write::CreateSet(set) => {
            let api = sets(set.metadata.namespace.as_deref().unwrap_or_default());
            let made = match api.create(&PostParams::default(), set).await {
                Err(error) if is(&error, 409) => {
                    api.get(set.metadata.name.as_deref().unwrap_or_default()).await
                }
                other => other,
            };
            made.map(|set| Some(Answer::Set(Box::new(set))))
        }
        Write::PatchSet(name, patch) => sets(&name.namespace)
            .patch(&name.name, &params, &Patch::Merge(patch))
            .await
            .map(|set| Some(Answer::Set(Box::new(set)))),
        Write::PatchNotebook(name, patch) => notebooks(&name.namespace)
            .patch(&name.name, &params, &Patch::Merge(patch))
            .await
            .map(|object| Some(Answer::Notebook(Box::new(object)))),
        Write::PatchStatus(name, patch, of) => notebooks(&name.namespace)
            .patch_status(&name.name, &params, &Patch::Merge(patch))
            .await
            .map(|object| Some(Answer::Status(Box::new(object), of.clone()))),
        Write::Reissue(of, event) => say_again(client, event).await.map(|()| Some(Answer::Said(of.clone()))),
        Write::DeletePod(name) => {
            let api: Api<Pod> = Api::namespaced(client.clone(), &name.namespace);
            match api.delete(&name.name, &DeleteParams::default()).await {
                Err(error) if !is(&error, 404) => Err(error),
                _ => Ok(None),
            }
        }
    }
}

/// Creates an event, or counts it once more.
async fn say_again(client: &Client, event: &Event) -> kube::Result<()> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let name = event.metadata.name.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match api.create(&PostParams::default(), event).await {
        Err(error) if is(&error, 409) => {}
        other => return other.map(drop),
    }
    let count = api.get_opt(name).await?.and_then(|event| event.count).unwrap_or(0) + 1;
    let counted = json!({"count": count, "lastTimestamp": event.last_timestamp});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(counted)).await {
        Err(error) if !is(&error, 404) => Err(error),
        _ => Ok(()),
    }
}
