//! `cargo xtask e2e`: scenarios on a real control plane.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::building;
use crate::image;
use crate::needs::{self, NAMESPACES};
use crate::rights;
use crate::steps::Tool;
use crate::tools::{self, Binary, GIT, Sources, Use};

/// Runs the scenarios on a real control plane
///
/// Each NAME selects the scenarios whose name contains it; without one all
/// run. The control plane is built first where that has not happened yet
/// (`cargo xtask tools`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where they run
    #[arg(long, value_enum, default_value_t = Provider::Processes, env = PROVIDER)]
    provider: Provider,
    /// How many run at a time, each on a control plane of its own
    /// [default: three for every two cores]
    #[arg(long, value_name = "N")]
    jobs: Option<u16>,
    /// Run those of the release check instead: with real Flux and OLM
    #[arg(long)]
    release: bool,
    /// Run them with Kueue's newest release instead of the one that Red Hat builds
    #[arg(long, conflicts_with = "release")]
    next_kueue: bool,
    /// List the scenarios and stop
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    sources: Sources,
    /// Parts of the names of scenarios
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// How the tests are told where to run.
const PROVIDER: &str = "SLICEWRIGHT_E2E_PROVIDER";

/// How the tests are told where to write how long they took.
const TIMES: &str = "SLICEWRIGHT_E2E_TIMES";
/// What the names of the next Kueue's program and files begin with.
const NEXT_KUEUE: &str = "kueue-next";
/// How many of the slowest are told.
const TOLD: usize = 5;

/// The scenarios that took longest, slowest first, from lines of seconds and
/// name.
fn slowest(taken: &str) -> Vec<String> {
    let read = |line: &str| {
        let (seconds, name) = line.split_once(' ')?;
        Some((seconds.parse::<f64>().ok()?, name.to_owned()))
    };
    let mut all: Vec<_> = taken.lines().filter_map(read).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.truncate(TOLD);
    all.into_iter().map(|(seconds, name)| format!("{seconds:>6.1} s  {name}")).collect()
}

/// The scenarios that were left out, each with why, from the same lines.
fn left_out(noted: &str) -> Vec<String> {
    let mut all: Vec<_> = noted.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    all.sort_unstable();
    all.into_iter().map(|line| format!("left out: {line}")).collect()
}

/// Where scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Provider {
    /// A control plane of plain processes on this machine
    Processes,
    /// The cluster of the current kubeconfig: only what a scenario made is removed
    Kubeconfig,
    /// The cluster of `cargo xtask kind up`, with real kubelets and NVIDIA's own components
    Kind,
}

/// What those of the release check run as well.
const OF_THE_RELEASE: &[Use] = &[Use::Bundle, Use::Release, Use::Publish];

/// What some of the release check's scenarios take from this machine, by a part of their names.
pub(crate) const OTHER_NEEDS: [(&str, &[Tool]); 4] = [
    ("flux", &[GIT]),
    ("rehearsal", image::RELEASED),
    ("must_gather", image::MUST_GATHER),
    // The training operator wants its certificate under a fixed path.
    ("workloads", &[NAMESPACES]),
];

/// What is built for this run. The operator's rights are those of the chart, wherever it runs.
fn uses(args: &Args) -> Vec<Use> {
    let on_another_cluster: &[Use] = &[Use::Packaging];
    let uses = if args.provider == Provider::Processes { Use::SCENARIOS } else { on_another_cluster };
    let of_the_release = if args.release { OF_THE_RELEASE } else { &[] };
    let next: &[Use] = if args.next_kueue { &[Use::NextQueues] } else { &[] };
    [uses, of_the_release, next].concat()
}

