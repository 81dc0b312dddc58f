//! `cargo xtask clients`: real programs that talk to NVML, unmodified, over the
//! simulated library.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::building;
use crate::installing::Install;
use crate::needs::{self, NAMESPACES};
use crate::python::{self, PYTHON};
use crate::sim_lib;
use crate::steps::{self, Action, Step, Tool};
use crate::tools::{self, Sources, Use};

/// Runs real clients of NVML over the simulated library
///
/// Rust's nvml-wrapper; go-nvml, go-gpuallocator, nvidia-mig-parted,
/// gpu-feature-discovery, nvidia-ctk, NVIDIA's device plugin and DRA driver, which are built
/// first where that has not happened yet; programs from Python's package index, which are installed
/// into a virtual environment of their own. Without KIND all but those on a
/// terminal run, and what a missing tool leaves out is named and counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Treat a missing tool as a failure
    #[arg(long, env = "CI", value_parser = clap::builder::FalseyValueParser::new())]
    ci: bool,
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    #[command(flatten)]
    sources: Sources,
    /// Which ones
    #[arg(value_enum)]
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// nvml-wrapper
    Rust,
    /// go-nvml, go-gpuallocator, nvidia-mig-parted, gpu-feature-discovery, nvidia-ctk, the device plugin, the DRA
    /// driver
    Go,
    /// nvidia-ml-py, nvitop, nvsmi, py3nvml, gpustat, GPUtil, Glances, Zeus, CodeCarbon, dask-cuda, cuda-core
    Python,
    /// nvtop and bottom, which draw on a terminal; only where it is asked for, since nothing here builds them
    Terminal,
}

impl Kind {
    /// Whose tests start them: those of mig-parted also over what the node agent has changed.
    fn targets(self) -> &'static [&'static str] {
        const CLIENTS: &str = "slicewright-sim-clients";
        match self {
            Self::Rust => &["--package", CLIENTS, "--lib", "--test", "it"],
            Self::Go => &["--package", CLIENTS, "--package", "slicewright-node-agent", "--test", "it"],
            Self::Python | Self::Terminal => &["--package", CLIENTS, "--test", "it"],
        }
    }

    /// What they need beside Rust.
    fn needed(self, sources: &Sources) -> &'static [Tool] {
        match self {
            Self::Rust => &[],
            Self::Go if sources.need_go(&TOOLS) => &[tools::GO, tools::CC, NAMESPACES],
            Self::Go => &[NAMESPACES],
            Self::Python => &[PYTHON],
            Self::Terminal => &TERMINALS,
        }
    }
}

/// The test modules whose clients draw on a terminal.
const TERMINAL_TESTS: [&str; 1] = ["terminal::"];

/// These clients: packages of distributions.
const TERMINALS: [Tool; 2] = [
    Tool {
        name: "nvtop",
        probe: &["nvtop", "--version"],
        install: Install::ByHand("install nvtop; on Debian 12 it is in contrib"),
    },
    Tool {
        name: "btm",
        probe: &["btm", "--version"],
        install: Install::ByHand("install bottom, for instance by `cargo install bottom --locked`"),
    },
];

/// The test modules whose clients are Go programs.
const GO: [&str; 6] =
    ["go_nvml::", "mig_parted::", "feature_discovery::", "device_plugin::", "cdi::", "dra_driver::"];

/// What they need: the DRA driver publishes its devices on a real API server.
const TOOLS: [Use; 2] = [Use::ControlPlane, Use::Clients];

/// The test modules whose clients are Python programs.
const PYTHON_TESTS: [&str; 2] = ["python::", "captured::"];

/// The steps, one for each kind of client.
pub(crate) fn steps(sources: &Sources) -> Vec<Step> {
    let step = |name, what, tools, kind| {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "clients", kind]);
        sources.hand_on(&mut command);
        Step { name, what, tools, after: None, action: Action::Run(command) }
    };
    vec![
        step("clients-rust", "nvml-wrapper over the simulated library", Kind::Rust.needed(sources), "rust"),
        step(
            "clients-go",
            "go-nvml, mig-parted, GFD, nvidia-ctk, device plugin and DRA driver over the simulated library",
            Kind::Go.needed(sources),
            "go",
        ),
        step(
            "clients-python",
            "nvidia-ml-py and ten programs in Python over the simulated library",
            Kind::Python.needed(sources),
            "python",
        ),
    ]
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Some(kind) = args.kind else {
        let good = steps::run(steps(&args.sources), args.ci, out).context("cannot write the progress")?;
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    needs::require("cargo xtask clients", kind.needed(&args.sources))?;
    let targets = kind.targets();
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "--locked", "--no-fail-fast"]);
    let library = sim_lib::ensure_built(&sim_lib::Args::default())?;
    building::first(&[&["test", "--no-run", "--locked"], targets].concat())?;
    test.args(targets).arg("--");
    match kind {
        Kind::Rust => {
            test.args(
                GO.iter().chain(&PYTHON_TESTS).chain(&TERMINAL_TESTS).flat_map(|module| ["--skip", module]),
            );
        }
        Kind::Go => {
            test.args(GO);
            for binary in tools::ensure_built(&args.sources, &TOOLS, out)? {
                test.env(binary.variable(), &binary.path);
            }
            with_nvidia_smi(&library)?;
        }
        Kind::Terminal => {
            test.args(TERMINAL_TESTS);
            for tool in TERMINALS {
                let mut places = std::env::split_paths(&args.path).map(|folder| folder.join(tool.name));
                let found = places.find(|path| path.is_file());
                let found = found.with_context(|| format!("{} is not in PATH", tool.name))?;
                test.env(format!("TEST_ASSET_{}", tool.name.to_uppercase()), found);
            }
        }
        Kind::Python => {
            test.args(PYTHON_TESTS);
            with_nvidia_smi(&library)?;
            test.env(
                "TEST_ASSET_PYTHON",
                python::environment("requirements.txt", &args.sources.cache()?, out)?,
            );
        }
    }
    test.env("SLICEWRIGHT_SIM_LIBRARY", &library).env("SLICEWRIGHT_CLIENTS", "all");
    let status = test.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}

/// Puts the simulated nvidia-smi beside the library.
pub(crate) fn with_nvidia_smi(library: &Path) -> anyhow::Result<()> {
    building::first(&["build", "--locked", "--package", "slicewright-sim-nvidia-smi"])?;
    // This program stands in the same folder.
    let built = std::env::current_exe()?.with_file_name("nvidia-smi");
    let beside = library.join(format!(".nvidia-smi-{}", std::process::id()));
    fs::copy(&built, &beside).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&beside, library.join("nvidia-smi")).context("cannot put nvidia-smi beside the library")
}
