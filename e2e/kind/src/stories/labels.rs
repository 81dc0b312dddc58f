//! The labels that NVIDIA's components write onto real nodes, compared with those of the virtual nodes of
//! `simulator/cluster`: the same GPUs, the same layout, the versions that run here.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use gpu::{DriverBranch, Machine, Model};
use jiff::{SignedDuration, Timestamp};
use operands::{Flavour, Node, PLUGIN_CONFIG, Release, Setup};

use super::by_hand::{as_before, configurations};
use super::stage::Stage;

/// Keys that one side has, or has otherwise, and why. A key that ends with a
/// star stands for all that begin so.
const EXPLAINED: &[(&str, &str)] = &[
    ("nvidia.com/gfd.timestamp", "the time at which GFD wrote"),
    ("nvidia.com/gpu.machine", "GFD reads the board's name from DMI, which a machine without one leaves out"),
    ("nvidia.com/cuda.*", "a virtual node knows its driver's branch, and no whole version"),
    (
        "nvidia.com/vgpu.present",
        "GFD's word on virtual GPUs, of which virtual nodes have none and nobody here reads",
    ),
    ("nvidia.com/gpu.deploy.nvsm", "MIG manager makes it in its first run; a virtual node begins after it"),
];

/// Of these, and of no others, the two sides are compared: who writes them is
/// on both.
const COMPARED: &[&str] = &["nvidia.com/"];

/// How a worker is when it is compared.
#[derive(Clone, Copy, Debug)]
struct State {
    /// MIG manager's layout; as it is, where the cards know no MIG.
    layout: Option<&'static str>,
    /// The key of the device plugin's configuration in the administrators' map; none, where the shipped one is read.
    key: Option<&'static str>,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.layout.unwrap_or("as it is"))?;
        self.key.map_or(Ok(()), |key| write!(f, ", shared {key}"))
    }
}

/// Every worker, whole and cut, and then, for two models, shared.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let mut differences = Vec::new();
    let nodes = stage.nodes()?;
    for (node, gpus) in &nodes {
        for state in alone(gpus)? {
            differences.extend(compare(stage, node, gpus, state)?);
        }
    }
    let names: Vec<&str> = nodes.keys().map(String::as_str).collect();
    let told = stage.has_configurations().and_then(|()| {
        for (node, gpus) in &nodes {
            for state in shared(gpus) {
                differences.extend(compare(stage, node, gpus, state)?);
            }
        }
        Ok(())
    });
    as_before(stage, &names, told)?;
    ensure!(differences.is_empty(), "differences that nobody has explained:\n  {}", differences.join("\n  "));
    Ok(())
}

/// Whole and cut, or as it is, where its cards know no MIG.
fn alone(gpus: &str) -> anyhow::Result<Vec<State>> {
    let layouts: &[Option<&str>] = match model(gpus)?.0.mig {
        Some(_) => &[Some("all-disabled"), Some("all-balanced")],
        None => &[None],
    };
    Ok(layouts.iter().map(|layout| State { layout: *layout, key: None }).collect())
}

/// Shared, of one model without MIG and of one with it: what others would say is the same.
fn shared(gpus: &str) -> Vec<State> {
    let shared = |layout, key| State { layout, key: Some(key) };
    match gpus.split_once('x').map(|(_, model)| model) {
        Some("T4") => vec![shared(None, "by-4"), shared(None, "by-4-unnamed")],
        Some("A100-80GB") => vec![
            shared(Some("all-disabled"), "by-4"),
            shared(Some("all-disabled"), "by-4-unnamed"),
            shared(Some("all-balanced"), "slices-by-2"),
        ],
        _ => Vec::new(),
    }
}

/// The model of a worker's GPUs, and how many it has.
fn model(gpus: &str) -> anyhow::Result<(Arc<Model>, u8)> {
    let (count, model) = gpus.split_once('x').context("a worker says COUNTxMODEL")?;
    let model = match mig::sharing::find(model) {
        Some(mig::sharing::Known::Card(card)) => Arc::new(Model::of_card(card)),
        _ => Model::find(model)?,
    };
    Ok((model, count.parse()?))
}

fn compare(stage: &Stage<'_>, node: &str, gpus: &str, state: State) -> anyhow::Result<Vec<String>> {
    let virtual_node = virtual_node(node, gpus, state)?;
    let offers: Vec<(&str, u64)> = virtual_node
        .allocatable()
        .iter()
        .filter(|(_, many)| **many > 0)
        .map(|(name, many)| (name.trim_start_matches("nvidia.com/"), *many))
        .collect();
    if let Some(key) = state.key {
        stage.configured(node, key)?;
    }
    // The end state that pods see is the same, or this fails.
    match state.layout {
        Some(layout) => stage.cut(node, layout, &offers)?,
        None => stage.offers(node, &offers)?,
    }
    let wanted = of_interest(virtual_node.labels());
    let mut last = Vec::new();
    // GFD looks every ten seconds, and NFD after it.
    let same = stage.within(60, "the labels of GFD", || {
        let labels = stage.get("node", node)?["metadata"]["labels"].clone();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels)?;
        last = differences(&of_interest(&labels), &wanted);
        Ok(if last.is_empty() { Ok(()) } else { Err(format!("{} differ", last.len())) })
    });
    Ok(match same {
        Ok(()) => Vec::new(),
        Err(_) => last.into_iter().map(|line| format!("{gpus}, {state}: {line}")).collect(),
    })
}

