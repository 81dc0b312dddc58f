//! The exact optimisation engine: integer programs over classes of
//! interchangeable GPUs, several objectives in lexicographic order.
//!
//! It knows nothing about GPUs. The planner puts GPUs with the same choices into one [`Class`], describes
//! every choice as a [`Column`] (its supply to the rows, its costs at the levels), every other choice as an
//! [`Extra`], and reads the counts from [`Solved`].
//!
//! Level `k` is minimised among the solutions whose earlier levels have their
//! best *integer* values. Every level comes with a bound that no solution can
//! go below; where it equals the value, the level is proved optimal.
//!
//! ```
//! use planner::solver::{Class, Column, Effort, Extra, Instance, Row, Sense, solve};
//!
//! // Three GPUs can each give two slices (cost 1 at level 1) or none; five slices
//! // are wanted, and each one missing costs 1 at level 0.
//! let idle = Column::default();
//! let cut = Column { coefficients: vec![(0, 2)], costs: vec![0, 1] };
//! let instance = Instance {
//!     rows: vec![Row { sense: Sense::AtLeast, rhs: 5 }],
//!     classes: vec![Class { count: 3, columns: [idle, cut].into() }],
//!     extras: vec![Extra { upper: 5, coefficients: vec![(0, 1)], costs: vec![1] }],
//!     levels: 2,
//! };
//! let solved = solve(&instance, Effort::default())?;
//! assert_eq!(solved.classes, [[(1, 3)]]);
//! assert_eq!(solved.extras, [0]);
//! assert_eq!(solved.levels.iter().map(|l| l.value).collect::<Vec<_>>(), [0, 3]);
//! # Ok::<(), planner::solver::SolveError>(())
//! ```

mod answers;
mod basis;
mod bound;
mod carried;
mod greedy;
mod instance;
mod lexicographic;
mod memory;
mod parts;
mod program;
mod project;
mod question;
mod rounding;
mod search;
mod simplex;
mod solution;
mod tighten;
mod tree;
pub mod work;

pub use answers::Answers;
pub use instance::{
    Class, Column, Effort, Extra, Instance, Level, MAGNITUDE, Row, RowIndex, Sense, SolveError, Solved,
};
pub use memory::Memory;
pub use parts::{
    Asked, Copy, Decided, InTurn, KINDS_IN_TURN, Known, MANY_KINDS, MANY_PARTS, MANY_THINGS, Merged, Orders,
    Part, Parted, Served, are_many, serve_in_turn, solve_parts,
};

/// Finds the best choice, level by level.
///
/// Deterministic: the result depends on nothing but the arguments.
///
/// # Errors
/// If the instance is malformed, cannot be met, or no solution was found
/// within the effort.
pub fn solve(instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
    solve_next(instance, effort, &mut Memory::default())
}

/// The same after instances that were like this one: faster by what is
/// remembered of them. Byte by byte the same where every level is proved.
///
/// # Errors
/// As [`solve`].
pub fn solve_next(instance: &Instance, effort: Effort, memory: &mut Memory) -> Result<Solved, SolveError> {
    let solved = solve_alike(instance, effort, memory)?;
    memory.keep_choice(instance, &solved.classes);
    Ok(solved)
}

/// The same without what was chosen: remembered are only columns and bases, which follow from the instance
/// wherever they come from.
///
/// # Errors
/// As [`solve`].
pub(crate) fn solve_alike(
    instance: &Instance,
    effort: Effort,
    memory: &mut Memory,
) -> Result<Solved, SolveError> {
    memory.begin(instance);
    instance.validate_new(|columns| memory.knows(columns))?;
    lexicographic::solve(instance, effort, memory)
}

/// Whether some choice comes to no more than the target at the level after
/// those that are held at these values. Nothing, if the effort was used up
/// before that was found or proved.
#[must_use]
pub fn reaches(instance: &Instance, held: &[i64], target: i64, effort: Effort) -> Option<bool> {
    reaches_alike(instance, (held, target), effort, &mut Memory::default())
}

/// The same after instances that were like this one: the relaxation starts from the basis that was optimal for the last
/// of them, and its optimum does not depend on that.
pub(crate) fn reaches_alike(
    instance: &Instance,
    (held, target): (&[i64], i64),
    effort: Effort,
    memory: &mut Memory,
) -> Option<bool> {
    memory.begin(instance);
    let (projection, kept) = project::Projection::new(instance, held, memory);
    let start = projection.start(kept);
    let (answer, basis) = search::reaches(&projection.program, target, effort.nodes, start);
    if let Some(basis) = basis {
        projection.keep(kept, &basis);
    }
    answer
}

/// What no choice can go below at the level after those that are held at these
/// values: what the relaxation proves, tightened, without a search.
#[must_use]
pub fn bound_of(instance: &Instance, held: &[i64]) -> i64 {
    let mut memory = Memory::default();
    let (projection, _) = project::Projection::new(instance, held, &mut memory);
    search::bound(&projection.program)
}
