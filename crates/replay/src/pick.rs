//! First fit and best fit handle each request by itself, the highest priority first and then the oldest, like a
//! slicer that serves one pod at a time.
//!
//! Both have the same actuator and the same rules as the planner. Where single slices can be created, those
//! of the request are created beside the slices in use, and idle slices in their place are destroyed. Where
//! only whole GPUs can change, an idle GPU gets as many slices of the request's profile as fit.

use std::cmp::Reverse;
use std::sync::Arc;

use mig::{Geometry, Layout, PlacementIndex, ProfileName};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Gpu, Inventory, Node, Slice};
use planner::names::NodeName;

use crate::target::{Cut, Target, Wanted};

/// Which GPU of those that will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Best {
    /// The first by node and index; there the lowest start.
    First,
    /// The one that has the least room beside what is in use; there the start
    /// that leaves the most possible.
    Tightest,
}

/// One GPU while requests are handed out.
#[derive(Clone)]
struct Open {
    geometry: Arc<Geometry>,
    /// Slices with their places (made up where nobody knows them), and whether they may go.
    slices: Vec<Piece>,
    may_change: bool,
    changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece {
    profile: ProfileName,
    placement: Option<PlacementIndex>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InUse,
    Idle,
    /// Of somebody who waits.
    Promised,
}

/// What should change so that those that wait are served.
pub(crate) fn pick(inventory: &Inventory, requests: &[Request], best: Best) -> Wanted {
    let mut nodes: Vec<(&NodeName, &Node, Vec<Open>)> =
        inventory.nodes.iter().map(|(name, node)| (name, node, open(node))).collect();
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by_key(|&request| (Reverse(request.priority), request.since, &request.id));
    // What one found no room for, the next who asks for the same does not find either.
    let mut in_vain: Vec<(ProfileName, u32)> = Vec::new();
    for request in sorted {
        for (profile, count) in &request.slices {
            if in_vain.contains(&(*profile, *count)) {
                continue;
            }
            let coming = nodes.iter_mut().any(|(_, _, gpus)| promise(gpus, *profile, *count));
            if !coming && !make(&mut nodes, *profile, *count, best) {
                in_vain.push((*profile, *count));
            }
        }
    }
    let wanted = nodes.into_iter().filter_map(|(name, _, gpus)| {
        let target: Target = gpus
            .iter()
            .enumerate()
            .filter(|(_, gpu)| gpu.changed)
            .map(|(index, gpu)| (index, gpu.cut()))
            .collect();
        (!target.is_empty()).then(|| (name.clone(), target))
    });
    wanted.collect()
}

fn open(node: &Node) -> Vec<Open> {
    let held = node.hold.is_some();
    node.gpus.values().map(|gpu| Open::new(gpu, held)).collect()
}

/// Promises free slices of one node that are there or on their way; whether
/// there were enough.
fn promise(gpus: &mut [Open], profile: ProfileName, count: u32) -> bool {
    let free = gpus.iter_mut().flat_map(|gpu| &mut gpu.slices);
    let mut free: Vec<&mut Piece> =
        free.filter(|piece| piece.profile == profile && piece.state == State::Idle).collect();
    let enough = u32::try_from(free.len()).is_ok_and(|n| n >= count);
    if enough {
        free.iter_mut().zip(0..count).for_each(|(piece, _)| piece.state = State::Promised);
    }
    enough
}

/// Makes the slices on one node, if one has room for all of them.
fn make(nodes: &mut [(&NodeName, &Node, Vec<Open>)], profile: ProfileName, count: u32, best: Best) -> bool {
    let mut tried = nodes.iter().enumerate().filter_map(|(at, (_, node, gpus))| {
        let mut gpus = gpus.clone();
        let mut left = count;
        let mut spare = 0;
        while left > 0 {
            let chosen = choose(&gpus, profile, node.scope, best)?;
            spare += gpus[chosen].room();
            left -= gpus[chosen].make(profile, node.scope, left, best);
        }
        Some((spare, at, gpus))
    });
    // Best fit looks at all nodes, first fit at the first that will do.
    let chosen = match best {
        Best::First => tried.next(),
        Best::Tightest => tried.min_by_key(|(spare, at, _)| (*spare, *at)),
    };
    let Some((_, at, gpus)) = chosen else { return false };
    nodes[at].2 = gpus;
    true
}

fn choose(gpus: &[Open], profile: ProfileName, scope: ChangeScope, best: Best) -> Option<usize> {
    let mut fits = (0..gpus.len()).filter(|at| gpus[*at].has_room(profile, scope));
    match best {
        Best::First => fits.next(),
        Best::Tightest => fits.min_by_key(|at| (gpus[*at].room(), *at)),
    }
}

impl Open {
    fn new(gpu: &Gpu, held: bool) -> Self {
        let geometry = &gpu.geometry;
        let place = |profile, start| geometry.placement(geometry.profile_named(profile)?, start);
        let piece = |slice: Slice<'_>| Piece {
            profile: slice.profile,
            placement: slice.start.and_then(|start| place(slice.profile, start)),
            state: if slice.used.is_idle() { State::Idle } else { State::InUse },
        };
        let slices: Vec<Piece> = gpu.slices.iter().map(piece).collect();
        Self { geometry: Arc::clone(geometry), slices, may_change: !held, changed: false }
    }