/// All that this run takes from the machine.
fn needed(args: &Args) -> Vec<Tool> {
    let mut needed = needs::components(&args.sources, &uses(args));
    let is_chosen = |part: &str| args.names.is_empty() || args.names.iter().any(|name| name.contains(part));
    let others = OTHER_NEEDS.iter().filter(|(part, _)| args.release && is_chosen(part));
    needed.extend(others.flat_map(|(_, tools)| tools.iter().copied()));
    needed
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    ensure!(
        !args.next_kueue || args.provider == Provider::Processes,
        "--next-kueue is for --provider processes: on a cluster the Kueue runs that is installed there"
    );
    if !args.list {
        needs::require("cargo xtask e2e", &needed(args))?;
        building::first(&[&["test", "--no-run"], &scenarios_of(target(args))[..]].concat())?;
        // Scenarios start it as a program.
        building::first(&["build", "--package", "slicewright-node-agent", "--bins", "--locked"])?;
    }
    let mut command = Command::new("cargo");
    if args.provider == Provider::Kind && !args.list {
        command.args(["--config", &inside_kind()?]);
    }
    command.args(["test", "--quiet"]).args(scenarios_of(target(args))).arg("--").args(&args.names);
    if args.list {
        command.arg("--list");
    } else {
        if !args.names.is_empty() {
            known(&args.names, &scenarios(target(args))?)?;
        }
        let built = tools::ensure_built(&args.sources, &uses(args), out)?;
        command.envs(told(&built));
    }
    command.arg(format!("--test-threads={}", jobs(args)));
    let provider = match args.provider {
        Provider::Processes => "processes",
        Provider::Kubeconfig => "kubeconfig",
        Provider::Kind => "kind",
    };
    let whole = args.names.is_empty() && !args.list && !args.release;
    if whole && args.provider == Provider::Processes {
        let written = rights::written()?;
        // What an earlier run wrote down.
        let _ = std::fs::remove_file(&written);
        command.env(rights::VARIABLE, written);
    }
    let times = std::env::temp_dir().join(format!("slicewright-e2e-times-{}", std::process::id()));
    command.env(PROVIDER, provider).env("INSTA_UPDATE", "no").env(TIMES, &times);
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let taken = std::fs::read_to_string(&times).unwrap_or_default();
    // It may never have been made.
    let _ = std::fs::remove_file(&times);
    for line in left_out(&taken).into_iter().chain(slowest(&taken)) {
        writeln!(out, "{line}")?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}

/// How the tests are told where everything is. What was built of the next Kueue stands in the place of the other.
fn told(built: &[Binary]) -> BTreeMap<String, &Path> {
    let plain = built.iter().map(|binary| (binary.variable(), binary.path.as_path()));
    let next = built.iter().filter(|binary| binary.name.starts_with(NEXT_KUEUE));
    let next = next.map(|binary| (binary.variable().replace("_NEXT", ""), binary.path.as_path()));
    plain.chain(next).collect()
}

/// How many scenarios run at a time. They often wait: with one for each core, two cores were idle for 38 % of the time, and
/// with three for two cores for 21 %, in three quarters of the time. Four took as long as three.
///
/// By itself never one: such a test would run in the main thread, whose name is not that of a scenario.
fn jobs(args: &Args) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let own = if args.provider == Provider::Processes { cores + cores.div_ceil(2) } else { 2 };
    args.jobs.map_or(own, usize::from)
}

/// What selects a test program of scenarios. Cargo chooses the features of dependencies by what is selected: by the package
/// alone, everything would be compiled a second time, with a few of them less.
fn scenarios_of(target: &str) -> [&str; 4] {
    ["--workspace", "--locked", "--test", target]
}

/// The test program that has the scenarios.
fn target(args: &Args) -> &'static str {
    if args.release { "release" } else { "scenarios" }
}

