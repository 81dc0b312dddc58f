//! The possible new layouts of one GPU: those worth considering, with the value and the cost of each. GPUs
//! with the same situation have the same targets, so the fleet is planned by situations, not by GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use mig::{Attribute, Counts, Geometry, Layout, ProfileIndex, ProfileName};

/// Everything about a GPU that decides what it may become. GPUs for which it
/// is equal are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Situation {
    /// Which geometry (its position in the planner's table of geometries).
    pub(super) geometry: usize,
    /// What the GPU has.
    pub(super) current: Current,
    /// What may be done to it.
    pub(super) freedom: Freedom,
    /// Profiles of its node's other GPUs, where nobody sees which slice a pod
    /// holds: while anybody holds one of them, no GPU that has it is provably idle.
    pub(super) beside: BTreeSet<ProfileIndex>,
    /// What it is wanted to become.
    pub(super) goal: Goal,
    /// What it is held to, where only the plan being carried out is looked at.
    pub(super) aim: Aim,
    /// What it is to those who ask for whole GPUs.
    pub(super) whole: Whole,
}

/// What a GPU is to those who ask for whole GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whole {
    /// Nothing: nobody asks, or MIG is on and stays on.
    No,
    /// MIG is off.
    Is {
        /// Whether it is provably idle.
        free: bool,
    },
    /// MIG is on, and may be switched off for them.
    MayBe,
}

/// What a GPU is held to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aim {
    /// Nothing.
    Any,
    /// What it has.
    Stay,
    /// These slices, by start.
    Reach(Vec<(u8, ProfileName)>),
}

/// What a GPU has, as far as planning is concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Current {
    /// Exact placements: those that are, or may be, in use, and the idle ones.
    Placed {
        /// In use, or not provably idle.
        used: Layout,
        /// Provably idle.
        idle: Layout,
    },
    /// Numbers only: all slices, and those of them that are provably idle.
    Counted {
        /// All slices.
        all: Counts,
        /// The idle ones.
        idle: Counts,
    },
}

/// How much of a GPU may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Freedom {
    /// Nothing.
    Fixed,
    /// What is idle, slice by slice.
    Idle,
    /// Slice by slice, and slices in use may go too, as few as will do: their
    /// pods are evicted.
    Evict,
    /// All of it at once.
    Whole,
}

/// What a GPU is wanted to become.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goal {
    /// Whatever serves demand; `menu` are the profiles that are worth creating.
    Demand {
        /// Profiles worth creating.
        menu: BTreeSet<ProfileIndex>,
        /// Whether capacity that nobody asked for becomes one full-size slice.
        whole: bool,
        /// Whether it may stay as it is where MIG is off.
        stays_off: bool,
    },
    /// Exactly these slices.
    Static(Counts),
    /// MIG off.
    Whole {
        /// Whether it is off.
        is_so: bool,
    },
}

impl Goal {
    /// Whether a static layout wants it.
    pub(super) const fn is_static(&self) -> bool {
        matches!(self, Self::Static(_) | Self::Whole { .. })
    }
}

/// How many stranded compute slices a profile is worth that ties a GPU to
/// others of its node. Measured: see docs/adr/0004-objective.md.
const TIED: i64 = 2;

/// One final layout of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The layout; `None` keeps what is there.
    pub(super) layout: Option<Layout>,
    /// Slices that exist then, by profile.
    pub(super) exists: Counts,
    /// Of those, the ones that are free for requests.
    pub(super) free: Counts,
    /// Whether MIG is off then, as far as that counts.
    pub(super) is_off: bool,
    /// Whether it is free for who asks for a whole GPU.
    pub(super) is_free: bool,
    /// Slices created and destroyed.
    pub(super) operations: i64,
    /// On a GPU that changes as a whole: compute slices that no slice covers,
    /// which are lost until it is idle again, and [`TIED`] for each profile by
    /// which it is idle later than it could be.
    pub(super) stranded: i64,
    /// Not the static layout that is wanted.
    pub(super) misses_static: bool,
    /// Idle, nobody asked for it, and not one full-size slice.
    pub(super) misses_whole: bool,
    /// How much of the largest possible holes it takes; lower leaves more.
    pub(super) broken: i64,
}

