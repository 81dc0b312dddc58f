//! The container engine: an existing one, or one of our own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::call::{call, succeeds};
use crate::own_engine;
use crate::place::Place;

/// An engine that runs.
#[derive(Clone, Debug)]
pub struct Engine {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Docker or Podman of this machine, as its user has set it up.
    Existing(&'static str),
    /// A dockerd of ours: its socket and its network namespace.
    Own { socket: PathBuf, namespace: &'static str },
}

impl Engine {
    /// The engine that is there and answers, Docker before Podman.
    #[must_use]
    pub fn existing() -> Option<Self> {
        ["docker", "podman"]
            .into_iter()
            .find(|program| succeeds(Command::new("timeout").args(["10", program, "info"])))
            .map(|program| Self { kind: Kind::Existing(program) })
    }

    /// The one of our own, if it runs.
    #[must_use]
    pub fn own(place: &Place) -> Option<Self> {
        let engine =
            Self { kind: Kind::Own { socket: own_engine::socket(place), namespace: own_engine::NAMESPACE } };
        (own_engine::socket(place).exists() && succeeds(engine.command().args(["info"]))).then_some(engine)
    }

    /// What runs already, ours first; else one of our own is started.
    ///
    /// # Errors
    /// When none is there and none can be started.
    pub fn find_or_start(place: &Place) -> anyhow::Result<Self> {
        if let Some(engine) = Self::own(place).or_else(Self::existing) {
            return Ok(engine);
        }
        own_engine::start(place)?;
        match Self::own(place) {
            Some(engine) => Ok(engine),
            None => {
                bail!("the container engine that we started does not answer: {}", own_engine::last(place))
            }
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Existing(program) => format!("{program} of this machine"),
            Kind::Own { namespace, .. } => {
                format!("dockerd of our own, in the network namespace {namespace}")
            }
        }
    }

    /// Whether it is ours, and ours to end.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Own { .. })
    }

    /// A command of the engine's client.
    #[must_use]
    pub fn command(&self) -> Command {
        self.inside(self.program())
    }

    fn program(&self) -> &'static str {
        match self.kind {
            Kind::Existing(program) => program,
            Kind::Own { .. } => "docker",
        }
    }

    /// A command that reaches the engine, and the API server of a cluster on
    /// it.
    #[must_use]
    pub fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        match &self.kind {
            Kind::Existing(engine) => {
                let mut command = Command::new(program);
                if *engine == "podman" {
                    command.env("KIND_EXPERIMENTAL_PROVIDER", "podman");
                }
                command
            }
            Kind::Own { socket, namespace } => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(program);
                let mut host = std::ffi::OsString::from("unix://");
                host.push(socket);
                command.env("DOCKER_HOST", host).env_remove("DOCKER_CONTEXT");
                command
            }
        }
    }

    /// Whether it has an image.
    #[must_use]
    pub fn has_image(&self, image: &str) -> bool {
        succeeds(self.command().args(["image", "inspect", image]))
    }

    /// Fetches an image, where its registry can be reached.
    #[must_use]
    pub fn pull(&self, image: &str) -> bool {
        let mut command = self.inside("timeout");
        command.args(["300", self.program(), "pull", "--quiet", image]);
        succeeds(&mut command)
    }

    /// The names of the containers that a label marks.
    ///
    /// # Errors
    /// When the engine does not say.
    pub fn containers(&self, label: &str) -> anyhow::Result<Vec<String>> {
        let filter = format!("label={label}");
        let said = call(self.command().args(["ps", "--all", "--format", "{{.Names}}", "--filter", &filter]))?;
        Ok(said.lines().map(str::to_owned).collect())
    }
}
