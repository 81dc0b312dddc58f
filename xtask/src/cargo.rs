//! Cargo, as the gate calls it: what a developer has set to accept new snapshots is not passed on.

use std::process::Command;

use crate::tasks;

/// `cargo` with these arguments, and without what would let a test rewrite
/// its own expectation.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).env("INSTA_UPDATE", "no");
    for variable in [tasks::UPDATE, "INSTA_FORCE_PASS", "TRYCMD", "SNAPSHOTS"] {
        command.env_remove(variable);
    }
    command
}
