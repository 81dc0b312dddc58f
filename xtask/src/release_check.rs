//! `cargo xtask release-check`: the checks before a release that take too long for every change.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::archives;
use crate::fuzz;
use crate::image;
use crate::needs;
use crate::steps::{self, Chosen, Step, step};
use crate::tools::{self, GIT, Sources};

/// Runs what is checked before a release, beside `cargo xtask test`
///
/// Helm 3, Prometheus' own reading of the alerts, real Flux and OLM on the
/// control plane, builds that must come out the same twice, other
/// architectures. What it needs is built first, from the Go modules under
/// tools/: about fifteen minutes, once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    tools: Sources,
}

/// This program again, with another task, looking for tools in the same places.
fn xtask(sources: &Sources, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "xtask", "--"]).args(args);
    sources.hand_on(&mut command);
    command
}

/// The scenarios in which Kueue runs, by parts of their names.
const OF_QUEUES: &[&str] = &[
    "admission_steps::",
    "pod_groups::",
    "queues::",
    "queues_later::",
    "quota::",
    "reads::",
    "refused_writes::",
    "topology::",
    "zones::",
];

fn all(sources: &Sources) -> anyhow::Result<Vec<Step>> {
    let built = sources.cache()?.join("bin");
    let groups: Vec<String> = tools::Use::RELEASE.iter().map(|group| group.name()).collect();
    let groups: Vec<&str> = ["tools"].into_iter().chain(groups.iter().map(String::as_str)).collect();
    let with_helm3 = |args: &[&str]| {
        let mut command = xtask(sources, args);
        command.env("TEST_ASSET_HELM", built.join("helm3"));
        command
    };
    let mut steps = vec![
        Step {
            tools: if sources.need_go(tools::Use::RELEASE) { &[tools::GO] } else { &[] },
            ..step("tools", "what the release check runs is built", xtask(sources, &groups))
        },
        Step {
            after: Some("tools"),
            ..step(
                "alerts",
                "promtool reads the alerts; each fires, does not fire, and is over",
                xtask(sources, &["alerts"]),
            )
        },
        Step {
            after: Some("tools"),
            ..step(
                "helm3",
                "Helm 3 renders the chart as Helm 4 does, and refuses what it refuses",
                with_helm3(&["chart"]),
            )
        },
        Step {
            after: Some("tools"),
            ..step(
                "helm3-install",
                "Helm 3 installs, upgrades, rolls back and uninstalls it on a real API server",
                with_helm3(&["e2e", "installation"]),
            )
        },
        Step {
            after: Some("tools"),
            ..step(
                "kueue-next",
                "the scenarios of queues with Kueue's newest release instead of the one that Red Hat builds",
                xtask(sources, &[&["e2e", "--next-kueue"], OF_QUEUES].concat()),
            )
        },
        Step {
            after: Some("tools"),
            tools: &[GIT],
            ..step(
                "flux",
                "real Flux applies the example repository, refuses bad commits, reverts, prunes and corrects",
                xtask(sources, &["e2e", "--release", "flux"]),
            )
        },
        Step {
            after: Some("tools"),
            ..step(
                "olm",
                "real OLM installs the bundle, and the operator works with the rights that it got",
                xtask(sources, &["e2e", "--release", "olm"]),
            )
        },
        Step {
            after: Some("tools"),
            tools: &[needs::NAMESPACES],
            ..step(
                "workloads",
                "real KServe, KubeRay, trainers and OpenShift AI's webhook make pods, and people read who waits and why",
                xtask(sources, &["e2e", "--release", "workloads"]),
            )
        },
        Step {
            after: Some("tools"),
            tools: image::RELEASED,
            ..step(
                "rehearsal",
                "a release from nothing to `helm install oci://…` against a registry of its own, twice with one digest",
                xtask(sources, &["e2e", "--release", "rehearsal"]),
            )
        },
        Step {
            after: Some("tools"),
            tools: image::MUST_GATHER,
            ..step(
                "must-gather",
                "the image for `oc adm must-gather` collects from a live fleet what a maintainer asks for first",
                xtask(sources, &["e2e", "--release", "must_gather"]),
            )
        },
        Step {
            after: Some("tools"),
            ..step(
                "soak",
                "two thousand random events on nodes with agents and without: no pod loses its slice, and everything comes to rest",
                xtask(sources, &["e2e", "--release", "soak"]),
            )
        },
        Step {
            tools: needs::kind_check().leak(),
            ..step(
                "kind",
                "on a kind cluster NVIDIA's components cut simulated GPUs, and Slicewright drives them",
                xtask(sources, &["kind", "check"]),
            )
        },
        step(
            "properties",
            "the tests hold out against random cases that nobody has tried yet",
            with_another_seed(xtask(sources, &["test", "test"])),
        ),
        Step {
            tools: fuzz::NEEDED,
            ..step(
                "fuzz",
                "the parsers of foreign text hold out against libFuzzer, each for a minute",
                xtask(sources, &["fuzz", "--seconds", "60"]),
            )
        },
        Step {
            tools: archives::needed(&archives::System::ALL).leak(),
            ..step(
                "archives",
                "the command is built for Linux, macOS and Windows, with checksums and krew's manifest",
                xtask(sources, &["archives"]),
            )
        },
    ];
    steps.extend(image::release_steps(sources));
    Ok(steps)
}

