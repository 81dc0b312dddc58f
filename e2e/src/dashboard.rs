//! What people see of a workbench in OpenShift AI's dashboard: the events that it lists, and its status line in each
//! release, by the rules of [`workbenches::dashboard`].

use std::collections::BTreeMap;

use anyhow::Context;
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinHandle;
use workbenches::dashboard::{InQueue, RELEASES, ShownEvent, Workbench, status_line};

use crate::expect::phase;
use crate::manifests::TEAM;
use crate::queue::{QUEUE, workloads};
use crate::scene::Scene;

/// How long ago somebody last worked with the workbench. It was made long before it is started, as most are: in a new
/// one some lines are held back at first.
const MADE_BEFORE: SignedDuration = SignedDuration::from_hours(24);

impl Scene {
    /// The events of a workbench of the team as the dashboard asks for them: of
    /// its pod, by uid.
    ///
    /// # Errors
    /// When it has no pod, or the events cannot be listed.
    pub async fn event_log(&self, workbench: &str) -> anyhow::Result<Vec<Event>> {
        let pod = self.pods().get(&format!("{workbench}-0")).await?;
        let uid = pod.metadata.uid.unwrap_or_default();
        let of_pod =
            ListParams::default().fields(&format!("involvedObject.kind=Pod,involvedObject.uid={uid}"));
        let events: Api<Event> = Api::namespaced(self.client(), TEAM);
        Ok(events.list(&of_pod).await?.items)
    }

    /// Somebody who looks at the status line of a workbench from now on, whenever something of it changes.
    ///
    /// # Errors
    /// When the API server does not know a kind that it should.
    pub async fn reader_of(&self, workbench: &str) -> anyhow::Result<Reader> {
        let events: Api<Event> = Api::namespaced(self.client(), TEAM);
        let mut changes: Changes = SelectAll::new();
        changes.push(watched(self.pods(), |pod| Change::Pod(Box::new(pod))));
        changes.push(watched(events, |event| Change::Event(Box::new(event))));
        if self.kueue.is_some() {
            changes.push(watched(workloads(self).await?, |workload| Change::Workload(Box::new(workload))));
        }
        let look = Look::at(workbench);
        Ok(Reader { reading: tokio::spawn(read(look, changes)), patience: self.patience() })
    }

    /// The status line of a workbench that has no pod and waits, by release: of what its StatefulSet says.
    ///
    /// # Errors
    /// When the events cannot be listed.
    pub async fn lines_without_a_pod(&self, workbench: &str) -> anyhow::Result<Vec<String>> {
        let of_set = format!("involvedObject.kind=StatefulSet,involvedObject.name={workbench}");
        let events: Api<Event> = Api::namespaced(self.client(), TEAM);
        let mut look = Look::at(workbench);
        for event in events.list(&ListParams::default().fields(&of_set)).await? {
            look.told.extend(shown(&event).map(|shown| (event.name_any(), shown)));
        }
        Ok(look.lines())
    }
}

type Changes = SelectAll<BoxStream<'static, Change>>;

/// What has changed.
enum Change {
    Pod(Box<Pod>),
    Event(Box<Event>),
    Workload(Box<DynamicObject>),
}

/// Every version of the objects of an API. Whoever is interrupted begins anew.
fn watched<K>(api: Api<K>, change: impl Fn(K) -> Change + Send + 'static) -> BoxStream<'static, Change>
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let objects = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
    objects.filter_map(|object| std::future::ready(object.ok())).map(change).boxed()
}

/// Somebody who reads, and remembers every line.
pub struct Reader {
    reading: JoinHandle<Vec<Vec<String>>>,
    patience: std::time::Duration,
}

impl Reader {
    /// Waits until the workbench runs, and says what was read from the click until then: for each release, oldest
    /// first, the lines in their order.
    ///
    /// # Errors
    /// When time is up.
    pub async fn until_it_runs(self) -> anyhow::Result<Vec<Vec<String>>> {
        let read = tokio::time::timeout(self.patience, self.reading).await;
        read.context("the workbench never ran before the eyes of its reader")?.context("nobody read on")
    }
}

