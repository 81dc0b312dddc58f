//! From a problem to the integer program over classes of GPUs, and from its counts back to one final layout
//! for every GPU that changes. A session keeps results that the next plan of a similar fleet can reuse.

use mig::ProfileIndex;

use super::{Actuation, Change, Demand, Gpu, Model, Objective, Plan, Problem, Unmet};
use crate::options::{GpuState, Keep, LayoutOption, OptionClasses, Supply};
use crate::solver::{self, Class, Column, Effort, Extra, Instance, Level, Row, Sense, SolveError};

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
}

/// What models with equal geometries share.
#[derive(Clone, Debug)]
struct Table {
    options: OptionClasses,
    /// The row of each profile that the options count.
    rows: Vec<usize>,
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
        }
    }

    /// Stops after an objective: of the later ones nothing is proved, and any
    /// plan that is best up to this one will do.
    #[must_use]
    pub fn up_to(mut self, last: Objective) -> Self {
        self.last = last;
        self
    }

    /// Plans; see [`Problem::solve`].
    ///
    /// # Errors
    /// As [`Problem::solve`].
    pub fn plan(&mut self, problem: &Problem) -> Result<Plan, SolveError> {
        self.prepare(problem);
        let mut order: Vec<usize> = (0..problem.gpus.len()).collect();
        order.sort_unstable_by(|a, b| problem.gpus[*a].id.cmp(&problem.gpus[*b].id));
        // Classes by what is counted of their options, not by first appearance.
        let mut keys: Vec<(usize, usize)> =
            problem.gpus.iter().map(|gpu| (self.table_of[gpu.model], self.class(gpu))).collect();
        let place: Vec<(usize, usize)> = keys.clone();
        keys.sort_unstable();
        let mut counted: Vec<((usize, usize), u32)> = Vec::new();
        for key in keys {
            match counted.last_mut() {
                Some((last, n)) if *last == key => *n += 1,
                _ => counted.push((key, 1)),
            }
        }
        counted.sort_by(|((a, x), _), ((b, y), _)| {
            (a, self.tables[*a].options.counted(*x)).cmp(&(b, self.tables[*b].options.counted(*y)))
        });
        let instance = self.instance(&counted);
        let solved = solver::solve(&instance, self.effort)?;

        let mut quotas = vec![Vec::new(); counted.len()];
        let mut position = std::collections::HashMap::new();
        for (c, (key, _)) in counted.iter().enumerate() {
            position.insert(*key, c);
            let points = self.tables[key.0].options.counted(key.1);
            quotas[c] = solved.classes[c].iter().filter(|(j, _)| points[*j].1 > 0).copied().rev().collect();
        }
        let mut changes = Vec::new();
        for g in order {
            let quota: &mut Vec<(usize, u32)> = &mut quotas[position[&place[g]]];
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
            self.tables.push(Table { options: OptionClasses::new(geometry, profiles, Keep::Pareto), rows });
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

    fn instance(&self, counted: &[((usize, usize), u32)]) -> Instance {
        let levels = self.last as usize + 1;
        let column = |table: &Table, (supply, operations): (Supply, u8)| Column {
            coefficients: (table.rows.iter().enumerate())
                .map(|(i, row)| (*row, i32::from(supply.get(i))))
                .filter(|(_, a)| *a > 0)
                .collect(),
            costs: (Objective::ALL.into_iter().take(levels))
                .map(|objective| objective.of_gpu(i64::from(operations)))
                .collect(),
        };
        let classes = counted
            .iter()
            .map(|((table, class), count)| {
                let table = &self.tables[*table];
                let points = table.options.counted(*class);
                Class { count: *count, columns: points.iter().map(|p| column(table, *p)).collect() }
            })
            .collect();
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
