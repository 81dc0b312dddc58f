//! The layouts of a node's GPUs, and how well they are known: exactly where an agent (or the simulator)
//! reports them, otherwise as counts from the map's entry, if allocatable agrees with it.

use std::collections::{BTreeMap, BTreeSet};

use api::GpuNode;
use api::gpu_node::{Observed, ObservedBy, ObservedGpu};
use k8s_openapi::api::core::v1::Node;
use mig::{Catalog, GpuResource, Model, ProfileName};
use planner::names::GpuIndex;
use rollout::map::{MapError, MigMap, NamedGpus, NodeGpu, Unclear, default_name};
use rollout::{GpuLayout, NodeLayout, PluginConfig, Strategy};

use crate::memory::Memory;
use crate::names;
use crate::node_labels::{self, Sharing};
use crate::objects::Objects;
use crate::problem::{Problem, Severity};

/// The GPUs of a node.
#[derive(Clone, Debug)]
pub struct Established<'a> {
    /// By index.
    pub gpus: BTreeMap<GpuIndex, GpuFound<'a>>,
    /// How slices are offered.
    pub strategy: Strategy,
    /// Whether placements are exact: an agent saw them in this boot.
    pub exact: bool,
    /// Whether users are exact, too: that agent lives.
    pub users: bool,
    /// What is missing or contradictory, if what the GPUs have cannot be
    /// established.
    pub doubt: Option<String>,
}

/// One GPU.
#[derive(Clone, Debug)]
pub struct GpuFound<'a> {
    /// Its model.
    pub model: &'a Model,
    /// What it is cut into.
    pub cut: GpuLayout,
    /// What the agent saw, where one did.
    pub seen: Option<ObservedGpu>,
}

/// All maps of layouts that are there, read once.
#[derive(Debug, Default)]
pub struct Maps {
    by_name: BTreeMap<String, MigMap>,
    custom: Option<String>,
}

impl Maps {
    /// Reads every config map that may be one.
    pub fn read(objects: &Objects, problems: &mut Vec<Problem>) -> Self {
        let custom = objects.cluster_policies.values().find_map(|policy| {
            let config = policy.spec.mig_manager.config.as_ref()?;
            (!config.name.is_empty()).then(|| config.name.clone())
        });
        let mut by_name = BTreeMap::new();
        for ((_, name), config_map) in &objects.config_maps {
            let ours = name == names::MAP_NAME || name == names::DEFAULT_MAP || name.ends_with("-mig-config");
            if !ours && custom.as_ref() != Some(name) {
                continue;
            }
            let Some(text) = config_map.data.as_ref().and_then(|data| data.get(names::MAP_KEY)) else {
                continue;
            };
            match text.parse::<MigMap>() {
                Ok(map) => {
                    by_name.insert(name.clone(), map);
                }
                Err(error) => problems.push(
                    Problem::new(
                        Severity::Warning,
                        crate::objects::title("ConfigMap", &config_map.metadata),
                        is_no_map(&error),
                    )
                    .field(format!("data[{}]", names::MAP_KEY)),
                ),
            }
        }
        Self { by_name, custom }
    }

    /// The maps of a node, in the order in which they are asked: the one that
    /// ClusterPolicy names, ours, the node's own, the shipped one.
    fn of_node(&self, node: &str) -> impl Iterator<Item = &MigMap> {
        let own = format!("{node}-mig-config");
        let order = [self.custom.as_deref(), Some(names::MAP_NAME), Some(&own), Some(names::DEFAULT_MAP)];
        let found: Vec<&MigMap> =
            order.into_iter().flatten().filter_map(|name| self.by_name.get(name)).collect();
        found.into_iter()
    }

    /// The indices of a node's GPUs, of which so many can be cut. Labels give a
    /// number only, and a card that cannot be cut may stand between the others:
    /// where the entry of the node's label names just so many indices, it is
    /// these. (Where it names others, what the node advertises contradicts it.)
    fn indices(&self, node: &str, entry: Option<&str>, count: u16) -> BTreeSet<GpuIndex> {
        self.named_indices(node, entry, count).unwrap_or_else(|| (0..count).map(GpuIndex).collect())
    }

    /// The indices of so many GPUs, where the entry of the node's label names them.
    fn named_indices(&self, node: &str, entry: Option<&str>, count: u16) -> Option<BTreeSet<GpuIndex>> {
        let NamedGpus { cut, all } = self.of_node(node).find_map(|map| map.named_gpus(entry?))?;
        [cut, all].into_iter().find(|indices| indices.len() == usize::from(count))
    }

