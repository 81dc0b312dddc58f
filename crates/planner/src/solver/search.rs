//! The integer optimum of one program: the linear relaxation, its exact
//! bound, rows that make it tight, and a branch and bound over the few columns
//! that a solution at the bound can use.
//!
//! Once tightened, the relaxation's bound, rounded up, nearly always is the
//! optimum, and mostly its solution is integral. So the search asks for a
//! solution at the bound first, with every column dropped that exact reduced
//! costs rule out, and raises the target only when it is proved that there is
//! none.

use super::basis::{Basis, End};
use super::bound::Bound;
use super::program::Program;
use super::simplex::{Factored, Simplex};
use super::solution::{Solution, evaluate};
use super::tighten::tighten;
use super::tree::{Branching, Tree, Wanted, integral, look_in_every_way};
use super::work::Allowance;

/// Operations for the relaxation of a program that is only bounded: what it proves until then is a bound, too.
const RELAXED: u64 = 8_000_000_000;

/// What is known of a program's optimum.
pub(super) struct Optimum {
    /// The best solution found, and its value.
    pub(super) best: Option<(Solution, i64)>,
    /// No solution costs less.
    pub(super) bound: i64,
    /// It is proved that there is no solution.
    pub(super) infeasible: bool,
    /// The basis that is optimal for the relaxation.
    pub(super) basis: Option<Basis>,
}

impl Optimum {
    /// Whether it is not proved that nothing is better than what was found.
    pub(super) fn is_open(&self) -> bool {
        self.best.as_ref().is_none_or(|(_, value)| *value > self.bound)
    }
}

/// Minimises, with so many nodes to spend. `known`: what a solution costs that the caller has. Only what is less is
/// searched for then, and nothing where it is proved that nothing is. `start`: a basis that was optimal for
/// a program like this one. The relaxation's optimum does not depend on it.
/// `has`: whether the caller has a solution that costs no more than this, when
/// it is told the relaxation's optimum. Where only the value is wanted, no other
/// is looked for then.
pub(super) fn minimise(
    program: &Program,
    (wanted, known): (Wanted, Option<i64>),
    nodes: u64,
    start: Option<Basis>,
    has: impl FnOnce(&[(u32, f64)], i64) -> bool,
) -> Optimum {
    let (simplex, end) = relax(program, start);
    let mut found = None;
    let mut search = Search { known, ..Search::new(program, wanted) };
    match &end {
        End::Infeasible(ray) if Bound::refutes(program, &[], ray) => {
            return Optimum { best: None, bound: i64::MAX, infeasible: true, basis: None };
        }
        End::Optimal => {
            let optimum = simplex.factored();
            found = Some(optimum.basis().clone());
            search.at_optimum(program, &simplex);
            let of_value = search.is_open() && wanted == Wanted::Value;
            let is_known = of_value && has(&simplex.solution(), search.proved);
            if search.is_open() && !is_known {
                search.at_the_bound(program, &simplex, &optimum);
            }
            if search.is_open() && !is_known {
                let tight = tighten(program, optimum, |values| integral(values).is_some());
                let simplex = Simplex::from_factored(&tight.program, &tight.optimum);
                search.at_optimum(&tight.program, &simplex);
                let bound = Bound::at(&tight.program, &[], &simplex.true_prices());
                search.finish(&Root { program: &tight.program, bound, start: Some(&tight.optimum) }, nodes);
            }
        }
        // Numerical trouble: without prices every column may be used.
        End::Infeasible(_) | End::Lost => {
            let bound = Bound::at(program, &[], &vec![0.0; program.rows.len()]);
            search.proved = bound.value(program);
            search.finish(&Root { program, bound, start: None }, nodes);
        }
    }
    let Search { program: _, wanted: _, known: _, best, proved } = search;
    let bound = best.as_ref().map_or(proved, |(_, value)| proved.min(*value));
    Optimum { best, bound, infeasible: false, basis: found }
}

/// The relaxation's optimum. From whatever basis the simplex comes, its optimum
/// is the same; of what else it ends with only the end from the start is told.
fn relax(program: &Program, start: Option<Basis>) -> (Simplex<'_>, End) {
    if let Some(mut simplex) = start.and_then(|basis| Simplex::from_another(program, basis))
        && simplex.optimise() == End::Optimal
    {
        return (simplex, End::Optimal);
    }
    let mut simplex = Simplex::new(program);
    let end = simplex.optimise();
    (simplex, end)
}

/// What no solution can go below: what the relaxation proves, tightened, without a search.
pub(super) fn bound(program: &Program) -> i64 {
    let (simplex, end) = relax(program, None);
    let mut search = Search::new(program, Wanted::Value);
    match &end {
        End::Infeasible(ray) if Bound::refutes(program, &[], ray) => return i64::MAX,
        End::Optimal => {
            search.at_optimum(program, &simplex);
            if search.is_open() {
                let tight = tighten(program, simplex.factored(), |values| integral(values).is_some());
                let simplex = Simplex::from_factored(&tight.program, &tight.optimum);
                search.at_optimum(&tight.program, &simplex);
            }
        }
        End::Infeasible(_) | End::Lost => {
            search.proved = Bound::at(program, &[], &vec![0.0; program.rows.len()]).value(program);
        }
    }
    search.proved
}

