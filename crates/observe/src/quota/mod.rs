//! Where the quota of Kueue's queues and the fleet have come apart. Kueue knows no layouts: it gives what is
//! written in a queue, and admits nothing of which nothing is written.

mod most;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::foreign::queue::ResourceQuota;
use api::foreign::{ClusterQueue, Workload};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use mig::{GpuResource, ProfileName};
use planner::inventory::Inventory;
use planner::policy::Policy;

use crate::objects::{Key, Objects};
use crate::pods;
use crate::requests::Briefs;
use most::Most;
pub use most::Offered;

/// That the quota of a queue does not fit the fleet, or who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The cluster queue.
    pub queue: String,
    /// The flavor; none for a resource that the queue does not cover.
    pub flavor: Option<String>,
    /// The resource, such as `nvidia.com/mig-1g.10gb`.
    pub resource: String,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The queue does not cover the resource, so that Kueue admits nobody who
    /// asks for it.
    NotCovered {
        /// Workloads in the queue that ask for it, at most as many as are named.
        workloads: Vec<Key>,
        /// Hardware profiles that offer it by way of this queue.
        profiles: Vec<Key>,
        /// Whether Kueue says of one of the workloads that it counts the resource. Where it says nothing, its
        /// configuration may make another resource of it.
        is_counted: bool,
    },
    /// It is more than any layout of the flavor's nodes has.
    MoreThanAnyLayout {
        /// The nominal quota.
        quota: u64,
        /// What the nodes could have.
        offered: Offered,
    },
    /// With the quota of other queues for the same nodes, it is more than any
    /// layout has, although it is not by itself: Kueue admits people who then
    /// wait for slices that others have.
    MoreTogether {
        /// The nominal quota of all these queues.
        quota: u64,
        /// The other queues.
        others: Vec<String>,
        /// What the nodes could have.
        offered: Offered,
    },
    /// Workloads hold more than it, and more than they may borrow.
    LessThanHeld {
        /// The nominal quota.
        quota: u64,
        /// What may be borrowed beside it.
        borrowable: u64,
        /// What workloads hold.
        held: u64,
    },
}

impl What {
    /// Every name.
    pub const NAMES: [&str; 4] = ["not_covered", "more_than_any_layout", "more_together", "less_than_held"];

    /// Its name, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotCovered { .. } => Self::NAMES[0],
            Self::MoreThanAnyLayout { .. } => Self::NAMES[1],
            Self::MoreTogether { .. } => Self::NAMES[2],
            Self::LessThanHeld { .. } => Self::NAMES[3],
        }
    }

    /// By how many slices it is wrong; for what is not covered, how many
    /// workloads and hardware profiles ask for it.
    #[must_use]
    pub fn by(&self) -> u64 {
        match self {
            Self::NotCovered { workloads, profiles, is_counted: _ } => {
                u64::try_from(workloads.len() + profiles.len()).unwrap_or(u64::MAX)
            }
            Self::MoreThanAnyLayout { quota, offered } | Self::MoreTogether { quota, offered, others: _ } => {
                quota.saturating_sub(offered.most)
            }
            Self::LessThanHeld { quota, borrowable, held } => {
                held.saturating_sub(quota.saturating_add(*borrowable))
            }
        }
    }
}

