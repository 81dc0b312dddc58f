//! Pods that only use CPU and memory of a node with GPUs, by far the most in a large cluster. For each pod
//! its identity and its resources are kept; for each node, the sum.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use observe::objects::Key;
use observe::pods::{self, Life};
use planner::inventory::Room;

/// One of them.
#[derive(Debug)]
struct One {
    node: Arc<str>,
    /// As a number, where it is one.
    version: Option<u64>,
    takes: Room,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct PodSums {
    /// By namespace, then name: there are few namespaces.
    of: BTreeMap<String, BTreeMap<Box<str>, One>>,
    nodes: BTreeMap<Arc<str>, u32>,
    len: usize,
}

impl PodSums {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn get(&self, (namespace, name): &Key) -> Option<&One> {
        self.of.get(namespace)?.get(name.as_str())
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn version(&self, key: &Key) -> Option<String> {
        self.get(key)?.version.map(|version| version.to_string())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.of.iter().flat_map(|(ns, all)| all.keys().map(|name| (ns.clone(), String::from(&**name))))
    }

    /// Those on a node.
    pub(super) fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = Key> + 'a {
        self.of.iter().flat_map(move |(ns, all)| {
            let here = all.iter().filter(move |(_, one)| &*one.node == node);
            here.map(|(name, _)| (ns.clone(), String::from(&**name)))
        })
    }

    /// Takes a bound pod in, trimmed, or as it is now. Says whether it takes
    /// something else, or elsewhere, than before.
    pub(super) fn put(&mut self, key: &Key, pod: &Pod, sums: &mut BTreeMap<String, Room>) -> bool {
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let has_ended = pods::life(pod) == Life::Ended;
        let takes = spec.filter(|_| !has_ended).map_or(Room::ZERO, |spec| pods::takes(spec).room);
        let version = pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        let same = self.get(key).is_some_and(|one| one.takes == takes && &*one.node == node);
        self.remove(key, sums);
        let node = match self.nodes.get_key_value(node) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(node),
        };
        *self.nodes.entry(Arc::clone(&node)).or_insert(0) += 1;
        let sum = sums.entry(node.to_string()).or_insert(Room::ZERO);
        *sum = sum.plus(takes, 1);
        let one = One { node, version, takes };
        self.of.entry(key.0.clone()).or_default().insert(key.1.as_str().into(), one);
        self.len += 1;
        !same
    }

    /// One is gone. Says whether it was there.
    pub(super) fn remove(&mut self, key: &Key, sums: &mut BTreeMap<String, Room>) -> bool {
        let Some(all) = self.of.get_mut(&key.0) else { return false };
        let Some(One { node, version: _, takes }) = all.remove(key.1.as_str()) else { return false };
        if all.is_empty() {
            self.of.remove(&key.0);
        }
        self.len -= 1;
        if let Some(sum) = sums.get_mut(&*node) {
            *sum = sum.plus(takes, -1);
        }
        if let Some(many) = self.nodes.get_mut(&node) {
            *many -= 1;
            if *many == 0 {
                self.nodes.remove(&node);
                sums.remove(&*node);
            }
        }
        true
    }
}
