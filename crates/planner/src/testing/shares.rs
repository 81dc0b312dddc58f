//! Shares of policies for tests.

use super::PolicyBuilder;
use crate::demand::{Expression, Operator};
use crate::policy::{LayoutPolicy, Share};

impl PolicyBuilder {
    /// A share of the namespace of this name, or of every namespace by itself.
    #[must_use]
    pub fn share(mut self, namespace: Option<&str>, min: u32, max: Option<u32>) -> Self {
        let LayoutPolicy::DemandDriven { shares, .. } = &mut self.0.layout else {
            panic!("a static policy has no shares")
        };
        let named = |name: &str| Expression {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: Operator::In,
            values: vec![name.to_owned()],
        };
        let namespaces = namespace.map(named).into_iter().collect();
        shares.push(Share { namespaces, per_namespace: namespace.is_none(), min, max });
        self
    }
}
