//! What a node can offer by its policy: slices, GPUs as a whole, and seats of either.
//!
//! What can be provided decides, and never what is free: "everything is taken" means that people wait, not
//! that there is no such slice.

use std::collections::BTreeMap;

use mig::ProfileName;
use mig::name::Attribute;
use observe::host::Host;
use observe::menu::allows;
use observe::{ClusterView, NodeView};
use planner::inventory::{Hold, Node, Seating};
use planner::names::NodeName;
use planner::policy::{LayoutPolicy, Policy};
use planner::report::Offered;
use rollout::names::SHARED_PRODUCT;
use rollout::{Method, PluginConfig};

use super::card::{Seat, Share};

/// A slice or a GPU, and how several pods share it.
pub(super) type Offer = (Offered, Option<Seat>);

/// What a node can offer, and the CPU and memory that come with each.
pub(super) struct Attainable {
    /// The label of its product, as it will be.
    pub product: String,
    /// The offers; never none.
    pub offers: BTreeMap<Offer, Share>,
}

/// What a node can offer by its policy; `None` if that is nothing.
pub(super) fn attainable(
    view: &ClusterView,
    name: &NodeName,
    policy: &Policy,
    product: &str,
) -> Option<Attainable> {
    let node = view.inventory.nodes.get(name)?;
    let seen = view.node(name);
    let host = Machine::read(view.hosts.get(name)?)?;
    // A node that a policy leaves uncut, as seats.
    let uncut = view.inventory.seating.get(name).zip(seen);
    let found = match uncut.filter(|(_, seen)| seen.shared.as_ref().is_some_and(|shared| shared.never_cut)) {
        Some((seating, seen)) => of_uncut(seating, seen, product, &host)?,
        None => of_cut(node, seen, policy, product, &host),
    };
    (!found.offers.is_empty()).then_some(found)
}

/// What becomes of a node or GPU, as far as the menu goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Future {
    /// It offers nothing.
    Gone,
    /// Nothing is changed there, so it offers what it has.
    Stays,
    /// It becomes as its policy says. What holds it now passes: people wait for it.
    Follows,
}

impl Future {
    fn read(hold: Option<&Hold>) -> Self {
        match hold {
            Some(Hold::HandsOff { .. } | Hold::NotReady | Hold::Unhealthy { .. } | Hold::NoPolicy) => {
                Self::Gone
            }
            Some(Hold::ForeignLayout { .. } | Hold::Failed { .. } | Hold::NotEstablished { .. }) => {
                Self::Stays
            }
            Some(
                Hold::CoolingDown { .. }
                | Hold::Changing
                | Hold::Promised { .. }
                | Hold::Cordoned { .. }
                | Hold::ForeignWork { .. },
            )
            | None => Self::Follows,
        }
    }
}

/// A node whose GPUs are not cut: what each of them is to pods, once its policy is carried out.
fn of_uncut(seating: &Seating, seen: &NodeView, product: &str, host: &Machine) -> Option<Attainable> {
    let to_be = match Future::read(seating.node.hold.as_ref()) {
        Future::Gone => return None,
        Future::Stays => seen.shared_as(),
        Future::Follows => seen.to_be_shared_as(),
    };
    let offer = match &to_be {
        Some(config) => of_gpus(config),
        // Somebody else shares them.
        None => (seating.offers(), seat(seating.sharing.replicas, seen.shares_gpus_by())),
    };
    let share = host.part(1, seating.gpus, offer.1)?;
    Some(Attainable { product: product_of(product, offer), offers: BTreeMap::from([(offer, share)]) })
}

/// Feature discovery says by the product whether its GPUs are shared under the name of whole ones. The selector has
/// to be right once they are.
fn product_of(product: &str, (offered, seat): Offer) -> String {
    let plain = product.strip_suffix(SHARED_PRODUCT).unwrap_or(product);
    match (offered, seat) {
        (Offered::WholeGpu, Some(_)) => format!("{plain}{SHARED_PRODUCT}"),
        _ => plain.to_owned(),
    }
}

/// What a GPU that is not cut is to pods.
fn of_gpus(config: &PluginConfig) -> Offer {
    let seats = config.seats();
    let offered = if seats.resource == Offered::WholeGpu.resource_name() {
        Offered::WholeGpu
    } else {
        Offered::SharedGpu
    };
    (offered, seat(seats.replicas, config.sharing.as_ref().map_or(Method::TimeSlicing, |sharing| sharing.by)))
}

fn seat(replicas: u32, by: Method) -> Option<Seat> {
    (replicas > 1).then_some(Seat { replicas, fewer_elsewhere: false, by })
}

