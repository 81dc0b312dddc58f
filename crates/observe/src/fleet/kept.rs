//! What was read of nodes in the round before. A node whose objects are the same ones is not read again: of a
//! thousand, nearly all stay as they are from one round to the next.
//!
//! Objects are compared by identity. What is kept holds them, too, so that nobody can change one in its place, and no
//! other one can come to stand there. What is equal and not the same is read again, which costs time and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use planner::inventory::Room;

use super::beside::Common;
use super::read_node::{Own, ReadNode};

/// The readings of nodes that are kept from one round to the next. One that is lost costs time and nothing else.
#[derive(Debug, Default)]
pub(crate) struct NodeReadings {
    common: Option<Arc<Common>>,
    /// When they were last used.
    at: Timestamp,
    nodes: BTreeMap<String, Kept>,
    /// How many were made.
    made: u64,
}

/// A reading, with all that it was made of beside what is common to all nodes.
#[derive(Debug)]
struct Kept {
    node: Arc<Node>,
    gpu_node: Option<Arc<GpuNode>>,
    pods: Vec<Arc<Pod>>,
    room_taken: Option<Room>,
    read: ReadNode,
}

impl NodeReadings {
    /// How many readings were made so far: a round over the same objects makes none.
    pub(crate) const fn made(&self) -> u64 {
        self.made
    }

    /// Of how many nodes a reading is kept.
    pub(crate) fn kept(&self) -> usize {
        self.nodes.len()
    }

    /// Begins a round. What is kept is of no use to it where what is common to all nodes has changed, or a clock was
    /// put back.
    pub(super) fn common(&mut self, common: Common, now: Timestamp) -> Arc<Common> {
        let same = self.common.take().filter(|before| **before == common && self.at <= now);
        if same.is_none() {
            self.nodes.clear();
        }
        self.at = now;
        let common = same.unwrap_or_else(|| Arc::new(common));
        self.common = Some(Arc::clone(&common));
        common
    }

    /// The reading of a node that has these objects: the one that is kept, or else the one that is made now.
    pub(super) fn read(
        &mut self,
        own: &Own<'_>,
        now: Timestamp,
        read: impl FnOnce() -> ReadNode,
    ) -> &ReadNode {
        let is_kept = self.nodes.get(own.name).is_some_and(|kept| kept.is_of(own, now));
        if !is_kept {
            self.nodes.insert(own.name.clone(), Kept::new(own, read()));
            self.made += 1;
        }
        &self.nodes[own.name].read
    }

    /// Forgets the nodes that are not among these.
    pub(super) fn forget_others(&mut self, nodes: &BTreeMap<String, Arc<Node>>) {
        if self.nodes.len() > nodes.len() {
            self.nodes.retain(|name, _| nodes.contains_key(name));
        }
    }
}

impl Kept {
    fn new(own: &Own<'_>, read: ReadNode) -> Self {
        Self {
            node: Arc::clone(own.node),
            gpu_node: own.gpu_node.map(Arc::clone),
            pods: own.pods.iter().map(|pod| Arc::clone(pod)).collect(),
            room_taken: own.room_taken,
            read,
        }
    }

    /// Whether the reading is what would be read of these objects now.
    fn is_of(&self, own: &Own<'_>, now: Timestamp) -> bool {
        let Self { node, gpu_node, pods, room_taken, read } = self;
        Arc::ptr_eq(node, own.node)
            && match (gpu_node, own.gpu_node) {
                (Some(before), Some(gpu_node)) => Arc::ptr_eq(before, gpu_node),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
            && *room_taken == own.room_taken
            && pods.len() == own.pods.len()
            && pods.iter().zip(&own.pods).all(|(before, pod)| Arc::ptr_eq(before, pod))
            && read.turns_at.is_none_or(|at| now < at)
    }
}
