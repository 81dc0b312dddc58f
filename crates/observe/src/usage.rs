//! Which slices are held: exactly where an agent reports it, otherwise as far as the pods on the node prove
//! it. Allocation counts, not use: an idle notebook holds its slice.

use std::collections::{BTreeMap, BTreeSet};

use api::gpu_node::{PodName, SliceUse};
use mig::{GpuResource, ProfileName};
use planner::inventory::{CountedSlice, PlacedSlice, Slices, Use};
use planner::names::{GpuIndex, PodRef};
use rollout::{GpuLayout, Strategy};

use crate::layouts::{Established, GpuFound};
use crate::problem::{Problem, Severity};

/// What the pods of a node hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Slices, by profile and pod.
    pub slices: BTreeMap<ProfileName, BTreeMap<PodRef, u32>>,
    /// `nvidia.com/gpu`, by pod.
    pub whole: BTreeMap<PodRef, u32>,
    /// Seats of GPUs that are not cut, by pod: `nvidia.com/gpu`, and
    /// `nvidia.com/gpu.shared`.
    pub gpus: BTreeMap<PodRef, u32>,
    /// By how many pods slices of a profile are shared, where they are: of
    /// these, what is held is held in seats.
    pub replicas: BTreeMap<ProfileName, u32>,
    /// By how many pods each GPU with MIG off is shared, where it is: what is
    /// held of them is `gpus` then.
    pub whole_replicas: Option<u32>,
    /// Resources that are neither GPUs nor a node's room.
    pub other_resources: BTreeMap<String, i64>,
    /// Those of them that the kubelet has not started, so that it may yet
    /// refuse them.
    pub waiting: BTreeSet<PodRef>,
}

impl Held {
    /// How many slices of each profile are held.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<ProfileName, u32> {
        self.slices.iter().map(|(profile, pods)| (*profile, sum(pods.values()))).collect()
    }

    /// How many compute slices each pod holds.
    #[must_use]
    pub fn compute_slices(&self) -> BTreeMap<PodRef, u32> {
        let mut held: BTreeMap<PodRef, u32> = BTreeMap::new();
        for (profile, pods) in &self.slices {
            for (pod, n) in pods {
                let all = held.entry(pod.clone()).or_default();
                *all = all.saturating_add(n.saturating_mul(u32::from(profile.compute)));
            }
        }
        held
    }

    /// By how many pods a slice of a profile is shared; 1 where it is not.
    fn replicas_of(&self, profile: ProfileName) -> u32 {
        self.replicas.get(&profile).copied().unwrap_or(1)
    }

    /// Who has seats of the slices of a profile that several pods share; any of
    /// them may sit on any of these slices. `None` where they are not shared.
    pub fn sits_on(&self, profile: ProfileName) -> Option<Use> {
        self.replicas.get(&profile)?;
        let users = Users::new(self.slices.get(&profile), 0, true);
        Some(users.unseen())
    }

    /// The same of GPUs with MIG off.
    pub fn sits_on_whole(&self) -> Option<Use> {
        self.whole_replicas?;
        Some(Users::new(Some(&self.gpus), 0, true).unseen())
    }

    /// What pods hold of GPUs with MIG off: GPUs, or seats where several share each.
    fn of_whole(&self) -> &BTreeMap<PodRef, u32> {
        if self.whole_replicas.is_some() { &self.gpus } else { &self.whole }
    }

    /// Takes one slice of a profile away from the last of those that hold some.
    pub fn take(&mut self, profile: ProfileName) -> Option<PodRef> {
        take_one(self.slices.get_mut(&profile)?)
    }

    /// The same for a GPU with MIG off.
    pub fn take_whole(&mut self) -> Option<PodRef> {
        take_one(&mut self.whole)
    }

    /// How many GPUs with MIG off are held. (Under `single`, `nvidia.com/gpu`
    /// is a slice where MIG is on.)
    #[must_use]
    pub fn whole_gpus(&self, found: &Established<'_>) -> u32 {
        let cut = found.gpus.values().any(|gpu| gpu.cut.is_mig());
        if cut && found.strategy == Strategy::Single { 0 } else { sum(self.of_whole().values()) }
    }
}

