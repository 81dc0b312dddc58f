//! How the GPUs of nodes are to be shared, by policy, and how they are: the labels of the device plugin's
//! configuration and of GPU feature discovery, and our map of configurations.

use std::collections::{BTreeMap, BTreeSet};

use api::policy::{LayoutType, SharingType};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use mig::sharing::{Known, find};
use mig::{Catalog, GpuResource};
use planner::inventory::Inventory;
use planner::names::{NodeName, PolicyName};
use planner::policy::Policy;
use rollout::observed::Observed;
use rollout::{Method, PluginConfig, Seats, Shared, SharingSeen, SharingWanted, Strategy};

use crate::cards::{card_id, may_have};
use crate::objects::Objects;
use crate::policy_rules::validate;
use crate::problem::{Problem, Severity};
use crate::{MapRef, names};

type Labels = BTreeMap<String, String>;

/// `spec.sharing` of a policy that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingPolicy {
    kind: SharingType,
    rename: bool,
    one_each: bool,
    rules: Vec<Rule>,
    /// Whether no GPU of its nodes is cut.
    cuts_nothing: bool,
    /// How `ClusterPolicy` has slices offered; `None` where each node's
    /// configuration says it.
    strategy: Option<Strategy>,
    /// The name of that `ClusterPolicy`.
    cluster_policy: String,
}

/// One of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The id of the card; `None` for any.
    model: Option<String>,
    /// Of what.
    resource: String,
    replicas: u32,
}

impl Rule {
    fn is_for(&self, card: &str) -> bool {
        self.model.as_deref().is_none_or(|model| model == card)
    }
}

/// A node whose GPUs or slices a policy shares, or leaves for one pod each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedNode {
    /// The policy.
    pub policy: PolicyName,
    /// Whether none of its GPUs is to be cut: its cards have no MIG, or the
    /// policy says so.
    pub never_cut: bool,
    /// How its GPUs should be shared; `None` where no rule is for them.
    pub wanted: Option<SharingWanted>,
}

/// How `ClusterPolicy` has slices offered, and its name; no strategy where it
/// leaves that to the device plugin's configuration of each node.
fn cluster_strategy(objects: &Objects) -> (Option<Strategy>, String) {
    let Some((name, policy)) = objects.cluster_policies.iter().next() else {
        return (Some(Strategy::Mixed), "gpu-cluster-policy".to_owned());
    };
    let strategy = match policy.spec.mig.strategy.as_str() {
        "" => None,
        "none" => Some(Strategy::None),
        "single" => Some(Strategy::Single),
        _ => Some(Strategy::Mixed),
    };
    (strategy, name.clone())
}

/// The sharing of every policy that makes sense and has some.
#[must_use]
pub fn policies(objects: &Objects, catalog: &Catalog) -> BTreeMap<PolicyName, SharingPolicy> {
    let names = objects.policies.keys();
    names.filter_map(|name| Some((PolicyName(name.clone()), policy(objects, catalog, name)?))).collect()
}

