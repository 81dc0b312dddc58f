//! `slicewright-kind`: a kind cluster whose workers have simulated GPUs.
//! `cargo xtask kind` builds what it needs and runs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kind::cluster::{self, Cluster, Spec};
use kind::fleet::{self, Gpus};
use kind::gpus::{self, Ours};
use kind::place::Place;
use kind::progress::Progress;
use kind::stories;

/// A kind cluster with real kubelets, whose workers get simulated GPUs
///
/// Docker or Podman is used where it answers; else a container engine of our
/// own is started in a network namespace of its own (as root, on Debian).
/// `down` leaves the machine as it was, also after an interrupted run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask kind", bin_name = "cargo xtask kind", max_term_width = 100)]
struct Cli {
    /// Where the cluster keeps what it needs, and node images
    ///
    /// [default: slicewright/kind under $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, env = "SLICEWRIGHT_KIND", global = true)]
    folder: Option<PathBuf>,
    #[arg(long, hide = true, env = "XDG_CACHE_HOME", global = true)]
    cache_home: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Brings the cluster up; one that runs with the same workers is kept
    Up(Up),
    /// Removes the cluster, and puts the machine back
    Down,
    /// Says how everything stands
    Status,
    /// Tells stories on it that no virtual node can tell, and says which ended otherwise
    Story {
        /// Parts of names; all stories without any
        names: Vec<String>,
        /// Only say which there are
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// From nothing to nothing: up, all stories, down
    Check {
        #[command(flatten)]
        up: Up,
        #[command(flatten)]
        operator: Operator,
    },
    /// Collects everything that is to be known after a failure
    Logs {
        /// The folder that gets it
        into: PathBuf,
    },
    /// Runs a program that reaches the cluster (kubectl, for instance)
    Run {
        /// Nobody else may work on the cluster as long as it runs
        #[arg(long)]
        alone: bool,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, clap::Args)]
struct Up {
    /// A worker with these GPUs, such as 2xA100-80GB; once for each
    /// worker [default: 2xA100-80GB, 1xA30, 4xH100-80GB, 2xT4]
    #[arg(long = "worker", value_name = "COUNTxMODEL")]
    workers: Vec<Gpus>,
    /// Make the node image here, even where kind's own can be fetched
    #[arg(long)]
    own_image: bool,
    /// Leave the workers without GPUs
    #[arg(long)]
    bare: bool,
    /// `slicewright-sim`, as cargo builds it
    #[arg(long, value_name = "FILE", env = "SLICEWRIGHT_SIM", hide = true)]
    simulator: Option<PathBuf>,
    /// The folder with the simulated `libnvidia-ml.so.1` and `nvidia-smi`
    #[arg(long, value_name = "DIR", env = "SLICEWRIGHT_SIM_LIBRARY", hide = true)]
    library: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Operator {
    /// The folder with the operator's image, as `cargo xtask image` makes it
    #[arg(long, value_name = "DIR", env = "SLICEWRIGHT_IMAGES", hide = true)]
    images: Option<PathBuf>,
    #[command(flatten)]
    often: stories::Often,
}

impl Up {
    fn run<W: Write>(self, place: &Place, progress: &mut Progress<W>) -> anyhow::Result<()> {
        let Self { workers, own_image, bare, simulator, library } = self;
        let spec = Spec { workers: if workers.is_empty() { fleet::usual() } else { workers } };
        let cluster = Cluster::up(place, &spec, own_image, progress)?;
        if bare {
            return Ok(());
        }
        let built = "is not given: `cargo xtask kind up` builds it and says where it is";
        let ours = Ours {
            simulator: simulator.with_context(|| format!("the simulator {built}"))?,
            library: library.with_context(|| format!("the simulated library {built}"))?,
        };
        gpus::bring(&cluster, place, &ours, progress)
    }
}

impl Operator {
    fn tell<W: Write>(
        &self,
        place: &Place,
        names: &[String],
        progress: &mut Progress<W>,
    ) -> anyhow::Result<()> {
        let cluster = Cluster::running(place)?;
        let images = self.images.as_ref();
        let images =
            images.context("the operator's image is not given: `cargo xtask kind story` builds it")?;
        progress.step("loading Slicewright's operator into the nodes", || {
            kind::operator::load(&cluster, place, images)
        })?;
        stories::tell(&cluster, place, names, self.often, progress)
    }
}

fn main() -> ExitCode {
    match run(Cli::parse(), &mut std::io::stdout()) {
        Ok(code) => code,
        Err(error) => {
            // The causes in one line, and no stack: what failed is said in words.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run<W: Write>(cli: Cli, out: &mut W) -> anyhow::Result<ExitCode> {
    let base = cli
        .cache_home
        .filter(|folder| folder.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let folder = cli.folder.or_else(|| base.map(|base| base.join("slicewright/kind")));
    let place = Place::at(&folder.context("there is no home folder: set SLICEWRIGHT_KIND")?)?;
    match cli.task {
        Task::Up(up) => {
            let _held = place.hold("kind up")?;
            up.run(&place, &mut Progress::new(&mut *out))?;
            writeln!(
                out,
                "The cluster is up. Look around with `cargo xtask kind run kubectl get nodes`; \
                 `cargo xtask kind down` removes it."
            )?;
        }
        Task::Down => {
            let _held = place.hold("kind down")?;
            cluster::down(&place, &mut Progress::new(&mut *out))?;
        }
        Task::Story { list: true, .. } => {
            for (name, shows) in stories::names() {
                writeln!(out, "{name:<20} {shows}")?;
            }
        }
        Task::Story { names, operator, .. } => {
            let _held = place.hold("kind story")?;
            operator.tell(&place, &names, &mut Progress::new(&mut *out))?;
        }
        Task::Check { up, operator } => {
            // Once for all of it: nobody gets in between.
            let _held = place.hold("kind check")?;
            let mut progress = Progress::new(&mut *out);
            let told = up.run(&place, &mut progress).and_then(|()| operator.tell(&place, &[], &mut progress));
            // However the stories end.
            let gone = cluster::down(&place, &mut progress);
            told.and(gone)?;
        }
        Task::Logs { into } => {
            let cluster = Cluster::running(&place)?;
            for lacks in kind::logs::collect(&cluster, &place, &into)? {
                writeln!(out, "lacks: {lacks}")?;
            }
            writeln!(out, "everything is in {}", into.display())?;
        }
        Task::Status => show(&cluster::status(&place)?, out)?,
        Task::Run { alone, command } => {
            let (program, args) = command.split_first().context("there is nothing to run")?;
            let _held = alone.then(|| place.hold(&Path::new(program).display().to_string())).transpose()?;
            let cluster = Cluster::running(&place)?;
            let built = program.to_str().and_then(|name| tools::find(name).ok());
            let mut command = cluster.inside(built.map_or_else(|| program.clone(), Into::into));
            let status = command.args(args).status().context("cannot run it")?;
            return Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(status: &cluster::Status, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "engine   {}", status.engine.as_deref().unwrap_or("none answers"))?;
    match &status.spec {
        Some(spec) => {
            let workers: Vec<_> = spec.workers.iter().map(ToString::to_string).collect();
            writeln!(out, "cluster  {} ({} containers)", workers.join(", "), status.containers.len())?;
        }
        None => writeln!(out, "cluster  none (`cargo xtask kind up`)")?,
    }
    for (node, ready) in &status.nodes {
        writeln!(out, "node     {node}: {}", if *ready { "ready" } else { "not ready" })?;
    }
    for left in &status.left {
        writeln!(out, "left     {left}: `cargo xtask kind down` removes it")?;
    }
    Ok(())
}
