//! `cargo xtask release` and `cargo xtask publish`: the two halves of a release. The first writes a commit for
//! people to review, the second publishes what a tagged commit has.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;

use crate::archives::{self, System};
use crate::building;
use crate::bundle;
use crate::image;
use crate::needs;
use crate::steps::Tool;
use crate::tools::{self, GIT, Sources};

/// Writes the next version: manifests, changelog, chart, bundle, catalog, documents
///
/// It refuses while packaging/project.yaml has placeholders, while the checkout has changes that are not
/// committed, and if the changelog says nothing. Review what it wrote, commit it as the release, tag it
/// `vVERSION`, and push: the workflow `release` publishes the tag (docs/guides/releasing.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The version, such as 1.2.3
    version: String,
    /// The day of the release [default: that of the last commit]
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// Generate anew only what is published: chart, bundle and catalog; for a rehearsal
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    sources: Sources,
}

/// Publishes this version: images, chart, bundle, catalog, archives, inventories, provenance
///
/// Images, chart, bundle and catalog go to the registry of packaging/project.yaml, everything else to a
/// folder. Two runs on one commit give the same digests.
#[derive(Debug, clap::Args)]
pub(crate) struct PublishArgs {
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    /// The folder that gets everything
    #[arg(long, value_name = "DIR", default_value = "dist")]
    out: PathBuf,
    /// Another registry and organisation than packaging/project.yaml says
    #[arg(long, value_name = "PREFIX")]
    registry: Option<String>,
    /// The registry speaks plain HTTP
    #[arg(long)]
    insecure: bool,
    /// The processors of the operator's image
    #[arg(long, value_name = "ARCH,...", default_value = "amd64,arm64")]
    arch: String,
    /// The systems of the command's archives; none: no archives
    #[arg(long, value_name = "SYSTEM,...", default_value = ALL_SYSTEMS)]
    system: String,
    /// Build without optimisation, for a rehearsal
    #[arg(long)]
    quick: bool,
    /// Who builds this, as the provenance names it
    #[arg(long, value_name = "URL")]
    builder: Option<String>,
    #[command(flatten)]
    sources: Sources,
}

const ALL_SYSTEMS: &str = "linux-amd64,linux-arm64,darwin-amd64,darwin-arm64,windows-amd64";

fn ended(what: &str, command: &mut Command) -> anyhow::Result<()> {
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    ensure!(status.success(), "{what} failed");
    Ok(())
}

/// The program that does it, built with its progress shown.
fn program() -> anyhow::Result<Command> {
    building::first(&["build", "--package", "slicewright-release"])?;
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "slicewright-release", "--"]);
    Ok(command)
}

/// This program again, with another task.
fn xtask(sources: &Sources, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "xtask", "--"]).args(args);
    sources.hand_on(&mut command);
    command
}

/// What the first half needs, from its first step to its last.
fn prepared(sources: &Sources) -> Vec<Tool> {
    let mut needed = vec![GIT];
    needed.extend(needs::components(sources, bundle::USES));
    needed
}

/// What the second half runs beside what it builds.
const PUBLISHES: &[tools::Use] = &[tools::Use::Packaging, tools::Use::Bundle, tools::Use::Publish];

/// What the second half needs, for these processors and archives of these systems.
fn published(sources: &Sources, arch: &str, systems: &[System]) -> Vec<Tool> {
    let mut needed = vec![GIT];
    needed.extend(image::needed(sources, ["operator", "--arch", arch]));
    needed.extend(image::needed(sources, ["must-gather", "agent"]));
    if !systems.is_empty() {
        needed.extend(archives::needed(systems));
    }
    needed.extend(needs::components(sources, PUBLISHES));
    needed
}

