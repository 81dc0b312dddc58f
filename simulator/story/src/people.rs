//! The actions of people and machines on the cluster, command by command.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu::PciClass;
use k8s_openapi::api::core::v1::Namespace;
use mig::sharing::Known;
use mig::{Attribute, Catalog};
use planner::names::GpuIndex;
use rollout::{GpuLayout, NodeLayout, Phase};

use crate::command::{Key, NodeSpec, Stopper};
use crate::entry::{Who, clock};
use crate::host::Host;
use crate::manifests::Object;
use crate::notebooks;
use crate::picture::{GpuPicture, NodePicture, Picture, SlicePicture};
use crate::plan_round::progress;
use crate::store::path;
use crate::webhook;
use crate::words::Word;
use crate::world::World;

/// The word for a GPU that drives a screen and knows no MIG.
const DISPLAY: &str = "display";

impl World {
    /// A node comes; the error says which word of the story is wrong.
    pub(crate) fn add_node(&mut self, name: &str, spec: &NodeSpec) -> Result<(), (Option<Word>, String)> {
        if self.hosts.contains_key(name) {
            return Err((None, format!("there is a node `{name}` already")));
        }
        if self.single.is_some_and(|single| single != spec.single) {
            return Err((None, "the strategy is the whole cluster's (ClusterPolicy spec.mig.strategy): all nodes have the same".to_owned()));
        }
        let mut models: Vec<Arc<gpu::Model>> = Vec::new();
        for (count, word) in &spec.gpus {
            let model = if word.text == DISPLAY {
                Arc::new(gpu::Model::without_mig("NVIDIA DGX Display", 4096, PciClass::Vga))
            } else if let Some(Known::Card(card)) = mig::sharing::find(&word.text) {
                // Its memory is what it is sold with: nobody asks for more here.
                Arc::new(gpu::Model::without_mig(&card.names[0], card.memory_gb * 1024, PciClass::ThreeD))
            } else {
                gpu::Model::find(&word.text).map_err(|e| (Some(word.clone()), e.to_string()))?
            };
            models.extend(std::iter::repeat_n(model, usize::from(*count)));
        }
        self.single = Some(spec.single);
        let (config, begins_with) = beginning(name, spec, &models);
        let text = map_with(&models, begins_with.as_ref());
        let mut host = Host::new(name, spec, &models, &text, config.as_deref(), begins_with, self.now)
            .map_err(|e| (spec.layout.clone(), e.to_string()))?;
        if let Some(files) = self.plugin_map() {
            host.node.set_plugin_config(Some(files), "");
        }
        self.hosts.insert(name.to_owned(), host);
        self.begin_map();
        self.publish_hosts();
        Ok(())
    }

    pub(crate) fn namespace(&mut self, name: &str, labels: &BTreeMap<String, String>) {
        if self.namespaces.get(name).is_some() && labels.is_empty() {
            return;
        }
        let mut labels = labels.clone();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace.metadata.labels = Some(labels);
        self.namespaces.put(namespace, self.now, &mut self.revision);
    }