    /// What an entry makes of a GPU of a node: from a map, or by the shipped
    /// names.
    fn cut(&self, node: &str, entry: &str, index: GpuIndex, model: &Model) -> Result<GpuLayout, String> {
        let gpu = [NodeGpu { index, model: Some(model) }];
        let by_map = self.of_node(node).find_map(|map| match map.layout_for(entry, &gpu) {
            Ok(mut layout) => layout.0.remove(&index).map(Ok),
            Err(Unclear::NoEntry { .. }) => None,
            Err(unclear) => Some(Err(unclear.to_string())),
        });
        by_map.or_else(|| default_name(entry, model).map(Ok)).unwrap_or_else(|| {
            Err(format!(
                "label {}={entry} is neither an entry of a map of layouts nor a default name of {}",
                names::MIG_CONFIG,
                model.id
            ))
        })
    }
}

/// That a text is no map, in one line.
fn is_no_map(error: &MapError) -> String {
    format!("it is not a map of layouts: {}", error.to_string().lines().next().unwrap_or_default())
}

pub(crate) fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// How the node's slices are offered: as the node itself says, since its
/// device plugin may have a configuration of its own.
pub(crate) fn strategy(
    node: &Node,
    gpu_node: Option<&GpuNode>,
    memory: &Memory,
    rest: &Objects,
    of_cluster: Strategy,
) -> Strategy {
    let labels = crate::known_labels::known_labels(node, gpu_node, memory);
    let own = labels.get(names::MIG_STRATEGY).filter(|value| !value.is_empty());
    if let Some(own) = own {
        return named(own);
    }
    // Each node has its own then, and one of which feature discovery says everything but that has none.
    let is_labelled = label(node, names::PRODUCT).is_some();
    if is_labelled && is_open(rest) { Strategy::None } else { of_cluster }
}

/// Whether `ClusterPolicy` leaves the strategy to each node's configuration.
pub(crate) fn is_open(objects: &Objects) -> bool {
    objects.cluster_policies.values().next().is_some_and(|policy| policy.spec.mig.strategy.is_empty())
}

fn named(strategy: &str) -> Strategy {
    match strategy {
        "single" => Strategy::Single,
        "none" => Strategy::None,
        _ => Strategy::Mixed,
    }
}

/// How many nodes are asked for what the cluster leaves open.
const ASKED: usize = 64;

/// What `ClusterPolicy` says. Where it says nothing, the device plugin's own
/// configuration does, or else there is no strategy: GPU feature discovery
/// labels nodes accordingly, and with none it leaves the label out. Where
/// nobody says anything at all, a node that offers profiles is mixed.
pub(crate) fn of_cluster(objects: &Objects) -> Strategy {
    let Some(policy) = objects.cluster_policies.values().next() else { return Strategy::Mixed };
    if !policy.spec.mig.strategy.is_empty() {
        return named(&policy.spec.mig.strategy);
    }
    let nodes = || objects.nodes.values().take(ASKED);
    match nodes().find_map(|node| label(node, names::MIG_STRATEGY)) {
        Some(strategy) => named(strategy),
        None if nodes().any(|node| label(node, names::PRODUCT).is_some()) => Strategy::None,
        None => Strategy::Mixed,
    }
}

/// The GPUs and slices that a node offers, by resource; kubelet keeps keys with
/// zero.
pub(crate) fn offered(node: &Node) -> BTreeMap<String, u64> {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let gpus = allocatable.into_iter().flatten().filter(|(name, _)| GpuResource::is_one(name));
    let amount = |n: Option<i128>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    gpus.map(|(name, quantity)| (name.clone(), amount(crate::pods::amount(name, quantity)))).collect()
}

/// The GPUs and slices that a node advertises, without zeros.
pub(crate) fn advertised(node: &Node) -> BTreeMap<String, u64> {
    offered(node).into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Why counts say nothing about layouts, if devices of the node are shared.
fn shared(node: &Node) -> Option<String> {
    let Sharing { label: shared, by } = node_labels::sharing(node.metadata.labels.as_ref()?)?;
    let by = by.as_deref().unwrap_or("time-slicing or MPS");
    let config = match label(node, names::PLUGIN_CONFIG) {
        Some(name) => format!("label {}={name}", names::PLUGIN_CONFIG),
        None => "the default of the ClusterPolicy's spec.devicePlugin.config".to_owned(),
    };
    Some(format!(
        "its devices are shared by {by} (label {shared}), so its allocatable resources do not show its slices; \
         to have it planned, let its device plugin use a configuration without sharing (now: {config})"
    ))
}

/// What is recorded of a node.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its `GpuNode`.
    pub gpu_node: Option<&'a GpuNode>,
    /// Who holds what by a living agent: of one that does not live, only the
    /// layout counts.
    pub users: Option<&'a BTreeMap<i32, ObservedGpu>>,
    /// Its agent is uninstalled, or away while MIG manager has cut the GPUs: its
    /// report counts for which GPUs there are, and for nothing else.
    pub is_past: bool,
    /// How its devices are shared, where its device plugin is told by us.
    pub sharing: Option<&'a PluginConfig>,
}

