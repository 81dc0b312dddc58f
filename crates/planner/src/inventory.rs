//! The GPUs and slices of the fleet, and how well they are known.

mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mig::{Geometry, ProfileName};
use serde::{Deserialize, Serialize};

use crate::names::{GpuIndex, NodeName, PodRef, RequestId};
use crate::offered::Offered;

pub use nodes::{Iter, IterMut, Nodes};

/// The fleet as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All nodes that have GPUs.
    pub nodes: Nodes,
    /// The nodes of which no GPU is cut, or that share their whole GPUs beside slices, and how many pods may have each of
    /// these GPUs. Nothing is planned for them: the scheduler alone gives them away, and who waits for one is told who
    /// has them.
    pub seating: BTreeMap<NodeName, Seating>,
    /// The labels of the namespaces whose pods hold slices. One that is not
    /// named has its name as its only label.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its labels. Those that follow the layout are judged as they will be
    /// after the change (see `eligible`).
    pub labels: BTreeMap<String, String>,
    /// Whether its MIG strategy is `single`: its slices are `nvidia.com/gpu`,
    /// and no profile has a resource of its own.
    pub single_strategy: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods that come may still take.
    pub room: Room,
    /// How much is free of each resource that is neither a GPU's nor in [`Room`]. One
    /// that is not named, the node does not have.
    pub other_resources: BTreeMap<String, i64>,
    /// How much of it can change at once: a property of the actuator.
    pub scope: ChangeScope,
    /// Why nothing on it may change, if so.
    pub hold: Option<Hold>,
    /// Whether pods can bind to it (ready, not cordoned): free slices of a
    /// node that is not schedulable serve nobody.
    pub schedulable: bool,
    /// How many slices of each profile its bound pods hold (terminating and
    /// not yet started ones included). Of slices that are `MaybeInUse`, this
    /// tells how many are free, though not which.
    pub allocated: BTreeMap<ProfileName, u32>,
    /// The profiles whose slices several pods share here. Of these, `allocated`
    /// counts what pods hold in seats.
    pub shared: BTreeMap<ProfileName, Sharing>,
    /// How many GPUs with MIG off its bound pods hold; the same for those that are `MaybeInUse`.
    pub whole_held: u32,
    /// How several pods share each of its GPUs with MIG off, where they do: nobody gets one of them as a whole then.
    pub whole_shared: Option<Sharing>,
    /// How many compute slices each of its bound pods holds: shares count them.
    pub held: BTreeMap<PodRef, u32>,
    /// Its GPUs.
    pub gpus: BTreeMap<GpuIndex, Gpu>,
}

/// How several pods share one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sharing {
    /// How many pods have one device; each of them has a seat. 1 is one pod
    /// that has it for itself.
    pub replicas: u32,
    /// Whether seats are a resource of their own, with `.shared` at its end.
    pub renamed: bool,
    /// Whether a container may ask for one seat only: a second seat is no
    /// second share.
    pub one_each: bool,
}

impl Sharing {
    /// Nobody shares anything.
    pub const NONE: Self = Self { replicas: 1, renamed: false, one_each: false };
}

/// The GPUs of a node that are not cut, as seats: all of them, or those that several pods share beside slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seating {
    /// The node as requests are judged by it. It has no GPUs here: those of [`Inventory::nodes`] may be cut.
    pub node: Node,
    /// Which GPUs it has, such as `T4`.
    pub card: String,
    /// How many of them are not cut.
    pub gpus: u32,
    /// How pods share them.
    pub sharing: Sharing,
    /// How many seats each of its bound pods holds.
    pub held: BTreeMap<PodRef, u32>,
}

impl Seating {
    /// The resource that pods ask for.
    #[must_use]
    pub const fn offers(&self) -> Offered {
        if self.sharing.renamed { Offered::SharedGpu } else { Offered::WholeGpu }
    }

    /// How many seats it has.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.gpus.saturating_mul(self.sharing.replicas)
    }

    /// How many of them pods hold: more than there are only where somebody
    /// else has changed how its GPUs are shared.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held.values().fold(0, |sum: u32, n| sum.saturating_add(*n))
    }
}

impl Node {
    /// What one slice of a profile is to pods here: which resource, and how many of it.
    #[must_use]
    pub fn seats_of(&self, profile: ProfileName) -> (Offered, u32) {
        seats_of(&self.shared, profile)
    }
}

/// What one slice of a profile is to pods, and how many of it.
pub(crate) fn seats_of(shared: &BTreeMap<ProfileName, Sharing>, profile: ProfileName) -> (Offered, u32) {
    match shared.get(&profile) {
        None => (Offered::Slice(profile), 1),
        Some(Sharing { replicas, renamed: false, .. }) => (Offered::Slice(profile), *replicas),
        Some(Sharing { replicas, renamed: true, .. }) => (Offered::SharedSlice(profile), *replicas),
    }
}

