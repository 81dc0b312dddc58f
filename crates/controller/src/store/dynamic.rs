//! Objects of our own and of foreign kinds, which are read by their kind, trimmed, and kept within bounds.

use std::sync::Arc;

use api::foreign::{ClusterQueue, LocalQueue, ModelServer, Notebook, Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use observe::objects::Key;
use observe::{Objects, Problem};

use super::{Foreign, Source, Store, bounds, trim};

/// What is read of one object of a kind that others write often.
#[derive(PartialEq)]
enum Read {
    /// It is not kept.
    Nothing,
    ClusterQueue(Box<ClusterQueue>),
    LocalQueue(Box<LocalQueue>),
    Workload(Box<Workload>),
    Notebook(Box<Notebook>),
    ModelServer(Box<ModelServer>),
}

impl Store {
    pub(super) fn put_dynamic(&mut self, source: &Source, key: Key, object: DynamicObject) -> bool {
        let meta = object.metadata.clone();
        let before = self.cost_of(source, &key);
        let read_before = self.what_is_read(source, &key);
        let was_strict = self.is_strict(source, &key);
        let outcome = read(&mut self.objects, source, object)
            .map_err(|problem| bounds::cut(problem, bounds::LONGEST_WORDS))
            .and_then(|()| self.bound(source, &key, before));
        let at = (source.clone(), key.clone());
        match outcome {
            Ok(()) => {
                self.unreadable.remove(&at);
                self.name_labels_of(source, &key);
                if *source == Source::Foreign(Foreign::GpuCluster) {
                    self.gpu_clusters.insert(key.clone());
                }
            }
            Err(problem) => {
                tracing::error!(%source, name = key.1, problem, "an object cannot be read");
                let user = match source {
                    Source::Foreign(foreign) => Some((foreign.names().1.to_owned(), key.clone())),
                    _ => None,
                };
                let profile = user.as_ref().and_then(|user| self.objects.unread_users.remove(user));
                self.remove(source, &key);
                // The hardware profile that it names is in use all the same.
                self.objects.unread_users.extend(user.zip(profile));
                if *source == Source::GpuNodes {
                    // What is remembered must not be forgotten: the node is
                    // held until a human has looked.
                    self.objects.gpu_nodes.insert(key.1.clone(), Arc::new(illegible(meta)));
                }
                self.unreadable.insert(at, problem);
                return true;
            }
        }
        // Of those who wait in it, only who asks for GPUs was kept. Before it was listed, all of them are.
        if !was_strict && self.is_strict(source, &key) && self.is_synced(source) {
            self.passed_over.insert(Source::Foreign(Foreign::Workload));
        }
        // Kueue counts in a queue's status what of it we read and what not. The controllers of workloads, workbenches and
        // model servers write there all the time, and most workloads ask for no GPU and are not kept.
        read_before.is_none() || read_before != self.what_is_read(source, &key)
    }

    /// Whether it is a queue in which nobody passes who waits for quota.
    fn is_strict(&self, source: &Source, key: &Key) -> bool {
        *source == Source::Foreign(Foreign::ClusterQueue)
            && self.objects.cluster_queues.get(&key.1).is_some_and(ClusterQueue::is_strict)
    }

    /// What is read of an object, whatever its version is; `None` for kinds of which every message is news.
    fn what_is_read(&self, source: &Source, key: &Key) -> Option<Read> {
        let objects = &self.objects;
        let read = match source {
            Source::Foreign(Foreign::ClusterQueue) => objects.cluster_queues.get(&key.1).map(|queue| {
                let mut queue = queue.clone();
                queue.metadata.resource_version = None;
                Read::ClusterQueue(Box::new(queue))
            }),
            Source::Foreign(Foreign::LocalQueue) => objects.local_queues.get(key).map(|queue| {
                let mut queue = queue.clone();
                queue.metadata.resource_version = None;
                Read::LocalQueue(Box::new(queue))
            }),
            Source::Foreign(Foreign::Workload) => objects.workloads.get(key).map(|workload| {
                let mut workload = Workload::clone(workload);
                workload.metadata.resource_version = None;
                Read::Workload(Box::new(workload))
            }),
            Source::Foreign(Foreign::Notebook) => objects.notebooks.get(key).map(|notebook| {
                let mut notebook = Notebook::clone(notebook);
                notebook.metadata.resource_version = None;
                Read::Notebook(Box::new(notebook))
            }),
            Source::Foreign(foreign @ (Foreign::InferenceService | Foreign::LlmInferenceService)) => {
                let server = objects.model_servers.get(&(foreign.names().1.to_owned(), key.clone()));
                server.map(|server| {
                    let mut server = ModelServer::clone(server);
                    server.metadata.resource_version = None;
                    Read::ModelServer(Box::new(server))
                })
            }
            _ => return None,
        };
        Some(read.unwrap_or(Read::Nothing))
    }

    /// What it costs to keep where a pod or a workbench may go.
    pub(super) fn cost_of(&self, source: &Source, key: &Key) -> usize {
        match source {
            Source::Pods => {
                self.objects.pods.get(key).and_then(|pod| pod.spec.as_ref()).map_or(0, bounds::cost)
            }
            Source::Foreign(Foreign::Notebook) => self
                .objects
                .notebooks
                .get(key)
                .map_or(0, |notebook| bounds::cost(notebook.spec.template.spec.shape())),
            Source::Foreign(Foreign::Workload) => {
                let sets = self.objects.workloads.get(key).map(|workload| &workload.spec.pod_sets);
                sets.into_iter().flatten().map(|set| bounds::cost(set.template.spec.shape())).sum()
            }
            _ => 0,
        }
    }

    /// Whether a workload waits for quota in a queue in which nobody passes it, or in one that is not known yet.
    fn may_keep_others_waiting(&self, key: &Key) -> bool {
        let Objects { workloads, local_queues, cluster_queues, .. } = &self.objects;
        let Some(workload) = workloads.get(key) else { return false };
        let local = local_queues.get(&(key.0.clone(), workload.spec.queue_name.clone()));
        let queue = local.map(|local| cluster_queues.get(&local.spec.cluster_queue));
        let may_be_strict = match queue {
            Some(Some(queue)) => queue.is_strict(),
            // Whoever names no queue that there is waits in none; before queues are listed, nobody knows.
            None => !self.is_synced(&Source::Foreign(Foreign::LocalQueue)),
            Some(None) => !self.is_synced(&Source::Foreign(Foreign::ClusterQueue)),
        };
        may_be_strict && !workload.is("Finished") && !workload.is("QuotaReserved")
    }

    /// Before queues were listed, everybody was kept who waits in one.
    pub(super) fn forget_who_keeps_nobody_waiting(&mut self) {
        let of_gpus = |workload: &Workload| !workload.spec.pod_sets.is_empty() || trim::may_wait(workload);
        let others = self.objects.workloads.iter().filter(|(_, workload)| !of_gpus(workload));
        let gone = others.map(|(key, _)| key.clone()).filter(|key| !self.may_keep_others_waiting(key));
        for key in gone.collect::<Vec<Key>>() {
            self.remove(&Source::Foreign(Foreign::Workload), &key);
        }
    }

    /// Keeps of what people wrote into a workbench or a hardware profile only
    /// what is read, within bounds.
    fn bound(&mut self, source: &Source, key: &Key, mut before: usize) -> Result<(), String> {
        match source {
            Source::Foreign(Foreign::Workload) => {
                let is_before_others = self.may_keep_others_waiting(key);
                let Some(kept) =
                    self.objects.workloads.get_mut(key).filter(|w| is_before_others || trim::may_wait(w))
                else {
                    // What it costs was never counted; what the one of before cost was.
                    self.objects.workloads.remove(key);
                    self.costs.remove(&key.0, before);
                    self.remove(source, key);
                    return Ok(());
                };
                if !trim::may_wait(kept) {
                    *kept = Arc::new(trim::only_its_turn(Arc::unwrap_or_clone(std::mem::take(kept))));
                    self.costs.remove(&key.0, before);
                    return Ok(());
                }
                let mut workload = trim::workload(Arc::unwrap_or_clone(std::mem::take(kept)));
                for set in &mut workload.spec.pod_sets {
                    let spec = &mut set.template.spec;
                    spec.change(|spec| self.costs.add(&key.0, std::mem::take(&mut before), spec));
                    self.templates.share(spec);
                }
                if let Some(admission) = &mut workload.status.admission {
                    self.admissions.share(admission);
                }
                *kept = Arc::new(workload);
            }
            Source::Foreign(Foreign::ClusterQueue) => {
                if let Some(queue) = self.objects.cluster_queues.get_mut(&key.1) {
                    *queue = trim::cluster_queue(std::mem::take(queue));
                }
            }
            Source::Foreign(Foreign::LocalQueue) => {
                if let Some(queue) = self.objects.local_queues.get_mut(key) {
                    *queue = trim::local_queue(std::mem::take(queue));
                }
            }
            Source::Foreign(Foreign::Notebook) => {
                if let Some(kept) = self.objects.notebooks.get_mut(key) {
                    let mut notebook = trim::notebook(Arc::unwrap_or_clone(std::mem::take(kept)));
                    let spec = &mut notebook.spec.template.spec;
                    spec.change(|spec| self.costs.add(&key.0, before, spec));
                    self.templates.share(spec);
                    *kept = Arc::new(notebook);
                }
            }
            Source::Foreign(foreign @ (Foreign::InferenceService | Foreign::LlmInferenceService)) => {
                let at = (foreign.names().1.to_owned(), key.clone());
                if let Some(kept) = self.objects.model_servers.get_mut(&at) {
                    *kept = Arc::new(trim::model_server(Arc::unwrap_or_clone(std::mem::take(kept))));
                    // Only one that names a profile keeps it from being deleted.
                    if kept.hardware_profile().is_none() {
                        self.remove(source, key);
                    }
                }
            }
            Source::Foreign(Foreign::HardwareProfile) => {
                if let Some(profile) = self.objects.hardware_profiles.get_mut(key) {
                    if bounds::was_cut(profile.metadata.annotations.as_ref()) {
                        return Err("it is too long to be evaluated".to_owned());
                    }
                    *profile = trim::hardware_profile(std::mem::take(profile));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A `GpuNode` whose progress nobody can read.
fn illegible(metadata: ObjectMeta) -> api::GpuNode {
    let rollout = api::gpu_node::NodeRollout {
        progress: Some(serde_json::Value::String("the object cannot be read".to_owned())),
        ..Default::default()
    };
    let status = api::GpuNodeStatus { rollout: Some(rollout), ..Default::default() };
    api::GpuNode { metadata, spec: api::GpuNodeSpec::default(), status: Some(status) }
}

/// Reads an object of ours or of a foreign kind. One that cannot be read
/// concerns nobody else: each is read on its own.
fn read(objects: &mut Objects, source: &Source, object: DynamicObject) -> Result<(), String> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let value = |object: DynamicObject| serde_json::to_value(object).map_err(|error| error.to_string());
    match source {
        Source::Policies => {
            let policy = serde_json::from_value(value(object)?).map_err(|error| error.to_string())?;
            objects.policies.insert(name, policy);
            Ok(())
        }
        Source::GpuNodes => {
            let node = serde_json::from_value(value(object)?).map_err(|error| error.to_string())?;
            objects.gpu_nodes.insert(name, Arc::new(node));
            Ok(())
        }
        Source::Foreign(foreign) => {
            let (group, kind, _, versions) = foreign.names();
            let mut found: Option<Problem> = None;
            let api_version = format!("{group}/{}", versions[0]);
            objects.add_value(&api_version, kind, value(object)?, &mut |problem| found = Some(problem));
            found.map_or(Ok(()), |problem| Err(problem.to_string()))
        }
        _ => Ok(()),
    }
}
