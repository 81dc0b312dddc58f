//! How the GPUs of nodes are to be shared, by policy, and how they are: the labels of the device plugin's
//! configuration and of GPU feature discovery, and our map of configurations.

use std::collections::BTreeMap;

use api::GpuPartitionPolicy;
use api::policy::{LayoutType, SharingType};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use mig::sharing::{Known, find};
use mig::{Catalog, GpuResource};
use planner::names::PolicyName;
use rollout::{PluginConfig, SharingSeen, SharingWanted};

use crate::objects::Objects;
use crate::problem::Severity;
use crate::{MapRef, names, policy};

type Labels = BTreeMap<String, String>;

/// `spec.sharing` of a policy that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingPolicy {
    kind: SharingType,
    rename: bool,
    one_each: bool,
    rules: Vec<(Option<String>, u32)>,
    /// Whether no GPU of its nodes is cut.
    cuts_nothing: bool,
}

/// A node whose GPUs a policy shares, or leaves whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedNode {
    /// The policy.
    pub policy: PolicyName,
    /// How its GPUs should be shared; `None` where no rule is for them.
    pub wanted: Option<SharingWanted>,
}

/// The id of a card or model, however it is written: `T4` for `Tesla-T4`.
#[must_use]
pub fn card_id(text: &str) -> Option<&'static str> {
    find(text).map(|known| match known {
        Known::Model(model) => model.id.as_str(),
        Known::Card(card) => card.id.as_str(),
    })
}

/// The sharing of every policy that makes sense and has some.
#[must_use]
pub fn policies(objects: &Objects, catalog: &Catalog) -> BTreeMap<PolicyName, SharingPolicy> {
    let read = |(name, policy): (&String, &GpuPartitionPolicy)| {
        let sharing = policy.spec.sharing.as_ref()?;
        let is_wrong =
            policy::validate(policy, catalog).iter().any(|found| found.severity == Severity::Error);
        let rules = sharing.rules.iter().filter_map(|rule| {
            let model = rule.model.as_ref().map(|text| card_id(text).unwrap_or(text).to_owned());
            Some((model, u32::try_from(rule.replicas).ok()?))
        });
        let shares = SharingPolicy {
            kind: sharing.type_,
            rename: sharing.rename,
            one_each: sharing.one_each,
            rules: rules.collect(),
            cuts_nothing: policy.spec.layout.type_ == LayoutType::None,
        };
        (!is_wrong).then(|| (PolicyName(name.clone()), shares))
    };
    objects.policies.iter().filter_map(read).collect()
}

fn label<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// Whether the cards of a node know no MIG.
fn knows_no_mig(labels: &Labels) -> bool {
    match label(labels, names::PRODUCT).and_then(find) {
        Some(known) => matches!(known, Known::Card(_)),
        None => label(labels, names::MIG_CAPABLE) == Some("false"),
    }
}

impl SharingPolicy {
    /// Whether a node of the policy is one whose GPUs are shared or whole, and
    /// never cut.
    #[must_use]
    pub fn is_for(&self, labels: &Labels) -> bool {
        let has_gpus =
            label(labels, names::PRESENT) == Some("true") || label(labels, names::PRODUCT).is_some();
        has_gpus && (self.cuts_nothing || self.kind == SharingType::Auto && knows_no_mig(labels))
    }

    /// How the GPUs of such a node should be shared; `None` where no rule is for
    /// them.
    #[must_use]
    pub fn wanted_of(&self, labels: &Labels) -> Option<SharingWanted> {
        let product = label(labels, names::PRODUCT);
        match self.kind {
            SharingType::None => return Some(SharingWanted::As(PluginConfig::default())),
            SharingType::Auto if product.is_none() => return Some(SharingWanted::Unknown),
            SharingType::Auto if !knows_no_mig(labels) => return None,
            SharingType::Mps => return None,
            SharingType::TimeSlicing | SharingType::Auto => {}
        }
        let card = product.and_then(card_id);
        for (model, replicas) in &self.rules {
            match model {
                // Without the label any of the rules may be the one.
                Some(_) if product.is_none() => return Some(SharingWanted::Unknown),
                Some(model) if card != Some(model.as_str()) => {}
                _ => {
                    let config = PluginConfig::of_gpus(*replicas, self.rename, self.one_each);
                    return Some(SharingWanted::As(config));
                }
            }
        }
        None
    }
}