    /// Takes an object of a manifest in, as the API server would.
    pub(crate) fn take_in(&mut self, object: Object, policies_only: bool) -> Result<(), String> {
        let Self { now, revision, .. } = self;
        let (now, revision) = (*now, revision);
        match object {
            Object::Policy(policy) => {
                let name = policy.metadata.name.clone().unwrap_or_default();
                let mut policy = *policy;
                policy.status = self.policies.get(&name).and_then(|p| p.status.clone());
                self.policies.put(policy, now, revision);
                self.say(Who::Person("administrator".to_owned()), format!("applies policy {name}"));
            }
            _ if policies_only => {
                return Err(
                    "`policy` takes manifests of kind GpuPartitionPolicy; use `apply` for others".to_owned()
                );
            }
            Object::Notebook(notebook) => {
                let mut notebook = *notebook;
                let namespace =
                    notebook.metadata.namespace.get_or_insert_with(|| "default".to_owned()).clone();
                webhook::inject(&mut notebook, &self.profiles)?;
                let key = crate::store::key_of(&notebook);
                self.notebooks.put(notebook, now, revision);
                self.namespace(&namespace, &BTreeMap::new());
                self.say(Who::Person(key), "starts, from its manifest");
            }
            Object::Pod(mut pod) => {
                pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
                let key = crate::store::key_of(&*pod);
                self.create_pod(*pod);
                self.say(Who::Person(key), "comes, from its manifest");
            }
            Object::Profile(profile) => {
                let mut profile = *profile;
                profile.metadata.namespace.get_or_insert_with(|| webhook::APPLICATION_NAMESPACE.to_owned());
                self.profiles.put(profile, now, revision);
            }
            Object::Namespace(namespace) => self.namespaces.put(*namespace, now, revision),
            Object::Map(map) => self.maps.put(*map, now, revision),
            Object::Budget(budget) => self.budgets.put(*budget, now, revision),
            Object::Priority(class) => self.priorities.put(*class, now, revision),
            Object::Node(node) => self.nodes.put(*node, now, revision),
            Object::Other(kind) => {
                self.say(Who::Cluster, format!("a {kind} plays no part here, and is ignored"));
            }
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, kind: &str, name: &str) -> Result<(), String> {
        let revision = &mut self.revision;
        let gone = match kind {
            "policy" => self.policies.remove(name, revision).is_some(),
            "workbench" => self.notebooks.remove(name, revision).is_some(),
            "profile" => {
                let key = if name.contains('/') {
                    name.to_owned()
                } else {
                    path(webhook::APPLICATION_NAMESPACE, name)
                };
                self.profiles.remove(&key, revision).is_some()
            }
            "pod" => {
                let there = self.pods.get(name).is_some();
                self.delete_pod(name);
                there
            }
            _ => {
                self.hosts.remove(name);
                self.gpu_nodes.remove(name, &mut self.revision);
                self.nodes.remove(name, &mut self.revision).is_some()
            }
        };
        if gone { Ok(()) } else { Err(format!("there is no {kind} `{name}`")) }
    }

    /// The key of the pod of a workbench, or of a bare pod.
    pub(crate) fn pod_of(&self, (namespace, name): &Key) -> String {
        let notebook = self.notebooks.get(&path(namespace, name)).is_some();
        if notebook { notebooks::pod_key(namespace, name) } else { path(namespace, name) }
    }

    pub(crate) fn start(&mut self, key: &Key, runs: bool, who: Stopper) -> Result<(), String> {
        let path = path(&key.0, &key.1);
        if self.notebooks.get(&path).is_none() {
            return Err(format!("there is no workbench {path}"));
        }
        let now = self.now;
        self.notebooks.edit(&path, &mut self.revision, |notebook| {
            if runs { notebooks::start(notebook) } else { notebooks::stop(notebook, now) }
        });
        let what = match (runs, who) {
            (true, _) => "is started again",
            (false, Stopper::User) => "is stopped by its user",
            (false, Stopper::Culler) => "is stopped by the culler: nobody used it",
        };
        self.say(Who::Person(path), what);
        Ok(())
    }

    pub(crate) fn end(&mut self, key: &Key) -> Result<(), String> {
        let path = path(&key.0, &key.1);
        if self.pods.get(&path).is_none() {
            return Err(format!("there is no pod {path}; a workbench is ended with `stop`"));
        }
        self.end_pod(&path);
        Ok(())
    }

    pub(crate) fn open(&mut self, key: &Key, opens: bool) -> Result<(), String> {
        let pod = self.pod_of(key);
        let Some(host) = self.hosts.values_mut().find(|host| host.knows(&pod)) else {
            return Err(format!("no node has a pod {pod}"));
        };
        let what = if opens {
            host.open(&pod);
            "opens its slices"
        } else {
            host.close(&pod);
            "closes its slices"
        };
        self.say(Who::Person(path(&key.0, &key.1)), what);
        Ok(())
    }

    pub(crate) fn reboot(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.node.reboot();
        }
        self.publish_hosts();
    }

