//! Steps: named commands that run one after another, the tools that they need, their results, and the
//! summary at the end.
//!
//! A step never hides its command's output. If a tool is missing, its steps are reported as skipped; with
//! `CI` set that is a failure.

use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::installing::{Install, one_command};

/// A program that a step needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// What it is called.
    pub(crate) name: &'static str,
    /// A command that succeeds where it is installed.
    pub(crate) probe: &'static [&'static str],
    /// How to get it.
    pub(crate) install: Install,
}

impl Tool {
    /// Whether it is installed.
    pub(crate) fn is_present(&self) -> bool {
        let (program, args) = self.probe.split_first().expect("a probe names a program");
        Command::new(program)
            .args(args)
            .current_dir(crate::root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// What a step does.
pub(crate) enum Action {
    /// One command; success is exit status 0.
    Run(Command),
    /// A check in this program; the text says what is wrong.
    Check(Box<dyn FnOnce() -> Result<(), String>>),
}

/// One named step.
pub(crate) struct Step {
    /// The name by which it is asked for and reported.
    pub(crate) name: &'static str,
    /// What it checks, for people.
    pub(crate) what: &'static str,
    /// What it needs beside cargo.
    pub(crate) tools: &'static [Tool],
    /// A step without whose success this one makes no sense.
    pub(crate) after: Option<&'static str>,
    /// What it does.
    pub(crate) action: Action,
}

/// A step that is one command and needs nothing.
pub(crate) fn step(name: &'static str, what: &'static str, command: Command) -> Step {
    Step { name, what, tools: &[], after: None, action: Action::Run(command) }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It holds.
    Passed,
    /// It does not; the text says why.
    Failed(String),
    /// It was left out; the text says why.
    Skipped(String),
}

/// A step that is over.
struct Done {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Which steps are asked for, and what a missing tool means to whoever asks.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Chosen {
    /// Only these steps (`--list` names them); all when none is named
    #[arg(value_name = "STEP")]
    pub(crate) steps: Vec<String>,
    /// Leave a step out, for a machine that cannot have what it needs
    #[arg(long, value_name = "STEP")]
    pub(crate) without: Vec<String>,
    /// List the steps and stop
    #[arg(long)]
    pub(crate) list: bool,
    /// Treat a missing tool as a failure
    #[arg(long, env = "CI", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) ci: bool,
}

/// Lists the steps, or runs the ones that are asked for: all when none is.
///
/// # Errors
/// When one is asked for that is not there, and when `out` cannot be written to.
pub(crate) fn run_chosen(
    mut steps: Vec<Step>,
    chosen: &Chosen,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let Chosen { steps: wanted, without, list, ci } = chosen;
    if *list {
        for Step { name, what, .. } in &steps {
            writeln!(out, "{name:<14} {what}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) =
        wanted.iter().chain(without).find(|wanted| !steps.iter().any(|s| s.name == wanted.as_str()))
    {
        let names: Vec<_> = steps.iter().map(|s| s.name).collect();
        bail!("there is no step {unknown:?}; there are {}", names.join(", "));
    }
    if !wanted.is_empty() {
        steps.retain(|s| wanted.iter().any(|wanted| wanted == s.name));
    }
    for left_out in without {
        steps.retain(|step| step.name != left_out);
        writeln!(out, "{left_out}: left out, as asked")?;
    }
    let good = run(steps, *ci, out).context("cannot write the progress")?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the steps in order, all of them whatever comes of each, and writes a
/// summary whose last line is `N passed, N failed, N skipped`.
///
/// With `strict`, a missing tool is a failure. Returns whether nothing failed.
///
/// # Errors
/// When `out` cannot be written to.
pub(crate) fn run(steps: Vec<Step>, strict: bool, out: &mut dyn Write) -> io::Result<bool> {
    let total = steps.len();
    let mut done: Vec<Done> = Vec::new();
    announce_missing(&steps, strict, out)?;
    for (index, step) in steps.into_iter().enumerate() {
        writeln!(out, "\n=== {}/{total} {}: {}", index + 1, step.name, step.what)?;
        out.flush()?;
        let start = now();
        let name = step.name;
        let blocked = step
            .after
            .filter(|after| done.iter().any(|d| d.name == *after && matches!(d.outcome, Outcome::Failed(_))));
        let missing = || step.tools.iter().find(|tool| !tool.is_present());
        let outcome = match (blocked, missing()) {
            (Some(after), _) => Outcome::Skipped(format!("{after} failed")),
            (None, Some(tool)) => {
                let why = format!("{} is missing: {}", tool.name, tool.install);
                if strict { Outcome::Failed(why) } else { Outcome::Skipped(why) }
            }
            (None, None) => perform(step.action),
        };
        let took = start.elapsed();
        let said = format!("--- {name}: {} in {}", describe(&outcome), seconds(took));
        done.push(Done { name, outcome, took });
        // A log that was cut off in the middle says then which step took the time.
        writeln!(out, "{said}, {} in all so far", seconds(total_of(&done)))?;
        out.flush()?;
    }
    summary(&done, out)
}

/// Says, before anything is built, which tools this machine lacks, which steps
/// that concerns, and the one command that installs them.
fn announce_missing(steps: &[Step], strict: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut missing: Vec<(Tool, Vec<&str>)> = Vec::new();
    let mut present: Vec<Tool> = Vec::new();
    for step in steps {
        for tool in step.tools {
            if let Some((_, names)) = missing.iter_mut().find(|(known, _)| known == tool) {
                names.push(step.name);
            } else if !present.contains(tool) {
                if tool.is_present() {
                    present.push(*tool);
                } else {
                    missing.push((*tool, vec![step.name]));
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let fate = if strict { "fail" } else { "be skipped" };
    writeln!(out, "This machine lacks tools, so the steps that need them will {fate}:")?;
    for (tool, names) in &missing {
        writeln!(out, "  {} (for {}): {}", tool.name, names.join(", "), tool.install)?;
    }
    if let Some(command) = one_command(missing.iter().map(|(tool, _)| &tool.install)) {
        writeln!(out, "To install what a command can install:\n  {command}")?;
    }
    out.flush()
}

#[expect(clippy::disallowed_methods, reason = "how long a step took is told to people and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

fn perform(action: Action) -> Outcome {
    match action {
        Action::Run(mut command) => match command.current_dir(crate::root()).stdin(Stdio::null()).status() {
            Ok(status) if status.success() => Outcome::Passed,
            Ok(status) => Outcome::Failed(status.to_string()),
            Err(error) => Outcome::Failed(format!("cannot run {}: {error}", command.get_program().display())),
        },
        Action::Check(check) => match check() {
            Ok(()) => Outcome::Passed,
            Err(why) => Outcome::Failed(why),
        },
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed(why) => format!("FAILED ({why})"),
        Outcome::Skipped(why) => format!("skipped ({why})"),
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn total_of(done: &[Done]) -> Duration {
    done.iter().map(|d| d.took).sum()
}

fn summary(done: &[Done], out: &mut dyn Write) -> io::Result<bool> {
    let count = |of: fn(&Outcome) -> bool| done.iter().filter(|d| of(&d.outcome)).count();
    let passed = count(|o| *o == Outcome::Passed);
    let failed = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
    let total = total_of(done);
    writeln!(out, "\n=== summary")?;
    for Done { name, outcome, took } in done {
        writeln!(out, "{:>9}  {name}: {}", seconds(*took), describe(outcome))?;
    }
    writeln!(out, "{:>9}  in all", seconds(total))?;
    writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
    Ok(failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Tool = Tool {
        name: "moonbeam",
        probe: &["no-such-program-as-moonbeam"],
        install: Install::ByHand("look up at night"),
    };

    const PRESENT: Tool =
        Tool { name: "cargo", probe: &["cargo", "--version"], install: Install::Command("rustup") };

    fn checked(name: &'static str, result: Result<(), &'static str>) -> Step {
        Step {
            name,
            what: "a check",
            tools: &[],
            after: None,
            action: Action::Check(Box::new(move || result.map_err(str::to_owned))),
        }
    }

    fn transcript(steps: Vec<Step>, strict: bool) -> (bool, String) {
        let mut out = Vec::new();
        let good = run(steps, strict, &mut out).unwrap();
        (good, String::from_utf8(out).unwrap())
    }

    #[track_caller]
    fn ends_with(text: &str, last: &str) {
        assert_eq!(text.lines().last(), Some(last), "in:\n{text}");
    }

    #[test]
    fn all_steps_run_and_the_last_line_counts_them() {
        let (good, text) = transcript(
            vec![checked("a", Ok(())), checked("b", Err("7 is odd")), checked("c", Ok(()))],
            false,
        );
        assert!(!good);
        assert!(text.contains("--- b: FAILED (7 is odd) in"), "{text}");
        let (last, _) = text.split_once("\n=== summary").unwrap();
        assert!(
            last.trim_end().ends_with(" in all so far"),
            "each step says what all took until then:\n{text}"
        );
        ends_with(&text, "2 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_missing_tool_is_named_and_counted_on_a_laptop_and_fails_in_ci() {
        let wants = || vec![Step { tools: &[PRESENT, ABSENT], ..checked("moon", Ok(())) }];
        let (good, text) = transcript(wants(), false);
        assert!(good);
        assert!(text.contains("skipped (moonbeam is missing: look up at night)"), "{text}");
        assert!(
            text.starts_with(
                "This machine lacks tools, so the steps that need them will be skipped:\n  moonbeam (for moon): look up at night\n"
            ),
            "what is missing is said before the first step:\n{text}"
        );
        ends_with(&text, "0 passed, 0 failed, 1 skipped");

        let (good, text) = transcript(wants(), true);
        assert!(!good);
        ends_with(&text, "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn what_needs_a_failed_step_is_left_out() {
        let needs = Step { after: Some("build"), ..checked("test", Ok(())) };
        let (good, text) = transcript(vec![checked("build", Err("no")), needs], true);
        assert!(!good);
        assert!(text.contains("--- test: skipped (build failed)"), "{text}");
        ends_with(&text, "0 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_command_fails_by_its_status_or_by_not_existing() {
        let mut false_command = Command::new("cargo");
        false_command.arg("--no-such-option").stderr(Stdio::null());
        let commands = [false_command, Command::new("no-such-program-as-moonbeam")];
        for command in commands {
            let (good, text) =
                transcript(vec![Step { action: Action::Run(command), ..checked("run", Ok(())) }], false);
            assert!(!good, "{text}");
            ends_with(&text, "0 passed, 1 failed, 0 skipped");
        }
    }
}
