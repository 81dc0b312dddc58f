//! Builds that report their progress: a task that is silent for minutes looks as if it hung.

use std::process::Command;

use anyhow::{Context, ensure};

/// Lets cargo build this first, and say what it compiles and how far it is;
/// what runs it afterwards may be quiet. Cargo says it on its own stream, so
/// that nothing is mixed into what the task prints.
///
/// # Errors
/// When it does not build.
pub(crate) fn first(cargo: &[&str]) -> anyhow::Result<()> {
    let status =
        Command::new("cargo").args(cargo).current_dir(crate::root()).status().context("cannot run cargo")?;
    ensure!(status.success(), "`cargo {}` failed", cargo.join(" "));
    Ok(())
}