/// Our map of the device plugin's configurations.
pub(crate) struct OurPluginMap {
    /// The configurations under keys of ours, as far as their texts are what we
    /// write under them.
    configs: BTreeMap<String, PluginConfig>,
    /// `ClusterPolicy` points the device plugin to it.
    is_used: bool,
}

/// The configurations of ours in a map: a text that somebody edited is none.
#[must_use]
pub fn configs(map: Option<&ConfigMap>) -> BTreeMap<String, PluginConfig> {
    let data = map.and_then(|map| map.data.as_ref()).into_iter().flatten();
    data.filter_map(|(key, text)| PluginConfig::read(text).map(|config| (key.clone(), config)))
        .filter(|(key, config)| config.key() == *key)
        .collect()
}

impl OurPluginMap {
    pub(crate) fn read(objects: &Objects, ours: &MapRef) -> Self {
        let policy = objects.cluster_policies.values().next();
        let named = policy.and_then(|policy| policy.spec.device_plugin.config.as_ref());
        Self {
            configs: configs(objects.config_maps.get(&ours.key())),
            is_used: named.is_some_and(|config| config.name == ours.name),
        }
    }

    /// How the GPUs of a node are shared.
    pub(crate) fn of_node(&self, node: &Node, offers: &BTreeMap<String, u64>) -> SharingSeen {
        let none = Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let number = |key: String| label(labels, &key).and_then(|text| text.parse().ok());
        let key = label(labels, names::PLUGIN_CONFIG).map(str::to_owned);
        let is_slice = |resource: &String| {
            GpuResource::parse(resource).is_some_and(|resource| resource.unit != mig::resource::Unit::Gpu)
        };
        let counted = labels.iter().any(|(key, value)| {
            key.strip_suffix(names::COUNTS).is_some_and(|resource| is_slice(&resource.to_owned()))
                && value.parse::<u32>().is_ok_and(|n| n > 0)
        });
        let by_product = label(labels, names::PRODUCT).is_some_and(|product| product.contains("-MIG-"));
        SharingSeen {
            config: key.as_ref().and_then(|key| self.configs.get(key)).cloned(),
            gpus: number(names::COUNT.to_owned()),
            replicas: number(format!("{}{}", names::RESOURCE_GPU, names::REPLICAS)),
            is_cut: counted || by_product || offers.iter().any(|(resource, n)| *n > 0 && is_slice(resource)),
            uses_our_map: self.is_used,
            keys: self.configs.keys().cloned().collect(),
            key,
        }
    }
}

/// The keys that the labels of nodes name.
#[must_use]
pub fn named_keys(objects: &Objects) -> std::collections::BTreeSet<&str> {
    let labels = objects.nodes.values().filter_map(|node| node.metadata.labels.as_ref());
    labels.filter_map(|labels| label(labels, names::PLUGIN_CONFIG)).collect()
}

/// What a policy does with the GPUs of a node, in one line.
#[must_use]
pub fn in_words(node: &SharedNode, seen: &SharingSeen, offers: &BTreeMap<String, u64>) -> String {
    let policy = &node.policy;
    let now = match seen.in_effect(offers) {
        Some(config) => config.to_string(),
        None => "it is not known how its GPUs are shared now".to_owned(),
    };
    match &node.wanted {
        Some(SharingWanted::Unknown) => {
            format!(
                "GPU feature discovery does not say which GPUs it has, so it is not known what policy {policy} wants"
            )
        }
        None => format!("policy {policy} has no sharing rule for its GPUs: they stay as they are; {now}"),
        Some(SharingWanted::As(config)) if seen.in_effect(offers).as_ref() == Some(config) => {
            let memory = match config.seats().is_shared() {
                true => ", with no memory limit of its own",
                false => "",
            };
            format!("{config}{memory}, by policy {policy}")
        }
        Some(SharingWanted::As(config)) => format!("policy {policy} wants: {config}; now: {now}"),
    }
}
