//! An upper bound for every method, including one that knows the whole trace in advance.
//!
//! # Which bound, and why it is one
//! Let a policy be any method that decides, with or without knowledge of the future, the layouts of GPUs
//! and the assignment of slices, and let *h(t)* be the compute slices that are held at second *t*. For
//! every policy:
//!
//! 1. Only a request that has arrived and not left holds slices; it holds slices of the profile that it
//!    requested, and either all of them or none.
//! 2. The slices that are held on one GPU at one moment are part of one legal
//!    layout of it.
//!
//! So *h(t)* is at most *b(t)*: the most compute slices of the requests present at *t* that fit a fleet
//! which is empty, is partitioned at that moment in no time, and on which a request may have slices on
//! several nodes, or only some of its slices. This is a relaxation of the possibilities of any policy at
//! *t*: it ignores the past and the future (slices that cannot move, changes that take time, nodes that are
//! closed), and the condition "all or none, on one node". The sum of *b(t)* over all seconds is therefore
//! at least what any policy delivers: slice-seconds held are never more than [`Bound::slice_seconds`], and
//! the waiting time, in compute-slice-seconds, is never less than the requested time minus this bound.
//!
//! *b(t)* is an integer program over the maximal layouts of each model, solved
//! by the planner's solver; where optimality is not proved the solver's bound
//! is taken, which is at least *b(t)*.
//!
//! It is loose where changes are long compared with the stay of requests, since no change takes no time.
//! And it says nothing about the number of requests served: serving many small requests and serving a large
//! one can deliver the same.
//!
//! # How many GPUs
//! By the same argument no method serves all requests without waiting with fewer GPUs than the requests at
//! the busiest moment need when they are packed from scratch: [`Bound::gpus`], for fleets of one model.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mig::{Geometry, Lattice, ProfileName};
use planner::solver::{Class, Column, Effort, Extra, Instance, Row, Sense, solve};

use crate::fleet::Fleet;
use crate::trace::{Trace, seconds};

/// What nobody could do better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Compute slices times seconds that at most can be held.
    pub slice_seconds: u128,
    /// The fewest GPUs with which nobody would ever wait, if cuts took no time
    /// and slices could move; for fleets of one model.
    pub gpus: Option<u64>,
}

/// What is asked for at one moment, by profile.
type Demand = BTreeMap<ProfileName, u64>;

/// The bound for a trace on a fleet.
#[must_use]
pub fn bound(trace: &Trace, fleet: &Fleet) -> Bound {
    let asked: BTreeSet<ProfileName> = trace.requests.iter().map(|asked| asked.profile).collect();
    let models = models(fleet, &asked);
    let one = if let [model] = models.as_slice() { Some(model) } else { None };
    let mut bound = Bound { slice_seconds: 0, gpus: one.map(|_| 0) };
    let mut known: HashMap<Demand, u64> = HashMap::new();
    for (demand, length) in moments(trace) {
        let most = *known.entry(demand.clone()).or_insert_with(|| most(&models, &demand));
        bound.slice_seconds += u128::from(most) * length;
        if let (Some(gpus), Some(model)) = (&mut bound.gpus, one)
            && model.alone(&demand).is_none_or(|enough| enough > *gpus)
        {
            *gpus = (*gpus).max(model.fewest(&demand));
        }
    }
    bound
}

/// What is asked for, moment by moment, and for how many seconds.
fn moments(trace: &Trace) -> Vec<(Demand, u128)> {
    let mut events: BTreeMap<i64, Vec<(ProfileName, i64)>> = BTreeMap::new();
    for asked in &trace.requests {
        let count = i64::from(asked.count);
        events.entry(asked.from).or_default().push((asked.profile, count));
        events.entry(asked.until).or_default().push((asked.profile, -count));
    }
    let mut there: BTreeMap<ProfileName, i64> = BTreeMap::new();
    let mut moments = Vec::new();
    let mut since = trace.span().0;
    for (at, changes) in events {
        let demand: Demand = there
            .iter()
            .filter_map(|(profile, n)| Some((*profile, u64::try_from(*n).ok().filter(|n| *n > 0)?)))
            .collect();
        if at > since && !demand.is_empty() {
            moments.push((demand, seconds(at - since)));
        }
        since = at;
        for (profile, count) in changes {
            *there.entry(profile).or_default() += count;
        }
    }
    moments
}

/// The GPUs of one geometry.
struct Model {
    count: u32,
    compute: u64,
    /// The largest multisets of profiles that anybody asks for, one GPU each.
    layouts: Vec<BTreeMap<ProfileName, i32>>,
}

