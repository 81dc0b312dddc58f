//! The command line of the operator. Every flag can also be set in the environment; `--help` describes each
//! of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::publish::discreet::TellNames;
use crate::settings::{HardwareProfiles, Kueue, LeaseSettings, MapRef, MetricsTls, Settings};
use crate::telemetry::Format;
use crate::tls_profile::{NoSuite, OldestTls, TlsProfile};

/// Partitions the GPUs of a cluster into MIG slices as GpuPartitionPolicy
/// objects define.
///
/// Runs beside NVIDIA's GPU Operator, which partitions the GPUs: this operator
/// decides the layout of each GPU, changes the nodes one after another without
/// taking a slice from a running pod, and reports its progress. Run two
/// replicas: both watch, one writes.
///
/// Durations are written like 500ms, 15s, 2m or 1h.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "slicewright-operator", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    process: Process,
    #[command(flatten)]
    openshift_ai: OpenShiftAi,
    #[command(flatten)]
    gpu_operator: GpuOperator,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    lease: Lease,
    #[command(flatten)]
    api: ApiServer,
}

/// How the process runs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
struct Process {
    /// The operator's own namespace, which contains its lease
    #[arg(long, env = "POD_NAMESPACE", default_value = "slicewright-system", value_name = "NAMESPACE")]
    namespace: String,
    /// The namespace of the node agents. A pod in another namespace is not
    /// taken for an agent, whatever its labels say
    #[arg(
        long,
        env = "SLICEWRIGHT_AGENT_NAMESPACE",
        default_value = "slicewright-agent",
        value_name = "NAMESPACE"
    )]
    agent_namespace: String,
    /// The unique name of this replica
    #[arg(long, env = "POD_NAME", default_value = "slicewright-operator", value_name = "NAME")]
    identity: String,
    /// The address of /healthz (the main loop works) and /readyz (every watch
    /// has listed its objects); `none` disables both
    #[arg(long, env = "SLICEWRIGHT_HEALTH_ADDRESS", default_value = "0.0.0.0:8081", value_name = "ADDRESS", value_parser = address)]
    health_address: Address,
    /// The address of /metrics; `none` disables it
    #[arg(long, env = "SLICEWRIGHT_METRICS_ADDRESS", default_value = "0.0.0.0:8080", value_name = "ADDRESS", value_parser = address)]
    metrics_address: Address,
    /// Serve /metrics over TLS with the certificate in this file (PEM), and
    /// only to clients that send a token whose owner may `get` the path
    /// /metrics. A new certificate in the file is used without a restart
    #[arg(long, env = "SLICEWRIGHT_METRICS_CERTIFICATE", value_name = "FILE", requires = "metrics_key")]
    metrics_certificate: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, env = "SLICEWRIGHT_METRICS_KEY", value_name = "FILE", requires = "metrics_certificate")]
    metrics_key: Option<PathBuf>,
    /// The oldest version of TLS for metrics, as named in OpenShift's TLS
    /// security profiles: VersionTLS12 or VersionTLS13
    #[arg(long, env = "SLICEWRIGHT_METRICS_TLS_MIN_VERSION", default_value = "VersionTLS12", value_name = "VERSION", value_parser = OldestTls::from_str)]
    metrics_tls_min_version: OldestTls,
    /// The cipher suites for metrics, by their IANA or OpenSSL names; if
    /// absent, all safe suites. Suites that are not supported are skipped and
    /// logged; suites of TLS 1.3 need not be named
    #[arg(long, env = "SLICEWRIGHT_METRICS_CIPHER_SUITES", value_name = "NAME", value_delimiter = ',')]
    metrics_cipher_suites: Vec<String>,
    /// Which pods are named in events of a namespace: those of the namespace,
    /// or all. Policies, GpuNodes and the command `slicewright explain` name
    /// all pods
    #[arg(
        long,
        env = "SLICEWRIGHT_TELL_NAMES",
        value_enum,
        default_value = "own-namespace",
        value_name = "WHOSE"
    )]
    tell_names: TellNames,
    /// What the operator does with the queues of Kueue
    #[arg(long, env = "SLICEWRIGHT_KUEUE", value_enum, default_value = "off", value_name = "WHAT")]
    kueue: Kueue,
    /// How long a workload of Kueue has to hold quota without being served
    /// before it is sent back into its queue. This happens only if a workload
    /// that waits for this quota can be served
    #[arg(long, env = "SLICEWRIGHT_QUOTA_HOLD", default_value = "5m", value_name = "DURATION", value_parser = duration)]
    quota_hold: Duration,
    /// How long the main loop may stand still before /healthz fails
    #[arg(long, env = "SLICEWRIGHT_STUCK_AFTER", default_value = "3m", value_name = "DURATION", value_parser = duration)]
    stuck_after: Duration,
    /// The format of log lines
    #[arg(long, env = "SLICEWRIGHT_LOG_FORMAT", value_enum, default_value = "json", value_name = "FORMAT")]
    log_format: Format,
    /// The log filter: a level, or a list such as info,kube=debug
    #[arg(long, env = "SLICEWRIGHT_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
}

