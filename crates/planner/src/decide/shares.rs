//! Shares: how many compute slices a namespace, or some together, have on the nodes of a policy. Counted are
//! those that their pods hold there, and those that the plan gives to their requests.
//!
//! At most is a hard row, like `maxCount`: what is held beyond it stays. At least is a level of the objective
//! after `minCount` and before every priority: a share that somebody could be pushed out of would be none.
//! It is asked for no more than they ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::evict::Evictions;
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::policy::{LayoutPolicy, Policy, Share};
use crate::selector;

/// Whose share: policy, position in `shares`, and the namespace, if each has one.
pub(super) type Whose = (usize, usize, Option<String>);

/// A share that somebody who asks has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) policy: usize,
    pub(super) whose: Whose,
    /// At least so many.
    pub(super) min: i64,
    /// At most so many.
    pub(super) max: Option<i64>,
    /// How many pods hold.
    pub(super) held: i64,
}

impl Quota {
    /// How many may be given to requests.
    pub(super) fn room(&self) -> Option<i64> {
        self.max.map(|max| (max - self.held).max(0))
    }

    /// How many are to be given, if so many are asked for.
    pub(super) fn wanted(&self, asked: i64) -> i64 {
        (self.min - self.held).min(asked).max(0)
    }

    /// The field of the policy.
    pub(super) fn field(&self, name: &str) -> String {
        let (_, position, _) = &self.whose;
        format!("spec.layout.demandDriven.shares[{position}].{name}")
    }
}

fn shares(policy: &Policy) -> &[Share] {
    match &policy.layout {
        LayoutPolicy::DemandDriven { shares, .. } => shares,
        LayoutPolicy::Static { .. } => &[],
    }
}

/// The shares that a request has on the nodes of some policies.
pub(super) fn of_request(policies: &[&Policy], may_use: &BTreeSet<usize>, request: &Request) -> Vec<Whose> {
    let mut found = Vec::new();
    for policy in may_use {
        for (position, share) in shares(policies[*policy]).iter().enumerate() {
            if selector::matches(&share.namespaces, &request.namespace_labels) {
                let namespace = share.per_namespace.then(|| request.id.namespace.clone());
                found.push((*policy, position, namespace));
            }
        }
    }
    found
}

/// What those shares come to, given who holds what.
pub(super) fn quotas(
    whose: BTreeSet<Whose>,
    inventory: &Inventory,
    policies: &[&Policy],
    policy_of: &[Option<usize>],
    evictions: &Evictions,
) -> Vec<Quota> {
    if whose.is_empty() {
        return vec![];
    }
    // By policy and namespace.
    let mut held: BTreeMap<(usize, &str), i64> = BTreeMap::new();
    for ((name, node), policy) in inventory.nodes.iter().zip(policy_of) {
        let Some(policy) = policy else { continue };
        let node = evictions.nodes.get(name).unwrap_or(node);
        for (pod, n) in &node.held {
            *held.entry((*policy, pod.namespace.as_str())).or_default() += i64::from(*n);
        }
    }
    let quota = |whose: Whose| {
        let (policy, position, namespace) = &whose;
        let share = &shares(policies[*policy])[*position];
        let counts = |of: &str| match namespace {
            Some(namespace) => namespace == of,
            None => selector::matches(&share.namespaces, &labels(inventory, of)),
        };
        let holders = held.iter().filter(|((p, of), _)| p == policy && counts(of));
        Quota {
            policy: *policy,
            min: i64::from(share.min),
            max: share.max.map(i64::from),
            held: holders.map(|(_, n)| n).sum(),
            whose,
        }
    };
    whose.into_iter().map(quota).collect()
}

/// The labels of a namespace whose pods hold something.
fn labels(inventory: &Inventory, namespace: &str) -> BTreeMap<String, String> {
    inventory
        .namespaces
        .get(namespace)
        .cloned()
        .unwrap_or_else(|| BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]))
}