impl Situation {
    /// The targets, without those that another one equals in everything that
    /// counts. The first is what comes of leaving the GPU alone, if it may be
    /// left alone.
    pub(super) fn targets(&self, geometry: &Geometry) -> Vec<Target> {
        let keep = self.keep(geometry);
        let empty = keep.exists.is_empty();
        if self.freedom == Freedom::Fixed {
            return vec![keep];
        }
        if let Goal::Whole { is_so: _ } = self.goal {
            let off = self.switched_off(geometry);
            return self.held_to_its_aim(geometry, vec![keep, off]);
        }
        let mut found: BTreeMap<Worth, Target> = BTreeMap::new();
        self.for_each_layout(geometry, &mut |layout| {
            let target = self.target(geometry, layout);
            let worth = Worth::new(&target, self.evicted(&target));
            match found.get(&worth) {
                Some(other) if (other.broken, other.layout) <= (target.broken, target.layout) => {}
                _ => {
                    found.insert(worth, target);
                }
            }
        });
        let mut targets = Vec::with_capacity(found.len() + 1);
        // A GPU without any slice is not left so when something can be put on
        // it: the device plugin and the validator do not bear it.
        if !empty
            || found.is_empty()
            || matches!(self.goal, Goal::Demand { stays_off: true, .. } if keep.is_off)
        {
            targets.push(keep);
        }
        // Nobody is evicted who need not be, whatever it would be worth to others.
        let fewest = found.values().map(|target| self.evicted(target)).min().unwrap_or(0);
        targets.extend(found.into_values().filter(|target| self.evicted(target) == fewest));
        if self.whole == Whole::MayBe {
            let off = self.switched_off(geometry);
            targets.push(Target { misses_whole: self.misses_whole(geometry, &off.exists), ..off });
        }
        self.held_to_its_aim(geometry, targets)
    }

    /// Only the target that the GPU is held to; all, if there is no such one.
    fn held_to_its_aim(&self, geometry: &Geometry, targets: Vec<Target>) -> Vec<Target> {
        let is_aim = |target: &Target| match (&self.aim, target.layout) {
            (Aim::Any, _) | (Aim::Stay, None) => true,
            (Aim::Reach(slices), Some(layout)) => {
                let mut has: Vec<(u8, ProfileName)> = layout
                    .iter()
                    .map(|p| geometry.describe(p))
                    .map(|(profile, start)| (start, profile))
                    .collect();
                has.sort_unstable();
                has == *slices
            }
            (Aim::Stay, Some(_)) | (Aim::Reach(_), None) => false,
        };
        let stays = |target: &Target| target.layout.is_none();
        if targets.iter().any(is_aim) {
            return targets.into_iter().filter(is_aim).collect();
        }
        // It is there already, or cannot come there any more.
        if targets.iter().any(stays) { targets.into_iter().filter(stays).collect() } else { targets }
    }

    /// How many slices in use go.
    fn evicted(&self, target: &Target) -> u32 {
        match (&self.current, self.freedom, target.layout) {
            (Current::Placed { used, .. }, Freedom::Evict, Some(layout)) => used.difference(layout).len(),
            _ => 0,
        }
    }

    /// What cannot go.
    fn stays(&self) -> Layout {
        match (&self.current, self.freedom) {
            (Current::Placed { used, .. }, Freedom::Idle | Freedom::Fixed) => *used,
            _ => Layout::EMPTY,
        }
    }

    /// The slices that the GPU has.
    pub(super) fn now(&self, geometry: &Geometry) -> Counts {
        match &self.current {
            Current::Placed { used, idle } => geometry.counts(used.union(*idle)),
            Current::Counted { all, .. } => all.clone(),
        }
    }