/// What the operator publishes for OpenShift AI.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "OpenShift AI")]
struct OpenShiftAi {
    /// What the operator does with hardware profiles, in the namespace that
    /// DSCInitialization names
    #[arg(
        long,
        env = "SLICEWRIGHT_HARDWARE_PROFILES",
        value_enum,
        default_value = "off",
        value_name = "WHAT"
    )]
    hardware_profiles: HardwareProfiles,
    /// Local queues of Kueue for which hardware profiles are published as
    /// well: projects with queues see only profiles of queues that they have
    #[arg(long, env = "SLICEWRIGHT_HARDWARE_PROFILE_QUEUES", value_name = "NAME", value_delimiter = ',', value_parser = local_queue)]
    hardware_profile_queues: Vec<String>,
    /// How long a published profile has to be unattainable before it is
    /// disabled, how long it has to be attainable before it is enabled again,
    /// how long it stays disabled before it is deleted, and how long one that
    /// somebody has deleted is missing before it is published again
    #[arg(long, env = "SLICEWRIGHT_HARDWARE_PROFILE_HOLD", default_value = "10m", value_name = "DURATION", value_parser = duration)]
    hardware_profile_hold: Duration,
}

/// The name of a local queue, as Kubernetes allows it.
fn local_queue(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let whole = !text.is_empty() && text.len() <= 63 && text.chars().all(plain);
    let ends = !text.starts_with('-') && !text.ends_with('-');
    if whole && ends {
        return Ok(text.to_owned());
    }
    Err("write the name of a LocalQueue: lower case letters, digits and dashes, at most 63".to_owned())
}

/// What the operator shares with NVIDIA's GPU Operator.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "GPU Operator")]
struct GpuOperator {
    /// The namespace of the GPU Operator, where MIG manager reads its map of
    /// layouts
    #[arg(
        long,
        env = "SLICEWRIGHT_GPU_OPERATOR_NAMESPACE",
        default_value = "nvidia-gpu-operator",
        value_name = "NAMESPACE"
    )]
    gpu_operator_namespace: String,
    /// Your own map of layouts, a ConfigMap with the key config.yaml, as NAME
    /// (in the namespace of the GPU Operator) or NAMESPACE/NAME. The operator
    /// only reads it, and copies its entries into its own map
    /// (slicewright-mig-config), so that they keep working
    #[arg(long, env = "SLICEWRIGHT_ADMINISTRATORS_MAP", value_name = "MAP")]
    administrators_map: Option<String>,
    /// Point ClusterPolicy's spec.migManager.config.name to
    /// slicewright-mig-config; without this flag, a condition shows the command
    #[arg(long, env = "SLICEWRIGHT_PATCH_CLUSTER_POLICY")]
    patch_cluster_policy: bool,
    /// Point ClusterPolicy's spec.devicePlugin.config.name to
    /// slicewright-plugin-config for policies that share GPUs, in one of their
    /// windows: the device plugin and GPU feature discovery restart once on
    /// every GPU node, and pods that run keep their GPUs. Without this flag, a
    /// condition shows the command
    #[arg(long, env = "SLICEWRIGHT_PATCH_DEVICE_PLUGIN")]
    patch_device_plugin: bool,
    /// How long the kubelet may take to deliver a changed map to the nodes.
    /// This cannot be observed, so the operator waits this long before it
    /// requests a new layout on a node
    #[arg(long, env = "SLICEWRIGHT_MAP_SETTLE", default_value = "2m", value_name = "DURATION", value_parser = duration)]
    map_settle: Duration,
}

