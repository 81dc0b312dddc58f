//! Who holds which device: kubelet's `List` and its checkpoint, side by side.
//!
//! Neither book is enough. `List` leaves out init containers and knows no uids;
//! the checkpoint keeps pods that have ended. So a device is held if either
//! says so, and the two are never made into one: which name belongs to which
//! uid only the API server knows. A book that cannot be read blocks everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mig::GpuResource;
use mig::resource::Unit;

use crate::layout::{NodeLayout, Slice};
use crate::names::{DeviceId, GpuUuid, PodUid, SliceName};

/// Containers that one book may have. A node has some hundred pods; more than
/// this is no book of a kubelet.
pub const MOST_CONTAINERS: usize = 16_384;
/// Devices that one book may have.
pub const MOST_DEVICES: usize = 65_536;
/// Holders of one device that a `GpuNode` can have.
pub const MOST_HOLDERS_TOLD: usize = 64;
/// Devices that the driver does not know, or that two pods have, that a
/// `GpuNode` can have.
pub const MOST_DEVICES_TOLD: usize = 64;
/// Bytes that a name or an id may have.
pub const LONGEST_TEXT: usize = 1_024;

/// A device that a container has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// The resource by which it was asked for, such as `nvidia.com/mig-1g.10gb`.
    pub resource: String,
    /// Its id.
    pub id: DeviceId,
}

impl Device {
    /// Whether it is a GPU, or part of one. NVIDIA has other resources under
    /// the same prefix (network cards, for one), and an administrator may have
    /// renamed those of GPUs: then the id tells.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        let by_id = || self.id.0.starts_with("MIG-") || self.id.0.starts_with("GPU-");
        GpuResource::is_one(&self.resource) || by_id()
    }
}

/// What is to be said where kubelet offers a slice, or a GPU, under a name that is
/// none of NVIDIA's own for it. A pod that asks by such a name asks for a profile
/// of which nobody knows which it is, so that the proof would pass it over while
/// its slice is on its way to it.
#[must_use]
pub fn renamed(offered: &[Device], layout: &NodeLayout) -> Option<String> {
    let profiles =
        layout.slices().flat_map(|(_, slice)| slice.devices.iter().map(|id| (id, slice.place.profile)));
    let profiles: BTreeMap<_, _> = profiles.collect();
    let is_renamed = |device: &&Device| {
        let by_name = GpuResource::parse(&device.resource).map(|resource| resource.unit);
        match (profiles.get(&device.id.unshared()), by_name) {
            (Some(profile), Some(Unit::Slice(named))) => named != *profile,
            (Some(_), unit) => unit != Some(Unit::Gpu),
            (None, None) => device.is_gpu(),
            // It is of a GPU that is not known: its name is one of NVIDIA's.
            (None, Some(_)) => false,
        }
    };
    let device = offered.iter().find(is_renamed)?;
    let what =
        profiles.get(&device.id.unshared()).map_or_else(|| "a GPU".to_owned(), |p| format!("slices {p}"));
    Some(format!(
        "the device plugin offers {what} as {}, so nobody can say which pods may be given one: take `resources` out of the plugin's configuration",
        device.resource
    ))
}

/// What kubelet's pod-resources `List` says about one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// What it has.
    pub devices: Vec<Device>,
}

/// What kubelet's checkpoint says about one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The pod's uid.
    pub pod: PodUid,
    /// The container's name.
    pub container: String,
    /// What it has.
    pub devices: Vec<Device>,
}

/// Who holds a device, by one of the books.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// By `List`: the pod runs, or is about to.
    Listed {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// By the checkpoint: the pod may have ended meanwhile.
    Recorded {
        /// The pod's uid.
        pod: PodUid,
        /// The container's name.
        container: String,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed { namespace, pod, container } => {
                write!(f, "container {container} of pod {namespace}/{pod}")
            }
            Self::Recorded { pod, container } => write!(f, "container {container} of the pod with uid {pod}"),
        }
    }
}