    /// What comes of leaving it alone.
    fn keep(&self, geometry: &Geometry) -> Target {
        let exists = self.now(geometry);
        let free = match &self.current {
            Current::Placed { idle, .. } => geometry.counts(*idle),
            Current::Counted { idle, .. } => idle.clone(),
        };
        Target {
            layout: None,
            operations: 0,
            stranded: 0,
            misses_static: match &self.goal {
                Goal::Static(wanted) => *wanted != exists,
                Goal::Whole { is_so } => !is_so,
                Goal::Demand { .. } => false,
            },
            misses_whole: self.misses_whole(geometry, &exists),
            broken: match &self.current {
                Current::Placed { used, idle } => broken(geometry, used.union(*idle)),
                Current::Counted { .. } => 0,
            },
            exists,
            free,
            is_off: matches!(self.whole, Whole::Is { .. }),
            is_free: self.whole == Whole::Is { free: true },
        }
    }

    /// What comes of switching MIG off: no slice is left, and none is missed.
    fn switched_off(&self, geometry: &Geometry) -> Target {
        Target {
            layout: Some(Layout::EMPTY),
            exists: Counts::default(),
            free: Counts::default(),
            is_off: true,
            is_free: true,
            operations: difference(&self.now(geometry), &Counts::default()),
            stranded: 0,
            misses_static: false,
            misses_whole: false,
            broken: 0,
        }
    }

    fn target(&self, geometry: &Geometry, layout: Layout) -> Target {
        let exists = geometry.counts(layout);
        let (free, operations) = match &self.current {
            Current::Placed { used, idle } => {
                // What is cut anew is free; what stays is as it was.
                let taken = if self.freedom == Freedom::Whole { Layout::EMPTY } else { *used };
                (
                    geometry.counts(layout.difference(taken)),
                    i64::from(used.union(*idle).operations_to(layout)),
                )
            }
            Current::Counted { all, .. } => (exists.clone(), difference(all, &exists)),
        };
        let stranded = if self.freedom == Freedom::Whole {
            let lost = i64::from(geometry.compute()) - i64::from(geometry.compute_of(layout));
            lost + TIED * self.tied(&exists)
        } else {
            0
        };
        Target {
            layout: Some(layout),
            free,
            is_off: false,
            is_free: false,
            operations,
            stranded,
            misses_static: matches!(&self.goal, Goal::Static(wanted) if *wanted != exists),
            misses_whole: self.misses_whole(geometry, &exists),
            broken: broken(geometry, layout),
            exists,
        }
    }

    /// Of a GPU that is cut into profiles of which another GPU of its node has
    /// one: how many others there are. Whoever holds any of them keeps both
    /// GPUs, and those of every other that has them.
    fn tied(&self, exists: &Counts) -> i64 {
        let profiles: Vec<ProfileIndex> = exists.iter().map(|(profile, _)| profile).collect();
        let shares = profiles.iter().any(|profile| self.beside.contains(profile));
        if shares { profiles.iter().skip(1).fold(0, |others, _| others + 1) } else { 0 }
    }

    /// Whether `unrequested: Whole` is not met: only GPUs that are idle as a
    /// whole are meant.
    fn misses_whole(&self, geometry: &Geometry, exists: &Counts) -> bool {
        let Goal::Demand { whole: true, .. } = self.goal else { return false };
        let idle = match &self.current {
            Current::Placed { used, .. } => used.is_empty(),
            Current::Counted { all, idle } => all == idle,
        };
        let Some(full) = full_size(geometry) else { return false };
        idle && self.freedom != Freedom::Fixed && *exists != Counts::from_iter([(full, 1)])
    }