/// Everything that is wrong with the quota of all queues, by queue, resource
/// and flavor.
#[must_use]
pub(crate) fn drifts(
    objects: &Objects,
    briefs: &Briefs,
    inventory: &Inventory,
    policies: &[Policy],
) -> Vec<Drift> {
    let mut found = Vec::new();
    if objects.cluster_queues.is_empty() {
        return found;
    }
    let mut most = Most::new(objects, inventory, policies);
    let not_covered = not_covered(objects, briefs);
    let otherwise = LazyCell::new(|| counted_otherwise(objects, briefs));
    for (name, queue) in &objects.cluster_queues {
        for (resource, by) in not_covered.get(name.as_str()).into_iter().flatten() {
            let Asked { workloads, profiles, is_counted } = by;
            // What is counted otherwise needs no quota of its own.
            let is_needed = *is_counted || !otherwise.contains(resource);
            if is_needed {
                let is_counted = *is_counted;
                let workloads = workloads.iter().copied().cloned().collect();
                let profiles = profiles.iter().copied().cloned().collect();
                found.push(Drift {
                    queue: name.clone(),
                    flavor: None,
                    resource: (*resource).to_owned(),
                    what: What::NotCovered { workloads, profiles, is_counted },
                });
            }
        }
        for (flavor, quota) in quotas(queue) {
            found.extend(more_than_any_layout(name, flavor, quota, &mut most));
            found.extend(less_than_held(name, flavor, quota, queue));
        }
    }
    found.extend(more_together(objects, &mut most));
    found.sort_by(|a, b| (&a.queue, &a.resource, &a.flavor).cmp(&(&b.queue, &b.resource, &b.flavor)));
    found
}

/// The quota of everything that is a GPU or a part of one, by flavor.
fn quotas(queue: &ClusterQueue) -> impl Iterator<Item = (&str, &ResourceQuota)> {
    let flavors = queue.spec.resource_groups.iter().flat_map(|group| &group.flavors);
    flavors.flat_map(|flavor| {
        let of_gpus = flavor.resources.iter().filter(|quota| GpuResource::is_one(&quota.name));
        of_gpus.map(|quota| (flavor.name.as_str(), quota))
    })
}

fn number(resource: &str, quantity: &Quantity) -> u64 {
    let amount = pods::amount(resource, quantity).unwrap_or_default();
    u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
}

fn more_than_any_layout<'a>(
    queue: &str,
    flavor: &'a str,
    given: &'a ResourceQuota,
    most: &mut Most<'a>,
) -> Option<Drift> {
    let quota = number(&given.name, &given.nominal_quota);
    // A flavor that is not there keeps the whole queue from being active, which Kueue says.
    let offered = most.offered(flavor, &given.name)?;
    (quota > offered.most).then(|| Drift {
        queue: queue.to_owned(),
        flavor: Some(flavor.to_owned()),
        resource: given.name.clone(),
        what: What::MoreThanAnyLayout { quota, offered },
    })
}

/// Queues that give quota for the same nodes, each of which fits by itself. What is lent within a cohort is part of
/// one of these quotas, so a cohort makes no difference.
fn more_together<'a>(objects: &'a Objects, most: &mut Most<'a>) -> Vec<Drift> {
    let mut by_nodes: BTreeMap<(&str, &str), BTreeMap<&str, u64>> = BTreeMap::new();
    for (queue, object) in &objects.cluster_queues {
        for (flavor, given) in quotas(object) {
            let quota = number(&given.name, &given.nominal_quota);
            let queues = by_nodes.entry((flavor, given.name.as_str())).or_default();
            if quota > 0 {
                queues.entry(queue).and_modify(|all| *all = all.saturating_add(quota)).or_insert(quota);
            }
        }
    }
    let mut found = Vec::new();
    for ((flavor, resource), queues) in by_nodes {
        let Some(offered) = most.offered(flavor, resource) else { continue };
        let all = queues.values().fold(0_u64, |all, quota| all.saturating_add(*quota));
        if all <= offered.most || queues.values().any(|quota| *quota > offered.most) {
            continue;
        }
        found.extend(queues.keys().map(|queue| Drift {
            queue: (*queue).to_owned(),
            flavor: Some(flavor.to_owned()),
            resource: resource.to_owned(),
            what: What::MoreTogether {
                quota: all,
                others:
                    queues.keys().filter(|other| *other != queue).map(|other| (*other).to_owned()).collect(),
                offered: offered.clone(),
            },
        }));
    }
    found
}