fn take_one(pods: &mut BTreeMap<PodRef, u32>) -> Option<PodRef> {
    let mut last = pods.last_entry()?;
    let pod = last.key().clone();
    *last.get_mut() = last.get().saturating_sub(1);
    if *last.get() == 0 {
        last.remove();
    }
    Some(pod)
}

/// The numbers are other people's: they are added up to the most there is.
fn sum<'a>(numbers: impl Iterator<Item = &'a u32>) -> u32 {
    numbers.fold(0, |sum, n| sum.saturating_add(*n))
}

/// A pod that asks for more than its node can ever have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The pod.
    pub pod: PodRef,
    /// What it asks for.
    pub resource: String,
    /// How many of it.
    pub asks: u32,
    /// How many the node could have at most, however it was cut or shared.
    pub most: u32,
}

impl Impossible {
    /// What is said about the pod, which somebody has bound to this node.
    pub(crate) fn problem(&self, node: &str) -> Problem {
        let Self { pod, resource, asks, most } = self;
        let message = format!(
            "requests {asks} {resource}, but node {node} can never have more than {most}: the kubelet will refuse it, so it holds nothing"
        );
        Problem::new(Severity::Warning, format!("Pod {pod}"), message)
    }
}

/// Takes out the pods that have not started and that ask for more of something
/// than their node could have in any layout: the kubelet cannot have given it
/// to them, and will refuse them. Somebody wrote `spec.nodeName` by hand; the
/// scheduler places no such pod. Of a node whose GPUs are not known, nothing is
/// taken out.
#[must_use]
pub fn drop_impossible(held: &mut Held, found: &Established<'_>) -> Vec<Impossible> {
    let mut impossible = Vec::new();
    if found.gpus.is_empty() {
        return impossible;
    }
    let most_of = |profile: ProfileName| -> u32 {
        let spec = |gpu: &GpuFound<'_>| {
            let profile = gpu.model.geometry.profile_named(profile)?;
            u32::try_from(gpu.model.geometry.profile(profile).starts.len()).ok()
        };
        found.gpus.values().filter_map(spec).sum()
    };
    // Under strategy `single` each slice is one of these, too.
    let most_whole: u32 = found
        .gpus
        .values()
        .map(|gpu| {
            let starts = gpu.model.geometry.profiles().iter().map(|profile| profile.starts.len());
            starts.max().and_then(|n| u32::try_from(n).ok()).unwrap_or(0).max(1)
        })
        .sum();
    let Held { slices, whole, waiting, replicas, whole_replicas, gpus, other_resources: _ } = held;
    let mut check = |pods: &mut BTreeMap<PodRef, u32>, resource: &str, most: u32| {
        impossible.extend(drop_above(pods, waiting, resource, most));
    };
    match whole_replicas {
        Some(replicas) => check(gpus, GpuResource::GPU, most_whole.saturating_mul(*replicas)),
        None => check(whole, GpuResource::GPU, most_whole),
    }
    for (profile, pods) in slices {
        let seats = replicas.get(profile).copied().unwrap_or(1);
        check(pods, &profile.resource_name(), most_of(*profile).saturating_mul(seats));
    }
    impossible
}

/// Takes out the pods that wait to be started and ask for more than there can
/// be.
pub(crate) fn drop_above(
    pods: &mut BTreeMap<PodRef, u32>,
    waiting: &BTreeSet<PodRef>,
    resource: &str,
    most: u32,
) -> Vec<Impossible> {
    let mut impossible = Vec::new();
    pods.retain(|pod, n| {
        let fits = *n <= most || !waiting.contains(pod);
        if !fits {
            let (pod, resource) = (pod.clone(), resource.to_owned());
            impossible.push(Impossible { pod, resource, asks: *n, most });
        }
        fits
    });
    impossible
}

/// More is held than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The profile; `None` for whole GPUs.
    pub profile: Option<ProfileName>,
    /// How many are held.
    pub held: u32,
    /// How many there are.
    pub exist: u32,
    /// How many of them each pod holds.
    pub by: BTreeMap<PodRef, u32>,
}

impl Excess {
    /// How many of those who hold them are named.
    const NAMED: usize = 10;

