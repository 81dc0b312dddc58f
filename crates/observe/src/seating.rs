//! The GPUs of nodes that are not cut, as seats: how many pods may have them, and who does. Such a node has cards
//! without MIG, or a policy that cuts none of its GPUs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use mig::resource::Unit;
use mig::{GpuResource, ProfileName};
use planner::inventory::{self, ChangeScope, Hold, Room, Seating, Sharing};
use rollout::{PluginConfig, SharingSeen};

use crate::cards::card_id;
use crate::names;
use crate::usage::{self, Held, Impossible};
use crate::{layouts, other_resources};

/// By how many a policy can let a device be shared (`replicas`).
const MOST_REPLICAS: u32 = 48;

/// What is known of a node whose GPUs are not cut.
pub(crate) struct Uncut<'a> {
    pub(crate) node: &'a Node,
    /// Its labels, those that are remembered included.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<inventory::Taint>,
    pub(crate) room: Room,
    pub(crate) held: &'a Held,
    /// How its device plugin is told to share them, as far as that is known.
    pub(crate) sharing: &'a SharingSeen,
    pub(crate) hold: Option<Hold>,
    pub(crate) schedulable: bool,
}

impl Uncut<'_> {
    /// Its seats, without the pods that ask for more of them than it could have
    /// however its GPUs were shared; nothing where it offers no GPU.
    pub(crate) fn seats(self) -> Option<(Seating, Vec<Impossible>)> {
        let Self { node, labels, taints, room, held, sharing, hold, schedulable } = self;
        let offered = |(resource, n): (String, u64)| {
            let GpuResource { unit: Unit::Gpu, shared } = GpuResource::parse(&resource)? else { return None };
            (n > 0).then_some((shared, u32::try_from(n).unwrap_or(u32::MAX)))
        };
        // Kubelet keeps the name that went, with nothing of it. Where both count something, the plugin is about to
        // take one away: what is shared is the newer word.
        let (renamed, total) = layouts::offered(node).into_iter().filter_map(offered).max()?;
        let (replicas, one_each) = replicas(sharing, renamed, total);
        let product = labels.get(names::PRODUCT);
        let card = product.map_or("GPU", |product| card_id(product).unwrap_or(product)).to_owned();
        let most = (total / replicas).saturating_mul(MOST_REPLICAS).max(total);
        let Held { gpus: mut seats, waiting, .. } = held.clone();
        let impossible = usage::drop_above(&mut seats, &waiting, &resource_name(renamed), most);
        let seating = Seating {
            node: inventory::Node {
                labels,
                single_strategy: false,
                taints,
                room,
                other_resources: other_resources::free_on(node, held),
                scope: ChangeScope::EmptyNode,
                hold,
                schedulable,
                allocated: BTreeMap::new(),
                shared: BTreeMap::new(),
                whole_held: 0,
                whole_shared: None,
                held: BTreeMap::new(),
                gpus: BTreeMap::new(),
            },
            card,
            gpus: total / replicas,
            sharing: Sharing { replicas, renamed, one_each },
            held: seats,
        };
        Some((seating, impossible))
    }
}

/// What GPUs that are not cut are offered as.
fn resource_name(renamed: bool) -> String {
    if renamed { format!("{}{}", GpuResource::GPU, GpuResource::SHARED) } else { GpuResource::GPU.to_owned() }
}

/// How many pods share each GPU of a node that offers so many, and whether a container may ask for one only: as our
/// configuration says it, or GPU feature discovery. What does not divide what is offered is believed of nobody.
fn replicas(sharing: &SharingSeen, renamed: bool, total: u32) -> (u32, bool) {
    let name = resource_name(renamed);
    let ours = sharing.config.as_ref().map(|config| (config.seats(), config.sharing.as_ref()));
    let ours = ours.filter(|(seats, _)| seats.resource == name);
    let ours = ours.map(|(seats, shared)| (seats.replicas, shared.is_some_and(|shared| shared.one_each)));
    let seen = sharing.replicas.get(GpuResource::GPU).and_then(|n| u32::try_from(*n).ok());
    let seen = seen.map(|n| (n, false));
    ours.or(seen).filter(|(n, _)| *n > 0 && total.is_multiple_of(*n)).unwrap_or((1, false))
}

/// How several pods share each whole GPU by a configuration, if they do.
pub(crate) fn of_whole_gpus(config: &PluginConfig) -> Option<Sharing> {
    let seats = config.seats();
    let one_each = config.sharing.as_ref().is_some_and(|shared| shared.one_each);
    let renamed = seats.resource != GpuResource::GPU;
    seats.is_shared().then_some(Sharing { replicas: seats.replicas, renamed, one_each })
}

/// The profiles whose slices several pods share by a configuration.
pub(crate) fn of_slices(
    config: Option<&PluginConfig>,
    profiles: impl Iterator<Item = ProfileName>,
) -> BTreeMap<ProfileName, Sharing> {
    let Some(config) = config.filter(|config| config.sharing.is_some()) else { return BTreeMap::new() };
    let one_each = config.sharing.as_ref().is_some_and(|shared| shared.one_each);
    let shared = profiles.filter_map(|profile| {
        let seats = config.seats_of(&profile.resource_name());
        let renamed = seats.resource != profile.resource_name();
        (seats.replicas > 1).then_some((profile, Sharing { replicas: seats.replicas, renamed, one_each }))
    });
    shared.collect()
}
