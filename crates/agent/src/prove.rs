//! The controller's half: whether the slices of a change may be destroyed, by
//! one account of the agent and one list of the node's pods that was begun
//! after it.
//!
//! With the gate closed, kubelet begins no new choice. One that it began before
//! belongs to a pod that was bound before, so the pod is in the list. Either
//! its devices are in the account, or it has ended, or the choice may still be
//! on its way: then there is no proof yet (`docs/adr/0013-node-agent.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mig::resource::Unit;
use mig::{GpuResource, ProfileName};

use crate::account::{Account, Known, Stage};
use crate::books::{Blocker, Holder};
use crate::gate::Gate;
use crate::layout::Slice;
use crate::names::{DeviceId, GpuUuid, PodUid, ReportNumber, SliceName};
use crate::wish::{Permit, Wish};

/// The pods of a node, from a consistent list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodList {
    /// The number of the account that was known when the list was begun.
    pub begun_after: ReportNumber,
    /// All pods that are bound to the node.
    pub pods: Vec<Pod>,
}

/// A pod that is bound to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its uid, as kubelet has it ([`PodUid`]).
    pub uid: PodUid,
    /// Its namespace and name, for people.
    pub name: String,
    /// Whether it can still have anything.
    pub life: PodLife,
    /// Whether it is NVIDIA's device plugin.
    pub is_plugin: bool,
    /// Its containers, init containers included.
    pub containers: Vec<Container>,
}

/// Whether a pod can still have anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLife {
    /// It waits, runs or is being ended.
    Live,
    /// Succeeded or failed: its containers have ended.
    Ended,
}

/// A container of a pod, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name; empty where it is not known which one asks. No book accounts for
    /// such a one.
    pub name: String,
    /// What it asks for, of each extended resource.
    pub asks: BTreeMap<String, u64>,
}

/// Why a change has no permit yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The change is over.
    Ended,
    /// The agent has not said, for this change, that kubelet offers nothing.
    GateNotClosed,
    /// The list was begun before the account was known.
    ListTooOld,
    /// A pod of the device plugin is left: kubelet may be offered devices again.
    PluginStays {
        /// The pod.
        pod: String,
    },
    /// A pod asks for a slice of a profile that goes, and the account does not
    /// have all of its devices: kubelet may be about to give it one.
    Unaccounted {
        /// The pod.
        pod: String,
        /// Its container; empty where it is not known which one asks.
        container: String,
        /// The resource.
        resource: String,
    },
    /// A slice that goes is not free.
    NotFree {
        /// The slice.
        slice: SliceName,
        /// What is in the way.
        blocker: Box<Blocker>,
    },
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => write!(f, "the change is over"),
            Self::GateNotClosed => write!(f, "the agent has not said that kubelet offers no device"),
            Self::ListTooOld => write!(f, "the pods were listed before the agent's report"),
            Self::PluginStays { pod } => write!(f, "pod {pod} of the device plugin is still there"),
            Self::Unaccounted { pod, container, resource } if container.is_empty() => {
                write!(f, "kubelet may be about to give {resource} to pod {pod}")
            }
            Self::Unaccounted { pod, container, resource } => {
                write!(f, "kubelet may be about to give {resource} to container {container} of pod {pod}")
            }
            Self::NotFree { slice, blocker } => write!(f, "{slice} is not free: {blocker}"),
        }
    }
}

/// The permit for a change, by this account and this list.
///
/// # Errors
/// Says what is not proved. Most of it passes by itself: a pod in flight gets
/// its devices or fails, and the agent tells what it sees then.
pub fn prove(wish: &Wish, account: &Account, list: &PodList) -> Result<Permit, Unproven> {
    if matches!(account.stage(&wish.id), Some(Stage::Ended(_))) {
        return Err(Unproven::Ended);
    }
    if account.gate_for(&wish.id) != Some(Gate::Closed) {
        return Err(Unproven::GateNotClosed);
    }
    if list.begun_after != account.report {
        return Err(Unproven::ListTooOld);
    }
    let live = || list.pods.iter().filter(|pod| pod.life == PodLife::Live);
    if let Some(pod) = live().find(|pod| pod.is_plugin) {
        return Err(Unproven::PluginStays { pod: pod.name.clone() });
    }
    let moving: BTreeSet<_> = wish.moving().collect();
    let profiles: BTreeSet<_> = moving.iter().map(|slice| slice.place.profile).collect();
    for pod in live() {
        accounted(pod, &profiles, account)?;
    }
    let uids: BTreeSet<_> = live().map(|pod| &pod.uid).collect();
    let gone = gone(account, &uids);
    let there = moving.into_iter().filter(|slice| account.known.layout.slice(slice).is_some());
    for slice in there {
        if let Some(blocker) = account.known.books.blocker(&slice, &account.known.layout, &gone) {
            return Err(Unproven::NotFree { slice, blocker: Box::new(blocker) });
        }
    }
    Ok(Permit { report: account.report, gone })
}

