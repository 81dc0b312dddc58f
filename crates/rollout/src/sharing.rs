//! The device plugin's configuration of a node: by how many pods each of its devices is shared, and how. Pure
//! rendering: the same configuration has the same text and the same key, and another configuration another key, since
//! the plugin's config-manager reads a key once and never looks at it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mig::GpuResource;
use planner::names::PodRef;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::layout::{NodeLayout, Strategy};
use crate::names::{ENTRY_PREFIX, RESOURCE_GPU};

/// How many there are of each resource.
pub type Resources = BTreeMap<String, u64>;

/// What the device plugin of a node is told. The default is a configuration
/// without sharing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginConfig {
    /// The MIG strategy of the node; `None` where `ClusterPolicy` says it for
    /// all nodes, and where the node has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// How devices are shared, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Shared>,
}

/// By what devices are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Method {
    /// Pods take turns.
    TimeSlicing,
    /// Pods run side by side in one server process, with equal shares of
    /// memory.
    #[serde(rename = "MPS")]
    Mps,
}

impl Method {
    /// As GPU feature discovery labels it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "mps",
        }
    }

    /// Its section in the device plugin's configuration.
    const fn section(self) -> &'static str {
        match self {
            Self::TimeSlicing => "timeSlicing",
            Self::Mps => "mps",
        }
    }

    /// What pods that share a device have of it for themselves, to go on a sentence with.
    #[must_use]
    pub const fn isolation(self) -> &'static str {
        match self {
            Self::Mps => ", with equal shares of memory, and a failure of one pod ends all",
            Self::TimeSlicing => ", with no memory limit of its own",
        }
    }

    /// Whether the device plugin refuses a second share to a container where
    /// its configuration does not say.
    const fn refuses_a_second(self) -> bool {
        matches!(self, Self::Mps)
    }
}

/// Devices that several pods have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    /// By what they are shared.
    pub by: Method,
    /// Whether they are another resource, with `.shared` at its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rename: bool,
    /// Whether a container may request only one seat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_each: bool,
    /// How many pods share each device of a resource; at least 2.
    pub replicas: BTreeMap<String, u32>,
}

/// What one device of a resource is to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats {
    /// The resource that pods ask for.
    pub resource: String,
    /// How many pods have a device; 1 is one for itself.
    pub replicas: u32,
}

