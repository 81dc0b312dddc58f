//! The device plugin's configuration of a node: by how many pods each of its GPUs is shared. Pure rendering: the same
//! configuration has the same text and the same key, and another configuration another key, since the plugin's
//! config-manager reads a key once and never looks at it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::names::{ENTRY_PREFIX, RESOURCE_GPU};

/// What the device plugin of a node is told. The default is a configuration
/// without sharing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginConfig {
    /// How devices are shared, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_slicing: Option<TimeSlicing>,
}

/// Devices that pods share by turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeSlicing {
    /// Whether they are another resource, with `.shared` at its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rename: bool,
    /// Whether a container may ask for one share only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_each: bool,
    /// How many pods share each device of a resource; at least 2.
    pub replicas: BTreeMap<String, u32>,
}

/// What the GPUs of a node are to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats {
    /// The resource that pods ask for.
    pub resource: String,
    /// How many pods have a GPU; 1 is one for itself.
    pub replicas: u32,
}

impl Seats {
    /// Whether several pods may have one GPU.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.replicas > 1
    }
}

/// The text as the device plugin reads it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Text {
    version: String,
    #[serde(default)]
    sharing: Option<Sharing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sharing {
    time_slicing: Slicing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Slicing {
    #[serde(default)]
    rename_by_default: bool,
    #[serde(default)]
    fail_requests_greater_than_one: bool,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    name: String,
    replicas: u32,
}

impl PluginConfig {
    /// Whole GPUs that so many pods share.
    #[must_use]
    pub fn of_gpus(replicas: u32, rename: bool, one_each: bool) -> Self {
        let replicas = BTreeMap::from([(RESOURCE_GPU.to_owned(), replicas)]);
        Self { time_slicing: Some(TimeSlicing { rename, one_each, replicas }) }
    }

    /// The text for the device plugin, without a line break at its end. What
    /// is as the plugin has it by itself is left out.
    #[must_use]
    pub fn render(&self) -> String {
        let mut lines = vec!["version: v1".to_owned()];
        if let Some(TimeSlicing { rename, one_each, replicas }) = &self.time_slicing {
            lines.extend(["sharing:", "  timeSlicing:"].map(str::to_owned));
            if *rename {
                lines.push("    renameByDefault: true".to_owned());
            }
            if *one_each {
                lines.push("    failRequestsGreaterThanOne: true".to_owned());
            }
            lines.push("    resources:".to_owned());
            for (name, n) in replicas {
                lines.extend([format!("    - name: {name}"), format!("      replicas: {n}")]);
            }
        }
        lines.join("\n")
    }

    /// What a text of ours says; nothing for a text that is not ours.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let Text { version, sharing } = serde_saphyr::from_str(text).ok()?;
        let time_slicing = sharing.map(|Sharing { time_slicing }| TimeSlicing {
            rename: time_slicing.rename_by_default,
            one_each: time_slicing.fail_requests_greater_than_one,
            replicas: time_slicing.resources.into_iter().map(|r| (r.name, r.replicas)).collect(),
        });
        let read = Self { time_slicing };
        (version == "v1" && read.render() == text.trim_end()).then_some(read)
    }

    /// The key of our map that has this text, and the value of a node's label.
    #[must_use]
    pub fn key(&self) -> String {
        let digest = Sha256::digest(self.render().as_bytes());
        let hex: String = digest[..5].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{ENTRY_PREFIX}{hex}")
    }

    /// What the GPUs of a node are to pods.
    #[must_use]
    pub fn seats(&self) -> Seats {
        let replicas = self.time_slicing.as_ref().and_then(|sharing| sharing.replicas.get(RESOURCE_GPU));
        let renamed = self.time_slicing.as_ref().is_some_and(|sharing| sharing.rename);
        match replicas {
            Some(n) if renamed => {
                Seats { resource: format!("{RESOURCE_GPU}{}", mig::GpuResource::SHARED), replicas: *n }
            }
            n => Seats { resource: RESOURCE_GPU.to_owned(), replicas: n.copied().unwrap_or(1) },
        }
    }

    /// What a node with so many GPUs, none of which is cut, offers.
    #[must_use]
    pub fn offers(&self, gpus: u64) -> BTreeMap<String, u64> {
        let Seats { resource, replicas } = self.seats();
        BTreeMap::from([(resource, gpus.saturating_mul(u64::from(replicas)))])
    }
}