/// Whether the account has all devices of a pod, container by container, as far
/// as it asks for what goes. By the pod's uid alone: a pod of the same name may
/// have been there before.
fn accounted(pod: &Pod, profiles: &BTreeSet<ProfileName>, account: &Account) -> Result<(), Unproven> {
    for Container { name, asks } in &pod.containers {
        for (resource, count) in asks.iter().filter(|(_, count)| **count > 0) {
            let has = match GpuResource::parse(resource).map(|resource| resource.unit) {
                None => continue,
                Some(Unit::Slice(profile)) if !profiles.contains(&profile) => continue,
                Some(Unit::Slice(profile)) => has(pod, name, account, |slice| slice.place.profile == profile),
                // Under some strategies and names this is a slice, too: any device will do.
                Some(Unit::Gpu | Unit::UnknownSlice) => {
                    has(pod, name, account, |_| true) + has_whole(pod, name, account)
                }
            };
            if has < *count {
                let (pod, container) = (pod.name.clone(), name.clone());
                return Err(Unproven::Unaccounted { pod, container, resource: resource.clone() });
            }
        }
    }
    Ok(())
}

/// The pods that have a slice that goes, by kubelet's checkpoint, which may still name some that are gone. By their uids
/// alone: `List` knows names only, and a pod of the same name may have come since. Nobody, where the books are not to be
/// relied on.
#[must_use]
pub fn have_what_goes(wish: &Wish, account: &Account) -> BTreeSet<PodUid> {
    let Known { layout, books } = &account.known;
    if books.unreadable().is_some() {
        return BTreeSet::new();
    }
    let moving = wish.moving().collect::<Vec<_>>();
    let there = moving.iter().filter_map(|name| Some((&name.gpu, layout.slice(name)?)));
    let holders = there.flat_map(|(gpu, slice)| books.who_holds(gpu, slice));
    let uid = |holder: &Holder| match holder {
        Holder::Recorded { pod, .. } => Some(pod.clone()),
        Holder::Listed { .. } => None,
    };
    holders.filter_map(uid).collect()
}

/// Whether a pod asks for slices of a profile that goes, and the account does not have all of them: kubelet may be about
/// to give it one.
#[must_use]
pub fn may_get_what_goes(pod: &Pod, wish: &Wish, account: &Account) -> bool {
    let profiles = wish.moving().map(|slice| slice.place.profile).collect();
    pod.life == PodLife::Live && accounted(pod, &profiles, account).is_err()
}

/// The GPUs that a pod has something of, where the account has all that it asks
/// for; `None` where something is missing, so that it may be on any.
#[must_use]
pub fn gpus_of(pod: &Pod, account: &Account) -> Option<BTreeSet<GpuUuid>> {
    let asks = pod.containers.iter().flat_map(|container| container.asks.keys());
    let profiles: BTreeSet<_> = asks
        .filter_map(|resource| match GpuResource::parse(resource)?.unit {
            Unit::Slice(profile) => Some(profile),
            Unit::Gpu | Unit::UnknownSlice => None,
        })
        .collect();
    accounted(pod, &profiles, account).ok()?;
    let Known { layout, books } = &account.known;
    let mine = |by: &Holder| matches!(by, Holder::Recorded { pod: uid, .. } if *uid == pod.uid);
    let slices = layout.slices().filter(|(gpu, slice)| books.who_holds(gpu, slice).any(mine));
    let whole = layout
        .gpus
        .iter()
        .filter(|gpu| books.holders(&DeviceId(gpu.uuid.0.clone())).is_some_and(|by| by.iter().any(mine)));
    Some(slices.map(|(gpu, _)| gpu.clone()).chain(whole.map(|gpu| gpu.uuid.clone())).collect())
}

fn is_recorded(pod: &Pod, container: &str, holder: &Holder) -> bool {
    matches!(holder, Holder::Recorded { pod: uid, container: name } if *uid == pod.uid && name == container)
}

/// How many slices the container has, by kubelet's checkpoint.
fn has(pod: &Pod, container: &str, account: &Account, counts: impl Fn(&Slice) -> bool) -> u64 {
    let books = &account.known.books;
    let mine = |gpu: &GpuUuid, slice: &Slice| {
        books.who_holds(gpu, slice).any(|holder| is_recorded(pod, container, holder))
    };
    let slices = account.known.layout.slices().filter(|(_, slice)| slice.devices.len() == 1);
    slices.filter(|(gpu, slice)| counts(slice) && mine(gpu, slice)).map(|_| 1).sum()
}

/// How many whole GPUs the container has, by kubelet's checkpoint.
fn has_whole(pod: &Pod, container: &str, account: &Account) -> u64 {
    let gpus: BTreeSet<_> = account.known.layout.gpus.iter().map(|gpu| gpu.uuid.0.as_str()).collect();
    let whole = account.known.books.devices().filter(|(device, _)| gpus.contains(device.0.as_str()));
    whole.filter(|(_, holders)| holders.iter().any(|h| is_recorded(pod, container, h))).map(|_| 1).sum()
}

/// Pods of the checkpoint that no longer are: kubelet takes them out at the next
/// allocation only.
fn gone(account: &Account, live: &BTreeSet<&PodUid>) -> BTreeSet<PodUid> {
    let holders = account.known.books.devices().flat_map(|(_, holders)| holders);
    let uids = holders.filter_map(|holder| match holder {
        Holder::Recorded { pod, .. } => Some(pod),
        Holder::Listed { .. } => None,
    });
    uids.filter(|uid| !live.contains(uid)).cloned().collect()
}