/// Who holds more than the nominal quota of a queue in a cohort has borrowed
/// it, unless that is more than it may.
fn less_than_held(queue: &str, flavor: &str, given: &ResourceQuota, object: &ClusterQueue) -> Option<Drift> {
    let held = number(&given.name, object.reserved(flavor, &given.name)?);
    let quota = number(&given.name, &given.nominal_quota);
    let in_cohort = object.spec.cohort_name.as_ref().is_some_and(|cohort| !cohort.is_empty());
    let borrowable = match (&given.borrowing_limit, in_cohort) {
        (_, false) => 0,
        (None, true) => return None,
        (Some(limit), true) => number(&given.name, limit),
    };
    (held > quota.saturating_add(borrowable)).then(|| Drift {
        queue: queue.to_owned(),
        flavor: Some(flavor.to_owned()),
        resource: given.name.clone(),
        what: What::LessThanHeld { quota, borrowable, held },
    })
}

/// Who asks for a resource by way of a queue.
#[derive(Default)]
struct Asked<'a> {
    workloads: Vec<&'a Key>,
    profiles: Vec<&'a Key>,
    is_counted: bool,
}

/// The resources of which Kueue counts something else, or nothing, as it says of a workload that asks for them. How it
/// counts is configured for all queues.
fn counted_otherwise<'a>(objects: &'a Objects, briefs: &'a Briefs) -> BTreeSet<&'a str> {
    let asked = briefs.workloads(objects).flat_map(|(_, workload, brief)| {
        let otherwise = |resource: &&String| workload.counts(resource) == Some(false);
        brief.asks.iter().filter(otherwise)
    });
    asked.map(String::as_str).collect()
}

/// What is asked for in each cluster queue that does not cover it: by workloads that have not ended, and by hardware
/// profiles that lead there.
fn not_covered<'a>(
    objects: &'a Objects,
    briefs: &'a Briefs,
) -> BTreeMap<&'a str, BTreeMap<&'a str, Asked<'a>>> {
    let mut asked: BTreeMap<&str, BTreeMap<&str, Asked<'_>>> = BTreeMap::new();
    let is_covered = |queue: &str, resource: &str| {
        // Of a queue that is not there nothing is said.
        objects.cluster_queues.get(queue).is_none_or(|queue| queue.covers(resource))
    };
    // Thousands of workloads ask for the same few things in a few queues, and nearly all of it is covered.
    let mut of_sets: BTreeMap<(&str, *const BTreeSet<String>), Vec<&String>> = BTreeMap::new();
    for (key, workload, brief) in briefs.workloads(objects) {
        if brief.is_finished {
            continue;
        }
        let Some(queue) = cluster_queue(objects, key, workload) else { continue };
        let found = of_sets
            .entry((queue, Arc::as_ptr(&brief.asks)))
            .or_insert_with(|| brief.asks.iter().filter(|resource| !is_covered(queue, resource)).collect());
        for resource in found.iter().copied() {
            let counts = workload.counts(resource);
            if counts == Some(false) {
                continue;
            }
            let by = asked.entry(queue).or_default().entry(resource).or_default();
            by.is_counted |= counts == Some(true);
            by.workloads.push(key);
        }
    }
    for (key, profile) in objects.hardware_profiles.iter().filter(|(_, profile)| !profile.is_disabled()) {
        let scheduling = profile.spec.scheduling.as_ref().filter(|scheduling| scheduling.type_ == "Queue");
        let Some(local) = scheduling.and_then(|scheduling| scheduling.kueue.as_ref()) else { continue };
        // The dashboard offers it in every project that has a queue of this name.
        let leads_to = objects.local_queues.iter().filter(|((_, name), _)| *name == local.local_queue_name);
        let leads_to: BTreeSet<&str> = leads_to.map(|(_, queue)| queue.spec.cluster_queue.as_str()).collect();
        for queue in leads_to {
            let offers = profile.spec.identifiers.iter().map(|identifier| &identifier.identifier);
            let of_gpus = offers.filter(|resource| GpuResource::is_one(resource));
            for resource in of_gpus.filter(|resource| !is_covered(queue, resource)) {
                asked.entry(queue).or_default().entry(resource).or_default().profiles.push(key);
            }
        }
    }
    asked
}