    /// Calls back with every legal layout that the GPU may change to, except
    /// the one that it has, and except none at all.
    fn for_each_layout(&self, geometry: &Geometry, visit: &mut dyn FnMut(Layout)) {
        let stays = self.stays();
        let has = match &self.current {
            Current::Placed { used, idle } => Some(used.union(*idle)),
            Current::Counted { .. } => None,
        };
        let existing = has.unwrap_or_default();
        // Of counted slices nobody knows where they are; what nobody asks for
        // may stay in its number, as placed slices may in their place.
        let none = Counts::default();
        let counted = match &self.current {
            Current::Counted { all, .. } => all,
            Current::Placed { .. } => &none,
        };
        let candidates: Layout = match &self.goal {
            // It has no slices: see `switched_off`.
            Goal::Whole { .. } => Layout::EMPTY,
            Goal::Static(wanted) => {
                geometry.placements().filter(|p| wanted.get(geometry.profile_of(*p)) > 0).collect()
            }
            Goal::Demand { menu, .. } => geometry
                .placements()
                .filter(|p| {
                    let profile = geometry.profile_of(*p);
                    menu.contains(&profile)
                        || Some(profile) == full_size(geometry)
                        || existing.contains(*p)
                        || counted.get(profile) > 0
                })
                .collect(),
        };
        let now = (self.freedom == Freedom::Whole).then(|| self.now(geometry));
        let allowed = Layout::from_bits(candidates.bits() & geometry.free(stays).bits());
        let ControlFlow::Continue(()) =
            geometry.for_each_extension::<Infallible>(stays, allowed, &mut |layout| {
                // Who changes a GPU as a whole compares counts, not placements.
                let unchanged =
                    has == Some(layout) || now.as_ref().is_some_and(|now| *now == geometry.counts(layout));
                let wanted = match &self.goal {
                    Goal::Whole { .. } => false,
                    Goal::Static(wanted) => geometry.counts(layout) == *wanted,
                    Goal::Demand { menu, .. } => geometry.counts(layout).iter().all(|(profile, n)| {
                        menu.contains(&profile)
                            || Some(profile) == full_size(geometry)
                            || counted.is_empty()
                            || n <= counted.get(profile)
                    }),
                };
                if !layout.is_empty() && !unchanged && wanted {
                    visit(layout);
                }
                ControlFlow::Continue(())
            });
    }
}

/// What two targets must share so that one of them is enough.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    exists: Counts,
    free: Counts,
    operations: i64,
    evicted: u32,
}

impl Worth {
    fn new(target: &Target, evicted: u32) -> Self {
        Self {
            exists: target.exists.clone(),
            free: target.free.clone(),
            operations: target.operations,
            evicted,
        }
    }
}

/// The profile that is the whole GPU, without extras.
pub(super) fn full_size(geometry: &Geometry) -> Option<ProfileIndex> {
    let profiles = geometry.profiles();
    let position = profiles.iter().position(|p| {
        p.size == geometry.memory() && p.compute == geometry.compute() && p.name.attribute == Attribute::Plain
    })?;
    u8::try_from(position).ok().map(ProfileIndex)
}

/// Slices created and destroyed between two counts.
fn difference(a: &Counts, b: &Counts) -> i64 {
    let profiles: BTreeSet<ProfileIndex> = a.iter().chain(b.iter()).map(|(profile, _)| profile).collect();
    profiles.into_iter().map(|p| (i64::from(a.get(p)) - i64::from(b.get(p))).abs()).sum()
}

/// What a layout takes from what could be had later. Placements of large
/// profiles that it leaves possible count most: a whole GPU before a half,
/// a half before a quarter. Lower leaves more.
fn broken(geometry: &Geometry, layout: Layout) -> i64 {
    let free = geometry.free(layout);
    geometry
        .placements()
        .filter(|p| !free.contains(*p))
        .map(|p| i64::from(geometry.profile(geometry.profile_of(p)).size).pow(2))
        .sum()
}

/// The geometries of a fleet, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Geometries(Vec<Arc<Geometry>>);

impl Geometries {
    /// The number of a geometry; equal ones have one number.
    pub(super) fn number(&mut self, geometry: &Arc<Geometry>) -> usize {
        let known = self.0.iter().position(|g| Arc::ptr_eq(g, geometry) || g == geometry);
        known.unwrap_or_else(|| {
            self.0.push(Arc::clone(geometry));
            self.0.len() - 1
        })
    }

    /// The same, for whoever keeps it.
    pub(super) fn shared(&self, number: usize) -> &Arc<Geometry> {
        &self.0[number]
    }

    /// The geometry of a number.
    pub(super) fn get(&self, number: usize) -> &Geometry {
        &self.0[number]
    }
}

/// Counts by name as counts of a geometry; `None` names a profile that it lacks.
pub(super) fn counts_of<'a>(
    geometry: &Geometry,
    names: impl IntoIterator<Item = (&'a ProfileName, u8)>,
) -> Result<Counts, ProfileName> {
    names
        .into_iter()
        .map(|(name, n)| geometry.profile_named(*name).map(|profile| (profile, n)).ok_or(*name))
        .collect()
}
