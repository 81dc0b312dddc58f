//! Fleets for tests.

use super::NodeBuilder;
use crate::inventory::Inventory;

/// A fleet without nodes.
#[must_use]
pub fn fleet() -> FleetBuilder {
    FleetBuilder(Inventory::default())
}

/// A fleet.
#[derive(Clone, Debug)]
pub struct FleetBuilder(pub(super) Inventory);

impl FleetBuilder {
    /// A node more.
    #[must_use]
    pub fn node(mut self, name: &str, node: NodeBuilder) -> Self {
        assert!(self.0.nodes.insert(name.into(), node.build()).is_none(), "two nodes {name}");
        self
    }

    /// The inventory.
    #[must_use]
    pub fn build(self) -> Inventory {
        self.0
    }
}