/// The cluster queue in which a workload waits, or has its quota.
#[must_use]
pub fn cluster_queue<'a>(objects: &'a Objects, key: &Key, workload: &'a Workload) -> Option<&'a str> {
    if let Some(admission) = &workload.status.admission {
        return Some(&admission.cluster_queue);
    }
    let local = (key.0.clone(), workload.spec.queue_name.clone());
    Some(&objects.local_queues.get(&local)?.spec.cluster_queue)
}

/// A resource as people call it: the profile's name where it is one's.
fn called(resource: &str) -> String {
    ProfileName::from_resource_name(resource)
        .map_or_else(|| resource.to_owned(), |profile| profile.to_string())
}

/// `a/b, c/d and 3 more`.
fn some(keys: &[Key]) -> String {
    let shown: Vec<String> =
        keys.iter().take(3).map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    match keys.len().saturating_sub(3) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, flavor, resource, what } = self;
        let flavor = flavor.as_deref().unwrap_or_default();
        match what {
            What::NotCovered { workloads, profiles, is_counted } => {
                let unless = match is_counted {
                    true => "",
                    false => ", unless its configuration has it count something else instead",
                };
                let mut who = Vec::new();
                if !workloads.is_empty() {
                    who.push(format!("workloads ask for it ({})", some(workloads)));
                }
                if !profiles.is_empty() {
                    who.push(format!("hardware profiles offer it ({})", some(profiles)));
                }
                write!(
                    f,
                    "{resource} is not covered, so that Kueue admits nobody who asks for it{unless}, and {}; add it to \
                     coveredResources in spec.resourceGroups of ClusterQueue {queue}, with a nominalQuota in each flavor",
                    who.join(", ")
                )
            }
            What::MoreThanAnyLayout { quota, offered: Offered { most, nodes, capped_by } } => {
                write!(f, "{resource} in flavor {flavor}: its nominalQuota is {quota}, ")?;
                let is_misspelt = resource.starts_with(ProfileName::RESOURCE_PREFIX)
                    && ProfileName::from_resource_name(resource).is_none()
                    && !resource.ends_with(GpuResource::SHARED);
                if is_misspelt {
                    return f.write_str(
                        "but this is not the resource of a profile; such resources are named like nvidia.com/mig-1g.10gb",
                    );
                }
                if *nodes == 0 {
                    return f.write_str(
                        "but no node with a GPU has the nodeLabels of the flavor; correct these labels",
                    );
                }
                let of_nodes = if *nodes == 1 { "its only node" } else { "its nodes" };
                write!(f, "but no layout of {of_nodes} has more than {most}; lower the quota to {most}")?;
                match capped_by.as_slice() {
                    [] => Ok(()),
                    some => {
                        let names: Vec<&str> = some.iter().map(|policy| policy.0.as_str()).collect();
                        let names = names.join(", ");
                        write!(f, ", or raise maxCount of {} in policy {names}", called(resource))
                    }
                }
            }
            What::MoreTogether { quota, others, offered } => {
                let (of_nodes, most) =
                    (if offered.nodes == 1 { "its only node" } else { "its nodes" }, offered.most);
                let shown: Vec<&str> = others.iter().take(3).map(String::as_str).collect();
                let shown = match others.len().saturating_sub(3) {
                    0 => shown.join(", "),
                    more => format!("{} and {more} more", shown.join(", ")),
                };
                write!(
                    f,
                    "{resource} in flavor {flavor}: with the quota of {shown} for the same nodes, it is {quota}, but no \
                     layout of {of_nodes} has more than {most}; Kueue admits people who then wait for slices: lower \
                     these quotas to {most} in all, or put the queues into one cohort and let them borrow"
                )
            }
            What::LessThanHeld { quota, borrowable, held } => {
                let beside = match borrowable {
                    0 => String::new(),
                    n => format!(" and {n} may be borrowed"),
                };
                write!(
                    f,
                    "{resource} in flavor {flavor}: workloads hold {held}, but its nominalQuota is {quota}{beside}; Kueue \
                     admits nobody there until {} are given back, or the quota is raised",
                    self.what.by()
                )
            }
        }
    }
}