/// The GPUs of a node; `None` when it has none that can be cut.
#[must_use]
pub fn establish<'a>(
    name: &str,
    node: &Node,
    record: Record<'_>,
    strategy: Strategy,
    maps: &Maps,
    catalog: &'a Catalog,
    problems: &mut Vec<Problem>,
) -> Option<Established<'a>> {
    let Record { gpu_node, users, is_past, sharing } = record;
    let nothing = |doubt: String| Established {
        gpus: BTreeMap::new(),
        strategy,
        exact: false,
        users: false,
        doubt: Some(doubt),
    };
    let remembered = gpu_node.and_then(|n| n.status.as_ref()?.observed.as_ref());
    if let Some(observed) = remembered
        && observed.by == ObservedBy::Agent
        && !is_past
        && !has_booted(node, observed)
    {
        let mut found = exact(name, observed, strategy, catalog, users, problems)?;
        // The slices are known. What the node offers is not: no change could be proved.
        if sharing.is_none() {
            found.doubt = found.doubt.or_else(|| shared(node));
        }
        return Some(found);
    }
    let entry = label(node, names::MIG_CONFIG);
    let labelled = from_labels(name, node, strategy, entry, maps, catalog);
    let known = remembered.map(|observed| remembered_models(observed, catalog)).unwrap_or_default();
    let advertised = advertised(node);
    // What is shared as we say leads back to the slices behind it.
    let devices = sharing.and_then(|sharing| sharing.devices(&advertised));
    let advertised = devices.unwrap_or(advertised);
    let explains = |gpus: &BTreeMap<GpuIndex, &Model>| {
        let by_entry = by_entry(name, entry, gpus, maps);
        by_entry.is_ok_and(|layout| layout.offers(strategy) == advertised)
            || without_mig(gpus).offers(strategy) == advertised
    };
    let models = match (remembered.filter(|_| !known.is_empty()), labelled) {
        (None, Ok(found)) => found?,
        (None, Err(doubt)) => return Some(nothing(doubt)),
        (Some(observed), Ok(Some(found))) if others_are_there(node, observed, &known, &found, explains) => {
            found
        }
        (Some(_), _) => known,
    };
    if sharing.is_none()
        && let Some(doubt) = shared(node)
    {
        return Some(nothing(doubt));
    }
    let by_an_agent = remembered.is_some_and(|observed| observed.by == ObservedBy::Agent);
    let count = u16::try_from(models.len()).unwrap_or(u16::MAX);
    if !by_an_agent && is_station(node) && maps.named_indices(name, entry, count).is_none() {
        return Some(nothing(format!(
            "a DGX Station has a display card between its GPUs, and nothing says which indices its {count} GPUs have; write an entry with `devices: [0, 1, 3, 4]`, or as nvidia-smi -L numbers them, into a map of MIG manager, and name it in the node's label {}; or install the agent",
            names::MIG_CONFIG
        )));
    }
    let off = without_mig(&models);
    let is_off = off.offers(strategy) == advertised && !advertised.is_empty();
    let found = |layout: NodeLayout, doubt| {
        let gpus = layout
            .0
            .into_iter()
            .map(|(index, cut)| (index, GpuFound { model: models[&index], cut, seen: None }))
            .collect();
        Some(Established { gpus, strategy, exact: false, users: false, doubt })
    };
    match by_entry(name, entry, &models, maps) {
        Ok(layout) => {
            let expected = layout.offers(strategy);
            if expected == advertised {
                return found(layout, None);
            }
            if is_off {
                return found(off, None);
            }
            let why = format!(
                "label {} says {}, and the node advertises {}",
                names::MIG_CONFIG,
                entry.map_or_else(
                    || format!("nothing, so {} is expected", in_words(&expected)),
                    |entry| format!("`{entry}`, so {} is expected", in_words(&expected))
                ),
                in_words(&advertised)
            );
            found(layout, Some(why))
        }
        Err(_) if is_off => found(off, None),
        Err(why) => {
            let unknown = models.keys().map(|index| (*index, GpuLayout::Mig(BTreeMap::new())));
            found(NodeLayout(unknown.collect()), Some(why))
        }
    }
}

