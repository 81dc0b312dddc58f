//! From a problem to the integer program over classes of GPUs, and from its counts back to one final layout
//! for every GPU that changes. A session keeps results that the next plan of a similar fleet can reuse.

mod fleet;

use std::sync::Arc;

use mig::ProfileIndex;

use self::fleet::Fleet;
use super::{Actuation, Change, Demand, Gpu, Model, Objective, Plan, Problem, Unmet};
use crate::options::{GpuState, Keep, LayoutOption, OptionClasses, Supply};
use crate::solver::{self, Class, Column, Effort, Extra, Instance, Level, Memory, Row, Sense, SolveError};

/// Plans one fleet repeatedly. A plan is the same, byte for byte, whether the
/// session has planned before or not.
#[derive(Clone, Debug)]
pub struct Session {
    actuation: Actuation,
    effort: Effort,
    last: Objective,
    models: Vec<Model>,
    wanted: Vec<Demand>,
    tables: Vec<Table>,
    /// The position in `tables` of each model.
    table_of: Vec<usize>,
    fleet: Fleet,
    memory: Memory,
}

/// What models with equal geometries share.
#[derive(Clone, Debug)]
struct Table {
    options: OptionClasses,
    /// The row of each profile that the options count.
    rows: Vec<usize>,
    /// The columns of each class of the options, as far as they were asked for.
    columns: Vec<Option<Arc<[Column]>>>,
}

impl Table {
    /// The columns of a class, up to so many objectives: made once.
    fn columns(&mut self, class: usize, levels: usize) -> Arc<[Column]> {
        let Self { options, rows, columns } = self;
        columns.resize(columns.len().max(class + 1), None);
        let column = |(supply, operations): &(Supply, u8)| Column {
            coefficients: (rows.iter().enumerate())
                .map(|(i, row)| (*row, i32::from(supply.get(i))))
                .filter(|(_, a)| *a > 0)
                .collect(),
            costs: (Objective::ALL.into_iter().take(levels))
                .map(|objective| objective.of_gpu(i64::from(*operations)))
                .collect(),
        };
        let made = columns[class].get_or_insert_with(|| options.counted(class).iter().map(column).collect());
        Arc::clone(made)
    }
}

impl Problem {
    /// Finds the best plan: least unserved weight, then fewest GPUs changed,
    /// then fewest slices created and destroyed.
    ///
    /// The result does not depend on the order of the GPUs. Among GPUs that
    /// are interchangeable those with the lowest ids change. Whoever plans the
    /// same fleet again and again keeps a [`Session`].
    ///
    /// # Errors
    /// Only if no plan was found within the effort: leaving everything as it
    /// is always is one.
    pub fn solve(&self, actuation: Actuation, effort: Effort) -> Result<Plan, SolveError> {
        Session::new(actuation, effort).plan(self)
    }
}

impl Session {
    /// A session that has not planned yet.
    #[must_use]
    pub fn new(actuation: Actuation, effort: Effort) -> Self {
        Self {
            actuation,
            effort,
            last: Objective::Operations,
            models: Vec::new(),
            wanted: Vec::new(),
            tables: Vec::new(),
            table_of: Vec::new(),
            fleet: Fleet::default(),
            memory: Memory::default(),
        }
    }

    /// Stops after an objective: of the later ones nothing is proved, and any
    /// plan that is best up to this one will do.
    #[must_use]
    pub fn up_to(mut self, last: Objective) -> Self {
        self.last = last;
        self.tables.iter_mut().for_each(|table| table.columns.clear());
        self
    }

    /// Plans; see [`Problem::solve`].
    ///
    /// # Errors
    /// As [`Problem::solve`].
    pub fn plan(&mut self, problem: &Problem) -> Result<Plan, SolveError> {
        self.prepare(problem);
        let mut fleet = std::mem::take(&mut self.fleet);
        fleet.look(&problem.gpus, |gpu| (self.table_of[gpu.model], self.class(gpu)));
        let tables = &self.tables;
        let contents = |table: usize, class: usize| tables[table].options.counted(class);
        // Classes by what is counted of their options, not by first appearance.
        let counted = fleet.counted(|(a, x), (b, y)| (a, contents(*a, *x)).cmp(&(b, contents(*b, *y))));
        let plan = self.plan_classes(problem, &fleet, &counted);
        self.fleet = fleet;
        plan
    }