    /// Slices that were taken from pods, as sentences. What a kubelet gave to two pods because it had forgotten the first
    /// one is no doing of ours.
    pub(crate) fn breaches(&self) -> Vec<String> {
        let of = |(name, host): (&String, &Host)| {
            let lost = host.node.breaches().iter().map(|b| format!("{} {name}: {b}", clock(b.at)));
            let shared = host.node.shared_unawares().iter().filter(|shared| !shared.forgotten);
            lost.chain(shared.map(|b| format!("{} {name}: {b}", clock(b.at)))).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(of).collect()
    }

    /// The fleet as it is.
    pub(crate) fn picture(&self) -> Picture {
        let nodes = self.hosts.iter().map(|(name, host)| {
            let phase = progress(self, name).phase;
            let mut state = Vec::new();
            if !host.node.ready() {
                state.push("down".to_owned());
            }
            if host.node.unschedulable() {
                state.push("cordoned".to_owned());
            }
            if phase != Phase::Idle {
                state.push(phase.name().to_lowercase());
            }
            let gpus = host.node.truth().into_iter().map(|gpu| {
                let units = Catalog::builtin().get(&gpu.model).map_or(0, |m| m.geometry.memory());
                let slices = gpu.slices.iter().map(|s| SlicePicture {
                    profile: s.profile,
                    start: s.start,
                    size: s.size,
                    holder: s.holder.clone(),
                    open: s.open,
                });
                GpuPicture {
                    index: gpu.index,
                    units,
                    slices: gpu.mig.then(|| slices.collect()),
                    holder: gpu.holder,
                    model: gpu.model,
                }
            });
            NodePicture { name: name.clone(), state: state.join(", "), gpus: gpus.collect() }
        });
        Picture { nodes: nodes.collect() }
    }
}

/// What a node begins with: the value of its label, and the entry that has to
/// be made for it when no default name means that.
fn beginning(
    name: &str,
    spec: &NodeSpec,
    models: &[Arc<gpu::Model>],
) -> (Option<String>, Option<(String, NodeLayout)>) {
    if let Some(word) = &spec.layout {
        return (Some(word.text.clone()), None);
    }
    if !spec.mig {
        return (None, None);
    }
    let full = |model: &gpu::Model| {
        let mig = model.mig.as_ref()?;
        let plain = mig.profiles.iter().filter(|p| p.name.attribute == Attribute::Plain);
        plain.max_by_key(|p| p.slices).map(|p| p.name)
    };
    let wholes: std::collections::BTreeSet<_> = models.iter().map(|m| full(m)).collect();
    if let [Some(profile)] = wholes.iter().collect::<Vec<_>>()[..] {
        return (Some(format!("all-{profile}")), None);
    }
    let layout = models.iter().zip(0u16..).map(|(model, index)| {
        let gpu =
            full(model).map_or(GpuLayout::Off, |profile| GpuLayout::Mig(BTreeMap::from([(profile, 1)])));
        (GpuIndex(index), gpu)
    });
    let entry = format!("whole-{name}");
    (Some(entry.clone()), Some((entry, NodeLayout(layout.collect()))))
}

/// The map that a new node begins with.
fn map_with(models: &[Arc<gpu::Model>], begins_with: Option<&(String, NodeLayout)>) -> String {
    let catalog = Catalog::builtin();
    let models: Vec<_> = models.iter().filter_map(|m| catalog.get(&m.name)).collect();
    let mut map = rollout::map::assemble(None, &models, []).map(|a| a.map).unwrap_or_default();
    if let Some((name, layout)) = begins_with
        && let Ok(items) = rollout::map::entry(layout)
    {
        map.entries.insert(name.clone(), items);
    }
    map.render()
}