/// The sharing of a policy, if it makes sense and has some.
#[must_use]
pub fn policy(objects: &Objects, catalog: &Catalog, name: &str) -> Option<SharingPolicy> {
    let spec = objects.policies.get(name)?;
    let sharing = spec.spec.sharing.as_ref()?;
    let is_wrong = validate(spec, catalog).iter().any(|found| found.severity == Severity::Error);
    let rules = sharing.rules.iter().filter_map(|rule| {
        let model = rule.model.as_ref().map(|text| card_id(text).unwrap_or(text).to_owned());
        Some(Rule { model, resource: rule.resource.clone(), replicas: u32::try_from(rule.replicas).ok()? })
    });
    let (strategy, cluster_policy) = cluster_strategy(objects);
    (!is_wrong).then(|| SharingPolicy {
        kind: sharing.type_,
        rename: sharing.rename,
        one_each: sharing.one_each,
        rules: rules.collect(),
        cuts_nothing: spec.spec.layout.type_ == LayoutType::None,
        strategy,
        cluster_policy,
    })
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
    /// Whether this says how the devices of a node of the policy are shared.
    #[must_use]
    pub fn is_for(&self, labels: &Labels) -> bool {
        let has_gpus =
            label(labels, names::PRESENT) == Some("true") || label(labels, names::PRODUCT).is_some();
        let shares = match self.kind {
            SharingType::TimeSlicing | SharingType::Mps | SharingType::None => true,
            SharingType::Auto => self.cuts_nothing || knows_no_mig(labels),
        };
        has_gpus && shares
    }

    /// Whether no GPU of such a node is to be cut: the policy says so, or its
    /// cards have no MIG.
    #[must_use]
    pub fn never_cuts(&self, labels: &Labels) -> bool {
        self.cuts_nothing || knows_no_mig(labels)
    }

    /// The first rule for a resource of a card.
    fn rule(&self, card: &str, resource: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.resource == resource && rule.is_for(card))
    }

    /// What a device of a model or card, such as `nvidia.com/mig-1g.10gb` of
    /// `A100-80GB`, is to pods by this policy, once it is carried out.
    #[must_use]
    pub fn seats_of(&self, model_id: &str, resource: &str) -> Seats {
        let card = find(model_id);
        let is_out = match self.kind {
            SharingType::None => true,
            SharingType::Auto => matches!(card, Some(Known::Model(_))),
            SharingType::Mps | SharingType::TimeSlicing => false,
        };
        if is_out || !may_have(card, resource) {
            return Seats { resource: resource.to_owned(), replicas: 1 };
        }
        self.config(self.rule(model_id, resource).into_iter(), false).seats_of(resource)
    }

    /// The configuration that these rules make.
    fn config<'a>(&self, rules: impl Iterator<Item = &'a Rule>, cuts: bool) -> PluginConfig {
        let by = match self.kind {
            SharingType::Mps => Method::Mps,
            SharingType::TimeSlicing | SharingType::Auto | SharingType::None => Method::TimeSlicing,
        };
        let replicas: BTreeMap<String, u32> =
            rules.map(|rule| (rule.resource.clone(), rule.replicas)).collect();
        let (rename, one_each) = (self.rename, self.one_each);
        let sharing = (!replicas.is_empty()).then_some(Shared { by, rename, one_each, replicas });
        // Where ClusterPolicy leaves the strategy open, nodes that are cut get it here.
        let strategy = (cuts && self.brings_strategy()).then_some(Strategy::Mixed);
        PluginConfig { strategy, sharing }
    }

    /// How the devices of such a node should be shared; `None` where no rule is
    /// for them. `is_cut`: a GPU of it has MIG on.
    #[must_use]
    pub fn wanted_of(&self, labels: &Labels, is_cut: bool) -> Option<SharingWanted> {
        let cuts = !self.never_cuts(labels);
        if is_cut && !cuts {
            return Some(SharingWanted::Refused(
                "one of its GPUs is partitioned, but its policy partitions no GPU; a static layout with `mig: Disabled` makes its GPUs whole, and `type: TimeSlicing` beside a layout shares slices".to_owned(),
            ));
        }
        let product = label(labels, names::PRODUCT);
        if self.kind == SharingType::None {
            return Some(SharingWanted::As(self.config(std::iter::empty(), cuts)));
        }
        let Some(product) = product else {
            let any = self.kind != SharingType::Auto && self.rules.iter().all(|rule| rule.model.is_none());
            let gpus_only = self.rules.iter().all(|rule| rule.resource == names::RESOURCE_GPU);
            // Without the label any of the rules may be the one.
            return match any && gpus_only && self.kind == SharingType::TimeSlicing {
                true => Some(SharingWanted::As(self.config(self.rules.iter().take(1), cuts))),
                false => Some(SharingWanted::Unknown),
            };
        };
        let card = find(product);
        if self.kind == SharingType::Auto && !knows_no_mig(labels) {
            return None;
        }
        let id = card_id(product).unwrap_or(product);
        let resources: BTreeSet<&str> = self.rules.iter().map(|rule| rule.resource.as_str()).collect();
        let rules = resources.into_iter().filter(|resource| may_have(card, resource));
        let rules: Vec<&Rule> = rules.filter_map(|resource| self.rule(id, resource)).collect();
        if rules.is_empty() {
            return None;
        }
        if let Some(why) = self.refused().or_else(|| self.too_many(&rules, card)) {
            return Some(SharingWanted::Refused(why));
        }
        Some(SharingWanted::As(self.config(rules.into_iter(), cuts)))
    }

    /// Why the policy can be carried out on no node, as `ClusterPolicy` is, and
    /// what to write.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        let slice = self.rules.iter().find(|rule| rule.resource != names::RESOURCE_GPU);
        match (self.strategy, slice) {
            (Some(Strategy::Mixed), _) if self.kind == SharingType::Mps => {
                Some(mps_beside_mixed(&self.cluster_policy))
            }
            (Some(strategy @ (Strategy::Single | Strategy::None)), Some(rule)) => Some(format!(
                "a rule of `sharing` is for {}, and with the MIG strategy `{strategy}` slices are not offered by profile (with `single` they are nvidia.com/gpu): write `resource: nvidia.com/gpu`, or set the strategy with: kubectl patch clusterpolicies.nvidia.com {} --type merge -p '{{\"spec\":{{\"mig\":{{\"strategy\":\"mixed\"}}}}}}'",
                rule.resource, self.cluster_policy
            )),
            _ => None,
        }
    }

    /// Whether nodes that the policy cuts get their MIG strategy by it, since
    /// `ClusterPolicy` leaves it open.
    #[must_use]
    pub fn brings_strategy(&self) -> bool {
        self.strategy.is_none() && !self.cuts_nothing
    }

    /// Why a rule without a model cannot be carried out on a node with this card.
    fn too_many(&self, rules: &[&Rule], card: Option<Known<'_>>) -> Option<String> {
        let card = card.filter(|_| self.kind == SharingType::Mps)?;
        let most = card.most_by_mps();
        let many = rules.iter().find(|rule| rule.replicas > most)?;
        let name = card.id();
        Some(format!(
            "{} pods are to share each GPU through MPS, and a {name} serves {most}: write a rule `{{model: {name}, resource: nvidia.com/gpu, replicas: {most}}}` before it",
            many.replicas
        ))
    }
}

