//! The device plugin's configuration: a file that a label of the node selects from a ConfigMap, and its
//! rules about sharing devices.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::pod::PodName;
use crate::setup::Strategy;

/// The label that names a file of the ConfigMap.
pub const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// What the device plugin and GFD are configured to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfig {
    /// The MIG strategy, which counts only where the ClusterPolicy has none.
    pub strategy: Option<Strategy>,
    /// How devices are shared, if they are.
    pub sharing: Option<Sharing>,
}

/// By what devices are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By turns.
    TimeSlicing,
    /// At the same time, through a server.
    Mps,
}

impl Method {
    /// Its name in GFD's labels.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "mps",
        }
    }
}

/// How devices are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// By what.
    pub method: Method,
    /// Whether shared devices are another resource, `<name>.shared`.
    pub renamed: bool,
    /// Whether a pod may have one only.
    pub one_each: bool,
    /// How many clients share each device, by resource; at least 2.
    pub replicas: BTreeMap<String, u32>,
}

/// Why a configuration is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginConfigError {
    /// Not the format.
    #[error("unable to parse config file: {0}")]
    Syntax(String),
    /// Another version.
    #[error("unknown version: {0}")]
    Version(String),
    /// Nothing to share.
    #[error("no resources specified")]
    NoResources,
    /// One is no sharing.
    #[error("number of replicas must be >= 2: {resource} has {replicas}")]
    Replicas {
        /// Of what.
        resource: String,
        /// How many.
        replicas: u32,
    },
}

#[derive(Deserialize)]
struct File {
    version: String,
    #[serde(default)]
    flags: Flags,
    #[serde(default)]
    sharing: Option<Both>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Flags {
    mig_strategy: Option<Strategy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Both {
    #[serde(default)]
    time_slicing: Option<Shared>,
    #[serde(default)]
    mps: Option<Shared>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shared {
    #[serde(default)]
    rename_by_default: bool,
    fail_requests_greater_than_one: Option<bool>,
    #[serde(default)]
    resources: Vec<Resource>,
}

/// What the shipped plugin ignores with a warning (`rename`, `devices`) is
/// not read.
#[derive(Deserialize)]
struct Resource {
    name: String,
    replicas: u32,
}

impl PluginConfig {
    /// Reads a file, in the plugin's format, version 1.
    ///
    /// # Errors
    /// What the plugin says before it exits.
    pub fn parse(text: &str) -> Result<Self, PluginConfigError> {
        let File { version, flags, sharing } =
            serde_saphyr::from_str(text).map_err(|e| PluginConfigError::Syntax(e.to_string()))?;
        if version != "v1" {
            return Err(PluginConfigError::Version(version));
        }
        let sharing = match sharing {
            // Where both are there, MPS wins.
            Some(Both { mps: Some(shared), .. }) => Some(shared.read(Method::Mps)?),
            Some(Both { time_slicing: Some(shared), .. }) => Some(shared.read(Method::TimeSlicing)?),
            _ => None,
        };
        Ok(Self { strategy: flags.mig_strategy, sharing })
    }

    /// How many clients share a device of this resource; 1 is nobody.
    pub(crate) fn replicas(&self, resource: &str) -> u32 {
        self.sharing.as_ref().and_then(|sharing| sharing.replicas.get(resource)).copied().unwrap_or(1)
    }

    /// Why MPS cannot serve these GPUs, where it is asked for.
    pub(crate) fn mps_refuses(&self, machine: &gpu::Machine, strategy: Strategy) -> Option<String> {
        self.sharing.as_ref().filter(|sharing| sharing.method == Method::Mps)?;
        if strategy == Strategy::Mixed {
            return Some("using --mig-strategy=mixed is not supported with MPS".to_owned());
        }
        let is_cut = machine.gpus().iter().any(gpu::Gpu::mig_is_on);
        is_cut.then(|| "sharing.mps is not supported for MIG devices".to_owned())
    }

    /// Why MPS's control daemon exits, where more are to share a GPU than it
    /// serves: the device plugin, which does not count, waits for it for ever.
    pub(crate) fn daemon_refuses(&self, machine: &gpu::Machine) -> Option<String> {
        let sharing = self.sharing.as_ref().filter(|sharing| sharing.method == Method::Mps)?;
        let most = |gpu: &gpu::Gpu| mig::sharing::most_by_mps(gpu.model.compute_capability.unwrap_or((9, 0)));
        let most = machine.gpus().iter().map(most).min().unwrap_or(mig::sharing::MPS_MOST);
        let (resource, replicas) = sharing.replicas.iter().find(|(_, n)| **n > most)?;
        Some(format!("invalid MPS configuration: {resource} has {replicas} replicas, and {most} is the most"))
    }
}

impl Shared {
    fn read(self, method: Method) -> Result<Sharing, PluginConfigError> {
        let Self { rename_by_default, fail_requests_greater_than_one, resources } = self;
        if resources.is_empty() {
            return Err(PluginConfigError::NoResources);
        }
        if let Some(Resource { name, replicas }) = resources.iter().find(|r| r.replicas < 2) {
            let (resource, replicas) = (name.clone(), *replicas);
            return Err(PluginConfigError::Replicas { resource, replicas });
        }
        Ok(Sharing {
            method,
            renamed: rename_by_default,
            one_each: fail_requests_greater_than_one.unwrap_or(method == Method::Mps),
            replicas: resources.into_iter().map(|r| (r.name, r.replicas)).collect(),
        })
    }
}

/// A pod that had a device for itself has it no more, or one that was to have it for itself does not: the device
/// plugin's configuration changed while somebody held it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedUnawares {
    /// When the second of them got it.
    pub at: Timestamp,
    /// The device.
    pub device: String,
    /// Whether the kubelet had forgotten that the first one has it: the fault is its own (kubernetes#137534).
    pub forgotten: bool,
    /// Who had it.
    pub first: PodName,
    /// Who got it.
    pub second: PodName,
}

impl std::fmt::Display for SharedUnawares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at: _, device, forgotten: _, first, second } = self;
        write!(f, "{first} and {second} have {device}, and one of them was to have it for itself")
    }
}

