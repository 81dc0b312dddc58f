//! The labels that NVIDIA's components write onto real nodes, compared with those of the virtual nodes of
//! `simulator/cluster`: the same GPUs, the same layout, the versions that run here.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use gpu::{DriverBranch, Machine, Model};
use jiff::Timestamp;
use operands::{Flavour, Node, Release, Setup};

use super::by_hand::{LABEL, as_before, configurations};
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

/// How a worker is, of those ways in which it is compared.
#[derive(Clone, Copy, Debug)]
struct As {
    /// MIG manager's layout; none, where the cards know no MIG.
    layout: Option<&'static str>,
    /// The administrators' configuration by which it is shared, if it is.
    shared: Option<&'static str>,
}

/// Every worker, whole and cut; then those that are shared.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let mut differences = Vec::new();
    let nodes = stage.nodes()?;
    for (node, gpus) in &nodes {
        for layout in layouts(gpus)? {
            differences.extend(compare(stage, node, gpus, As { layout: *layout, shared: None })?);
        }
    }
    let shared: Vec<_> = nodes.iter().filter(|(_, gpus)| !ways_to_share(gpus).is_empty()).collect();
    let told = compare_shared(stage, &shared);
    let names: Vec<_> = shared.iter().map(|(node, _)| node.as_str()).collect();
    let mut found = Vec::new();
    as_before(stage, &names, told.map(|different| found = different))?;
    differences.extend(found);
    ensure!(differences.is_empty(), "differences that nobody has explained:\n  {}", differences.join("\n  "));
    Ok(())
}

/// Those whose devices several pods share, by an administrator's hand.
fn compare_shared(stage: &Stage<'_>, nodes: &[(&String, &String)]) -> anyhow::Result<Vec<String>> {
    let mut differences = Vec::new();
    stage.has_configurations()?;
    for (node, gpus) in nodes {
        for way in ways_to_share(gpus) {
            stage.configured(node, way.shared.unwrap_or_default())?;
            differences.extend(compare(stage, node, gpus, *way)?);
        }
    }
    Ok(differences)
}

/// How a worker is shared where it is compared: cards that know no MIG, and a card that does, whole and cut; a shared
/// resource has the name of those that are not, or one of its own.
fn ways_to_share(gpus: &str) -> &'static [As] {
    match gpus.split_once('x').map(|(_, model)| model) {
        Some("T4") => {
            &[As { layout: None, shared: Some("by-4") }, As { layout: None, shared: Some("by-4-unnamed") }]
        }
        Some("A100-80GB") => &[
            As { layout: Some("all-disabled"), shared: Some("by-4-unnamed") },
            As { layout: Some("all-balanced"), shared: Some("slices-by-2") },
        ],
        _ => &[],
    }
}

/// How a worker is compared: whole and cut, or as it is, where its cards know no MIG.
fn layouts(gpus: &str) -> anyhow::Result<&'static [Option<&'static str>]> {
    let model = model(gpus)?.0;
    Ok(if model.mig.is_some() { &[Some("all-disabled"), Some("all-balanced")] } else { &[None] })
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

fn compare(stage: &Stage<'_>, node: &str, gpus: &str, way: As) -> anyhow::Result<Vec<String>> {
    let virtual_node = virtual_node(node, gpus, way)?;
    let offers: Vec<(&str, u64)> = virtual_node
        .allocatable()
        .iter()
        .filter(|(_, many)| **many > 0)
        .map(|(name, many)| (name.trim_start_matches("nvidia.com/"), *many))
        .collect();
    // The end state that pods see is the same, or this fails.
    match way.layout {
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
        Err(_) => {
            let (layout, shared) = (way.layout.unwrap_or("as it is"), way.shared.unwrap_or("not shared"));
            last.into_iter().map(|line| format!("{gpus}, {layout}, {shared}: {line}")).collect()
        }
    })
}

/// The virtual node with these GPUs, after it was cut and shared like this.
fn virtual_node(name: &str, gpus: &str, way: As) -> anyhow::Result<Node> {
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
    let mut node = Node::new(setup, machine, BTreeMap::new(), None, way.layout)?;
    if let Some(key) = way.shared {
        node.set_plugin_config(Some(configurations()), "default");
        node.patch_labels([(LABEL, Some(key))]);
        // Until nothing more is to come.
        while let Some(at) = node.next_event() {
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
            for layout in layouts(&gpus).unwrap() {
                let node = virtual_node("n", &gpus, As { layout: *layout, shared: None }).unwrap();
                let whole = !matches!(layout, Some("all-balanced"));
                let offers =
                    |name: &str| node.allocatable().iter().any(|(key, n)| key.starts_with(name) && *n > 0);
                assert_eq!((offers("nvidia.com/gpu"), offers("nvidia.com/mig-")), (whole, !whole), "{gpus}");
            }
        }
    }

    #[test]
    fn a_virtual_node_is_shared_as_the_administrators_configuration_says() {
        let of = |gpus: &str| -> Vec<(String, u64, Option<String>)> {
            let one = |way: &As| {
                let node = virtual_node("n", gpus, *way).unwrap();
                let most = node.allocatable().iter().max_by_key(|(_, many)| **many).unwrap();
                (most.0.clone(), *most.1, node.labels().get("nvidia.com/gpu.sharing-strategy").cloned())
            };
            ways_to_share(gpus).iter().map(one).collect()
        };
        let by_turns = Some("time-slicing".to_owned());
        assert_eq!(
            of("2xT4"),
            [
                ("nvidia.com/gpu.shared".to_owned(), 8, by_turns.clone()),
                ("nvidia.com/gpu".to_owned(), 8, by_turns.clone())
            ]
        );
        let a100 = of("2xA100-80GB");
        assert_eq!(a100[0], ("nvidia.com/gpu".to_owned(), 8, by_turns));
        assert_eq!((a100[1].0.as_str(), a100[1].1), ("nvidia.com/mig-1g.10gb", 8));
    }
}