/// Why MPS is refused while `ClusterPolicy` has slices offered by profile, and
/// the command that leaves the strategy to each node's configuration.
#[must_use]
pub fn mps_beside_mixed(cluster_policy: &str) -> String {
    format!(
        "ClusterPolicy {cluster_policy} has the MIG strategy `mixed` for all nodes, and with it the device plugin exits on every node that shares by MPS, cut or not. Let each node's configuration say its strategy; nodes whose layout a policy with `sharing` cuts get `mixed` by it: kubectl patch clusterpolicies.nvidia.com {cluster_policy} --type merge -p '{{\"spec\":{{\"mig\":{{\"strategy\":null}}}}}}'"
    )
}

/// Slices in the rules of a policy that no card of its nodes can have: such a rule makes nothing, and nobody would see
/// it. Nodes of which no card is known yet may have them.
pub fn absent_resources(
    inventory: &Inventory,
    policies: &[Policy],
    sharing: &BTreeMap<PolicyName, SharingPolicy>,
    problems: &mut Vec<Problem>,
) {
    for policy in policies {
        let Some(shares) = sharing.get(&policy.name) else { continue };
        let uncut =
            inventory.seating.iter().map(|(name, seating)| (name, &seating.node, Some(&seating.card)));
        let cut = inventory.nodes.iter().map(|(name, node)| (name, node, None));
        let mut cards: BTreeMap<&NodeName, BTreeSet<&str>> = BTreeMap::new();
        for (name, node, card) in uncut.chain(cut) {
            if planner::selector::matches(&policy.nodes, &node.labels) {
                let of_node = cards.entry(name).or_default();
                let is_known = node.labels.contains_key(names::PRODUCT);
                of_node.extend(card.map(String::as_str).filter(|_| is_known));
                of_node.extend(node.gpus.values().map(|gpu| gpu.model.as_str()));
            }
        }
        if cards.values().any(BTreeSet::is_empty) {
            continue;
        }
        let known: BTreeSet<&str> = cards.values().flatten().copied().collect();
        for (at, rule) in shares.rules.iter().enumerate() {
            let meant: Vec<&str> = known.iter().copied().filter(|card| rule.is_for(card)).collect();
            if meant.is_empty() || meant.iter().any(|card| may_have(find(card), &rule.resource)) {
                continue;
            }
            let there: Vec<String> = meant.iter().map(|card| slices_of(card)).collect();
            problems.push(
                Problem::new(
                    Severity::Warning,
                    format!("GpuPartitionPolicy {}", policy.name),
                    format!(
                        "is `{}`, which no GPU of the {} node(s) of this policy can have, so the rule shares nothing: {}",
                        rule.resource,
                        cards.len(),
                        there.join("; ")
                    ),
                )
                .field(format!("spec.sharing.rules[{at}].resource")),
            );
        }
    }
}

