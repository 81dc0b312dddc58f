//! Images, made up and real ones, as other people's readers see them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod containerfiles;
mod inventory;
mod layout;
mod loaded;
mod programs;
mod promises;
mod support;