/// Runs the first half.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Args { version, date, quick, sources } = args;
    needs::require("cargo xtask release", &prepared(sources))?;
    let mut prepare = program()?;
    prepare.args(["prepare", version]);
    prepare.args(date.iter().flat_map(|date| ["--date", date]));
    ended("the version was not written: that", &mut prepare)?;
    let mut generate = match quick {
        false => xtask(sources, &["codegen"]),
        true => {
            let mut only = Command::new("cargo");
            only.args(["test", "--quiet", "--package", "slicewright-packaging", "--test", "it"]);
            only.args(["--", "up_to_date"]).env("UPDATE", "1");
            for binary in tools::ensure_built(sources, bundle::USES, out)? {
                only.env(binary.variable(), &binary.path);
            }
            only
        }
    };
    ended("generating what names the version", &mut generate)?;
    if !quick {
        // What the chart renders names its version; the difference is part of the review.
        let mut snapshots = xtask(sources, &["chart"]);
        snapshots.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1");
        ended("writing the snapshots of the chart", &mut snapshots)?;
    }
    writeln!(
        out,
        "Review what changed (`git diff`), then:\n  git commit --all --message 'Release {version}'\n  git tag v{version}\n  \
         git push origin HEAD v{version}"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the second half.
pub(crate) fn publish(args: &PublishArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let PublishArgs { path: _, out: folder, registry, insecure, arch, system, quick, builder, sources } =
        args;
    let systems: Vec<System> = system
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| System::from_str(name, false).map_err(|error| anyhow!("--system: {name}: {error}")))
        .collect::<anyhow::Result<_>>()?;
    needs::require("cargo xtask publish", &published(sources, arch, &systems))?;
    let folder = crate::root().join(folder);
    let (images, archives) = (folder.join("images"), folder.join("archives"));
    let text = |path: &PathBuf| path.to_str().map(str::to_owned).context("a folder's name is text");
    let mut image = xtask(sources, &["image", "operator", "--arch", arch, "--out", &text(&images)?]);
    image.args(quick.then_some("--quick"));
    ended("building the operator's image", &mut image)?;
    // With the C library of this machine, and therefore for its processor alone.
    let mut others = xtask(sources, &["image", "must-gather", "agent", "--out", &text(&images)?]);
    others.args(quick.then_some("--quick"));
    ended("building the images of must-gather and of the agent", &mut others)?;
    let mut publish = program()?;
    if !system.is_empty() {
        let mut pack = xtask(sources, &["archives", "--system", system, "--out", &text(&archives)?]);
        pack.args(quick.then_some("--quick"));
        ended("building the archives", &mut pack)?;
    }
    publish.arg("publish").arg("--images").arg(&images).arg("--out").arg(&folder);
    if !system.is_empty() {
        publish.arg("--archives").arg(&archives);
    }
    publish.args(registry.iter().flat_map(|registry| ["--registry", registry]));
    publish.args(builder.iter().flat_map(|builder| ["--builder", builder]));
    publish.args(insecure.then_some("--insecure"));
    for binary in tools::ensure_built(sources, PUBLISHES, out)? {
        publish.env(binary.variable(), &binary.path);
    }
    ended("publishing", &mut publish)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_either_half_needs_is_known_before_its_first_step() {
        let nowhere = tempfile::tempdir().unwrap();
        let sources = Sources::kept_in(nowhere.path());
        for tool in [GIT, tools::GO] {
            assert!(prepared(&sources).contains(&tool), "{}", tool.name);
        }
        let all = published(&sources, "amd64,arm64", &System::ALL);
        for tool in image::RELEASED.iter().filter(|tool| **tool != needs::MUSL).chain(&[tools::GO]) {
            assert!(all.contains(tool), "{}", tool.name);
        }
        let all_of_them = System::ALL.map(|system| system.to_possible_value().unwrap().get_name().to_owned());
        assert_eq!(all_of_them.join(","), ALL_SYSTEMS);
        for tool in archives::needed(&System::ALL) {
            assert!(all.contains(&tool), "{}", tool.name);
        }
        let none = published(&sources, "amd64", &[]);
        assert!(none.iter().all(|tool| !tool.name.contains("windows")));
    }
}