/// Why a slice must not be destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A book says that somebody has it.
    Held {
        /// Who.
        by: Holder,
    },
    /// A process computes on it, and neither book says whose it is.
    Busy,
    /// Somebody has a device that the driver does not know: it may be this one.
    Stranger {
        /// The device.
        device: DeviceId,
        /// Who has it.
        by: Holder,
    },
    /// A book cannot be read.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by } => write!(f, "{by} has it"),
            Self::Busy => write!(f, "a process computes on it, and kubelet knows of no pod that has it"),
            Self::Stranger { device, by } => {
                write!(f, "{by} has the device {device}, which the driver does not know: it may be this one")
            }
            Self::Unreadable { why } => write!(f, "kubelet's books cannot be read: {why}"),
        }
    }
}

/// Both books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Who holds each device that anybody holds, whichever share of it.
    holders: BTreeMap<DeviceId, BTreeSet<Holder>>,
    /// Devices, or shares of one, that two pods have.
    twice: BTreeSet<DeviceId>,
    /// Why they are not to be relied on.
    unreadable: Option<String>,
}

/// One container of a book: its names, and what it has.
type Entry<'a> = ([&'a str; 3], &'a [Device]);

/// Refuses what no kubelet writes, before any of it is copied.
fn bounded<'a>(book: &str, entries: impl ExactSizeIterator<Item = Entry<'a>>) -> Result<(), String> {
    if entries.len() > MOST_CONTAINERS {
        let count = entries.len();
        return Err(format!("{book} has {count} containers; at most {MOST_CONTAINERS} are possible"));
    }
    let mut count = 0_usize;
    for (names, devices) in entries {
        count = count.saturating_add(devices.len());
        if count > MOST_DEVICES {
            return Err(format!("{book} has more than {MOST_DEVICES} devices"));
        }
        let texts = devices.iter().flat_map(|device| [device.id.0.as_str(), device.resource.as_str()]);
        if names.into_iter().chain(texts).any(|text| text.len() > LONGEST_TEXT) {
            return Err(format!("{book} has a name that is longer than {LONGEST_TEXT} bytes"));
        }
    }
    Ok(())
}

impl Listed {
    fn entry(&self) -> Entry<'_> {
        let Self { namespace, pod, container, devices } = self;
        ([namespace, pod, container], devices)
    }
}

impl Recorded {
    fn entry(&self) -> Entry<'_> {
        let Self { pod, container, devices } = self;
        ([&pod.0, container, ""], devices)
    }
}

impl Books {
    /// Puts the two books side by side. `Err` is a book that could not be read,
    /// with the reason; so is one that is larger than any kubelet's.
    #[must_use]
    pub fn join(listed: Result<&[Listed], String>, recorded: Result<&[Recorded], String>) -> Self {
        let listed =
            listed.and_then(|book| bounded("kubelet's list", book.iter().map(Listed::entry)).map(|()| book));
        let recorded = recorded.and_then(|book| {
            bounded("kubelet's checkpoint", book.iter().map(Recorded::entry)).map(|()| book)
        });
        let (mut books, mut by_name, mut by_uid) = (Self::default(), BTreeMap::new(), BTreeMap::new());
        for one in listed.as_deref().unwrap_or_default() {
            let Listed { namespace, pod, container, devices } = one;
            let holder = Holder::Listed {
                namespace: namespace.clone(),
                pod: pod.clone(),
                container: container.clone(),
            };
            for device in devices.iter().filter(|device| device.is_gpu()) {
                books.enter(device, &holder);
                by_name.entry(&device.id).or_insert_with(BTreeSet::new).insert((namespace, pod));
            }
        }
        for one in recorded.as_deref().unwrap_or_default() {
            let Recorded { pod, container, devices } = one;
            let holder = Holder::Recorded { pod: pod.clone(), container: container.clone() };
            for device in devices.iter().filter(|device| device.is_gpu()) {
                books.enter(device, &holder);
                by_uid.entry(&device.id).or_insert_with(BTreeSet::new).insert(pod);
            }
        }
        let names = by_name.iter().filter(|(_, pods)| pods.len() > 1).map(|(id, _)| *id);
        let uids = by_uid.iter().filter(|(_, pods)| pods.len() > 1).map(|(id, _)| *id);
        books.twice = names.chain(uids).cloned().collect();
        books.unreadable = listed.err().or(recorded.err());
        books
    }

    /// The same, which are not to be relied on for this reason, if there is one.
    #[must_use]
    pub fn doubted(mut self, why: Option<String>) -> Self {
        self.unreadable = self.unreadable.or(why);
        self
    }