/// Reads until the workbench runs and its dashboard knows how it came there.
async fn read(mut look: Look, mut changes: Changes) -> Vec<Vec<String>> {
    let mut read: Vec<Vec<String>> = vec![Vec::new(); RELEASES.len()];
    let note = |look: &Look, read: &mut Vec<Vec<String>>| {
        for (line, read) in look.lines().into_iter().zip(read) {
            if read.last() != Some(&line) {
                read.push(line);
            }
        }
    };
    note(&look, &mut read);
    while let Some(change) = changes.next().await {
        look.takes_in(change);
        if look.is_over() {
            break;
        }
        note(&look, &mut read);
    }
    note(&look, &mut read);
    read
}

/// What the dashboard knows of a workbench.
struct Look {
    workbench: String,
    pod: Option<Pod>,
    /// The events of its pod by their names; of earlier pods, too.
    told: BTreeMap<String, ShownEvent>,
    /// Whose they are.
    uids: BTreeMap<String, String>,
    workload: Option<DynamicObject>,
    /// When it looks. What is told comes then, or before.
    now: Timestamp,
}

impl Look {
    fn at(workbench: &str) -> Self {
        Self {
            workbench: workbench.to_owned(),
            pod: None,
            told: BTreeMap::new(),
            uids: BTreeMap::new(),
            workload: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn takes_in(&mut self, change: Change) {
        let pod_name = format!("{}-0", self.workbench);
        match change {
            Change::Pod(pod) if pod.name_any() == pod_name => self.pod = Some(*pod),
            Change::Event(event) if event.involved_object.name.as_ref() == Some(&pod_name) => {
                if let Some(shown) = shown(&event) {
                    let name = event.name_any();
                    self.uids.insert(name.clone(), event.involved_object.uid.unwrap_or_default());
                    self.told.insert(name, shown);
                }
            }
            Change::Workload(workload) => {
                let owns = |name: &str| name == pod_name || name == self.workbench;
                if workload.owner_references().iter().any(|owner| owns(&owner.name)) {
                    self.workload = Some(*workload);
                }
            }
            Change::Pod(_) | Change::Event(_) => {}
        }
        let latest = self.told.values().map(|told| told.at).max();
        self.now = self.now.max(latest.unwrap_or(self.now));
    }

    fn is_over(&self) -> bool {
        let runs = self.pod.as_ref().is_some_and(|pod| phase(pod) == "Running");
        runs && self.shown().iter().any(|told| told.reason == "Scheduled")
    }

    /// The events of its pod, or of what there is in its place.
    fn shown(&self) -> Vec<ShownEvent> {
        let uid = self.pod.as_ref().and_then(ResourceExt::uid);
        let is_of_it = |(name, _): &(&String, &ShownEvent)| self.uids.get(*name) == uid.as_ref();
        self.told.iter().filter(is_of_it).map(|(_, told)| told.clone()).collect()
    }

    /// Its line in each release.
    fn lines(&self) -> Vec<String> {
        let told = self.shown();
        let spec = self.pod.as_ref().and_then(|pod| pod.spec.as_ref());
        let containers: Vec<&str> =
            spec.iter().flat_map(|spec| &spec.containers).map(|container| &*container.name).collect();
        let conditions: Vec<Condition> = self
            .workload
            .as_ref()
            .and_then(|workload| serde_json::from_value(workload.data["status"]["conditions"].clone()).ok())
            .unwrap_or_default();
        let name = self.pod.as_ref().and_then(|pod| pod.labels().get(QUEUE));
        let queue = self
            .workload
            .as_ref()
            .map(|_| InQueue { name: name.map(String::as_str), conditions: &conditions });
        let workbench = Workbench {
            told: &told,
            containers: &containers,
            queue,
            last_activity: self.now - MADE_BEFORE,
            starting: true,
        };
        let line = |release| status_line(release, &workbench, self.now).map(|line| line.text);
        RELEASES.iter().map(|release| line(release).unwrap_or_default()).collect()
    }
}

/// An event as the dashboard takes it: a series has the time at which it began.
fn shown(event: &Event) -> Option<ShownEvent> {
    let at = event.last_timestamp.as_ref().map(|time| time.0);
    Some(ShownEvent {
        warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        at: at.or(event.event_time.as_ref().map(|time| time.0))?,
    })
}
