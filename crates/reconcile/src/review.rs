//! Compares the reviewed plan with the present plan. A plan is made from policies, nodes and demand; the
//! fingerprint has a digest of each, without the names of pods and of their owners, so that a recording
//! without names has the same digests.
//!
//! They are compared once, when the cluster has the reviewed policies: later the plan changes with every
//! node that gets its layout, which is expected.

use std::collections::BTreeMap;

use api::GpuPartitionPolicy;
use api::policy_status::{HowMoved, Moved, MovedNode, Review, ReviewState};
use api::review::{self, REVIEWED_NODES, REVIEWED_PLAN, Reviewed};
use jiff::Timestamp;
use planner::demand::Request;
use planner::inventory::{Hold, Inventory, Node, Slice, Slices, Use};
use planner::names::{NodeName, PolicyName};
use planner::plan::{Plan, digest};
use serde_json::{Value, json};

use crate::answers::plural;

/// How many nodes a status names; the CRD takes no more.
const MOST_NODES: usize = 20;
/// How many nodes are listed for an annotation: beyond that, what moved is told
/// in numbers.
const MOST_LISTED: usize = 100;
/// How much of an annotation a status repeats.
const MOST_TEXT: usize = 256;

/// What a plan was made from, in digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Of the plan, of the policies, of all nodes together, and of the demand.
    pub reviewed: Reviewed,
    /// Of each node that a policy has.
    pub nodes: BTreeMap<String, String>,
    /// What is asked for, in words.
    pub asked: String,
}

impl Fingerprint {
    /// The fingerprint of a plan.
    #[must_use]
    pub fn new(
        plan: &Plan,
        policies: &BTreeMap<String, GpuPartitionPolicy>,
        policy_of: &BTreeMap<NodeName, PolicyName>,
        inventory: &Inventory,
        requests: &[Request],
    ) -> Self {
        let mine = inventory.nodes.iter().filter_map(|(name, node)| Some((name, policy_of.get(name)?, node)));
        let nodes: BTreeMap<String, String> = mine
            .map(|(name, policy, node)| {
                let digest = digest(of_node(policy, node).to_string().as_bytes());
                (name.0.clone(), digest[..8].to_owned())
            })
            .collect();
        let mut asked: Vec<String> = requests.iter().map(of_request).collect();
        asked.sort();
        let reviewed = Reviewed {
            plan: plan.digest(),
            policies: crate::policy_digest::policy_digest(policies),
            nodes: digest(review::list(&nodes).as_bytes()),
            demand: digest(json!(asked).to_string().as_bytes()),
        };
        Self { reviewed, nodes, asked: in_words(requests) }
    }

    /// The annotations that say that this was reviewed.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<&'static str, String> {
        let mut annotations = BTreeMap::from([(REVIEWED_PLAN, self.reviewed.to_string())]);
        if (1..=MOST_LISTED).contains(&self.nodes.len()) {
            annotations.insert(REVIEWED_NODES, review::list(&self.nodes));
        }
        annotations
    }
}

/// What of a node a layout depends on. Free CPU and memory move all the time,
/// and labels with every component of the cluster: neither is part of it.
fn of_node(policy: &PolicyName, node: &Node) -> Value {
    let Node {
        labels: _,
        single_strategy: _,
        whole_held: _,
        // Only who asks for whole GPUs depends on it, and no layout does.
        whole_shared: _,
        other_resources: _,
        shared,
        taints,
        room: _,
        scope,
        hold,
        schedulable,
        allocated: _,
        held: _,
        gpus,
    } = node;
    let gpus: Vec<Value> = gpus
        .iter()
        .map(|(index, gpu)| json!([index, gpu.model, of_slices(&gpu.slices), of_hold(gpu.hold.as_ref())]))
        .collect();
    let mut all = vec![
        json!(policy),
        json!(taints),
        json!(scope.name()),
        of_hold(hold.as_ref()),
        json!(schedulable),
        json!(gpus),
    ];
    // Nothing is said where nothing is shared, so that what was reviewed before stays reviewed.
    if !shared.is_empty() {
        let shared = shared.iter().map(|(profile, of)| json!([profile.to_string(), of.replicas, of.renamed]));
        all.push(shared.collect());
    }
    Value::Array(all)
}

