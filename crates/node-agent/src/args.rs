//! The command line of the agent. Every flag can also be set in the environment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{BootId, PodUid};
use api::node_agent::AgentMode;
use controller::telemetry::Format;

use crate::driver::{Driver, Library};
use crate::kubelet::Kubelet;
use crate::look::Eyes;
use crate::settings::Settings;

/// Reports the GPU slices of one node, and which containers hold them.
///
/// Runs on every GPU node, as root. It asks NVIDIA's driver how the GPUs are
/// partitioned, and kubelet which container was given which slice, and writes
/// both to the status of the GpuNode with the name of the node, when something
/// has changed. The operator then plans with exact slices instead of counts.
///
/// The driver's library is open only while the agent looks, so that it never
/// keeps a driver from being upgraded or a GPU from being reset.
///
/// Durations are written like 500ms, 15s, 2m or 1h.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "slicewright-agent",
    version,
    max_term_width = 100,
    after_help = "\
Exit status: 0 after SIGTERM or SIGINT, 1 if it cannot start or the API server cannot be used, 2 for a
command line that makes no sense. That kubelet or the driver does not answer ends nothing: the agent
reports it, and asks again."
)]
pub struct Args {
    #[command(flatten)]
    node: Node,
    #[command(flatten)]
    kubelet: KubeletArgs,
    #[command(flatten)]
    driver: DriverArgs,
    #[command(flatten)]
    process: Process,
}

/// Which node this is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Node")]
struct Node {
    /// The name of this node. In a pod, set NODE_NAME from spec.nodeName
    #[arg(long, env = "NODE_NAME", value_name = "NAME", value_parser = not_empty)]
    node_name: String,
    /// The uid of the agent's own pod. In a pod, set POD_UID from metadata.uid
    #[arg(long, env = "POD_UID", value_name = "UID", value_parser = not_empty)]
    pod_uid: String,
    /// The file with the id of the present boot
    #[arg(
        long,
        env = "SLICEWRIGHT_AGENT_BOOT_ID_FILE",
        default_value = "/proc/sys/kernel/random/boot_id",
        value_name = "FILE"
    )]
    boot_id_file: PathBuf,
}

/// Where kubelet is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Kubelet")]
struct KubeletArgs {
    /// Kubelet's pod-resources socket; it follows kubelet's --root-dir
    #[arg(
        long,
        env = "SLICEWRIGHT_AGENT_POD_RESOURCES_SOCKET",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock",
        value_name = "SOCKET"
    )]
    pod_resources_socket: PathBuf,
    /// Kubelet's checkpoint of its device manager. The agent reads it too,
    /// because the socket reports neither init containers nor uids
    #[arg(
        long,
        env = "SLICEWRIGHT_AGENT_CHECKPOINT",
        default_value = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        value_name = "FILE"
    )]
    checkpoint: PathBuf,
    /// How long kubelet may take for one answer
    #[arg(long, env = "SLICEWRIGHT_AGENT_KUBELET_TIMEOUT", default_value = "10s", value_name = "DURATION", value_parser = controller::args::duration)]
    kubelet_timeout: Duration,
    /// How long after a change of the checkpoint the agent looks. Kubelet's
    /// list should not be read in the middle of an allocation
    /// (kubernetes#137534)
    #[arg(long, env = "SLICEWRIGHT_AGENT_SETTLE", default_value = "1s", value_name = "DURATION", value_parser = controller::args::duration)]
    settle: Duration,
    /// How often the agent looks if nothing tells it to
    #[arg(long, env = "SLICEWRIGHT_AGENT_LOOK_EVERY", default_value = "1m", value_name = "DURATION", value_parser = at_least_a_second)]
    look_every: Duration,
}

/// Where the driver is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Driver")]
struct DriverArgs {
    /// The folder below which the driver is installed, such as
    /// /run/nvidia/driver for that of the GPU Operator. Without it, and without
    /// --library, the agent loads libnvidia-ml.so.1 from the system's library path
    #[arg(long, env = "SLICEWRIGHT_AGENT_DRIVER_ROOT", value_name = "FOLDER", conflicts_with = "library")]
    driver_root: Option<PathBuf>,
    /// NVIDIA's management library itself
    #[arg(long, env = "SLICEWRIGHT_AGENT_LIBRARY", value_name = "FILE")]
    library: Option<PathBuf>,
    /// How long the driver may take for one look. If it takes longer, its GPUs
    /// count as silent, and no other call is made until that one returns
    #[arg(long, env = "SLICEWRIGHT_AGENT_DRIVER_TIMEOUT", default_value = "30s", value_name = "DURATION", value_parser = controller::args::duration)]
    driver_timeout: Duration,
}

/// What the agent may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Only report
    Report,
    /// Also create and destroy slices, as `spec.change` of the `GpuNode` says.
    /// Nobody has run this on hardware yet
    Change,
}