    /// Who holds them: `team-a/x (2), team-b/y (1)`.
    #[must_use]
    pub fn holders(&self) -> String {
        let named = self.by.iter().filter(|(_, n)| **n > 0).map(|(pod, n)| format!("{pod} ({n})"));
        let mut named: Vec<String> = named.collect();
        let more = named.len().saturating_sub(Self::NAMED);
        named.truncate(Self::NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", named.join(", "))
    }
}

/// The slices of every GPU with their use, what of each profile is held, and
/// where more is held than exists.
#[must_use]
pub fn by_gpu(
    found: &Established<'_>,
    held: &Held,
) -> (BTreeMap<GpuIndex, Slices>, BTreeMap<ProfileName, u32>, Vec<Excess>) {
    let mut held = held.clone();
    if found.strategy == Strategy::Single {
        // Under `single` the one profile of the node is `nvidia.com/gpu`.
        let profile = found.gpus.values().find_map(|gpu| match &gpu.cut {
            GpuLayout::Mig(slices) => slices.keys().next().copied(),
            GpuLayout::Off => None,
        });
        if let Some(profile) = profile {
            let whole = std::mem::take(&mut held.whole);
            held.slices.entry(profile).or_default().extend(whole);
        }
    }
    let mut exist: BTreeMap<ProfileName, u32> = BTreeMap::new();
    let mut whole = 0_u32;
    for gpu in found.gpus.values() {
        match &gpu.cut {
            GpuLayout::Off => whole += 1,
            GpuLayout::Mig(slices) => {
                for (profile, n) in slices {
                    *exist.entry(*profile).or_default() += u32::from(*n);
                }
            }
        }
    }
    let counts = held.counts();
    let mut excess: Vec<Excess> = counts
        .iter()
        .map(|(profile, n)| Excess {
            profile: Some(*profile),
            held: *n,
            exist: exist.get(profile).copied().unwrap_or(0).saturating_mul(held.replicas_of(*profile)),
            by: held.slices.get(profile).cloned().unwrap_or_default(),
        })
        .collect();
    excess.push(Excess {
        profile: None,
        held: sum(held.of_whole().values()),
        exist: whole.saturating_mul(held.whole_replicas.unwrap_or(1)),
        by: held.of_whole().clone(),
    });
    excess.retain(|e| e.held > e.exist);

    let users = |(profile, n): (&ProfileName, &u32)| {
        let is_shared = held.replicas_of(*profile) > 1;
        (*profile, Users::new(held.slices.get(profile), *n, is_shared))
    };
    let mut users: BTreeMap<ProfileName, Users> = exist.iter().map(users).collect();
    let mut whole_users = Users::new(Some(held.of_whole()), whole, held.whole_replicas.is_some());
    if found.users {
        // A pod that was bound after the agent looked may hold any idle slice.
        for gpu in found.gpus.values() {
            for slice in gpu.seen.iter().flat_map(|seen| &seen.slices) {
                if let Ok(profile) = slice.profile.parse::<ProfileName>()
                    && let Some(users) = users.get_mut(&profile)
                    && slice.used == SliceUse::InUse
                {
                    for pod in &slice.by {
                        users.seen(&pod_ref(pod));
                    }
                }
            }
            // Of one that several share, each may be on any.
            let alone = gpu.seen.iter().filter(|_| held.whole_replicas.is_none());
            for pod in alone.flat_map(|seen| &seen.held_by) {
                whole_users.seen(&pod_ref(pod));
            }
        }
    }
    let slices = found
        .gpus
        .iter()
        .map(|(index, gpu)| {
            let slices = match (&gpu.cut, found.exact) {
                (GpuLayout::Off, _) => Slices::MigOff { used: off(gpu, found.users, &mut whole_users) },
                (GpuLayout::Mig(_), true) if found.users => placed(gpu, &users),
                (GpuLayout::Mig(_), true) => placed_by_pods(gpu, &mut users),
                (GpuLayout::Mig(counts), false) => {
                    let mut slices = Vec::new();
                    for (profile, n) in counts {
                        let users = users.get_mut(profile).expect("counted above");
                        slices
                            .extend((0..*n).map(|_| CountedSlice { profile: *profile, used: users.next() }));
                    }
                    Slices::Counted(slices)
                }
            };
            (*index, slices)
        })
        .collect();
    (slices, counts, excess)
}

fn pod_ref(pod: &PodName) -> PodRef {
    PodRef { namespace: pod.namespace.clone(), name: pod.name.clone() }
}

fn off(gpu: &GpuFound<'_>, exact: bool, users: &mut Users) -> Use {
    if !exact || users.is_shared {
        return users.next();
    }
    match gpu.seen.as_ref().and_then(|seen| seen.held_by.first()) {
        Some(pod) => Use::InUse { by: pod_ref(pod) },
        None => users.unseen(),
    }
}

/// The slices that an agent saw.
fn placed(gpu: &GpuFound<'_>, users: &BTreeMap<ProfileName, Users>) -> Slices {
    let mut slices: Vec<PlacedSlice> = gpu
        .seen
        .iter()
        .flat_map(|seen| &seen.slices)
        .filter_map(|slice| {
            let profile: ProfileName = slice.profile.parse().ok()?;
            let by: Vec<PodRef> = slice.by.iter().map(pod_ref).collect();
            let used = match (slice.used, by.as_slice()) {
                (SliceUse::Idle, _) => users.get(&profile).map_or(Use::Idle, Users::unseen),
                (SliceUse::InUse, [pod]) => Use::InUse { by: pod.clone() },
                (SliceUse::InUse | SliceUse::MaybeInUse, _) => Use::MaybeInUse { by },
            };
            Some(PlacedSlice { profile, start: u8::try_from(slice.start?).ok()?, used })
        })
        .collect();
    slices.sort_by_key(|slice| (slice.start, slice.profile));
    Slices::Placed(slices)
}

/// The slices that an agent saw that is no longer there: what the pods of the
/// node prove of them, as without an agent.
fn placed_by_pods(gpu: &GpuFound<'_>, users: &mut BTreeMap<ProfileName, Users>) -> Slices {
    let slices = gpu.seen.iter().flat_map(|seen| &seen.slices).filter_map(|slice| {
        let profile: ProfileName = slice.profile.parse().ok()?;
        let used = users.get_mut(&profile).map_or(Use::Idle, Users::next);
        Some(PlacedSlice { profile, start: u8::try_from(slice.start?).ok()?, used })
    });
    let mut slices: Vec<PlacedSlice> = slices.collect();
    slices.sort_by_key(|slice| (slice.start, slice.profile));
    Slices::Placed(slices)
}

/// The users of equal slices on one node, handed out one by one.
struct Users {
    /// How many each pod holds; what an agent saw is taken off.
    pods: BTreeMap<PodRef, u32>,
    exist: u32,
    assigned: u32,
    /// Several pods share each of them: what is held is held in seats, and
    /// whoever has one may sit on any.
    is_shared: bool,
}

impl Users {
    fn new(held: Option<&BTreeMap<PodRef, u32>>, exist: u32, is_shared: bool) -> Self {
        let pods = held.into_iter().flatten().filter(|(_, n)| **n > 0);
        Self { pods: pods.map(|(pod, n)| (pod.clone(), *n)).collect(), exist, assigned: 0, is_shared }
    }

    fn seen(&mut self, pod: &PodRef) {
        if let Some(n) = self.pods.get_mut(pod) {
            *n -= 1;
            if *n == 0 {
                self.pods.remove(pod);
            }
        }
    }

    /// The use of a slice of which no agent saw a user.
    fn unseen(&self) -> Use {
        if self.pods.is_empty() { Use::Idle } else { Use::MaybeInUse { by: self.names() } }
    }

    /// The use of the next slice. Where every slice is held, each is in use,
    /// though which pod has which is not known: they are named in order.
    fn next(&mut self) -> Use {
        let mut before = self.assigned;
        self.assigned = self.assigned.saturating_add(1);
        // Of a slice that several share, no pod is the one that has it.
        if self.is_shared || sum(self.pods.values()) < self.exist {
            return self.unseen();
        }
        for (pod, n) in &self.pods {
            match before.checked_sub(*n) {
                Some(rest) => before = rest,
                None => return Use::InUse { by: pod.clone() },
            }
        }
        self.unseen()
    }

    fn names(&self) -> Vec<PodRef> {
        self.pods.keys().cloned().collect()
    }
}