/// The kind of a hold; since when, and why in words, is of no account.
fn of_hold(hold: Option<&Hold>) -> Value {
    json!(hold.map(Hold::name))
}

fn of_slices(slices: &Slices) -> Value {
    let held = |used: &Use| match used {
        Use::Idle => "idle",
        Use::InUse { .. } => "used",
        Use::MaybeInUse { .. } => "maybe",
    };
    let whole = slices.whole().map(|used| format!("off {}", held(used)));
    let slices = slices.iter().map(|Slice { profile, start, used }| match start {
        Some(start) => format!("{profile}:{start} {}", held(used)),
        None => format!("{profile} {}", held(used)),
    });
    let mut all: Vec<String> = slices.chain(whole).collect();
    all.sort();
    json!(all)
}

/// What of a request a plan depends on, but who asks, and what changes on its
/// way from a workbench to a pod.
fn of_request(request: &Request) -> String {
    let Request { slices, whole_gpus, shared, priority, blocked_elsewhere, .. } = request;
    let slices: Vec<String> = slices.iter().map(|(profile, n)| format!("{n} x {profile}")).collect();
    let mut all = vec![json!(slices), json!(whole_gpus), json!(priority), json!(blocked_elsewhere.is_some())];
    if !shared.is_empty() {
        all.push(shared.iter().map(|(offered, n)| json!([offered.to_string(), n])).collect());
    }
    Value::Array(all).to_string()
}

fn in_words(requests: &[Request]) -> String {
    let mut slices = BTreeMap::new();
    for (profile, n) in requests.iter().flat_map(|request| &request.slices) {
        *slices.entry(*profile).or_insert(0_u32) += n;
    }
    let slices: Vec<String> = slices.iter().take(8).map(|(profile, n)| format!("{n} x {profile}")).collect();
    match slices.is_empty() {
        true => plural(requests.len(), "request"),
        false => format!("{} for {}", plural(requests.len(), "request"), slices.join(", ")),
    }
}

/// Whether what was reviewed for a policy is what is planned; nothing where
/// nobody says that anything was reviewed.
#[must_use]
pub fn review(policy: &GpuPartitionPolicy, found: &Fingerprint, now: Timestamp) -> Option<Review> {
    let annotations = policy.metadata.annotations.as_ref()?;
    let text = annotations.get(REVIEWED_PLAN)?;
    let shown: String = text.chars().take(MOST_TEXT).collect();
    let before = policy.status.as_ref().and_then(|status| status.review.as_ref());
    let before = before.filter(|before| before.reviewed == shown);
    let wanted = match text.parse::<Reviewed>() {
        Ok(reviewed) if reviewed.policies != found.reviewed.policies => Review {
            state: ReviewState::Moved,
            moved: vec![Moved::Policies],
            message: format!(
                "the policies of the cluster ({}) are not those that were reviewed ({}): what else is planned differently is said once they are",
                found.reviewed.policies, reviewed.policies
            ),
            ..Review::new(shown, now)
        },
        Ok(reviewed) => match before.filter(|before| is_judged(before)) {
            Some(before) => before.clone(),
            None => judge(&reviewed, annotations.get(REVIEWED_NODES), found, Review::new(shown, now)),
        },
        Err(error) => Review {
            state: ReviewState::Unreadable,
            message: format!(
                "the annotation {REVIEWED_PLAN} cannot be read, and nothing is compared: {error}"
            ),
            ..Review::new(shown, now)
        },
    };
    // What is said again is said since then.
    let same = before.filter(|before| Review { at: before.at, ..wanted.clone() } == **before);
    Some(same.cloned().unwrap_or(wanted))
}

