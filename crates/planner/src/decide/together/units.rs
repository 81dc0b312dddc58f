//! Who is decided about at once, and the parts of the cluster that a rule is about.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::is_tied;
use crate::decide::group::is_planned;
use crate::demand::{Request, Together};
use crate::inventory::Node;
use crate::names::{NodeName, RequestId};
use crate::report::{Outcome, Report};

/// The values that a part of the cluster has of the labels that a rule is about, by label.
pub(super) type Part = Vec<String>;

/// Requests that are decided about at once: a gang, or those without one that have the same rules.
pub(super) struct Unit<'a> {
    pub(super) is_gang: bool,
    /// Positions of its requests.
    pub(super) members: Vec<usize>,
    /// The same, for each combination of rules that some of them have.
    pub(super) blocks: BTreeMap<&'a BTreeMap<String, String>, Vec<usize>>,
}

/// What requests have in common that are decided about at once: their gang, or their rules.
type Common<'a> = (Option<&'a String>, Option<&'a BTreeMap<String, String>>);

/// Who is decided about at once, in the order in which it is done.
pub(super) fn units(requests: &[Request]) -> Vec<Unit<'_>> {
    let tied = requests.iter().filter(|request| is_tied(request));
    let gangs: BTreeSet<&String> = tied.filter_map(|request| request.together.gang.as_ref()).collect();
    let mut by: BTreeMap<Common<'_>, Unit<'_>> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate().filter(|(_, request)| is_planned(request)) {
        let Together { gang, rules, workload: _ } = &request.together;
        let gang = gang.as_ref().filter(|gang| gangs.contains(gang));
        if gang.is_none() && rules.is_empty() {
            continue;
        }
        let key = (gang, gang.is_none().then_some(rules));
        let unit = by.entry(key).or_insert_with(|| Unit {
            is_gang: gang.is_some(),
            members: Vec::new(),
            blocks: BTreeMap::new(),
        });
        unit.members.push(at);
        if !rules.is_empty() {
            unit.blocks.entry(rules).or_default().push(at);
        }
    }
    let mut units: Vec<Unit<'_>> = by.into_values().collect();
    let first = |unit: &Unit<'_>| {
        let keys = unit.members.iter().map(|at| &requests[*at]);
        keys.map(|request| (Reverse(request.priority), request.since, request.id.clone())).min()
    };
    units.sort_by_cached_key(first);
    units
}

/// Where each request is served, by position; nowhere, where it is not.
#[derive(Clone, Debug)]
pub(super) struct Placed(pub(super) Vec<Option<NodeName>>);

impl Placed {
    /// As a report says it.
    pub(super) fn by(report: &Report, requests: &[Request]) -> Self {
        let node = |outcome: &Outcome| match outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some(node.clone()),
            Outcome::Unserved { .. } => None,
        };
        let of: BTreeMap<&RequestId, &Outcome> =
            report.requests.iter().map(|report| (&report.id, &report.outcome)).collect();
        Self(requests.iter().map(|request| node(of.get(&request.id)?)).collect())
    }

    /// The nodes of those of some requests that are served.
    pub(super) fn nodes<'p>(&'p self, members: &'p [usize]) -> impl Iterator<Item = &'p NodeName> {
        members.iter().filter_map(|at| self.0[*at].as_ref())
    }

    /// Has these be where they are said to be.
    pub(super) fn move_to(&mut self, places: &[(usize, Option<NodeName>)]) {
        places.iter().for_each(|(at, node)| self.0[*at].clone_from(node));
    }

    /// How many of some requests are served.
    pub(super) fn count(&self, members: &[usize]) -> usize {
        self.nodes(members).count()
    }
}

/// The part to which a node belongs, if it has all labels.
pub(super) fn part_of(node: &Node, rules: &BTreeMap<String, String>) -> Option<Part> {
    labels(rules).into_iter().map(|label| node.labels.get(label).cloned()).collect()
}

pub(super) fn labels(rules: &BTreeMap<String, String>) -> BTreeSet<&String> {
    rules.values().collect()
}

/// The labels, as they are named to who asks.
pub(super) fn in_words(rules: &BTreeMap<String, String>) -> String {
    let labels: Vec<&str> = labels(rules).into_iter().map(String::as_str).collect();
    labels.join(" and ")
}