    fn enter(&mut self, device: &Device, holder: &Holder) {
        self.holders.entry(device.id.unshared()).or_default().insert(holder.clone());
    }

    /// What was told of them before, as it was told.
    #[must_use]
    pub const fn told(
        holders: BTreeMap<DeviceId, BTreeSet<Holder>>,
        twice: BTreeSet<DeviceId>,
        unreadable: Option<String>,
    ) -> Self {
        Self { holders, twice, unreadable }
    }

    /// As much of them as can be told. More than that no node has; whoever is
    /// left out would not be seen, so the rest then counts as unreadable.
    pub(crate) fn tellable(&self, layout: &NodeLayout) -> Self {
        let strangers = self.strangers(layout).take(MOST_DEVICES_TOLD).count();
        let mut left_out = (strangers == MOST_DEVICES_TOLD)
            .then(|| format!("{MOST_DEVICES_TOLD} or more devices are held that the driver does not know"));
        let last = self.strangers(layout).map(|(device, _)| device).nth(MOST_DEVICES_TOLD);
        let mut holders = BTreeMap::new();
        for (device, by) in &self.holders {
            if last.is_some_and(|last| device >= last && !layout.knows(device)) {
                continue;
            }
            if by.len() > MOST_HOLDERS_TOLD {
                let count = by.len();
                left_out = Some(format!("{device} has {count} holders; {MOST_HOLDERS_TOLD} can be told"));
            }
            holders.insert(device.clone(), by.iter().take(MOST_HOLDERS_TOLD).cloned().collect());
        }
        Self {
            holders,
            twice: self.twice.iter().take(MOST_DEVICES_TOLD).cloned().collect(),
            unreadable: self.unreadable.clone().or(left_out),
        }
    }

    /// Who holds a device, whichever share of it.
    #[must_use]
    pub fn holders(&self, device: &DeviceId) -> Option<&BTreeSet<Holder>> {
        self.holders.get(device)
    }

    /// Who holds each device.
    pub fn devices(&self) -> impl Iterator<Item = (&DeviceId, &BTreeSet<Holder>)> {
        self.holders.iter()
    }

    /// Devices, or shares of one, that two pods have. Kubelet can come to this
    /// (kubernetes#137534). It is told and never resolved.
    #[must_use]
    pub const fn twice(&self) -> &BTreeSet<DeviceId> {
        &self.twice
    }

    /// Why the books are not to be relied on, if they are not.
    #[must_use]
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Who holds a slice: one of its devices, or the GPU that it is on.
    pub fn who_holds<'a>(&'a self, gpu: &GpuUuid, slice: &'a Slice) -> impl Iterator<Item = &'a Holder> {
        let whole = self.holders.get(&DeviceId(gpu.0.clone()));
        let parts = slice.devices.iter().filter_map(|device| self.holders.get(&device.unshared()));
        parts.chain(whole).flatten()
    }

    /// Devices that somebody holds and no GPU has.
    pub fn strangers<'a>(
        &'a self,
        layout: &'a NodeLayout,
    ) -> impl Iterator<Item = (&'a DeviceId, &'a BTreeSet<Holder>)> {
        self.holders.iter().filter(|(device, _)| !layout.knows(device))
    }

    /// What stands against the destruction of a slice, if anything does. Pods
    /// of the checkpoint that are `gone` do not; whom `List` names always does.
    #[must_use]
    pub fn blocker(&self, name: &SliceName, layout: &NodeLayout, gone: &BTreeSet<PodUid>) -> Option<Blocker> {
        if let Some(why) = &self.unreadable {
            return Some(Blocker::Unreadable { why: why.clone() });
        }
        let counts = |holder: &&Holder| match holder {
            Holder::Listed { .. } => true,
            Holder::Recorded { pod, .. } => !gone.contains(pod),
        };
        let slice = layout.slice(name)?;
        if let Some(by) = self.who_holds(&name.gpu, slice).find(counts) {
            return Some(Blocker::Held { by: by.clone() });
        }
        if slice.busy {
            return Some(Blocker::Busy);
        }
        self.strangers(layout).find_map(|(device, holders)| {
            let by = holders.iter().find(counts)?;
            Some(Blocker::Stranger { device: device.clone(), by: by.clone() })
        })
    }
}