/// Whether the policies were those that were reviewed, and so all is compared.
#[must_use]
pub fn is_judged(review: &Review) -> bool {
    match review.state {
        ReviewState::Same => true,
        ReviewState::Moved => !review.moved.contains(&Moved::Policies),
        ReviewState::Unreadable => false,
    }
}

/// The review, where it is news that it moved: what was reviewed is no longer,
/// or now that it could be compared was not, what would be done. What moves
/// further is none.
#[must_use]
pub fn turned<'a>(before: Option<&Review>, after: Option<&'a Review>) -> Option<&'a Review> {
    let after = after.filter(|after| after.state == ReviewState::Moved)?;
    let known = before.is_some_and(|before| {
        before.state == ReviewState::Moved
            && before.reviewed == after.reviewed
            && is_judged(before) == is_judged(after)
    });
    (!known).then_some(after)
}

fn judge(reviewed: &Reviewed, listed: Option<&String>, found: &Fingerprint, blank: Review) -> Review {
    let now = &found.reviewed;
    let mut moved = Vec::new();
    let mut words = Vec::new();
    let mut nodes = Vec::new();
    if reviewed.nodes != now.nodes {
        moved.push(Moved::Nodes);
        match listed.map(|listed| review::nodes(listed)) {
            Some(Ok(listed)) => {
                nodes = moved_nodes(&listed, &found.nodes);
                words.extend(say_nodes(&nodes));
            }
            Some(Err(error)) => {
                words.push(format!(
                    "nodes moved (which is not known: {REVIEWED_NODES} cannot be read: {error})"
                ));
            }
            None => words.push(format!("nodes moved (they are {} now)", found.nodes.len())),
        }
    }
    if reviewed.demand != now.demand {
        moved.push(Moved::Demand);
        words.push(format!("what is asked for moved (now {})", found.asked));
    }
    if reviewed.plan == now.plan {
        let local = match words.is_empty() {
            true => String::new(),
            false => format!("; beside it, since the review {}", words.join("; ")),
        };
        let message = format!("the plan is the one that was reviewed{local}");
        nodes.truncate(MOST_NODES);
        return Review { state: ReviewState::Same, moved, nodes, message, ..blank };
    }
    moved.push(Moved::Plan);
    if words.is_empty() {
        words.push(
            "neither nodes nor what is asked for moved: free CPU or memory, labels of nodes, the time, or the release that planned"
                .to_owned(),
        );
    }
    let message = format!(
        "the plan is {}, and {} was reviewed; since then {}",
        now.plan,
        reviewed.plan,
        words.join("; ")
    );
    nodes.truncate(MOST_NODES);
    Review { state: ReviewState::Moved, moved, nodes, message, ..blank }
}

fn moved_nodes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<MovedNode> {
    let moved = |name: &String, how| MovedNode { name: name.clone(), how };
    let gone =
        before.keys().filter(|name| !now.contains_key(*name)).map(|name| moved(name, HowMoved::Removed));
    let others = now.iter().filter_map(|(name, digest)| match before.get(name) {
        None => Some(moved(name, HowMoved::Added)),
        Some(before) if before != digest => Some(moved(name, HowMoved::Changed)),
        Some(_) => None,
    });
    let mut all: Vec<MovedNode> = gone.chain(others).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// `nodes were added: a, b and 3 more`, for each way of moving.
fn say_nodes(nodes: &[MovedNode]) -> Vec<String> {
    let ways = [(HowMoved::Added, "added"), (HowMoved::Removed, "removed"), (HowMoved::Changed, "changed")];
    ways.into_iter()
        .filter_map(|(way, word)| {
            let names: Vec<&str> = nodes.iter().filter(|n| n.how == way).map(|n| n.name.as_str()).collect();
            let shown = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
            let more = match names.len() {
                0 => return None,
                1..=3 => String::new(),
                all => format!(" and {} more", all - 3),
            };
            let was = if names.len() == 1 { "node was" } else { "nodes were" };
            Some(format!("{} {was} {word}: {shown}{more}", names.len()))
        })
        .collect()
}
