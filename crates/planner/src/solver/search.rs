//! The integer optimum of one program: the linear relaxation, its exact
//! bound, and a branch and bound over the few columns that a solution at the
//! bound can use.
//!
//! The relaxation is tight: its bound, rounded up, nearly always is the
//! optimum. So the search asks for a solution at the bound first, with every
//! column dropped that exact reduced costs rule out, and raises the target
//! only when it is proved that there is none.

use super::basis::{Basis, Cut, End};
use super::bound::Bound;
use super::program::Program;
use super::simplex::Simplex;
use super::tighten::tighten;

/// Integer values of the columns that are not zero, ascending by column.
pub(super) type Solution = Vec<(u32, i64)>;

/// Columns that pivots may look at before they count as one more node: about
/// a millisecond of work. A tree always starts from the same basis, so this
/// is the same for every run.
const COLUMNS_PER_NODE: u64 = 50_000;

/// What is known of a program's optimum.
pub(super) struct Optimum {
    /// The best solution found, and its value.
    pub(super) best: Option<(Solution, i64)>,
    /// No solution costs less.
    pub(super) bound: i64,
    /// It is proved that there is no solution.
    pub(super) infeasible: bool,
}

/// Whether an integer solution meets all rows and counts, exactly; its cost.
pub(super) fn evaluate(program: &Program, solution: &Solution) -> Option<i64> {
    let mut sums = vec![0i64; program.rows.len()];
    let mut counts = vec![0i64; program.blocks()];
    let mut cost = 0i64;
    for (j, n) in solution {
        let j = *j as usize;
        if *n < 0 {
            return None;
        }
        counts[program.block_of[j] as usize] += n;
        cost += program.cost[j] * n;
        for t in program.terms(j) {
            sums[program.term_row[t] as usize] += program.term[t] * n;
        }
    }
    let met = (program.rows.iter().zip(&sums))
        .all(|(row, sum)| if row.at_least { *sum >= row.rhs } else { *sum <= row.rhs });
    (met && counts == program.count).then_some(cost)
}

/// Nodes of the look around the relaxation's optimum that comes before it is
/// tightened: most have a solution at their bound close by.
const GLANCE: u64 = 12;

/// Minimises. `incumbent` is a solution known before; `start` a basis that is
/// dual feasible, and receives the optimal one of the relaxation.
pub(super) fn minimise(
    program: &Program,
    incumbent: Option<(Solution, i64)>,
    nodes: u64,
    start: &mut Option<Basis>,
) -> Optimum {
    let mut simplex = match start.take() {
        Some(basis) => Simplex::with_basis(program, basis),
        None => Simplex::new(program),
    };
    let end = simplex.optimise();
    let mut search = Search { program, best: incumbent, proved: i64::MIN };
    match &end {
        End::Infeasible(ray) if Bound::refutes(program, &[], ray) => {
            return Optimum { best: None, bound: i64::MAX, infeasible: true };
        }
        End::Optimal => {
            let basis = simplex.basis();
            search.at_optimum(program, &simplex);
            search.close(program, &Bound::at(program, &[], &simplex.true_prices()), &mut { GLANCE });
            if search.is_open() {
                let tight = tighten(program, basis.clone(), |values| integral(values).is_some());
                let simplex = Simplex::with_basis(&tight.program, tight.basis);
                search.at_optimum(&tight.program, &simplex);
                let bound = Bound::at(&tight.program, &[], &simplex.true_prices());
                search.finish(&tight.program, &bound, nodes);
            }
            *start = Some(basis);
        }
        // Numerical trouble: without prices every column may be used.
        End::Infeasible(_) | End::Lost => {
            let bound = Bound::at(program, &[], &vec![0.0; program.rows.len()]);
            search.proved = bound.value(program);
            search.finish(program, &bound, nodes);
        }
    }
    let Search { program: _, best, proved } = search;
    let bound = best.as_ref().map_or(proved, |(_, value)| proved.min(*value));
    Optimum { best, bound, infeasible: false }
}

/// The best solution so far and what is proved, of one program. What is looked
/// at may be the program with rounded rows: their solutions are the same.
struct Search<'a> {
    program: &'a Program,
    best: Option<(Solution, i64)>,
    /// No solution costs less.
    proved: i64,
}