/// In each change the random tests are the same, since each has a seed; this one comes before theirs. A failure
/// prints its smallest case.
#[expect(clippy::disallowed_methods, reason = "the time is a seed, and nothing is reckoned from it")]
fn with_another_seed(mut command: Command) -> Command {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    command.env("PROPTEST_RNG_SEED", now.as_secs().to_string());
    command
}

/// The steps that are named, and before them those whose results they use: whoever names `helm3` has not built Helm 3.
/// Nothing where none is named, which means all. The steps of a change are named by who has built what they use.
fn with_what_they_need(wanted: &[String], steps: &[Step]) -> Vec<String> {
    let is_named = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let needed = steps.iter().filter(|step| is_named(step.name)).filter_map(|step| step.after);
    let mut named: Vec<String> = needed.filter(|name| !is_named(name)).map(str::to_owned).collect();
    named.dedup();
    named.extend(wanted.iter().cloned());
    named
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let steps = all(&args.tools)?;
    let mut chosen = args.chosen.clone();
    chosen.steps = with_what_they_need(&chosen.steps, &steps);
    steps::run_chosen(steps, &chosen, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installing::Install;

    #[test]
    fn a_step_that_is_named_alone_brings_the_step_whose_results_it_uses() {
        let nowhere = tempfile::tempdir().unwrap();
        let steps = all(&Sources::kept_in(nowhere.path())).unwrap();
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            with_what_they_need(&names, &steps)
        };
        assert_eq!(named(&["helm3", "olm"]), ["tools", "helm3", "olm"]);
        assert_eq!(named(&["reproducible"]), ["images", "reproducible"]);
        assert_eq!(named(&["tools", "flux"]), ["tools", "flux"]);
        assert_eq!(named(&["kind"]), ["kind"], "this one builds what it uses");
        assert!(named(&[]).is_empty(), "all of them");
    }

    /// A scenario of the release check takes the same from the machine, whoever starts it.
    #[test]
    fn a_step_that_runs_scenarios_looks_for_what_they_look_for() {
        let nowhere = tempfile::tempdir().unwrap();
        let steps = all(&Sources::kept_in(nowhere.path())).unwrap();
        let mut many = 0;
        for (part, needed) in crate::e2e::OTHER_NEEDS {
            let step = steps.iter().find(|step| step.name == part.replace('_', "-"));
            let step = step.unwrap_or_else(|| panic!("no step runs the scenarios {part}"));
            for tool in needed {
                assert!(step.tools.contains(tool), "{} does not look for {}", step.name, tool.name);
                many += 1;
            }
        }
        assert!(many > 10, "{many}");
    }

    /// In a workflow a missing tool is a failure, after hours. The machines of a forge have a container engine, a C
    /// compiler and Python.
    #[test]
    fn the_workflow_installs_what_a_command_can_install() {
        let text =
            std::fs::read_to_string(crate::root().join(".github/workflows/release-check.yaml")).unwrap();
        let mut many = 0;
        let nowhere = tempfile::tempdir().unwrap();
        for step in all(&Sources::kept_in(nowhere.path())).unwrap() {
            for tool in step.tools {
                let needed: Vec<String> = match tool.install {
                    // `rustup target add TARGET`, `rustup toolchain install TOOLCHAIN …`
                    Install::Command(command) => {
                        let name = command.split(' ').nth(3).unwrap_or(command).trim_matches('"');
                        vec![name.replace("$(uname", "x86_64-unknown-linux-musl")]
                    }
                    Install::Debian(packages) if step.name != "kind" => packages
                        .split(' ')
                        .filter(|name| name.starts_with("qemu"))
                        .map(str::to_owned)
                        .collect(),
                    Install::Debian(_) | Install::ByHand(_) => Vec::new(),
                };
                for name in needed {
                    assert!(text.contains(&name), "{} needs {name}: {}", step.name, tool.install);
                    many += 1;
                }
            }
        }
        assert!(many > 10, "{many}");
    }
}