/// A taint that keeps pods away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty when it has none.
    #[serde(default)]
    pub value: String,
    /// `NoSchedule` and `NoExecute` keep pods away; `PreferNoSchedule` does not.
    pub effect: String,
}

/// Free CPU, memory, ephemeral storage and pod slots of a node, or what a pod
/// takes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Room {
    /// CPU, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory_bytes: i64,
    /// Ephemeral storage, in bytes.
    pub storage_bytes: i64,
    /// Pod slots.
    pub pods: i64,
}

impl Room {
    /// A node without any limit, for problems that do not speak of CPU and memory.
    pub const UNLIMITED: Self =
        Self { cpu_milli: i64::MAX, memory_bytes: i64::MAX, storage_bytes: i64::MAX, pods: i64::MAX };
    /// A pod that asks for slices only.
    pub const NOTHING: Self = Self { cpu_milli: 0, memory_bytes: 0, storage_bytes: 0, pods: 1 };
    /// Nothing at all, not even a pod slot.
    pub const ZERO: Self = Self { pods: 0, ..Self::NOTHING };

    /// Whether there is no less of anything than a pod takes.
    #[must_use]
    pub const fn holds(&self, takes: &Self) -> bool {
        let Self { cpu_milli, memory_bytes, storage_bytes, pods } = takes;
        *cpu_milli <= self.cpu_milli
            && *memory_bytes <= self.memory_bytes
            && *storage_bytes <= self.storage_bytes
            && *pods <= self.pods
    }

    /// This, and so many times something else. A sum that is past what the type
    /// can say stays there.
    #[must_use]
    pub const fn plus(self, other: Self, times: i64) -> Self {
        let Self { cpu_milli, memory_bytes, storage_bytes, pods } = other;
        Self {
            cpu_milli: self.cpu_milli.saturating_add(cpu_milli.saturating_mul(times)),
            memory_bytes: self.memory_bytes.saturating_add(memory_bytes.saturating_mul(times)),
            storage_bytes: self.storage_bytes.saturating_add(storage_bytes.saturating_mul(times)),
            pods: self.pods.saturating_add(pods.saturating_mul(times)),
        }
    }

    /// Of each the greater of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let Self { cpu_milli, memory_bytes, storage_bytes, pods } = other;
        Self {
            cpu_milli: self.cpu_milli.max(cpu_milli),
            memory_bytes: self.memory_bytes.max(memory_bytes),
            storage_bytes: self.storage_bytes.max(storage_bytes),
            pods: self.pods.max(pods),
        }
    }
}

/// Bytes in MiB, rounded up.
pub(crate) const fn mebibytes_up(bytes: i64) -> i64 {
    bytes.saturating_add((1 << 20) - 1) >> 20
}

/// How much of a node can change without touching the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangeScope {
    /// Single slices, beside others that are in use (the agent).
    SliceBySlice,
    /// Whole GPUs, when every slice of theirs is provably idle (the GPU Operator).
    IdleGpus,
    /// GPUs of a node on which every slice is provably idle (MIG is off on all of them, so that every change
    /// switches it on).
    EmptyNode,
}

impl ChangeScope {
    /// Its name, of which the fingerprint of a reviewed plan is made.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SliceBySlice => "SliceBySlice",
            Self::IdleGpus => "IdleGpus",
            Self::EmptyNode => "EmptyNode",
        }
    }
}

/// Why a node or GPU is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// No policy selects it, or the policy does not change anything now.
    NoPolicy,
    /// It changed a moment ago.
    CoolingDown {
        /// Until when.
        until: Timestamp,
    },
    /// It is on its way to a layout, and takes no new target until it is there.
    Changing,
    /// Somebody else cordoned it.
    Cordoned {
        /// Who, as far as that is known.
        by: String,
    },
    /// It is not ready.
    NotReady,
    /// A GPU is not healthy, or fell off the bus.
    Unhealthy {
        /// What is known of it.
        what: String,
    },
    /// Somebody else's layout is on it, and was put there after we took it over.
    ForeignLayout {
        /// The value that we did not write.
        label: String,
    },
    /// Somebody else works on the node (Machine Config Operator, driver upgrade).
    ForeignWork {
        /// Who.
        who: String,
    },
    /// Another system manages its slices (DRA, DAS).
    HandsOff {
        /// Which.
        who: String,
    },
    /// A rollout on it failed and waits for a human.
    Failed {
        /// What happened.
        why: String,
    },
    /// What it has cannot be established.
    NotEstablished {
        /// What is missing or contradictory.
        why: String,
    },
    /// Its slices were promised, and are kept until the pods have nodes.
    Promised {
        /// To whom; of several the first that was promised anything.
        to: RequestId,
    },
}