impl Search<'_> {
    fn is_open(&self) -> bool {
        self.best.as_ref().is_none_or(|(_, value)| *value > self.proved)
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

    /// Looks for a solution at what is proved, and raises that when it is
    /// proved that there is none, until both meet or the effort is used up.
    fn close(&mut self, program: &Program, bound: &Bound, left: &mut u64) {
        while self.is_open() {
            let (found, proof) = self.seek(program, bound, self.proved, left);
            if let Some(solution) = found {
                self.improve(solution);
            } else if proof {
                self.proved += program.step;
            } else {
                return;
            }
        }
    }

    /// Looks for a solution of the target's value among the columns that such
    /// a one can use.
    fn seek(
        &self,
        program: &Program,
        bound: &Bound,
        target: i64,
        left: &mut u64,
    ) -> (Option<Solution>, bool) {
        let (restricted, original) = restrict(program, |j| bound.admits(j, target));
        let (found, proof) = look_in_every_way(&restricted, target, left);
        (found.map(|solution| original_columns(&solution, &original)), proof)
    }

    /// Spends the effort: on a solution at the bound, else on any, else on
    /// narrowing what could not be closed.
    fn finish(&mut self, program: &Program, bound: &Bound, nodes: u64) {
        self.close(program, bound, &mut { nodes });
        if self.best.is_none() {
            // Out of effort without any solution: take the first that a dive finds.
            for way in [Branching::Nearest, Branching::Sums] {
                let mut tree = Tree { program, target: None, left: nodes, proof: true, found: None, way };
                tree.run();
                if let Some(solution) = tree.found {
                    self.improve(solution);
                    break;
                }
            }
        }
        // Half of the gap is asked for, again and again.
        let mut left = nodes / 4;
        while let Some((_, value)) = &self.best
            && left > 0
            && *value > self.proved + program.step
        {
            let steps = (value - self.proved) / program.step;
            let target = self.proved + steps / 2 * program.step;
            let (Some(solution), _) = self.seek(program, bound, target, &mut left) else { break };
            self.improve(solution);
        }
    }
}

/// Looks for a solution that costs no more than the target. One way of
/// branching gets lost where another one finds at once: each gets a share of
/// the effort before the first gets the rest. Says also whether it is proved
/// that there is none.
fn look_in_every_way(program: &Program, target: i64, left: &mut u64) -> (Option<Solution>, bool) {
    use Branching::{Largest, Nearest, Sums, Up};
    for (way, share) in [(Sums, 16), (Up, 16), (Nearest, 16), (Largest, 16), (Sums, 1)] {
        let granted = left.div_ceil(share);
        let mut tree = Tree { program, target: Some(target), left: granted, proof: true, found: None, way };
        tree.run();
        *left -= granted - tree.left;
        if tree.proof || tree.found.is_some() {
            return (tree.found, tree.proof);
        }
    }
    (None, false)
}

/// A solution of a restricted program in the columns of the whole one.
fn original_columns(solution: &Solution, original: &[u32]) -> Solution {
    solution.iter().map(|(j, n)| (original[*j as usize], *n)).collect()
}

/// The values as integers, if they are.
fn integral(values: &[(u32, f64)]) -> Option<Solution> {
    values
        .iter()
        .map(|(j, x)| ((x - x.round()).abs() < 1e-5).then(|| (*j, x.round() as i64)))
        .filter(|entry| !matches!(entry, Some((_, 0))))
        .collect()
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

/// A depth-first branch and bound for a solution that costs no more than the
/// target.
struct Tree<'a> {
    program: &'a Program,
    target: Option<i64>,
    /// Nodes that may still be looked at.
    left: u64,
    /// Whether every leaf so far is proved to hold no such solution.
    proof: bool,
    found: Option<Solution>,
    way: Branching,
}

/// What is branched on, and which side is looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branching {
    /// Sums over classes, see [`branch`].
    Sums,
    /// The column nearest to the next integer above; upwards first.
    Up,
    /// The column nearest to an integer; towards it first.
    Nearest,
    /// The column of the largest value; upwards first.
    Largest,
}

/// A node that waits: the basis of its parent, and the cut that makes it.
struct Open {
    basis: Basis,
    depth: usize,
    cut: Cut,
}

impl Tree<'_> {
    fn run(&mut self) {
        let mut simplex = Simplex::new(self.program);
        let mut open: Vec<Open> = Vec::new();
        loop {
            if self.left == 0 {
                self.proof = false;
                return;
            }
            self.left -= 1;
            if let Some(values) = self.look(&mut simplex) {
                if let Some(solution) = integral(&values) {
                    let value = evaluate(self.program, &solution);
                    if value.is_some_and(|v| self.target.is_none_or(|target| v <= target)) {
                        self.found = Some(solution);
                        return;
                    }
                    // Rounding went wrong: this leaf proves nothing.
                    self.proof = false;
                } else {
                    let (first, second) = match self.way {
                        Branching::Sums => branch(self.program, &values),
                        way => branch_on_one(&values, way),
                    };
                    let (basis, depth) = (simplex.basis(), simplex.cuts.len());
                    open.push(Open { basis: basis.clone(), depth, cut: second });
                    open.push(Open { basis, depth, cut: first });
                }
            }
            let Some(Open { basis, depth, cut }) = open.pop() else { return };
            simplex.restore(&basis, depth);
            simplex.push_cut(cut);
        }
    }

    /// Solves a node's relaxation; nothing, if the node is closed.
    fn look(&mut self, simplex: &mut Simplex<'_>) -> Option<Vec<(u32, f64)>> {
        let before = simplex.pivots;
        let end = simplex.optimise();
        // A node of many pivots over many columns counts as several.
        let work = (simplex.pivots - before) * self.program.columns() as u64 / COLUMNS_PER_NODE;
        self.left = self.left.saturating_sub(work);
        match end {
            End::Optimal => {
                let bound = Bound::at(self.program, &simplex.cuts, &simplex.true_prices());
                if self.target.is_some_and(|target| bound.value(self.program) > target) {
                    return None;
                }
                Some(simplex.solution())
            }
            End::Infeasible(ray) => {
                self.proof &= Bound::refutes(self.program, &simplex.cuts, &ray);
                None
            }
            End::Lost => {
                self.proof = false;
                None
            }
        }
    }
}

