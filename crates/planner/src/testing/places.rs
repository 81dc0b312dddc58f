//! Volumes that only some nodes can have, and resources that are neither GPUs nor CPU, memory or storage.

use super::{NodeBuilder, RequestBuilder};
use crate::demand::{Expression, Operator, Term, Volume};

impl NodeBuilder {
    /// How much is free of a resource that is neither a GPU's nor CPU, memory or storage.
    #[must_use]
    pub fn free_of(mut self, resource: &str, amount: i64) -> Self {
        self.0.other_resources.insert(resource.to_owned(), amount);
        self
    }
}

impl RequestBuilder {
    /// Has a volume that only nodes with one of these values of a label can have.
    #[must_use]
    pub fn volume(mut self, claim: &str, key: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let label = Expression { key: key.to_owned(), operator: Operator::In, values };
        let nodes = vec![Term { labels: vec![label], fields: vec![] }];
        self.0.constraints.volumes.push(Volume { claim: claim.to_owned(), nodes });
        self
    }

    /// Takes so much of a resource that is neither a GPU's nor CPU, memory or storage.
    #[must_use]
    pub fn takes_of(mut self, resource: &str, amount: i64) -> Self {
        self.0.constraints.other_resources.insert(resource.to_owned(), amount);
        self
    }
}