impl fmt::Display for PluginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seats { resource, replicas } = self.seats();
        match replicas {
            1 => f.write_str("no GPU is shared"),
            n => write!(f, "each GPU is shared by {n}, as {resource}"),
        }
    }
}

/// How the GPUs of a node should be shared, where its policy says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharingWanted {
    /// So.
    As(PluginConfig),
    /// Nobody says now which GPUs the node has: GPU feature discovery starts.
    /// What is under way goes on, and nothing begins.
    Unknown,
}

/// What is seen of the sharing of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingSeen {
    /// The key that its device plugin is told; `None` where the default counts.
    pub key: Option<String>,
    /// What our map has under that key, if the key is ours.
    pub config: Option<PluginConfig>,
    /// How many GPUs it has, by GPU feature discovery.
    pub gpus: Option<u64>,
    /// How many pods share a GPU, by GPU feature discovery.
    pub replicas: Option<u64>,
    /// Whether a GPU of it is cut, or was a moment ago.
    pub is_cut: bool,
    /// `ClusterPolicy` points the device plugin to our map.
    pub uses_our_map: bool,
    /// The keys of ours that our map has, with their right texts.
    pub keys: BTreeSet<String>,
}

impl SharingSeen {
    /// How the devices are shared that the node offers; `None` where that is
    /// not known for certain.
    #[must_use]
    pub fn in_effect(&self, offers: &BTreeMap<String, u64>) -> Option<PluginConfig> {
        let config = match &self.key {
            Some(_) => self.config.clone()?,
            None if self.replicas.is_none_or(|n| n <= 1) => PluginConfig::default(),
            None => return None,
        };
        (config.offers(self.gpus?) == *offers).then_some(config)
    }
}

/// A change of how the GPUs of a node are shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharingChange {
    /// What it should be.
    pub config: PluginConfig,
    /// What it was, where that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PluginConfig>,
    /// How many GPUs the node has.
    pub gpus: u64,
    /// It did not work, and the key of before is being put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_back: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_the_same_text_and_the_same_key_each_time() {
        let t4 = PluginConfig::of_gpus(4, false, false);
        assert_eq!(
            t4.render(),
            "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4"
        );
        let asked = PluginConfig::of_gpus(8, true, true);
        assert_eq!(
            asked.render(),
            "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n    \
             resources:\n    - name: nvidia.com/gpu\n      replicas: 8"
        );
        assert_eq!(PluginConfig::default().render(), "version: v1");
        let keys: BTreeSet<String> =
            [&t4, &asked, &PluginConfig::default()].map(PluginConfig::key).into_iter().collect();
        assert_eq!(keys.len(), 3);
        for config in [t4, asked, PluginConfig::default()] {
            assert_eq!(PluginConfig::read(&config.render()).as_ref(), Some(&config));
            assert_eq!(PluginConfig::read(&format!("{}\n", config.render())), Some(config));
        }
    }

    #[test]
    fn what_we_have_not_written_is_not_read_as_ours() {
        for text in ["version: v2", "version: v1\nflags: {migStrategy: mixed}", "no configuration", ""] {
            assert_eq!(PluginConfig::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_in_effect_is_known_only_where_the_node_offers_it() {
        let offers = |resource: &str, n| BTreeMap::from([(resource.to_owned(), n)]);
        let seen = SharingSeen { gpus: Some(4), ..SharingSeen::default() };
        assert_eq!(seen.in_effect(&offers("nvidia.com/gpu", 4)), Some(PluginConfig::default()));
        assert_eq!(seen.in_effect(&offers("nvidia.com/gpu", 3)), None, "one of them is ill, or shared");
        let shared = PluginConfig::of_gpus(4, true, true);
        let seen = SharingSeen { key: Some(shared.key()), config: Some(shared.clone()), ..seen };
        assert_eq!(seen.in_effect(&offers("nvidia.com/gpu.shared", 16)), Some(shared));
        assert_eq!(seen.in_effect(&offers("nvidia.com/gpu", 4)), None, "the plugin has not read it yet");
        let default_shares = SharingSeen { key: None, config: None, replicas: Some(4), ..seen };
        assert_eq!(default_shares.in_effect(&offers("nvidia.com/gpu", 4)), None);
    }
}