/// The device behind an id: the copies of a shared one are `<uuid>::<n>`.
pub(crate) fn uuid(id: &str) -> &str {
    id.split_once("::").map_or(id, |(uuid, _)| uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TS: &str = "version: v1\nflags: {migStrategy: mixed}\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    \
                      resources: [{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-1g.10gb, replicas: 2}]\n";

    #[test]
    fn a_file_says_what_is_shared_by_what_and_how_often() {
        let config = PluginConfig::parse(TS).expect("it is one");
        assert_eq!(config.strategy, Some(Strategy::Mixed));
        assert_eq!((config.replicas("nvidia.com/gpu"), config.replicas("nvidia.com/mig-1g.10gb")), (4, 2));
        assert_eq!(config.replicas("nvidia.com/mig-7g.80gb"), 1);
        let sharing = config.sharing.expect("it shares");
        assert_eq!((sharing.method, sharing.renamed, sharing.one_each), (Method::TimeSlicing, true, false));

        let both = "version: v1\nsharing: {timeSlicing: {resources: [{name: a, replicas: 2}]}, \
                    mps: {resources: [{name: a, replicas: 8}]}}";
        let sharing = PluginConfig::parse(both).expect("it is one").sharing.expect("it shares");
        assert_eq!((sharing.method, sharing.one_each), (Method::Mps, true), "MPS wins");
        assert_eq!(PluginConfig::parse("version: v1"), Ok(PluginConfig::default()));
    }

    #[track_caller]
    fn refused(text: &str, expect: &str) {
        assert_eq!(PluginConfig::parse(text).expect_err("it is none").to_string(), expect);
    }

    #[test]
    fn what_cannot_be_shared_is_refused_as_the_plugin_does() {
        refused("version: v2", "unknown version: v2");
        refused("version: v1\nsharing: {timeSlicing: {resources: []}}", "no resources specified");
        refused(
            "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
            "number of replicas must be >= 2: nvidia.com/gpu has 1",
        );
    }
}