/// How the process runs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
struct Process {
    /// What the agent may do
    #[arg(long, env = "SLICEWRIGHT_AGENT_MODE", value_enum, default_value = "report", value_name = "MODE")]
    mode: Mode,
    /// The address of /healthz (the loop works) and /readyz (what the agent
    /// last saw is in the GpuNode); `none` disables both
    #[arg(long, env = "SLICEWRIGHT_AGENT_HEALTH_ADDRESS", default_value = "0.0.0.0:8082", value_name = "ADDRESS", value_parser = address)]
    health_address: Address,
    /// How long the loop may stand still before /healthz fails
    #[arg(long, env = "SLICEWRIGHT_AGENT_STUCK_AFTER", default_value = "5m", value_name = "DURATION", value_parser = controller::args::duration)]
    stuck_after: Duration,
    /// The format of log lines
    #[arg(long, env = "SLICEWRIGHT_LOG_FORMAT", value_enum, default_value = "json", value_name = "FORMAT")]
    log_format: Format,
    /// The log filter: a level, or a list such as info,kube=debug
    #[arg(long, env = "SLICEWRIGHT_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// A kubeconfig; if absent, the service account of the pod, or the usual
    /// kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// A context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The timeout of one call to the API server
    #[arg(long, env = "SLICEWRIGHT_CALL_TIMEOUT", default_value = "10s", value_name = "DURATION", value_parser = controller::args::duration)]
    call_timeout: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Address(Option<SocketAddr>);

fn address(text: &str) -> Result<Address, String> {
    controller::args::socket_address(text).map(Address)
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("write a value that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// More often would be a way to make kubelet give one device twice.
fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let read = controller::args::duration(text)?;
    if read < Duration::from_secs(1) { Err("write 1s or more".to_owned()) } else { Ok(read) }
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// The id of the boot is not there.
    #[error("--boot-id-file: {} cannot be read", path.display())]
    BootId {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// An agent that rests would count as stuck.
    #[error(
        "--stuck-after ({stuck_after:?}) must be longer than --look-every ({look_every:?}) and --driver-timeout ({driver_timeout:?}) together"
    )]
    Stuck {
        /// When it counts as stuck.
        stuck_after: Duration,
        /// How long it rests.
        look_every: Duration,
        /// How long it may wait for the driver.
        driver_timeout: Duration,
    },
    /// The id of the boot is none.
    #[error("--boot-id-file: {} has no boot id, but `{found}`", path.display())]
    NoBootId {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: String,
    },
}

impl Args {
    /// How lines are logged, and which.
    #[must_use]
    pub fn logging(&self) -> (Format, &str) {
        (self.process.log_format, &self.process.log)
    }

    /// How the API server is found.
    #[must_use]
    pub fn api_server(&self) -> (Option<&str>, Option<&str>) {
        (self.process.kubeconfig.as_deref(), self.process.context.as_deref())
    }

    /// What the agent is told.
    ///
    /// # Errors
    /// The id of the boot cannot be read, or times contradict each other.
    pub fn settings(self) -> Result<Settings, ArgsError> {
        let Self { node, kubelet, driver, process } = self;
        let library = match (driver.library, driver.driver_root) {
            (Some(file), _) => Library::File(file),
            (None, Some(root)) => Library::Below(root),
            (None, None) => Library::System,
        };
        let (stuck_after, look_every, driver_timeout) =
            (process.stuck_after, kubelet.look_every, driver.driver_timeout);
        if look_every.saturating_add(driver_timeout) >= stuck_after {
            return Err(ArgsError::Stuck { stuck_after, look_every, driver_timeout });
        }
        Ok(Settings {
            node: node.node_name,
            pod: PodUid(node.pod_uid),
            boot: boot_id(&node.boot_id_file)?,
            mode: match process.mode {
                Mode::Report => AgentMode::Report,
                Mode::Change => AgentMode::Change,
            },
            eyes: Eyes {
                kubelet: Kubelet { socket: kubelet.pod_resources_socket, patience: kubelet.kubelet_timeout },
                checkpoint: kubelet.checkpoint,
                driver: Driver::new(library, driver.driver_timeout),
            },
            settle: kubelet.settle,
            every: kubelet.look_every,
            call_timeout: process.call_timeout,
            health_address: process.health_address.0,
            stuck_after: process.stuck_after,
        })
    }
}

fn boot_id(path: &Path) -> Result<BootId, ArgsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ArgsError::BootId { path: path.to_owned(), source })?;
    let id = text.trim();
    if id.is_empty() || id.len() > 64 || id.contains(char::is_whitespace) {
        let found = id.chars().take(80).collect();
        return Err(ArgsError::NoBootId { path: path.to_owned(), found });
    }
    Ok(BootId(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn read(args: &[&str]) -> Result<Args, clap::Error> {
        let fixed = ["slicewright-agent", "--node-name", "gpu-7", "--pod-uid", "u-1"];
        Args::try_parse_from(fixed.iter().chain(args))
    }

    #[test]
    fn the_command_line_is_sound_and_by_default_the_agent_only_reports() {
        Args::command().debug_assert();
        let settings = read(&[]).unwrap().settings().unwrap();
        assert_eq!((settings.node.as_str(), settings.pod.0.as_str()), ("gpu-7", "u-1"));
        assert_eq!(settings.mode, AgentMode::Report);
        assert_eq!(settings.every, Duration::from_secs(60));
    }

    #[test]
    fn a_node_without_a_name_and_a_look_too_often_are_refused() {
        let error = Args::try_parse_from(["slicewright-agent", "--node-name="]).unwrap_err().to_string();
        assert!(error.contains("--node-name"), "{error}");
        let error = read(&["--look-every=100ms"]).unwrap_err().to_string();
        assert!(error.contains("--look-every") && error.contains("1s or more"), "{error}");
    }

    #[test]
    fn an_agent_that_rests_longer_than_it_may_stand_still_is_refused() {
        let error = read(&["--look-every=10m"]).unwrap().settings().unwrap_err().to_string();
        assert!(error.contains("--stuck-after") && error.contains("--look-every"), "{error}");
    }

    #[test]
    fn a_file_without_a_boot_id_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let error = read(&["--boot-id-file", &path]).unwrap().settings().unwrap_err().to_string();
        assert!(error.contains(&path) && error.contains("no boot id"), "{error}");
        let error = read(&["--boot-id-file", "/nowhere/boot"]).unwrap().settings().unwrap_err().to_string();
        assert!(error.contains("/nowhere/boot"), "{error}");
    }
}