/// Times of a rollout.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Rollout")]
struct Times {
    /// How long the scheduler may take to notice a cordon
    #[arg(long, env = "SLICEWRIGHT_CORDON_SETTLE", default_value = "5s", value_name = "DURATION", value_parser = duration)]
    cordon_settle: Duration,
    /// How long changes are collected at most before a new plan is made; a
    /// fifth of it is enough when nothing more changes meanwhile
    #[arg(long, env = "SLICEWRIGHT_BATCH_DELAY", default_value = "500ms", value_name = "DURATION", value_parser = duration)]
    batch_delay: Duration,
    /// How often the operator checks what it waits for, even if no change is
    /// observed
    #[arg(long, env = "SLICEWRIGHT_POLL", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    poll: Duration,
    /// How long the slices of a node must remain as expected before the node
    /// counts as verified
    #[arg(long, env = "SLICEWRIGHT_STABLE_FOR", default_value = "20s", value_name = "DURATION", value_parser = duration)]
    stable_for: Duration,
    /// A pod that still waits this long after its slice became free is blocked
    /// by something else
    #[arg(long, env = "SLICEWRIGHT_BLOCKED_AFTER", default_value = "2m", value_name = "DURATION", value_parser = duration)]
    blocked_after: Duration,
    /// How many nodes are written at the same time (the policy limits how many
    /// may be unavailable)
    #[arg(long, env = "SLICEWRIGHT_PARALLEL_NODES", default_value_t = 8, value_name = "N", value_parser = at_least_one)]
    parallel_nodes: usize,
}

/// Which replica writes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Lease")]
struct Lease {
    /// The name of the lease
    #[arg(long, env = "SLICEWRIGHT_LEASE_NAME", default_value = "slicewright-operator", value_name = "NAME")]
    lease_name: String,
    /// The namespace of the lease; if absent, the operator's own
    #[arg(long, env = "SLICEWRIGHT_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// How long other replicas wait for a replica that does not renew the lease
    #[arg(long, env = "SLICEWRIGHT_LEASE_DURATION", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    lease_duration: Duration,
    /// A replica that could not renew the lease for this long stops writing;
    /// must be shorter than --lease-duration
    #[arg(long, env = "SLICEWRIGHT_LEASE_RENEW_DEADLINE", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    lease_renew_deadline: Duration,
    /// How often the lease is renewed or checked
    #[arg(long, env = "SLICEWRIGHT_LEASE_RETRY", default_value = "2s", value_name = "DURATION", value_parser = duration)]
    lease_retry: Duration,
}

/// How the API server is talked to.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "API server")]
struct ApiServer {
    /// A kubeconfig; if absent, the service account of the pod, or the usual
    /// kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// A context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The timeout of one call
    #[arg(long, env = "SLICEWRIGHT_CALL_TIMEOUT", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    call_timeout: Duration,
    /// The longest pause before a failed operation is retried
    #[arg(long, env = "SLICEWRIGHT_LONGEST_RETRY", default_value = "1m", value_name = "DURATION", value_parser = duration)]
    longest_retry: Duration,
    /// The number of objects in one page of a list
    #[arg(long, env = "SLICEWRIGHT_PAGE_SIZE", default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    page_size: u32,
}

/// An address, or nowhere.
#[derive(Clone, Copy, Debug)]
struct Address(Option<SocketAddr>);

fn address(text: &str) -> Result<Address, String> {
    socket_address(text).map(Address)
}

/// Where to listen, or nowhere.
///
/// # Errors
/// Says what is allowed.
pub fn socket_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "none" {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| "write an address and a port, such as 0.0.0.0:8081 or [::]:8081, or `none`".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n >= 1 => Ok(n),
        _ => Err("write a number, 1 or more".to_owned()),
    }
}

/// Hours, minutes, seconds and milliseconds, in this order, as the chart's
/// schema has them: of what jiff reads, that much.
///
/// # Errors
/// Says what is allowed.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"hms".contains(&b));
    let read = text.parse::<SignedDuration>().ok().filter(|_| is_plain);
    read.and_then(|read| Duration::try_from(read).ok())
        .ok_or_else(|| "write numbers with units, such as 500ms, 15s, 1m30s or 1h".to_owned())
}