    /// What must stay.
    fn fixed(&self) -> Layout {
        let stays = self.slices.iter().filter(|piece| piece.state != State::Idle);
        stays.filter_map(|piece| piece.placement).fold(Layout::EMPTY, Layout::with)
    }

    /// Memory units that nothing fixed covers.
    fn room(&self) -> u32 {
        let covered = self.fixed().iter().fold(0u16, |units, p| units | self.geometry.units(p));
        u32::from(self.geometry.memory()) - covered.count_ones()
    }

    fn has_room(&self, profile: ProfileName, scope: ChangeScope) -> bool {
        let Some(index) = self.geometry.profile_named(profile).filter(|_| self.may_change) else {
            return false;
        };
        match scope {
            ChangeScope::SliceBySlice => mig::remaining(&self.geometry, self.fixed(), index) > 0,
            ChangeScope::IdleGpus | ChangeScope::EmptyNode => {
                !self.changed && self.slices.iter().all(|piece| piece.state == State::Idle)
            }
        }
    }

    /// Makes up to `most` promised slices; how many.
    fn make(&mut self, profile: ProfileName, scope: ChangeScope, most: u32, best: Best) -> u32 {
        let Some(index) = self.geometry.profile_named(profile) else { return 0 };
        let geometry = Arc::clone(&self.geometry);
        let lowest = |layout: Layout| geometry.free(layout).iter().find(|p| geometry.profile_of(*p) == index);
        self.changed = true;
        match scope {
            ChangeScope::SliceBySlice => {
                let fixed = self.fixed();
                let placement = match best {
                    Best::First => lowest(fixed),
                    Best::Tightest => mig::default_placement(&geometry, fixed, index),
                };
                let Some(placement) = placement else { return 0 };
                let legal = |piece: &Piece| {
                    piece.state != State::Idle
                        || piece.placement.is_some_and(|p| geometry.is_legal(fixed.with(placement).with(p)))
                };
                self.slices.retain(legal);
                self.slices.push(Piece { profile, placement: Some(placement), state: State::Promised });
                self.drop_what_does_not_fit();
                1
            }
            ChangeScope::IdleGpus | ChangeScope::EmptyNode => {
                self.slices.clear();
                let mut layout = Layout::EMPTY;
                let mut made = 0;
                while let Some(placement) = lowest(layout) {
                    layout = layout.with(placement);
                    let state = if made < most { State::Promised } else { State::Idle };
                    made += 1;
                    self.slices.push(Piece { profile, placement: Some(placement), state });
                }
                made.min(most)
            }
        }
    }

    /// Idle slices that fit beside the fixed ones one by one need not fit together.
    fn drop_what_does_not_fit(&mut self) {
        let mut layout = self.fixed();
        let geometry = Arc::clone(&self.geometry);
        self.slices.retain(|piece| match (piece.state, piece.placement) {
            (State::Idle, Some(placement)) => {
                let fits = geometry.is_legal(layout.with(placement));
                layout = if fits { layout.with(placement) } else { layout };
                fits
            }
            (State::Idle, None) => false,
            (State::InUse | State::Promised, _) => true,
        });
    }

    fn cut(&self) -> Cut {
        let placed = self.slices.iter().filter_map(|piece| piece.placement);
        let mut cut: Cut = placed.map(|placement| self.geometry.describe(placement)).collect();
        cut.sort_by_key(|(profile, start)| (*start, *profile));
        cut
    }
}
