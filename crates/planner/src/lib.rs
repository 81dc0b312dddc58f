//! Inventory, demand and policies in; a plan, a report and a certificate out.
//!
//! Pure and total: the same input gives the same bytes, `now` is an argument,
//! and "cannot fit" is a result in the report, not an error. `docs/theory.md`
//! says why planning works as it does.

pub mod assign;
pub mod check;
pub mod decide;
pub mod demand;
mod divisor;
pub mod eligible;
pub mod inventory;
mod lasting;
pub mod names;
mod offered;
pub mod options;
pub mod plan;
pub mod policy;
pub mod predicted_labels;
pub mod problem;
pub mod report;
pub mod selector;
pub mod solver;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod words;