impl Hold {
    /// Its kind in one word, of which the fingerprint of a reviewed plan is made.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoPolicy => "NoPolicy",
            Self::CoolingDown { .. } => "CoolingDown",
            Self::Changing => "Changing",
            Self::Cordoned { .. } => "Cordoned",
            Self::NotReady => "NotReady",
            Self::Unhealthy { .. } => "Unhealthy",
            Self::ForeignLayout { .. } => "ForeignLayout",
            Self::ForeignWork { .. } => "ForeignWork",
            Self::HandsOff { .. } => "HandsOff",
            Self::Failed { .. } => "Failed",
            Self::NotEstablished { .. } => "NotEstablished",
            Self::Promised { .. } => "Promised",
        }
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The model's name in our catalogue, such as `A100-80GB`.
    pub model: String,
    /// The model's profiles and placements; shared by all GPUs of the model.
    pub geometry: Arc<Geometry>,
    /// What it is cut into, and how well that is known.
    pub slices: Slices,
    /// Why this GPU may not change, beside what holds its node.
    pub hold: Option<Hold>,
}

/// What a GPU is cut into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slices {
    /// Exact placements are known (agent, or the simulator in process).
    Placed(Vec<PlacedSlice>),
    /// Only how many of each profile (from the applied map entry).
    Counted(Vec<CountedSlice>),
    /// MIG is off. `used` says whether anything holds, or may hold, the GPU.
    MigOff {
        /// Its use as a whole.
        used: Use,
    },
}

/// One slice of a GPU, of which the place may or may not be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// Its profile.
    pub profile: ProfileName,
    /// Where it starts, in memory units, if that is known.
    pub start: Option<u8>,
    /// Who uses it.
    pub used: &'a Use,
}

impl Slices {
    /// Whether MIG is off.
    #[must_use]
    pub const fn is_mig_off(&self) -> bool {
        matches!(self, Self::MigOff { .. })
    }

    /// Every slice; none where MIG is off.
    pub fn iter(&self) -> impl Iterator<Item = Slice<'_>> {
        let (placed, counted): (&[PlacedSlice], &[CountedSlice]) = match self {
            Self::Placed(slices) => (slices, &[]),
            Self::Counted(slices) => (&[], slices),
            Self::MigOff { used: _ } => (&[], &[]),
        };
        let placed = placed.iter().map(|PlacedSlice { profile, start, used }| Slice {
            profile: *profile,
            start: Some(*start),
            used,
        });
        let counted = counted.iter().map(|CountedSlice { profile, used }| Slice {
            profile: *profile,
            start: None,
            used,
        });
        placed.chain(counted)
    }

    /// The profile of every slice; none where MIG is off.
    pub fn profiles(&self) -> impl Iterator<Item = ProfileName> {
        self.iter().map(|slice| slice.profile)
    }

    /// The use of the GPU as a whole, where MIG is off.
    #[must_use]
    pub const fn whole(&self) -> Option<&Use> {
        match self {
            Self::MigOff { used } => Some(used),
            Self::Placed(_) | Self::Counted(_) => None,
        }
    }

    /// The use of every slice, or of the GPU as a whole where MIG is off.
    pub fn uses(&self) -> impl Iterator<Item = &Use> {
        self.iter().map(|slice| slice.used).chain(self.whole())
    }

    /// [`Slices::uses`], to be changed.
    pub fn uses_mut(&mut self) -> impl Iterator<Item = &mut Use> {
        let (placed, counted, whole): (&mut [PlacedSlice], &mut [CountedSlice], _) = match self {
            Self::Placed(slices) => (slices, &mut [], None),
            Self::Counted(slices) => (&mut [], slices, None),
            Self::MigOff { used } => (&mut [], &mut [], Some(used)),
        };
        let placed = placed.iter_mut().map(|slice| &mut slice.used);
        placed.chain(counted.iter_mut().map(|slice| &mut slice.used)).chain(whole)
    }
}

/// A slice whose placement is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlacedSlice {
    /// Its profile.
    pub profile: ProfileName,
    /// Where it starts, in memory units.
    pub start: u8,
    /// Who uses it.
    pub used: Use,
}

/// A slice of which only the profile is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CountedSlice {
    /// Its profile.
    pub profile: ProfileName,
    /// Who uses it.
    pub used: Use,
}

