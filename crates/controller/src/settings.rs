//! All settings, as plain data. [`crate::args`] reads them from flags and the environment; tests build
//! them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use reconcile::MapRef;

use crate::clock::Clock;
use crate::publish::discreet::TellNames;
use crate::tls_profile::TlsProfile;

/// How long the API server is asked to keep one watch open, unless somebody
/// says otherwise. The client gives a silent connection up a little later (see
/// [`crate::client`]).
pub const WATCH_TIME: Duration = Duration::from_secs(240);

/// What the operator has to do with Kueue's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Kueue {
    /// Nothing. Kueue's objects are not read
    #[default]
    Off,
    /// Workloads with a reserved quota and an admission check of the operator
    /// count as requests; nothing is written
    Report,
    /// The operator also answers the admission check, and keeps the pods of an
    /// admitted workload to the node that has its slices
    AdmissionCheck,
}

impl Kueue {
    /// Whether Kueue's objects are read.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Report | Self::AdmissionCheck)
    }
}

/// What the operator has to do with the hardware profiles of OpenShift AI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HardwareProfiles {
    /// It reads them, and reports those that offer what nobody can have
    #[default]
    Off,
    /// It also reports, in the metric slicewright_hardware_profiles, which profiles it would publish
    Report,
    /// It publishes a profile for each slice that the policies allow, in the
    /// namespace that DSCInitialization names
    Publish,
}

impl HardwareProfiles {
    /// Whether it is worked out what should be published.
    #[must_use]
    pub const fn is_planned(self) -> bool {
        matches!(self, Self::Report | Self::Publish)
    }
}

/// How one operator runs. [`Settings::new`] has the defaults of the flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this replica: the holder's name in the lease, and the
    /// reporting instance of events.
    pub identity: String,
    /// The lease that says which replica writes.
    pub lease: LeaseSettings,
    /// The namespace of the GPU Operator: MIG manager reads its map there.
    pub gpu_operator_namespace: String,
    /// The name of the map that we own.
    pub map_name: String,
    /// The administrators' own map, whose entries ours repeats. Only read.
    pub administrators_map: Option<MapRef>,
    /// Whether to point `ClusterPolicy` to our map ourselves.
    pub patch_cluster_policy: bool,
    /// Whether to point the device plugin to our map of its configurations
    /// ourselves.
    pub patch_device_plugin: bool,
    /// What the operator has to do with Kueue's queues.
    pub kueue: Kueue,
    /// How long a workload has to hold quota without being served before it is
    /// sent back into its queue for one that can use the quota.
    pub quota_hold: jiff::SignedDuration,
    /// What the operator has to do with hardware profiles.
    pub hardware_profiles: HardwareProfiles,
    /// For which queues it publishes them, and how long it waits before it
    /// takes one back.
    pub menu: reconcile::MenuSettings,
    /// Whose names people read in events of their namespace.
    pub tell_names: TellNames,
    /// Times of the rollout protocol.
    pub rollout: rollout::Settings,
    /// What counts as a request.
    pub observe: observe::Settings,
    /// How long changes are collected at most before a new plan is made. A
    /// fifth of it is enough when nothing more changes meanwhile, but rounds
    /// begin five times as far apart as one has planned, or as far as this.
    pub batch_delay: Duration,
    /// How long one call to the API server may take.
    pub call_timeout: Duration,
    /// How long a write of ours may stay unseen before we look anyway; every
    /// write carries a version, so the worst is one that fails.
    pub unseen_for: Duration,
    /// The number of objects in one page of a list.
    pub page_size: u32,
    /// How many nodes are worked on at the same time.
    pub parallel_nodes: usize,
    /// How many retries of one kind of trouble wait at most this long.
    pub longest_retry: Duration,
    /// A watch that broke is tried again after at most this long.
    pub longest_watch_retry: Duration,
    /// How long one watch lasts, in whole seconds; one that says nothing for
    /// longer is given up. Not longer than [`WATCH_TIME`].
    pub watch_time: Duration,
    /// The clock by which it goes.
    pub clock: Clock,
    /// How long nothing is done to nodes after the API's data went back in
    /// time, as after an older copy of etcd was put back.
    pub settle_after_restore: Duration,
    /// How long the loop may stand still before `/healthz` says so.
    pub stuck_after: Duration,
    /// Where `/healthz` and `/readyz` are served; `None`: nowhere.
    pub health_address: Option<SocketAddr>,
    /// Where `/metrics` is served; `None`: nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// With which certificate metrics are served, and then only to who may
    /// read them; `None`: over plain HTTP, to everybody.
    pub metrics_tls: Option<MetricsTls>,
    /// How strong that TLS has to be.
    pub metrics_tls_profile: TlsProfile,
}

/// A certificate in PEM files, which may be replaced at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsTls {
    /// The certificate, and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The lease that says which replica writes.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Its namespace: the operator's own.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long others wait for a holder that says nothing.
    pub duration: Duration,
    /// A holder that could not renew for this long stops writing. Shorter than
    /// `duration`, so that it has stopped before another one starts.
    pub renew_deadline: Duration,
    /// How often the holder renews, and the others look.
    pub retry: Duration,
}

impl Settings {
    /// The defaults, for a replica of this name in this namespace.
    #[must_use]
    pub fn new(identity: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            lease: LeaseSettings {
                namespace: namespace.into(),
                name: "slicewright-operator".to_owned(),
                duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry: Duration::from_secs(2),
            },
            gpu_operator_namespace: "nvidia-gpu-operator".to_owned(),
            map_name: rollout::names::MAP_NAME.to_owned(),
            administrators_map: None,
            patch_cluster_policy: false,
            patch_device_plugin: false,
            kueue: Kueue::default(),
            quota_hold: reconcile::Settings::default().quota_hold,
            hardware_profiles: HardwareProfiles::default(),
            menu: reconcile::MenuSettings::default(),
            tell_names: TellNames::default(),
            rollout: rollout::Settings::default(),
            observe: observe::Settings::default(),
            batch_delay: Duration::from_millis(500),
            call_timeout: Duration::from_secs(10),
            unseen_for: Duration::from_secs(30),
            // An object may have 1.5 MB, and a page is read at once.
            page_size: 100,
            parallel_nodes: 8,
            longest_retry: Duration::from_secs(60),
            longest_watch_retry: Duration::from_secs(10),
            watch_time: WATCH_TIME,
            clock: Clock::default(),
            // Kubelets tell what they have within ten seconds of a change, and the node
            // controller takes 40 to find one that says nothing.
            settle_after_restore: Duration::from_secs(120),
            stuck_after: Duration::from_secs(180),
            health_address: None,
            metrics_address: None,
            metrics_tls: None,
            metrics_tls_profile: TlsProfile::default(),
        }
    }
}
