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

#[cfg(test)]
mod tests {
    /// A quiet cargo that builds for minutes looks as if it hung. This program itself was built before it runs.
    #[test]
    fn what_cargo_runs_quietly_was_built_before_with_its_progress_shown() {
        let mut quiet = 0;
        for entry in std::fs::read_dir(crate::root().join("xtask/src")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let of_others = |line: &&str| {
                let runs = ["\"run\", \"--quiet\"", "\"test\", \"--quiet\"", "\"build\", \"--quiet\""];
                runs.iter().any(|words| line.contains(words)) && !line.contains("\"xtask\"")
            };
            let many = text.lines().filter(of_others).filter(|line| !line.contains('\\')).count();
            assert!(
                many == 0 || text.contains("building::first("),
                "{} builds without a word",
                path.display()
            );
            quiet += many;
        }
        assert!(quiet > 6, "{quiet}");
    }
}