/// The virtual node with these GPUs, after it was cut and shared like this.
fn virtual_node(name: &str, gpus: &str, state: State) -> anyhow::Result<Node> {
    let (model, count) = model(gpus)?;
    let release = Release::find("go-modules")?;
    let setup = Setup {
        flavour: Flavour::Helm,
        manager: release.manager,
        plugin: release.plugin,
        ..Setup::default()
    };
    let mut machine = Machine::new(name, DriverBranch::default(), Timestamp::UNIX_EPOCH);
    for _ in 0..count {
        machine = machine.with_gpu(&model);
    }
    let mut node = Node::new(setup, machine, BTreeMap::new(), None, state.layout)?;
    if let Some(key) = state.key {
        node.set_plugin_config(Some(configurations()), "default");
        node.patch_labels([(PLUGIN_CONFIG, Some(key))]);
        let end = node.now() + SignedDuration::from_hours(1);
        while let Some(at) = node.next_event().filter(|at| *at <= end) {
            node.tick(at);
        }
    }
    Ok(node)
}

fn of_interest(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let explained = |key: &str| {
        EXPLAINED.iter().any(|(name, _)| match name.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == *name,
        })
    };
    let wanted = |key: &String| COMPARED.iter().any(|prefix| key.starts_with(prefix)) && !explained(key);
    labels.iter().filter(|(key, _)| wanted(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn differences(real: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in real {
        match ours.get(key) {
            None => found.push(format!("{key}={value} only on the real node")),
            Some(other) if other != value => {
                found.push(format!("{key}={value} on the real node, {other} on the virtual one"));
            }
            Some(_) => {}
        }
    }
    found.extend(
        ours.iter()
            .filter(|(key, _)| !real.contains_key(*key))
            .map(|(key, value)| format!("{key}={value} only on the virtual node")),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_told_and_what_is_explained_is_not() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let real = labels(&[("nvidia.com/a", "1"), ("nvidia.com/b", "1"), ("nvidia.com/gfd.timestamp", "7")]);
        let ours = labels(&[("nvidia.com/a", "2"), ("nvidia.com/c", "1"), ("kubernetes.io/os", "linux")]);
        assert_eq!(
            differences(&of_interest(&real), &of_interest(&ours)),
            [
                "nvidia.com/a=1 on the real node, 2 on the virtual one",
                "nvidia.com/b=1 only on the real node",
                "nvidia.com/c=1 only on the virtual node"
            ]
        );
    }

    #[test]
    fn a_virtual_node_is_made_for_every_usual_worker() {
        for gpus in crate::fleet::usual() {
            let gpus = gpus.to_string();
            for state in alone(&gpus).unwrap() {
                let node = virtual_node("n", &gpus, state).unwrap();
                let whole = state.layout != Some("all-balanced");
                let offers =
                    |name: &str| node.allocatable().iter().any(|(key, n)| key.starts_with(name) && *n > 0);
                assert_eq!((offers("nvidia.com/gpu"), offers("nvidia.com/mig-")), (whole, !whole), "{gpus}");
            }
        }
    }

    #[test]
    fn a_shared_virtual_node_offers_its_shares_and_is_labelled_so() {
        let mut compared = Vec::new();
        for gpus in ["2xT4", "2xA100-80GB", "1xA30"] {
            for state in shared(gpus) {
                let node = virtual_node("n", gpus, state).unwrap();
                let label = |key: &str| node.labels().get(&format!("nvidia.com/{key}")).cloned();
                let offers = node.allocatable();
                let offers = |name: &str| offers.get(&format!("nvidia.com/{name}")).copied().unwrap_or(0);
                let says = |key: &str| label(key).unwrap_or_default();
                compared.push(match state.key {
                    Some("by-4") => (offers("gpu.shared"), says("gpu.product").ends_with("-SHARED")),
                    Some("by-4-unnamed") => (offers("gpu"), says("gpu.product").ends_with("-SHARED")),
                    _ => (offers("mig-1g.10gb"), says("mig-1g.10gb.product").ends_with("-SHARED")),
                });
                assert_eq!(label("device-plugin.config").as_deref(), state.key);
            }
        }
        // Two slices a GPU for two pods each, on two GPUs.
        assert_eq!(compared, [(8, false), (8, true), (8, false), (8, true), (8, true)]);
    }
}