/// A node whose GPUs are cut, or may be: its slices, and the GPUs that its policy leaves or makes whole.
fn of_cut(
    node: &Node,
    seen: Option<&NodeView>,
    policy: &Policy,
    product: &str,
    host: &Machine,
) -> Attainable {
    let mut found = Attainable { product: product.to_owned(), offers: BTreeMap::new() };
    if node.single_strategy {
        return found;
    }
    let gpus = u32::try_from(node.gpus.len()).unwrap_or(u32::MAX);
    let compute = node.gpus.values().map(|gpu| u32::from(gpu.geometry.compute())).sum();
    for (index, gpu) in &node.gpus {
        let future = Future::read(node.hold.as_ref().or(gpu.hold.as_ref()));
        let profiles: Vec<ProfileName> = match future {
            Future::Gone => continue,
            Future::Stays => gpu.slices.profiles().collect(),
            Future::Follows => {
                let profiles = gpu.geometry.profiles().iter().map(|profile| profile.name);
                profiles.filter(|name| is_offered(policy, *name)).collect()
            }
        };
        for profile in profiles {
            let Some(at) = gpu.geometry.profile_named(profile) else { continue };
            let (offered, replicas) = node.seats_of(profile);
            let seat = seat(replicas, Method::TimeSlicing);
            if let Some(share) = host.part(gpu.geometry.profile(at).compute.into(), compute, seat) {
                found.offers.insert((offered, seat), share);
            }
        }
        let is_whole = match future {
            Future::Gone => false,
            Future::Stays => gpu.slices.is_mig_off(),
            Future::Follows => policy.layout.may_be_whole(&gpu.model, *index),
        };
        let to_be = seen.and_then(NodeView::to_be_shared_as).unwrap_or_default();
        let offer = of_gpus(&to_be);
        if let Some(share) = host.part(1, gpus, offer.1).filter(|_| is_whole) {
            found.offers.insert(offer, share);
        }
    }
    found
}

/// Whether a policy offers slices of a profile: those with a special engine
/// only where it names them.
fn is_offered(policy: &Policy, name: ProfileName) -> bool {
    let is_named = match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => slices.contains_key(&name),
        LayoutPolicy::Static { gpus } => gpus.iter().any(|rule| rule.cuts_into(name)),
    };
    allows(policy, name) && (is_named || name.attribute == Attribute::Plain)
}

/// The CPU and memory of a node.
struct Machine {
    cpu_milli: i128,
    memory_bytes: i128,
}

impl Machine {
    fn read(host: &Host) -> Option<Self> {
        Some(Self { cpu_milli: host.cpu_milli?, memory_bytes: host.memory_bytes? })
    }

    /// So many of all parts of nine tenths of it, since other pods of the node need some; a seat of that, its part.
    fn part(&self, parts: u32, all: u32, seat: Option<Seat>) -> Option<Share> {
        let seats = i128::from(seat.map_or(1, |seat| seat.replicas));
        let of = |amount: i128| {
            let all = 10 * i128::from(all) * seats;
            amount.checked_mul(9 * i128::from(parts))?.checked_div(all)
        };
        let (cpu, memory) = (of(self.cpu_milli)? / 1000, of(self.memory_bytes)? >> 30);
        let at_least_one = |n: i128| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        Some(Share { cpu: at_least_one(cpu), memory_gib: at_least_one(memory) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For what passes people wait: it takes nothing off the menu, and puts nothing on it that is there by chance.
    #[test]
    fn only_what_lasts_takes_something_off_the_menu() {
        let text = || "somebody".to_owned();
        let to = || planner::testing::request("lab/asks").build().id;
        let cases = [
            (None, Future::Follows),
            (Some(Hold::CoolingDown { until: jiff::Timestamp::MAX }), Future::Follows),
            (Some(Hold::Changing), Future::Follows),
            (Some(Hold::Promised { to: to() }), Future::Follows),
            (Some(Hold::Cordoned { by: text() }), Future::Follows),
            (Some(Hold::ForeignWork { who: text() }), Future::Follows),
            (Some(Hold::ForeignLayout { label: text() }), Future::Stays),
            (Some(Hold::Failed { why: text() }), Future::Stays),
            (Some(Hold::NotEstablished { why: text() }), Future::Stays),
            (Some(Hold::HandsOff { who: text() }), Future::Gone),
            (Some(Hold::NotReady), Future::Gone),
            (Some(Hold::Unhealthy { what: text() }), Future::Gone),
            (Some(Hold::NoPolicy), Future::Gone),
        ];
        for (hold, future) in cases {
            assert_eq!(Future::read(hold.as_ref()), future, "{hold:?}");
        }
    }
}