/// The resources of slices that a card can have, in words.
fn slices_of(card: &str) -> String {
    match find(card) {
        Some(Known::Model(model)) => {
            let names: Vec<String> =
                model.profiles.iter().map(|profile| profile.name.resource_name()).collect();
            format!("{} has {}", model.id, names.join(", "))
        }
        Some(Known::Card(_)) => format!("{card} has no MIG, so no slices"),
        None => format!("{card} is a card that is not known, and only its whole GPUs are shared"),
    }
}

/// Our map of the device plugin's configurations.
pub(crate) struct OurPluginMap {
    /// The configurations under keys of ours, as far as their texts are what we
    /// write under them.
    configs: BTreeMap<String, PluginConfig>,
    /// Its name.
    name: String,
    /// `ClusterPolicy` points the device plugin to it.
    is_used: bool,
    /// `ClusterPolicy` points it to another map, or to none: then what keys of
    /// ours say is told to nobody.
    is_elsewhere: bool,
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
        let is_used = named.is_some_and(|config| config.name == ours.name);
        Self {
            configs: configs(objects.config_maps.get(&ours.key())),
            name: ours.name.clone(),
            is_used,
            is_elsewhere: policy.is_some() && !is_used,
        }
    }

    /// Its name, where `ClusterPolicy` points the device plugin to it.
    pub(crate) fn used(&self) -> Option<&str> {
        self.is_used.then_some(self.name.as_str())
    }

    /// How the GPUs of a node are shared.
    pub(crate) fn of_node(&self, node: &Node, offers: &BTreeMap<String, u64>) -> SharingSeen {
        let none = Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let number = |key: &str| label(labels, key).and_then(|text| text.parse().ok());
        let by_resource = |end: &str| -> BTreeMap<String, String> {
            let ends = labels.iter().filter_map(|(key, value)| Some((key.strip_suffix(end)?, value)));
            let gpus = ends.filter(|(resource, _)| GpuResource::is_one(resource));
            gpus.map(|(resource, value)| (resource.to_owned(), value.clone())).collect()
        };
        let replicas = by_resource(names::REPLICAS).into_iter();
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
            config: key
                .as_ref()
                .filter(|_| !self.is_elsewhere)
                .and_then(|key| self.configs.get(key))
                .cloned(),
            gpus: number(names::COUNT),
            // One pod on a device is no sharing, whether a label says so or none does.
            replicas: replicas
                .filter_map(|(resource, n)| Some((resource, n.parse().ok().filter(|n| *n > 1)?)))
                .collect(),
            by: by_resource(names::SHARED_BY).into_iter().filter(|(_, by)| by != "none").collect(),
            shared_products: by_resource(names::PRODUCTS)
                .into_iter()
                .filter(|(_, product)| product.ends_with(names::SHARED_PRODUCT))
                .map(|(resource, _)| resource)
                .collect(),
            never_cut: false,
            layout: None,
            is_cut: counted || by_product || offers.iter().any(|(resource, n)| *n > 0 && is_slice(resource)),
            uses_our_map: self.is_used,
            pod_of_before: None,
            keys: self.configs.keys().cloned().collect(),
            key,
        }
    }
}

/// The keys that the labels of nodes name.
#[must_use]
pub fn named_keys(objects: &Objects) -> BTreeSet<&str> {
    let labels = objects.nodes.values().filter_map(|node| node.metadata.labels.as_ref());
    labels.filter_map(|labels| label(labels, names::PLUGIN_CONFIG)).collect()
}

/// What a policy does with the GPUs of a node, in one line.
#[must_use]
pub fn in_words(node: &SharedNode, facts: &Observed) -> String {
    let policy = &node.policy;
    let in_effect = facts.shared_as();
    let now = match &in_effect {
        Some(config) => config.to_string(),
        None => "it is not known how its GPUs are shared now".to_owned(),
    };
    match &node.wanted {
        Some(SharingWanted::Unknown) => {
            format!(
                "GPU feature discovery does not say which GPUs it has, so it is not known what policy {policy} wants"
            )
        }
        Some(SharingWanted::Refused(why)) => {
            format!("policy {policy} cannot share its GPUs: {why}; now: {now}")
        }
        None => format!("policy {policy} has no sharing rule for its GPUs: they stay as they are; {now}"),
        Some(SharingWanted::As(config)) if in_effect.as_ref() == Some(config) => {
            format!("{config}{}, by policy {policy}", config.isolation())
        }
        Some(SharingWanted::As(config)) => format!("policy {policy} wants: {config}; now: {now}"),
    }
}