/// The names of all scenarios of a test program.
fn scenarios(target: &str) -> anyhow::Result<Vec<String>> {
    let mut list = Command::new("cargo");
    list.args(["test", "--quiet"]).args(scenarios_of(target)).args(["--", "--list", "--format=terse"]);
    let listed = list.current_dir(crate::root()).output();
    let listed = listed.context("cannot run cargo")?;
    ensure!(
        listed.status.success(),
        "the scenarios do not build:\n{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let names = String::from_utf8(listed.stdout).context("the names of the scenarios are not UTF-8")?;
    Ok(names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Refuses a name that selects nothing: no scenario would run, and all would
/// seem well.
fn known(names: &[String], scenarios: &[String]) -> anyhow::Result<()> {
    for name in names {
        ensure!(
            scenarios.iter().any(|scenario| scenario.contains(name.as_str())),
            "no scenario has {name:?} in its name: `cargo xtask e2e --list` has all names"
        );
    }
    Ok(())
}

/// Makes cargo start test programs where they reach the kind cluster: the
/// engine of our own has a network namespace of its own.
fn inside_kind() -> anyhow::Result<String> {
    building::first(&["build", "--locked", "--package", "slicewright-kind"])?;
    let program = std::env::current_exe()?.with_file_name("slicewright-kind");
    let program = program.to_str().context("the folder of the checkout is not UTF-8")?;
    // Nobody tells stories on it meanwhile, or takes it away.
    Ok(format!("target.'cfg(all())'.runner = [{program:?}, \"run\", \"--alone\"]"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// What a run that is typed so takes from a machine on which nothing was built.
    fn takes(words: &[&str]) -> Vec<&'static str> {
        let nothing = tempfile::tempdir().unwrap();
        let cache = nothing.path().display().to_string();
        let line = ["e2e", "--provider", "processes", "--tools", cache.as_str()];
        let args = Line::parse_from(line.into_iter().chain(words.iter().copied())).args;
        needed(&args).iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn what_a_run_needs_is_known_before_its_first_build_and_depends_on_what_is_asked_for() {
        assert_eq!(takes(&["queues"]), ["Go"]);
        assert_eq!(takes(&["--release", "flux"]), ["Go", GIT.name]);
        assert_eq!(takes(&["--release", "workloads"]), ["Go", NAMESPACES.name]);
        assert!(takes(&["--release", "must_gather"]).contains(&NAMESPACES.name));
        let all = takes(&["--release"]);
        for tool in image::RELEASED.iter().chain(image::MUST_GATHER) {
            assert!(all.contains(&tool.name), "{}: {all:?}", tool.name);
            assert!(takes(&["--release", "rehearsal", "must_gather"]).contains(&tool.name));
        }
    }

    #[test]
    fn the_next_kueue_is_what_scenarios_are_told_to_run() {
        let binary = |name: &'static str| Binary { name, path: Path::new("/built").join(name) };
        let names = ["kueue-next", "kueue", "kueue-next-components", "kueue-components", "helm"];
        let told_of = |names: &[&'static str]| {
            let built: Vec<Binary> = names.iter().copied().map(binary).collect();
            let told = told(&built);
            ["KUEUE", "KUEUE_COMPONENTS", "HELM"].map(|name| {
                told[&format!("TEST_ASSET_{name}")].file_name().unwrap().to_str().unwrap().to_owned()
            })
        };
        assert_eq!(told_of(&names), ["kueue-next", "kueue-next-components", "helm"]);
        assert_eq!(told_of(&["kueue", "kueue-components", "helm"]), ["kueue", "kueue-components", "helm"]);
        // It is built for those who ask for it, and for nobody else.
        let uses_of = |words: &[&str]| uses(&Line::parse_from([&["e2e"], words].concat()).args);
        assert!(uses_of(&["--next-kueue", "queues"]).contains(&Use::NextQueues));
        assert!(!uses_of(&["queues"]).contains(&Use::NextQueues));
    }

    #[test]
    fn on_a_cluster_the_next_kueue_is_refused_and_not_left_out_in_silence() {
        let args = Line::parse_from(["e2e", "--provider", "kubeconfig", "--next-kueue", "--list"]).args;
        let refused = run(&args, &mut Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("--provider processes"), "{refused}");
    }

    #[test]
    fn the_slowest_are_told_first_and_not_all_of_them() {
        let taken = "3.2 a\n12.0 b\nrubbish\n0.5 c\n4.0 d\n5.0 e\n6.0 f\n";
        let names: Vec<_> =
            slowest(taken).iter().map(|l| l.split_whitespace().last().unwrap().to_owned()).collect();
        assert_eq!(names, ["b", "f", "e", "d", "a"]);
    }

    #[test]
    fn a_name_that_selects_nothing_is_refused() {
        let scenarios = ["budget::ten_nodes".to_owned(), "modes::paused".to_owned()];
        assert!(known(&["budget".to_owned(), "paused".to_owned()], &scenarios).is_ok());
        let refused = known(&["budget".to_owned(), "pawsed".to_owned()], &scenarios).unwrap_err();
        assert!(refused.to_string().contains("\"pawsed\""), "{refused}");
    }

    #[test]
    fn what_was_left_out_is_told_with_why_and_is_none_of_the_slowest() {
        let noted = "3.2 a\n- c: no audit log\n- b: no restarts\n";
        assert_eq!(left_out(noted), ["left out: b: no restarts", "left out: c: no audit log"]);
        assert_eq!(slowest(noted), ["   3.2 s  a"]);
    }
}