/// What the relaxation proves as it is, and the prices of its rows that prove it: programs of some hundred rows take too
/// long to be tightened.
pub(super) fn relaxed(program: &Program) -> (i64, Vec<f64>) {
    let mut simplex = Simplex::new(program);
    let nothing = vec![0.0; program.rows.len()];
    let prices = match &simplex.optimise_within(Allowance::of(RELAXED)) {
        End::Infeasible(ray) if Bound::refutes(program, &[], ray) => return (i64::MAX, nothing),
        End::Optimal | End::Lost => simplex.true_prices(),
        End::Infeasible(_) => nothing,
    };
    (Bound::at(program, &[], &prices).value(program), prices)
}

/// Whether a program has a solution that costs no more than the target, with
/// so many nodes to find or to refute one. Cheaper than [`minimise`], which goes
/// on where it is proved that there is none. With the basis that is optimal for
/// the relaxation; `start` is one of a program like this one.
pub(super) fn reaches(
    program: &Program,
    target: i64,
    nodes: u64,
    start: Option<Basis>,
) -> (Option<bool>, Option<Basis>) {
    let (simplex, end) = relax(program, start);
    let optimum = match &end {
        End::Infeasible(ray) if Bound::refutes(program, &[], ray) => return (Some(false), None),
        End::Infeasible(_) | End::Lost => return (None, None),
        End::Optimal => simplex.factored(),
    };
    (reaches_from(program, (&simplex, optimum.clone()), target, nodes), Some(optimum.into_basis()))
}

/// The same with the optimum of the relaxation, and its basis.
fn reaches_from(
    program: &Program,
    (simplex, optimum): (&Simplex<'_>, Factored),
    target: i64,
    nodes: u64,
) -> Option<bool> {
    let mut search = Search::new(program, Wanted::Value);
    let answer = |search: &Search<'_>| {
        let found = search.best.as_ref().is_some_and(|(_, value)| *value <= target);
        if found { Some(true) } else { (search.proved > target).then_some(false) }
    };
    search.at_optimum(program, simplex);
    if let Some(answer) = answer(&search) {
        return Some(answer);
    }
    let tight = tighten(program, optimum, |values| integral(values).is_some());
    let simplex = Simplex::from_factored(&tight.program, &tight.optimum);
    search.at_optimum(&tight.program, &simplex);
    if let Some(answer) = answer(&search) {
        return Some(answer);
    }
    let bound = Bound::at(&tight.program, &[], &simplex.true_prices());
    let root = Root { program: &tight.program, bound, start: Some(&tight.optimum) };
    let (found, proof) = root.seek(target, Wanted::Value, &mut { nodes });
    search.improve(found.unwrap_or_default());
    answer(&search).or(proof.then_some(false))
}

/// A solution that costs no more than the target, with so many nodes for each way to find one. Rows are not rounded: programs
/// are asked about so that are small and many.
pub(super) fn find(program: &Program, target: i64, nodes: u64) -> Option<Solution> {
    let mut simplex = Simplex::new(program);
    if simplex.optimise() != End::Optimal {
        return None;
    }
    let bound = Bound::at(program, &[], &simplex.true_prices());
    if bound.value(program) > target {
        return None;
    }
    let whole = integral(&simplex.solution());
    if let Some(whole) = whole.filter(|whole| evaluate(program, whole).is_some_and(|value| value <= target)) {
        return Some(whole);
    }
    let (few, original) = restrict(program, |j| bound.admits(j, target));
    let start = simplex.factored().among(&original);
    [Branching::Nearest, Branching::Sums].into_iter().find_map(|way| {
        let mut tree = Tree::new(&few, Some(target), nodes, way, Wanted::Value);
        tree.run(start.as_ref());
        tree.found.map(|solution| original_columns(&solution, &original))
    })
}

/// Where a search starts: a program, what its relaxation proves, and the
/// optimal basis.
struct Root<'a> {
    program: &'a Program,
    bound: Bound,
    start: Option<&'a Factored>,
}

impl Root<'_> {
    /// Looks for a solution of the target's value among the columns that such
    /// a one can use. Says also whether it is proved that there is none.
    fn seek(&self, target: i64, wanted: Wanted, left: &mut u64) -> (Option<Solution>, bool) {
        let (restricted, original) = restrict(self.program, |j| self.bound.admits(j, target));
        let start = self.start.and_then(|start| start.among(&original));
        let (found, proof) = look_in_every_way(&restricted, start.as_ref(), target, wanted, left);
        (found.map(|solution| original_columns(&solution, &original)), proof)
    }
}

/// The best solution so far and what is proved, of one program. What is looked
/// at may be the program with rounded rows: their solutions are the same.
struct Search<'a> {
    program: &'a Program,
    wanted: Wanted,
    /// What a solution costs that is known without the search.
    known: Option<i64>,
    best: Option<(Solution, i64)>,
    /// No solution costs less.
    proved: i64,
}