/// Whether a slice is allocated to a pod. Allocation counts, not use: an idle
/// notebook holds its slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Use {
    /// Provably not allocated.
    Idle,
    /// Allocated to this pod.
    InUse {
        /// The pod that holds it.
        by: PodRef,
    },
    /// It cannot be proved idle; treated as in use.
    MaybeInUse {
        /// The pods that may hold it.
        by: Vec<PodRef>,
    },
}

impl Use {
    /// Whether it is provably idle.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// The pods that hold it or may hold it. That there is none does not make it idle: of a slice that cannot be
    /// proved idle, nobody may be known who could hold it.
    #[must_use]
    pub const fn holders(&self) -> &[PodRef] {
        match self {
            Self::Idle => &[],
            Self::InUse { by } => std::slice::from_ref(by),
            Self::MaybeInUse { by } => by.as_slice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever reads uses must see the GPU as a whole where MIG is off, and whatever reads slices must not.
    #[test]
    fn each_slice_is_seen_once_with_its_place_where_that_is_known_and_its_use() {
        let (small, large): (ProfileName, ProfileName) =
            ("1g.10gb".parse().unwrap(), "3g.40gb".parse().unwrap());
        let pod = |name: &str| PodRef { namespace: "a".to_owned(), name: name.to_owned() };
        let uses = [
            Use::InUse { by: pod("p") },
            Use::MaybeInUse { by: vec![pod("q"), pod("r")] },
            Use::MaybeInUse { by: Vec::new() },
            Use::Idle,
        ];
        let holders: Vec<usize> = uses.iter().map(|used| used.holders().len()).collect();
        assert_eq!(holders, [1, 2, 0, 0]);
        assert_eq!(uses.iter().filter(|used| used.is_idle()).count(), 1, "an unknown holder is a holder");
        for used in uses {
            let placed = vec![
                PlacedSlice { profile: large, start: 4, used: used.clone() },
                PlacedSlice { profile: small, start: 0, used: Use::Idle },
            ];
            let counted = vec![CountedSlice { profile: large, used: used.clone() }];
            let cases = [
                (Slices::Placed(placed), vec![(large, Some(4)), (small, Some(0))], vec![&used, &Use::Idle]),
                (Slices::Counted(counted), vec![(large, None)], vec![&used]),
                (Slices::MigOff { used: used.clone() }, vec![], vec![&used]),
            ];
            for (mut slices, places, uses) in cases {
                assert_eq!(slices.iter().map(|s| (s.profile, s.start)).collect::<Vec<_>>(), places);
                assert_eq!(
                    slices.profiles().collect::<Vec<_>>(),
                    places.iter().map(|p| p.0).collect::<Vec<_>>()
                );
                assert_eq!(slices.uses().collect::<Vec<_>>(), uses);
                assert_eq!(slices.whole(), slices.is_mig_off().then_some(&used));
                let n = uses.len();
                slices.uses_mut().for_each(|used| *used = Use::MaybeInUse { by: vec![] });
                assert_eq!(slices.uses().filter(|used| !used.is_idle()).count(), n);
            }
        }
    }

    /// The digest that stands in `slicewright.io/reviewed-plan` is made of these words: another word is another
    /// digest, and whatever was reviewed before would have to be reviewed again.
    #[test]
    fn the_words_that_digests_are_made_of_stay() {
        let text = String::new;
        let to = RequestId { kind: text(), namespace: text(), name: text(), ordinal: 0 };
        let holds = [
            (Hold::NoPolicy, "NoPolicy"),
            (Hold::CoolingDown { until: Timestamp::UNIX_EPOCH }, "CoolingDown"),
            (Hold::Changing, "Changing"),
            (Hold::Cordoned { by: text() }, "Cordoned"),
            (Hold::NotReady, "NotReady"),
            (Hold::Unhealthy { what: text() }, "Unhealthy"),
            (Hold::ForeignLayout { label: text() }, "ForeignLayout"),
            (Hold::ForeignWork { who: text() }, "ForeignWork"),
            (Hold::HandsOff { who: text() }, "HandsOff"),
            (Hold::Failed { why: text() }, "Failed"),
            (Hold::NotEstablished { why: text() }, "NotEstablished"),
            (Hold::Promised { to }, "Promised"),
        ];
        for (hold, word) in holds {
            assert_eq!(hold.name(), word);
        }
        let scopes = [
            (ChangeScope::SliceBySlice, "SliceBySlice"),
            (ChangeScope::IdleGpus, "IdleGpus"),
            (ChangeScope::EmptyNode, "EmptyNode"),
        ];
        for (scope, word) in scopes {
            assert_eq!(scope.name(), word);
        }
    }
}