    /// Plans for so many GPUs of each class.
    fn plan_classes(
        &mut self,
        problem: &Problem,
        fleet: &Fleet,
        counted: &[((usize, usize), u32)],
    ) -> Result<Plan, SolveError> {
        let instance = self.instance(counted);
        let solved = solver::solve_next(&instance, self.effort, &mut self.memory)?;

        let mut quotas = vec![Vec::new(); counted.len()];
        let mut position: Vec<Vec<usize>> = vec![Vec::new(); self.tables.len()];
        for (c, ((table, class), _)) in counted.iter().enumerate() {
            let places = &mut position[*table];
            places.resize(places.len().max(class + 1), usize::MAX);
            places[*class] = c;
            let points = self.tables[*table].options.counted(*class);
            quotas[c] = solved.classes[c].iter().filter(|(j, _)| points[*j].1 > 0).copied().rev().collect();
        }
        let mut changes = Vec::new();
        for (g, (table, class)) in fleet.in_order() {
            let quota: &mut Vec<(usize, u32)> = &mut quotas[position[table][class]];
            let Some((column, left)) = quota.last_mut() else { continue };
            let column = *column;
            *left -= 1;
            if *left == 0 {
                quota.pop();
            }
            changes.push(self.change(&problem.gpus[g], column));
        }
        let unmet = (self.wanted.iter().zip(&solved.extras))
            .map(|(d, unserved)| Unmet {
                profile: d.profile,
                wanted: d.count,
                unserved: *unserved,
                weight: d.weight,
            })
            .collect();
        // Nothing is proved of an objective that was not asked for.
        let level = |objective: Objective| {
            let column = |c: usize, j: usize| {
                let (key, _) = counted[c];
                i64::from(self.tables[key.0].options.counted(key.1)[j].1)
            };
            let chosen = solved
                .classes
                .iter()
                .enumerate()
                .flat_map(|(c, chosen)| chosen.iter().map(move |(j, n)| (column(c, *j), i64::from(*n))));
            let value = chosen.map(|(operations, n)| objective.of_gpu(operations) * n).sum();
            solved.levels.get(objective as usize).copied().unwrap_or(Level { value, bound: 0 })
        };
        Ok(Plan {
            changes,
            unserved_weight: level(Objective::UnservedWeight),
            gpus_changed: level(Objective::GpusChanged),
            operations: level(Objective::Operations),
            unmet,
        })
    }

    /// Keeps the tables when models and wanted profiles are those of before.
    fn prepare(&mut self, problem: &Problem) {
        let wanted: Vec<Demand> = problem.demand.iter().filter(|d| d.count > 0).copied().collect();
        let same = self.models == problem.models
            && self.wanted.iter().map(|d| d.profile).eq(wanted.iter().map(|d| d.profile));
        self.wanted = wanted;
        if same {
            return;
        }
        self.models.clone_from(&problem.models);
        self.tables.clear();
        self.table_of.clear();
        self.fleet = Fleet::default();
        for (m, model) in self.models.iter().enumerate() {
            let geometry = &model.geometry;
            if let Some(equal) = self.models[..m].iter().position(|other| other.geometry == *geometry) {
                self.table_of.push(self.table_of[equal]);
                continue;
            }
            let (profiles, rows): (Vec<ProfileIndex>, Vec<usize>) = (self.wanted.iter().enumerate())
                .filter_map(|(row, d)| Some((geometry.profile_named(d.profile)?, row)))
                .unzip();
            self.table_of.push(self.tables.len());
            let options = OptionClasses::new(geometry, profiles, Keep::Pareto);
            self.tables.push(Table { options, rows, columns: Vec::new() });
        }
    }

    fn state(&self, gpu: &Gpu) -> GpuState {
        let changeable = match self.actuation {
            Actuation::SliceBySlice => true,
            Actuation::WholeGpu => gpu.in_use.is_empty(),
        };
        GpuState { fixed: gpu.in_use, idle: gpu.idle, changeable }
    }

    fn class(&mut self, gpu: &Gpu) -> usize {
        let state = self.state(gpu);
        self.tables[self.table_of[gpu.model]].options.for_state(state).class
    }

    fn instance(&mut self, counted: &[((usize, usize), u32)]) -> Instance {
        let levels = self.last as usize + 1;
        let mut classes = Vec::with_capacity(counted.len());
        for ((table, class), count) in counted {
            classes.push(Class { count: *count, columns: self.tables[*table].columns(*class, levels) });
        }
        Instance {
            rows: self.wanted.iter().map(|d| Row { sense: Sense::AtLeast, rhs: d.count }).collect(),
            classes,
            extras: (self.wanted.iter().enumerate())
                .map(|(row, d)| Extra { upper: d.count, coefficients: vec![(row, 1)], costs: vec![d.weight] })
                .collect(),
            levels,
        }
    }

    fn change(&mut self, gpu: &Gpu, column: usize) -> Change {
        let state = self.state(gpu);
        let LayoutOption { layout, .. } =
            self.tables[self.table_of[gpu.model]].options.for_state(state).options[column];
        let geometry = &self.models[gpu.model].geometry;
        let mut layout: Vec<_> = layout.iter().map(|p| geometry.describe(p)).collect();
        layout.sort_by_key(|(profile, start)| (*start, *profile));
        Change { gpu: gpu.id.clone(), layout }
    }
}
