//! The container engine: an existing one, or one of our own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::call::{call, succeeds};
use crate::place::Place;
use crate::without_engine::own_engine;

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

    /// Fetches an image, where its registry can be reached: one that cannot be
    /// is given up by the engine itself, and some hundred megabytes take a slow
    /// line long. The end is for an engine that hangs.
    #[must_use]
    pub fn pull(&self, image: &str) -> bool {
        let mut command = self.inside("timeout");
        command.args(["1800", self.program(), "pull", "--quiet", image]);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is run, and what it finds in its environment; nothing stands for a variable that is taken away.
    fn run(command: &Command) -> (Vec<String>, Vec<(String, String)>) {
        let text = |word: &std::ffi::OsStr| word.to_str().unwrap().to_owned();
        let words = std::iter::once(command.get_program()).chain(command.get_args()).map(text).collect();
        let variables =
            command.get_envs().map(|(name, value)| (text(name), value.map(text).unwrap_or_default()));
        (words, variables.collect())
    }

    fn own() -> Engine {
        Engine { kind: Kind::Own { socket: "/tmp/place/docker.sock".into(), namespace: "ns" } }
    }

    #[test]
    fn with_an_engine_of_the_machine_programs_run_as_they_are() {
        let docker = Engine { kind: Kind::Existing("docker") };
        assert_eq!(run(&docker.inside("kind")), (vec!["kind".to_owned()], Vec::new()));
        assert_eq!(run(&docker.command()).0, ["docker"]);
        assert!(!docker.is_ours());
        assert_eq!(docker.name(), "docker of this machine");
    }

    #[test]
    fn kind_is_told_of_podman_which_it_would_not_look_for() {
        let podman = Engine { kind: Kind::Existing("podman") };
        let told = ("KIND_EXPERIMENTAL_PROVIDER".to_owned(), "podman".to_owned());
        assert_eq!(run(&podman.inside("kind")).1, [told]);
        assert_eq!(run(&podman.command()).0, ["podman"]);
    }

    #[test]
    fn an_engine_of_our_own_is_reached_in_its_namespace_whatever_the_user_has_set_up() {
        let (words, variables) = run(&own().command());
        assert_eq!(words, ["nsenter", "--net=/run/netns/ns", "--", "docker"]);
        // A context of the user's would lead to another engine.
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(variables, [of("DOCKER_CONTEXT", ""), of("DOCKER_HOST", "unix:///tmp/place/docker.sock")]);
        assert!(own().is_ours());
    }
}
