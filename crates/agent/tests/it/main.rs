//! Tests of the agent's core.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

mod books;
mod change;
mod gate;
mod model;
mod play;
mod prove;
mod race;
mod report;
mod scene;
