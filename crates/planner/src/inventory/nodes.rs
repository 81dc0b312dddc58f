//! Nodes by name, shared by all copies of a fleet.

use std::collections::{BTreeMap, btree_map};
use std::ops::Index;
use std::sync::Arc;

use super::Node;
use crate::names::NodeName;

/// Nodes, by name. A copy of them shares each node with the original until one of the two changes it: a round, what is
/// kept for the next one and what the planner compares it with have nearly all nodes in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(BTreeMap<NodeName, Arc<Node>>);

type Shared<'a> = (&'a NodeName, &'a Arc<Node>);
type SharedMut<'a> = (&'a NodeName, &'a mut Arc<Node>);

/// The nodes, in the order of their names.
pub type Iter<'a> =
    std::iter::Map<btree_map::Iter<'a, NodeName, Arc<Node>>, fn(Shared<'a>) -> (&'a NodeName, &'a Node)>;
/// The nodes, to be changed, in the order of their names.
pub type IterMut<'a> = std::iter::Map<
    btree_map::IterMut<'a, NodeName, Arc<Node>>,
    fn(SharedMut<'a>) -> (&'a NodeName, &'a mut Node),
>;

impl Nodes {
    /// A node.
    #[must_use]
    pub fn get(&self, name: &NodeName) -> Option<&Node> {
        self.0.get(name).map(Arc::as_ref)
    }

    /// A node, with its name as it stands here.
    #[must_use]
    pub fn get_key_value(&self, name: &NodeName) -> Option<(&NodeName, &Node)> {
        self.0.get_key_value(name).map(|(name, node)| (name, node.as_ref()))
    }

    /// A node, to be changed. It is copied where others have it, too.
    pub fn get_mut(&mut self, name: &NodeName) -> Option<&mut Node> {
        self.0.get_mut(name).map(Arc::make_mut)
    }

    /// Whether there is a node of this name.
    #[must_use]
    pub fn contains_key(&self, name: &NodeName) -> bool {
        self.0.contains_key(name)
    }

    /// Puts a node in; what had its name before is returned.
    pub fn insert(&mut self, name: NodeName, node: impl Into<Arc<Node>>) -> Option<Arc<Node>> {
        self.0.insert(name, node.into())
    }

    /// Takes a node out.
    pub fn remove(&mut self, name: &NodeName) -> Option<Arc<Node>> {
        self.0.remove(name)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter().map(|(name, node)| (name, node.as_ref()))
    }

    /// All of them, to be changed. Each is copied that others have, too.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        self.0.iter_mut().map(|(name, node)| (name, Arc::make_mut(node)))
    }

    /// Changes those of which this is so: no other is copied.
    pub fn change(&mut self, is_so: impl Fn(&Node) -> bool, mut change: impl FnMut(&mut Node)) {
        for node in self.0.values_mut().filter(|node| is_so(node)) {
            change(Arc::make_mut(node));
        }
    }

    /// Their names.
    pub fn keys(&self) -> btree_map::Keys<'_, NodeName, Arc<Node>> {
        self.0.keys()
    }

    /// All of them, without their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Node> + ExactSizeIterator + Clone {
        self.0.values().map(Arc::as_ref)
    }

    /// All of them, without their names, to be changed. Each is copied that others have, too.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Node> + ExactSizeIterator {
        self.0.values_mut().map(Arc::make_mut)
    }
}

impl Index<&NodeName> for Nodes {
    type Output = Node;

    fn index(&self, name: &NodeName) -> &Node {
        &self.0[name]
    }
}

impl<'a> IntoIterator for &'a Nodes {
    type Item = (&'a NodeName, &'a Node);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Nodes {
    type Item = (&'a NodeName, &'a mut Node);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

impl<N: Into<Arc<Node>>> FromIterator<(NodeName, N)> for Nodes {
    fn from_iter<I: IntoIterator<Item = (NodeName, N)>>(nodes: I) -> Self {
        Self(nodes.into_iter().map(|(name, node)| (name, node.into())).collect())
    }
}

impl<N: Into<Arc<Node>>> Extend<(NodeName, N)> for Nodes {
    fn extend<I: IntoIterator<Item = (NodeName, N)>>(&mut self, nodes: I) {
        self.0.extend(nodes.into_iter().map(|(name, node)| (name, node.into())));
    }
}