impl Seats {
    /// Whether several pods may have one device.
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
    flags: Option<Flags>,
    #[serde(default)]
    sharing: Option<Sections>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Flags {
    mig_strategy: Strategy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    time_slicing: Option<Section>,
    #[serde(default)]
    mps: Option<Section>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Section {
    #[serde(default)]
    rename_by_default: bool,
    #[serde(default)]
    fail_requests_greater_than_one: Option<bool>,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    name: String,
    replicas: u32,
}

impl Section {
    fn read(self, by: Method) -> Shared {
        Shared {
            by,
            rename: self.rename_by_default,
            one_each: self.fail_requests_greater_than_one.unwrap_or(by.refuses_a_second()),
            replicas: self.resources.into_iter().map(|r| (r.name, r.replicas)).collect(),
        }
    }
}

/// The resource of the devices behind a name that pods ask for.
pub(crate) fn unrenamed(resource: &str) -> &str {
    resource.strip_suffix(GpuResource::SHARED).unwrap_or(resource)
}

/// Whether some configuration of the device plugin, whose text is not known,
/// makes these offers of these devices: each resource under one of its two
/// names, and each of its devices as often as the others.
#[must_use]
pub(crate) fn are_shares_of(offers: &Resources, devices: &Resources) -> bool {
    let mut seats = Resources::new();
    for (resource, n) in offers.iter().filter(|(_, n)| **n > 0) {
        // Under both names: the plugin is about to take one of them away.
        if seats.insert(unrenamed(resource).to_owned(), *n).is_some() {
            return false;
        }
    }
    let devices: BTreeMap<&String, u64> =
        devices.iter().filter(|(_, n)| **n > 0).map(|(resource, n)| (resource, *n)).collect();
    seats.keys().eq(devices.keys().copied())
        && seats.iter().all(|(resource, n)| n.is_multiple_of(devices[resource]))
}

impl PluginConfig {
    /// Whole GPUs that so many pods share by turns.
    #[must_use]
    pub fn of_gpus(replicas: u32, rename: bool, one_each: bool) -> Self {
        let replicas = BTreeMap::from([(RESOURCE_GPU.to_owned(), replicas)]);
        let sharing = Some(Shared { by: Method::TimeSlicing, rename, one_each, replicas });
        Self { strategy: None, sharing }
    }

    /// The text for the device plugin, without a line break at its end. What
    /// is as the plugin has it by itself is left out.
    #[must_use]
    pub fn render(&self) -> String {
        let Self { strategy, sharing } = self;
        let mut lines = vec!["version: v1".to_owned()];
        if let Some(strategy) = strategy {
            lines.extend(["flags:".to_owned(), format!("  migStrategy: {strategy}")]);
        }
        if let Some(Shared { by, rename, one_each, replicas }) = sharing {
            lines.extend(["sharing:".to_owned(), format!("  {}:", by.section())]);
            if *rename {
                lines.push("    renameByDefault: true".to_owned());
            }
            if *one_each != by.refuses_a_second() {
                lines.push(format!("    failRequestsGreaterThanOne: {one_each}"));
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
        let Text { version, flags, sharing } = serde_saphyr::from_str(text).ok()?;
        let sharing = sharing.map(|Sections { time_slicing, mps }| {
            let time_slicing = time_slicing.map(|section| section.read(Method::TimeSlicing));
            // Where both are there, which we never write, the plugin takes MPS.
            mps.map(|section| section.read(Method::Mps)).or(time_slicing)
        });
        let read = Self { strategy: flags.map(|flags| flags.mig_strategy), sharing: sharing.flatten() };
        (version == "v1" && read.render() == text.trim_end()).then_some(read)
    }

    /// The key of our map that has this text, and the value of a node's label.
    #[must_use]
    pub fn key(&self) -> String {
        let digest = Sha256::digest(self.render().as_bytes());
        let hex: String = digest[..5].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{ENTRY_PREFIX}{hex}")
    }

    /// What one device of a resource, such as `nvidia.com/mig-1g.10gb`, is to
    /// pods.
    #[must_use]
    pub fn seats_of(&self, resource: &str) -> Seats {
        let shared =
            self.sharing.as_ref().and_then(|sharing| Some((sharing, sharing.replicas.get(resource)?)));
        match shared {
            Some((sharing, n)) if sharing.rename => {
                Seats { resource: format!("{resource}{}", GpuResource::SHARED), replicas: *n }
            }
            shared => {
                Seats { resource: resource.to_owned(), replicas: shared.map_or(1, |(_, replicas)| *replicas) }
            }
        }
    }

    /// Whether devices are shared through MPS's server.
    #[must_use]
    pub fn is_by_mps(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.by == Method::Mps)
    }

    /// What pods that share a device have of it for themselves, to go on a
    /// sentence with; nothing where nobody shares.
    #[must_use]
    pub const fn isolation(&self) -> &'static str {
        match &self.sharing {
            None => "",
            Some(Shared { by, .. }) => by.isolation(),
        }
    }

    /// What a whole GPU is to pods.
    #[must_use]
    pub fn seats(&self) -> Seats {
        self.seats_of(RESOURCE_GPU)
    }

    /// What a node with these devices offers.
    #[must_use]
    pub fn offers(&self, devices: &Resources) -> Resources {
        let mut offers = Resources::new();
        for (resource, n) in devices.iter().filter(|(_, n)| **n > 0) {
            let Seats { resource, replicas } = self.seats_of(resource);
            let seats = n.saturating_mul(u64::from(replicas));
            let all = offers.entry(resource).or_insert(0_u64);
            *all = all.saturating_add(seats);
        }
        offers
    }

    /// The devices of a node that offers this; `None` where it cannot be by
    /// this configuration.
    #[must_use]
    pub fn devices(&self, offers: &Resources) -> Option<Resources> {
        let mut devices = Resources::new();
        for (offered, n) in offers.iter().filter(|(_, n)| **n > 0) {
            let resource = unrenamed(offered);
            let Seats { resource: right, replicas } = self.seats_of(resource);
            let whole = n.is_multiple_of(u64::from(replicas));
            if right != *offered || !whole {
                return None;
            }
            devices.insert(resource.to_owned(), n / u64::from(replicas));
        }
        Some(devices)
    }
}

impl fmt::Display for PluginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sharing) = &self.sharing else { return f.write_str("no GPU is shared") };
        let by = match sharing.by {
            Method::TimeSlicing => "",
            Method::Mps => " through MPS",
        };
        let mut parts = sharing.replicas.keys().map(|resource| {
            let device = match resource.strip_prefix(mig::ProfileName::RESOURCE_PREFIX) {
                Some(profile) => format!("{profile} slice"),
                None => "GPU".to_owned(),
            };
            let Seats { resource, replicas } = self.seats_of(resource);
            format!("each {device} is shared by {replicas}{by}, as {resource}")
        });
        f.write_str(&parts.by_ref().collect::<Vec<_>>().join("; "))
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
    /// The policy makes sense, but not for this node: why, and what to write.
    Refused(String),
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
    /// How many pods share a device of each resource, by GPU feature discovery.
    pub replicas: BTreeMap<String, u64>,
    /// By what the devices of each resource are shared, by GPU feature
    /// discovery.
    pub by: BTreeMap<String, String>,
    /// The resources whose product GPU feature discovery calls a shared one
    /// (`-SHARED`): those that are shared and keep their name.
    pub shared_products: BTreeSet<String>,
    /// Whether a GPU of it is cut, or was a moment ago.
    pub is_cut: bool,
    /// Whether its policy cuts no GPU of it.
    pub never_cut: bool,
    /// What its GPUs are cut into, where that is known and one is cut.
    pub layout: Option<NodeLayout>,
    /// `ClusterPolicy` points the device plugin to our map.
    pub uses_our_map: bool,
    /// A pod of the node that reads a key, and mounts another map than ours, so far as it is known what it mounts: since
    /// `ClusterPolicy` names ours, such pods are made anew node by node.
    pub pod_of_before: Option<PodRef>,
    /// The keys of ours that our map has, with their right texts.
    pub keys: BTreeSet<String>,
}