/// Why a command line makes no sense as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// Two leaders could write at once.
    #[error(
        "--lease-retry ({retry:?}) must be shorter than --lease-renew-deadline ({deadline:?}), and that shorter than --lease-duration ({duration:?})"
    )]
    LeaseTimes {
        /// How often it is renewed.
        retry: Duration,
        /// When its holder stops.
        deadline: Duration,
        /// When another may take it.
        duration: Duration,
    },
    /// Metrics could be served to nobody.
    #[error("--metrics-cipher-suites: {0}")]
    CipherSuites(#[from] NoSuite),
    /// The administrators' map is elsewhere.
    #[error("--administrators-map `{given}`: write NAME or NAMESPACE/NAME")]
    MapName {
        /// What was given.
        given: String,
    },
}

impl Args {
    /// How lines are logged, and which.
    #[must_use]
    pub fn logging(&self) -> (Format, &str) {
        (self.process.log_format, &self.process.log)
    }

    /// Which API server.
    #[must_use]
    pub fn api_server(&self) -> (Option<&str>, Option<&str>) {
        (self.api.kubeconfig.as_deref(), self.api.context.as_deref())
    }

    /// The settings that the command line asks for.
    ///
    /// # Errors
    /// When flags contradict each other.
    pub fn settings(self) -> Result<Settings, ArgsError> {
        let Self { process, openshift_ai, gpu_operator, times, lease, api } = self;
        let lease = LeaseSettings {
            namespace: lease.lease_namespace.unwrap_or_else(|| process.namespace.clone()),
            name: lease.lease_name,
            duration: lease.lease_duration,
            renew_deadline: lease.lease_renew_deadline,
            retry: lease.lease_retry,
        };
        if lease.retry >= lease.renew_deadline || lease.renew_deadline >= lease.duration {
            return Err(ArgsError::LeaseTimes {
                retry: lease.retry,
                deadline: lease.renew_deadline,
                duration: lease.duration,
            });
        }
        let here = &gpu_operator.gpu_operator_namespace;
        let administrators_map = match gpu_operator.administrators_map {
            Some(given) => Some(map_ref(&given, here).ok_or(ArgsError::MapName { given })?),
            None => None,
        };
        let metrics_tls_profile =
            TlsProfile::new(process.metrics_tls_min_version, &process.metrics_cipher_suites)?;
        let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        Ok(Settings {
            lease,
            gpu_operator_namespace: here.clone(),
            administrators_map,
            patch_cluster_policy: gpu_operator.patch_cluster_policy,
            patch_device_plugin: gpu_operator.patch_device_plugin,
            tell_names: process.tell_names,
            kueue: process.kueue,
            quota_hold: signed(process.quota_hold),
            hardware_profiles: openshift_ai.hardware_profiles,
            menu: reconcile::MenuSettings {
                queues: openshift_ai.hardware_profile_queues,
                hold: signed(openshift_ai.hardware_profile_hold),
            },
            rollout: rollout::Settings {
                map_settle: signed(gpu_operator.map_settle),
                cordon_settle: signed(times.cordon_settle),
                poll: signed(times.poll),
                stable_for: signed(times.stable_for),
                ..rollout::Settings::default()
            },
            observe: observe::Settings {
                blocked_after: signed(times.blocked_after),
                agent_namespace: Some(process.agent_namespace),
                ..observe::Settings::default()
            },
            batch_delay: times.batch_delay,
            call_timeout: api.call_timeout,
            page_size: api.page_size,
            parallel_nodes: times.parallel_nodes,
            longest_retry: api.longest_retry,
            stuck_after: process.stuck_after,
            health_address: process.health_address.0,
            metrics_address: process.metrics_address.0,
            metrics_tls: process
                .metrics_certificate
                .zip(process.metrics_key)
                .map(|(certificate, key)| MetricsTls { certificate, key }),
            metrics_tls_profile,
            ..Settings::new(process.identity, process.namespace)
        })
    }
}