impl<'a> Search<'a> {
    const fn new(program: &'a Program, wanted: Wanted) -> Self {
        Self { program, wanted, known: None, best: None, proved: i64::MIN }
    }

    /// The least that a solution is known to cost.
    fn least(&self) -> Option<i64> {
        self.best.iter().map(|(_, value)| *value).chain(self.known).min()
    }

    fn is_open(&self) -> bool {
        self.least().is_none_or(|least| least > self.proved)
    }

    fn improve(&mut self, solution: Solution) {
        if let Some(value) = evaluate(self.program, &solution)
            && self.best.as_ref().is_none_or(|(_, v)| value < *v)
        {
            self.best = Some((solution, value));
        }
    }

    /// Takes what the optimum of a relaxation says: a bound, and a solution
    /// if it is integral.
    fn at_optimum(&mut self, program: &Program, simplex: &Simplex<'_>) {
        let bound = Bound::at(program, &[], &simplex.true_prices());
        self.proved = self.proved.max(bound.value(program));
        if let Some(solution) = integral(&simplex.solution()) {
            self.improve(solution);
        }
    }

    /// Looks for a solution at what the relaxation proves, among the columns that
    /// such a one can use: there are few, so this takes a fraction of what the
    /// whole program would take, and mostly it is enough. Rows that are rounded
    /// over these columns hold for such solutions only.
    fn at_the_bound(&mut self, program: &Program, simplex: &Simplex<'_>, optimum: &Factored) {
        let target = self.proved;
        let bound = Bound::at(program, &[], &simplex.true_prices());
        let (few, original) = restrict(program, |j| bound.admits(j, target));
        let Some(optimum) = optimum.among(&original) else { return };
        let tight = tighten(&few, optimum, |values| integral(values).is_some());
        let simplex = Simplex::from_factored(&tight.program, &tight.optimum);
        if Bound::at(&tight.program, &[], &simplex.true_prices()).value(&few) > target {
            self.proved = target + program.step;
            return;
        }
        let solution = integral(&simplex.solution()).map(|solution| original_columns(&solution, &original));
        if let Some(solution) = solution
            && evaluate(program, &solution).is_some_and(|value| value <= target)
        {
            self.improve(solution);
        }
    }

    /// Looks for a solution at what is proved, and raises that when it is
    /// proved that there is none, until both meet or the effort is used up.
    fn close(&mut self, root: &Root<'_>, left: &mut u64) {
        while self.is_open() {
            let (found, proof) = root.seek(self.proved, self.wanted, left);
            if let Some(solution) = found {
                self.improve(solution);
            } else if proof {
                self.proved += root.program.step;
            } else {
                return;
            }
        }
    }

    /// Spends the effort: on a solution at the bound, else on any, else on
    /// narrowing what could not be closed.
    fn finish(&mut self, root: &Root<'_>, nodes: u64) {
        self.close(root, &mut { nodes });
        if self.is_open() && self.best.is_none() {
            // Out of effort without any solution: take the first that a dive finds, if it is better than what is known.
            let less = self.known.map(|known| known - root.program.step);
            for way in [Branching::Nearest, Branching::Sums] {
                let mut tree = Tree::new(root.program, less, nodes, way, Wanted::Value);
                tree.run(root.start);
                if let Some(solution) = tree.found {
                    self.improve(solution);
                    break;
                }
            }
        }
        // Half of the gap is asked for, again and again.
        let mut left = nodes / 4;
        while let Some(value) = self.least()
            && left > 0
            && value > self.proved + root.program.step
        {
            let steps = (value - self.proved) / root.program.step;
            let target = self.proved + steps / 2 * root.program.step;
            let (Some(solution), _) = root.seek(target, Wanted::Value, &mut left) else { break };
            self.improve(solution);
        }
    }
}

/// A solution of a restricted program in the columns of the whole one.
fn original_columns(solution: &Solution, original: &[u32]) -> Solution {
    solution.iter().map(|(j, n)| (original[*j as usize], *n)).collect()
}

/// The program with only some of its columns, and where they were.
fn restrict(program: &Program, keep: impl Fn(usize) -> bool) -> (Program, Vec<u32>) {
    let mut restricted = Program {
        rows: program.rows.clone(),
        block_start: vec![0],
        term_start: vec![0],
        cost_scale: program.cost_scale,
        step: program.step,
        extra: program.extra.clone(),
        ..Program::default()
    };
    let mut original = Vec::new();
    for b in 0..program.blocks() {
        for j in program.block(b).filter(|j| keep(*j)) {
            let terms = program.terms(j);
            restricted.term_row.extend_from_slice(&program.term_row[terms.clone()]);
            restricted.term.extend_from_slice(&program.term[terms.clone()]);
            restricted.term_scaled.extend_from_slice(&program.term_scaled[terms]);
            restricted.term_start.push(restricted.term_row.len() as u32);
            restricted.cost.push(program.cost[j]);
            restricted.cost_perturbed.push(program.cost_perturbed[j]);
            restricted.block_of.push(b as u32);
            original.push(j as u32);
        }
        restricted.end_block(program.count[b]);
    }
    (restricted, original)
}