/// Whether a display card stands between the GPUs of a machine. The device
/// plugin and GPU feature discovery leave it out, and it has an index all the
/// same; an entry of ours for the first indices would name it, and MIG manager
/// would fail.
fn is_station(node: &Node) -> bool {
    label(node, names::MACHINE).is_some_and(|machine| machine.contains("DGX-Station"))
}

/// What the label makes of the GPUs of a node; without one, MIG is off.
fn by_entry(
    name: &str,
    entry: Option<&str>,
    models: &BTreeMap<GpuIndex, &Model>,
    maps: &Maps,
) -> Result<NodeLayout, String> {
    let cut = |index: GpuIndex, model: &Model| match entry {
        None => Ok(GpuLayout::Off),
        Some(entry) => maps.cut(name, entry, index, model),
    };
    let gpus = models.iter().map(|(index, model)| Ok((*index, cut(*index, model)?)));
    gpus.collect::<Result<_, String>>().map(NodeLayout)
}

fn without_mig(models: &BTreeMap<GpuIndex, &Model>) -> NodeLayout {
    NodeLayout(models.keys().map(|index| (*index, GpuLayout::Off)).collect())
}

/// The GPUs that were seen last.
fn remembered_models<'a>(observed: &Observed, catalog: &'a Catalog) -> BTreeMap<GpuIndex, &'a Model> {
    let gpus = observed.gpus.iter();
    gpus.filter_map(|gpu| Some((GpuIndex(u16::try_from(gpu.index).ok()?), catalog.get(&gpu.model)?)))
        .collect()
}

/// Whether somebody put other GPUs into the node than are remembered.
///
/// Labels vanish during a change, and under strategy `single` their count
/// means something else then, but they never name a model that is not there:
/// another model is believed at once. Another number is believed only after a
/// boot, which no change of hardware goes without (in the same boot a GPU that
/// fell off the bus looks the same, and moves the indices of the others), and
/// only where it explains what the node advertises and what is remembered does
/// not. What an agent saw is not judged by labels, which know one model for all.
fn others_are_there(
    node: &Node,
    observed: &Observed,
    known: &BTreeMap<GpuIndex, &Model>,
    labelled: &BTreeMap<GpuIndex, &Model>,
    explains: impl Fn(&BTreeMap<GpuIndex, &Model>) -> bool,
) -> bool {
    let models =
        |gpus: &BTreeMap<GpuIndex, &Model>| gpus.values().map(|m| m.id.clone()).collect::<BTreeSet<_>>();
    if observed.by != ObservedBy::Controller || labelled.is_empty() {
        return false;
    }
    // The indices alone may come from a map that names them.
    let renumbered = known.len() == labelled.len() && !known.keys().eq(labelled.keys());
    models(known) != models(labelled)
        || ((renumbered || known.len() != labelled.len() && has_booted(node, observed))
            && explains(labelled)
            && !explains(known))
}

/// The boot in which a node is, as its kubelet says.
pub(crate) fn boot(node: &Node) -> Option<&str> {
    node.status.as_ref()?.node_info.as_ref().map(|info| info.boot_id.as_str())
}

/// Whether the node was booted after it was seen so.
fn has_booted(node: &Node, observed: &Observed) -> bool {
    let boot = boot(node);
    observed.boot_id.as_deref().is_some_and(|seen| boot.is_some_and(|boot| boot != seen))
}