fn map_ref(given: &str, here: &str) -> Option<MapRef> {
    let (namespace, name) = given.split_once('/').unwrap_or((here, given));
    let usable = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    usable.then(|| MapRef { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn read(args: &[&str]) -> Result<Settings, ArgsError> {
        let all = ["slicewright-operator"].iter().chain(args);
        Args::try_parse_from(all).expect("a command line that clap takes").settings()
    }

    #[test]
    fn the_command_line_is_sound_and_its_defaults_are_the_settings_defaults() {
        Args::command().debug_assert();
        let (read, default) = (read(&[]).expect("defaults"), Settings::new("x", "y"));
        assert_eq!(read.rollout, default.rollout);
        assert_eq!(read.observe, default.observe);
        assert_eq!(read.batch_delay, default.batch_delay);
        assert_eq!(read.tell_names, default.tell_names);
        assert_eq!(read.menu, default.menu);
        assert_eq!(read.quota_hold, default.quota_hold);
        assert_eq!(read.lease.duration, default.lease.duration);
        assert_eq!(read.lease.name, default.lease.name);
        assert_eq!(read.map_name, default.map_name);
        assert_eq!(read.longest_retry, default.longest_retry);
        assert_eq!(read.stuck_after, default.stuck_after);
    }

    #[test]
    fn metrics_are_served_over_tls_where_a_certificate_and_its_key_are_given() {
        assert_eq!(read(&[]).expect("defaults").metrics_tls, None);
        let both = read(&["--metrics-certificate", "tls.crt", "--metrics-key", "tls.key"]);
        let wanted = MetricsTls { certificate: "tls.crt".into(), key: "tls.key".into() };
        assert_eq!(both.expect("both").metrics_tls, Some(wanted));
        let one = Args::try_parse_from(["slicewright-operator", "--metrics-certificate", "tls.crt"]);
        assert!(one.expect_err("no key").to_string().contains("--metrics-key"));
    }

    #[test]
    fn the_tls_of_the_metrics_is_as_strong_as_the_flags_say() {
        let suites = "--metrics-cipher-suites=ECDHE-RSA-AES128-GCM-SHA256,DHE-RSA-AES128-GCM-SHA256";
        let profile = read(&[suites]).expect("one that is known").metrics_tls_profile;
        assert_eq!((profile.oldest, profile.left_out.len()), (OldestTls::Tls12, 1));
        let newest = read(&["--metrics-tls-min-version=VersionTLS13"]).expect("a version");
        assert_eq!(newest.metrics_tls_profile.oldest, OldestTls::Tls13);
        let error = read(&["--metrics-cipher-suites=RC4-SHA"]).expect_err("none is known").to_string();
        assert!(error.starts_with("--metrics-cipher-suites: none of the cipher suites RC4-SHA"), "{error}");
    }

    #[test]
    fn lease_times_that_would_let_two_write_are_refused() {
        let error = read(&["--lease-renew-deadline", "15s"]).expect_err("as long as the lease");
        assert!(error.to_string().contains("--lease-duration"), "{error}");
    }

    #[test]
    fn the_administrators_map_is_in_the_gpu_operators_namespace_unless_it_says_where() {
        let here = read(&["--administrators-map", "ours"]).expect("a name").administrators_map;
        let there = read(&["--administrators-map", "ns/ours"]).expect("a name").administrators_map;
        let map = |namespace: &str| Some(MapRef { namespace: namespace.to_owned(), name: "ours".to_owned() });
        assert_eq!((here, there), (map("nvidia-gpu-operator"), map("ns")));
        assert!(matches!(read(&["--administrators-map", "a/b/c"]), Err(ArgsError::MapName { .. })));
    }

    /// The chart refuses what the operator would, before anything is installed.
    #[test]
    fn durations_are_what_the_charts_schema_says() {
        for (text, millis) in [
            ("500ms", 500),
            ("2m", 120_000),
            ("1m30s", 90_000),
            ("1h0m5s250ms", 3_605_250),
            ("0s", 0),
            ("999999999h", 3_599_999_996_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "5 s",
            "30s1m",
            "1m1m",
            "-5s",
            "+5s",
            "1.5h",
            "1d",
            "PT5S",
            "5 minutes",
            "1m30",
            "ms",
            "5us",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        let schema = include_str!("../../../charts/slicewright/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        for name in ["mapSettle", "cordonSettle", "batchDelay", "stableFor", "blockedAfter"] {
            let value = &schema["properties"]["rollout"]["properties"][name];
            assert_eq!(
                value["pattern"], "^([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$",
                "{name}"
            );
            assert_eq!(value["minLength"], 1, "{name}");
        }
    }
}
