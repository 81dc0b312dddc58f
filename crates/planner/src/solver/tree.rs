//! Branch and bound below a relaxation that is not integral.

use super::basis::{Cut, End};
use super::bound::Bound;
use super::program::Program;
use super::simplex::{Factored, Simplex};
use super::solution::{Solution, evaluate};

/// Columns that pivots may look at before they count as one more node: about
/// a millisecond of work. A tree always starts from the same basis, so this
/// is the same for every run.
const COLUMNS_PER_NODE: u64 = 50_000;

/// So many numbers of inverses are kept for nodes that wait, all together: 16 MiB. Whoever has none is computed anew.
const KEPT: usize = 1 << 21;

/// Perturbed costs that differ by less are taken to be equal: far below the
/// perturbation of one column, far above rounding errors.
const WORTH: f64 = 1e-9;

/// Looks for a solution that costs no more than the target. One way of
/// branching gets lost where another one finds at once: each gets a share of
/// the effort before the first gets the rest. Says also whether it is proved
/// that there is none.
pub(super) fn look_in_every_way(
    program: &Program,
    start: Option<&Factored>,
    target: i64,
    wanted: Wanted,
    left: &mut u64,
) -> (Option<Solution>, bool) {
    use Branching::{Largest, Nearest, Sums, Up};
    for (way, share) in [(Sums, 16), (Up, 16), (Nearest, 16), (Largest, 16), (Sums, 1)] {
        let granted = left.div_ceil(share);
        let mut tree = Tree::new(program, Some(target), granted, way, wanted);
        tree.run(start);
        *left -= granted - tree.left;
        if tree.proof || tree.found.is_some() {
            return (tree.found, tree.proof);
        }
    }
    (None, false)
}

/// The values as integers, if they are.
pub(super) fn integral(values: &[(u32, f64)]) -> Option<Solution> {
    values
        .iter()
        .map(|(j, x)| ((x - x.round()).abs() < 1e-5).then(|| (*j, x.round() as i64)))
        .filter(|entry| !matches!(entry, Some((_, 0))))
        .collect()
}

/// A depth-first branch and bound for a solution that costs no more than the
/// target.
pub(super) struct Tree<'a> {
    pub(super) program: &'a Program,
    pub(super) target: Option<i64>,
    /// Nodes that may still be looked at.
    pub(super) left: u64,
    /// Whether every leaf so far is proved to hold no such solution.
    pub(super) proof: bool,
    pub(super) found: Option<Solution>,
    /// What was found before it, each worse than the next, if the least is wanted.
    pub(super) before: Vec<Solution>,
    pub(super) way: Branching,
    pub(super) wanted: Wanted,
    /// The perturbed cost of what was found.
    best: f64,
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The value: any solution will do.
    Value,
    /// The solution: of equally good ones the one of the least perturbed
    /// cost. It is the only one, so that what is left of it is also the best
    /// for what is left to do.
    Solution,
    /// The least value, to within so much: what was found is less than so
    /// much above the least.
    Least(i64),
}

/// What is branched on, and which side is looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branching {
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
    parent: Factored,
    depth: usize,
    cut: Cut,
}

impl<'a> Tree<'a> {
    pub(super) const fn new(
        program: &'a Program,
        target: Option<i64>,
        left: u64,
        way: Branching,
        wanted: Wanted,
    ) -> Self {
        Self {
            program,
            target,
            left,
            proof: true,
            found: None,
            before: Vec::new(),
            way,
            wanted,
            best: f64::INFINITY,
        }
    }

    /// Starts from the basis, if there is one: the relaxation's own, which is
    /// the same wherever it was found from.
    pub(super) fn run(&mut self, start: Option<&Factored>) {
        let mut simplex = match start {
            Some(start) => Simplex::from_factored(self.program, start),
            None => Simplex::new(self.program),
        };
        let mut open: Vec<Open> = Vec::new();
        // Numbers that the waiting nodes keep.
        let mut kept = 0;
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
                        self.before.extend(self.found.replace(solution));
                        match self.wanted {
                            Wanted::Value => return,
                            Wanted::Solution => self.best = self.perturbed(&values),
                            Wanted::Least(slack) => self.target = value.map(|value| value - slack.max(1)),
                        }
                    } else {
                        // Rounding went wrong: this leaf proves nothing.
                        self.proof = false;
                    }
                } else {
                    let (first, second) = match self.way {
                        Branching::Sums => branch(self.program, &values),
                        way => branch_on_one(&values, way),
                    };
                    let parent = simplex.factored_up_to(KEPT - kept);
                    kept += parent.numbers();
                    open.push(Open { parent, depth: simplex.cuts.len(), cut: second });
                    simplex.branch(first);
                    continue;
                }
            }
            let Some(Open { parent, depth, cut }) = open.pop() else { return };
            kept -= parent.numbers();
            simplex.go_back(parent, depth);
            simplex.branch(cut);
        }
    }

    /// Solves a node's relaxation; nothing, if the node is closed.
    fn look(&mut self, simplex: &mut Simplex<'_>) -> Option<Vec<(u32, f64)>> {
        let before = simplex.pivots;
        let end = simplex.optimise();
        // A node of many pivots over many columns, or of many rows, counts as several.
        let rows = (self.program.rows.len() + simplex.cuts.len()) as u64;
        let work = (simplex.pivots - before) * self.program.columns() as u64 + rows.pow(3) / 4;
        self.left = self.left.saturating_sub(work / COLUMNS_PER_NODE);
        match end {
            End::Optimal => {
                let bound = Bound::at(self.program, &simplex.cuts, &simplex.true_prices());
                if self.target.is_some_and(|target| bound.value(self.program) > target) {
                    return None;
                }
                let values = simplex.solution();
                (self.perturbed(&values) < self.best - WORTH).then_some(values)
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

    fn perturbed(&self, values: &[(u32, f64)]) -> f64 {
        values.iter().map(|(j, x)| self.program.cost_perturbed[*j as usize] * x).sum()
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
    let down = Cut::new(columns.clone(), false, floor);
    let up = Cut::new(columns, true, floor + 1);
    if value - value.floor() >= 0.5 { (up, down) } else { (down, up) }
}