/// How a node is split, most telling first: by an extra; by the number of
/// GPUs, over all classes, whose columns give a row a certain amount or more
/// (or cost so much); by a single column.
fn branch(program: &Program, values: &[(u32, f64)]) -> (Cut, Cut) {
    let distance = |x: f64| (x - x.round()).abs();
    let extra = |j: u32| program.extra[program.block_of[j as usize] as usize];
    let farthest = |candidates: &mut dyn Iterator<Item = (u32, f64)>| {
        candidates
            .filter(|(_, x)| distance(*x) > 1e-5)
            .max_by(|(i, x), (j, y)| distance(*x).total_cmp(&distance(*y)).then(j.cmp(i)))
    };
    let used = |j: u32| !program.terms(j as usize).is_empty();
    if let Some((j, x)) = farthest(&mut values.iter().copied().filter(|(j, _)| extra(*j) && used(*j))) {
        return split(vec![j], x);
    }
    let class_columns = || (0..program.columns() as u32).filter(|j| !extra(*j));
    let coefficient = |j: u32, row: usize| {
        let terms = program.terms(j as usize);
        match row.checked_sub(program.rows.len()) {
            Some(_) => program.cost[j as usize],
            None => (program.term_row[terms.clone()].iter().zip(&program.term[terms]))
                .find(|(r, _)| **r as usize == row)
                .map_or(0, |(_, a)| *a),
        }
    };
    let mut best: Option<(f64, usize, i64, f64)> = None;
    // The position after the last row stands for the cost.
    for row in 0..=program.rows.len() {
        let mut amounts: Vec<(i64, f64)> =
            (values.iter().filter(|(j, _)| !extra(*j))).map(|(j, x)| (coefficient(*j, row), *x)).collect();
        amounts.sort_unstable_by_key(|(amount, _)| std::cmp::Reverse(*amount));
        let mut sum = 0.0;
        for (i, (amount, x)) in amounts.iter().enumerate() {
            sum += x;
            let last = amounts.get(i + 1).is_none_or(|next| next.0 < *amount);
            if last && distance(sum) > 1e-5 && best.is_none_or(|b| distance(sum) > b.0 + 1e-7) {
                best = Some((distance(sum), row, *amount, sum));
            }
        }
    }
    if let Some((_, row, amount, sum)) = best {
        return split(class_columns().filter(|j| coefficient(*j, row) >= amount).collect(), sum);
    }
    let (j, x) = farthest(&mut values.iter().copied()).expect("a solution that is not integral");
    split(vec![j], x)
}

/// Splits at a single column.
fn branch_on_one(values: &[(u32, f64)], way: Branching) -> (Cut, Cut) {
    let distance = |x: f64| (x - x.round()).abs();
    // The larger, the sooner.
    let rank = |x: f64| match way {
        Branching::Nearest => -distance(x),
        Branching::Largest => x,
        Branching::Up | Branching::Sums => x - x.floor(),
    };
    let (column, value) = (values.iter().copied())
        .filter(|(_, x)| distance(*x) > 1e-5)
        .max_by(|(i, x), (j, y)| rank(*x).total_cmp(&rank(*y)).then(j.cmp(i)))
        .expect("a solution that is not integral has a fractional value");
    let (nearer, other) = split(vec![column], value);
    if way == Branching::Nearest || nearer.at_least { (nearer, other) } else { (other, nearer) }
}

/// The two sides of a sum that is not an integer: the nearer one first.
fn split(columns: Vec<u32>, value: f64) -> (Cut, Cut) {
    let floor = value.floor() as i64;
    let down = Cut { columns: columns.clone(), at_least: false, rhs: floor };
    let up = Cut { columns, at_least: true, rhs: floor + 1 };
    if value - value.floor() >= 0.5 { (up, down) } else { (down, up) }
}
