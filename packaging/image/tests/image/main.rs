//! Images, invented and real ones, as the readers of other projects see them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod containerfiles;
mod inventory;
mod layout;
mod loaded;
mod programs;
mod promises;
mod support;