impl SharingSeen {
    /// The configuration that the device plugin is told, where that is known:
    /// without a key it is one without sharing, unless a resource is shared all
    /// the same, by the default of somebody's map.
    #[must_use]
    pub fn told(&self) -> Option<PluginConfig> {
        match &self.key {
            Some(_) => self.config.clone(),
            None => self.replicas.values().all(|n| *n <= 1).then(PluginConfig::default),
        }
    }

    /// Whether the label has a value that we did not write: it is somebody else's node. One that our map has, while we
    /// remember nothing, is ours: the memory was lost.
    #[must_use]
    pub fn is_somebody_elses(&self, remembered: Option<&PluginConfig>, wanted: &PluginConfig) -> bool {
        let ours = remembered.map(PluginConfig::key);
        let known = match (&ours, &self.key) {
            (None, None) => true,
            (None, Some(key)) => key.starts_with(ENTRY_PREFIX) && self.config.is_some(),
            (Some(_), found) => *found == ours,
        };
        !known && self.key.as_ref() != Some(&wanted.key())
    }

    /// How the devices are shared that the node offers; `None` where that is
    /// not known for certain.
    #[must_use]
    pub fn in_effect(&self, offers: &Resources, devices: Option<&Resources>) -> Option<PluginConfig> {
        let config = self.told()?;
        (config.offers(devices?) == *offers).then_some(config)
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
    /// What the device plugin was told by the key of before, where it is known that far only: it offered something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_before: Option<PluginConfig>,
    /// The devices of the node, by resource, as they are without sharing.
    #[serde(default)]
    pub devices: Resources,
    /// It did not work, and the key of before is being put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_back: bool,
}

impl SharingChange {
    /// The text of the key of before, which has to be in our map as long as the way back may lead to it.
    #[must_use]
    pub fn text_before(&self) -> Option<&PluginConfig> {
        self.before.as_ref().or(self.told_before.as_ref())
    }
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
        let replicas = [("nvidia.com/gpu", 4), ("nvidia.com/mig-1g.10gb", 2)];
        let replicas: BTreeMap<_, _> = replicas.map(|(name, n)| (name.to_owned(), n)).into();
        let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
        let slices = PluginConfig { strategy: Some(Strategy::Mixed), sharing: Some(shared.clone()) };
        assert_eq!(
            slices.render(),
            "version: v1\nflags:\n  migStrategy: mixed\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    \
             failRequestsGreaterThanOne: true\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n    - name: \
             nvidia.com/mig-1g.10gb\n      replicas: 2"
        );
        let mps = PluginConfig { strategy: None, sharing: Some(Shared { by: Method::Mps, ..shared }) };
        assert!(
            mps.render().contains("  mps:\n    renameByDefault: true\n    resources:"),
            "{}",
            mps.render()
        );
        for config in [t4, asked, slices, mps, PluginConfig::default()] {
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
    fn a_device_is_seats_by_its_own_rule_and_offers_lead_back_to_devices() {
        let replicas = [("nvidia.com/gpu", 4), ("nvidia.com/mig-1g.10gb", 2)];
        let replicas: BTreeMap<_, _> = replicas.map(|(name, n)| (name.to_owned(), n)).into();
        let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
        let config = PluginConfig { strategy: None, sharing: Some(shared) };
        let devices = [("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.10gb", 7), ("nvidia.com/mig-3g.40gb", 2)];
        let devices: Resources = devices.map(|(name, n)| (name.to_owned(), n)).into();
        let offers = [
            ("nvidia.com/gpu.shared", 8),
            ("nvidia.com/mig-1g.10gb.shared", 14),
            ("nvidia.com/mig-3g.40gb", 2),
        ];
        let mut offers: Resources = offers.map(|(name, n)| (name.to_owned(), n)).into();
        assert_eq!(config.offers(&devices), offers);
        assert_eq!(config.devices(&offers), Some(devices));
        assert!(!config.seats_of("nvidia.com/mig-3g.40gb").is_shared());
        offers.insert("nvidia.com/mig-1g.10gb.shared".to_owned(), 13);
        assert_eq!(config.devices(&offers), None, "no device has half of its seats");
        offers.insert("nvidia.com/mig-1g.10gb.shared".to_owned(), 0);
        offers.insert("nvidia.com/mig-1g.10gb".to_owned(), 7);
        assert_eq!(config.devices(&offers), None, "the plugin has not read it yet");
    }

    #[test]
    fn shares_by_an_unknown_text_are_every_device_of_a_resource_equally_often_under_one_name() {
        let of = |offers: &[(&str, u64)]| -> Resources {
            offers.iter().map(|(name, n)| (format!("nvidia.com/{name}"), *n)).collect()
        };
        let devices = of(&[("mig-1g.10gb", 7), ("mig-3g.40gb", 2)]);
        for right in [
            [("mig-1g.10gb", 7), ("mig-3g.40gb", 2)],
            [("mig-1g.10gb.shared", 14), ("mig-3g.40gb", 2)],
            [("mig-1g.10gb", 21), ("mig-3g.40gb.shared", 8)],
        ] {
            assert!(are_shares_of(&of(&right), &devices), "{right:?}");
        }
        for wrong in [
            &[("mig-1g.10gb.shared", 14)][..],
            &[("mig-1g.10gb.shared", 13), ("mig-3g.40gb", 2)],
            &[("mig-1g.10gb", 7), ("mig-1g.10gb.shared", 14), ("mig-3g.40gb", 2)],
            &[("mig-1g.10gb", 7), ("mig-3g.40gb", 2), ("mig-7g.80gb", 1)],
            &[],
        ] {
            assert!(!are_shares_of(&of(wrong), &devices), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_in_effect_is_known_only_where_the_node_offers_it() {
        let offers = |resource: &str, n| Resources::from([(resource.to_owned(), n)]);
        let gpus = offers("nvidia.com/gpu", 4);
        let in_effect = |seen: &SharingSeen, offers: &Resources| seen.in_effect(offers, Some(&gpus));
        let seen = SharingSeen::default();
        assert_eq!(in_effect(&seen, &offers("nvidia.com/gpu", 4)), Some(PluginConfig::default()));
        assert_eq!(in_effect(&seen, &offers("nvidia.com/gpu", 3)), None, "one of them is ill, or shared");
        let shared = PluginConfig::of_gpus(4, true, true);
        let seen = SharingSeen { key: Some(shared.key()), config: Some(shared.clone()), ..seen };
        assert_eq!(in_effect(&seen, &offers("nvidia.com/gpu.shared", 16)), Some(shared));
        assert_eq!(in_effect(&seen, &offers("nvidia.com/gpu", 4)), None, "the plugin has not read it yet");
        let replicas = BTreeMap::from([("nvidia.com/gpu".to_owned(), 4)]);
        let default_shares = SharingSeen { key: None, config: None, replicas, ..seen };
        assert_eq!(in_effect(&default_shares, &offers("nvidia.com/gpu", 4)), None);
    }
}