/// Models and indices from the labels of GPU feature discovery.
/// `Ok(None)`: no GPU that can be cut.
fn from_labels<'a>(
    name: &str,
    node: &Node,
    strategy: Strategy,
    entry: Option<&str>,
    maps: &Maps,
    catalog: &'a Catalog,
) -> Result<Option<BTreeMap<GpuIndex, &'a Model>>, String> {
    let capable = label(node, names::MIG_CAPABLE);
    let Some(product) = label(node, names::PRODUCT) else {
        // During a change the labels vanish; a node that was never seen before
        // cannot be known then.
        return match label(node, names::MIG_CONFIG).or_else(|| capable.filter(|c| *c == "true")) {
            Some(_) => Err(format!(
                "label {} does not exist (yet), and the operator has not seen the node before",
                names::PRODUCT
            )),
            None => Ok(None),
        };
    };
    let Some(found) = catalog.by_product_label(product) else {
        if capable == Some("true") {
            let known: Vec<_> = catalog.models().iter().map(|model| model.id.as_str()).collect();
            return Err(format!(
                "label {}={product} is not a known model; the known models are {}",
                names::PRODUCT,
                known.join(", ")
            ));
        }
        return Ok(None);
    };
    let count = label(node, names::COUNT).unwrap_or_default();
    let Some(count) = count.parse::<u16>().ok().filter(|n| *n <= 256) else {
        return Err(format!("label {}=`{count}` is not a number of GPUs from 0 to 256", names::COUNT));
    };
    let count = match (strategy, found.profile) {
        // Under `single`, the label counts slices once MIG is on.
        (Strategy::Single, Some(_)) => {
            let entry = entry.ok_or_else(|| {
                format!("label {} counts slices under strategy single, and label {} does not say how many each GPU has", names::COUNT, names::MIG_CONFIG)
            })?;
            match maps.cut(name, entry, GpuIndex(0), found.model)? {
                GpuLayout::Mig(slices) => {
                    let each: u32 = slices.values().copied().map(u32::from).sum();
                    let each = u16::try_from(each).ok().filter(|n| *n > 0 && count % n == 0);
                    let each = each.ok_or_else(|| {
                        format!(
                            "label {}={count} is not a multiple of the slices that `{entry}` gives each GPU",
                            names::COUNT
                        )
                    })?;
                    count / each
                }
                GpuLayout::Off => {
                    return Err(format!(
                        "label {}={product} says that MIG is on, and `{entry}` that it is off",
                        names::PRODUCT
                    ));
                }
            }
        }
        _ if found.invalid => {
            return Err(format!(
                "label {}={product}: strategy single needs one profile on all GPUs",
                names::PRODUCT
            ));
        }
        _ => count,
    };
    Ok(Some(maps.indices(name, entry, count).into_iter().map(|index| (index, found.model)).collect()))
}

fn exact<'a>(
    name: &str,
    observed: &Observed,
    strategy: Strategy,
    catalog: &'a Catalog,
    users: Option<&BTreeMap<i32, ObservedGpu>>,
    problems: &mut Vec<Problem>,
) -> Option<Established<'a>> {
    let mut gpus = BTreeMap::new();
    let mut doubt = None;
    for gpu in &observed.gpus {
        let field = format!("status.observed.gpus[{}]", gpu.index);
        let mut wrong = |message: String| {
            problems.push(
                Problem::new(Severity::Error, format!("GpuNode {name}"), message.clone())
                    .field(field.clone()),
            );
            doubt = Some(format!("{field}: {message}"));
        };
        // A GPU that cannot be cut (a display card) stands beside the others.
        let model = match catalog.find(&gpu.model) {
            Ok(model) => model,
            Err(_) if !gpu.mig_enabled && gpu.slices.is_empty() => continue,
            Err(error) => {
                wrong(error.to_string());
                continue;
            }
        };
        let Ok(index) = u16::try_from(gpu.index) else { continue };
        let cut = if gpu.mig_enabled {
            match read_slices(gpu, model) {
                Ok(slices) => GpuLayout::Mig(slices),
                Err(message) => {
                    wrong(message);
                    GpuLayout::Mig(BTreeMap::new())
                }
            }
        } else {
            GpuLayout::Off
        };
        let seen = users.and_then(|users| users.get(&gpu.index)).unwrap_or(gpu).clone();
        gpus.insert(GpuIndex(index), GpuFound { model, cut, seen: Some(seen) });
    }
    let users = users.is_some();
    (!gpus.is_empty()).then_some(Established { gpus, strategy, exact: true, users, doubt })
}

/// The slices that an agent saw, by profile, if they can be on one GPU.
fn read_slices(gpu: &ObservedGpu, model: &Model) -> Result<BTreeMap<ProfileName, u8>, String> {
    let mut counts: BTreeMap<ProfileName, u8> = BTreeMap::new();
    let mut placed = Vec::new();
    for slice in &gpu.slices {
        let profile: ProfileName = slice.profile.parse().map_err(|e: mig::NameError| e.to_string())?;
        let start = slice.start.and_then(|start| u8::try_from(start).ok());
        let start = start.ok_or_else(|| format!("slice {profile} has no start; an agent must report it"))?;
        let n = counts.entry(profile).or_default();
        *n = n.saturating_add(1);
        placed.push((profile, start));
    }
    model.geometry.layout(placed).map_err(|error| format!("{}: {error}", model.id))?;
    Ok(counts)
}

fn in_words(vector: &BTreeMap<String, u64>) -> String {
    if vector.is_empty() {
        return "nothing".to_owned();
    }
    let parts: Vec<_> = vector.iter().map(|(resource, n)| format!("{n} {resource}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_map_says_why_in_one_line() {
        let error = "mig-configs: [1, 2]".parse::<MigMap>().expect_err("a list");
        let said = is_no_map(&error);
        assert!(said.starts_with("it is not a map of layouts: the map cannot be read: "), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