fn models(fleet: &Fleet, asked: &BTreeSet<ProfileName>) -> Vec<Model> {
    let mut models: Vec<(&Arc<Geometry>, Model)> = Vec::new();
    for gpu in fleet.gpus() {
        if let Some((_, model)) = models.iter_mut().find(|(geometry, _)| **geometry == gpu.geometry) {
            model.count += 1;
            continue;
        }
        let part = gpu.geometry.subset(|spec| asked.contains(&spec.name));
        let compute = u64::from(gpu.geometry.compute());
        models.push((&gpu.geometry, Model { count: 1, compute, layouts: layouts(&part) }));
    }
    models.into_iter().map(|(_, model)| model).collect()
}

/// The multisets of all layouts to which nothing can be added, each once. A
/// part of a geometry has fewer layouts than the catalogue's models are tested for.
fn layouts(geometry: &Geometry) -> Vec<BTreeMap<ProfileName, i32>> {
    let lattice = Lattice::enumerate(geometry)
        .expect("the lattice of every model in the catalogue is listed by its tests");
    let counts: BTreeSet<&mig::Counts> = lattice.maximal().map(|state| lattice.counts(state)).collect();
    let named = |counts: &mig::Counts| {
        counts.iter().map(|(profile, n)| (geometry.profile(profile).name, i32::from(n))).collect()
    };
    counts.into_iter().map(named).collect()
}

/// The most compute slices of what is asked for that fit an empty fleet.
fn most(models: &[Model], demand: &Demand) -> u64 {
    let asked: u64 = demand.iter().map(|(profile, n)| u64::from(profile.compute) * n).sum();
    if let [model] = models
        && model.alone(demand).is_some_and(|gpus| gpus <= u64::from(model.count))
    {
        return asked;
    }
    let has: u64 = models.iter().map(|model| model.compute * u64::from(model.count)).sum();
    let rows: Vec<&ProfileName> = demand.keys().collect();
    let column = |layout: &BTreeMap<ProfileName, i32>| Column {
        coefficients: coefficients(&rows, layout),
        costs: vec![],
    };
    let instance = Instance {
        rows: demand.values().map(|n| Row { sense: Sense::AtLeast, rhs: rhs(*n) }).collect(),
        classes: models
            .iter()
            .map(|model| Class { count: model.count, columns: model.layouts.iter().map(column).collect() })
            .collect(),
        extras: demand
            .iter()
            .enumerate()
            .map(|(row, (profile, n))| Extra {
                upper: rhs(*n),
                coefficients: vec![(row, 1)],
                costs: vec![i64::from(profile.compute)],
            })
            .collect(),
        levels: 1,
    };
    let unserved =
        solve(&instance, Effort::default()).ok().and_then(|s| u64::try_from(s.levels.first()?.bound).ok());
    (asked - unserved.unwrap_or(0).min(asked)).min(has)
}

fn rhs(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn coefficients(rows: &[&ProfileName], layout: &BTreeMap<ProfileName, i32>) -> Vec<(usize, i32)> {
    let of = |(row, profile): (usize, &&ProfileName)| layout.get(*profile).map(|n| (row, *n));
    rows.iter().enumerate().filter_map(of).collect()
}

impl Model {
    /// GPUs that are enough when each profile has GPUs of its own.
    fn alone(&self, demand: &Demand) -> Option<u64> {
        let of = |(profile, n): (&ProfileName, &u64)| {
            let most = self.layouts.iter().filter_map(|layout| layout.get(profile)).max()?;
            Some(n.div_ceil(u64::try_from(*most).ok().filter(|most| *most > 0)?))
        };
        demand.iter().map(of).sum()
    }

    /// What no number of GPUs can be below, for what is asked for at one moment.
    fn fewest(&self, demand: &Demand) -> u64 {
        let Some(enough) = self.alone(demand) else { return 0 };
        let rows: Vec<&ProfileName> = demand.keys().collect();
        let cut = |layout: &BTreeMap<ProfileName, i32>| Column {
            coefficients: coefficients(&rows, layout),
            costs: vec![1],
        };
        let columns = std::iter::once(Column::default()).chain(self.layouts.iter().map(cut)).collect();
        let instance = Instance {
            rows: demand.values().map(|n| Row { sense: Sense::AtLeast, rhs: rhs(*n) }).collect(),
            classes: vec![Class { count: u32::try_from(enough).unwrap_or(u32::MAX), columns }],
            extras: vec![],
            levels: 1,
        };
        let least = solve(&instance, Effort::default())
            .ok()
            .and_then(|s| u64::try_from(s.levels.first()?.bound).ok());
        // What is certain without any search: compute alone.
        let asked: u64 = demand.iter().map(|(profile, n)| u64::from(profile.compute) * n).sum();
        least.unwrap_or(0).max(asked.div_ceil(self.compute.max(1)))
    }
}
