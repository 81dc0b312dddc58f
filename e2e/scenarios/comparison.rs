//! One story ends in the same state on virtual nodes and on kind: the simulator writes the same as NVIDIA's
//! own components and a real kubelet. `comparison/differences.yaml` lists the exceptions, with the reasons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use e2e::provider::Kind;
use e2e::{Fleet, NodeSpec, POOL, Scene, mig, pod, policy, scenario_on_any_nodes};
use operands::Flavour;
use serde_json::{Value, json};

/// A network card of NVIDIA's Network Operator.
const NIC: &str = "nvidia.com/hostdev";

/// A share of a whole GPU.
const SHARED: &str = "nvidia.com/gpu.shared";

/// What there is at the end: by its place, what it says.
type End = BTreeMap<String, String>;

/// A place at which the two differ. What one of them has not is left out; `*`
/// is whatever it says.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    at: String,
    #[serde(default, rename = "virtual")]
    on_virtual_nodes: Option<String>,
    #[serde(default, rename = "kind")]
    on_kind: Option<String>,
    why: String,
}

/// Times, and what is made of them, of names or of chance: they say nothing
/// of what the world does.
const VARIES: &[&str] = &["lastTransitionTime", "gfd.timestamp", "Digest", "digest", "/at", "/time", "since"];

fn flat(at: &str, value: &Value, into: &mut End) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flat(&format!("{at}/{name}"), value, into));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| flat(&format!("{at}/{i}"), value, into));
        }
        Value::Null => {}
        _ if VARIES.iter().any(|part| at.contains(part)) => {}
        Value::String(text) => drop(into.insert(at.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => drop(into.insert(at.to_owned(), value.to_string())),
    }
}

/// Labels and resources of the node, and what the policy says.
async fn end_of(scene: &Scene) -> anyhow::Result<End> {
    let mut end = End::new();
    let name = scene.real_name("n1");
    let node = scene.nodes().get(name).await?;
    for (label, value) in node.metadata.labels.iter().flatten() {
        if label.contains("nvidia.com/") {
            flat(&format!("label {label}"), &value.clone().into(), &mut end);
        }
    }
    for (resource, count) in node.status.iter().flat_map(|s| s.allocatable.iter().flatten()) {
        if resource.starts_with("nvidia.com/") {
            end.insert(format!("allocatable {resource}"), count.0.clone());
        }
    }
    let policy = scene.policies().get("research").await?;
    let status = serde_json::to_value(policy.status)?;
    let status: Value = serde_json::from_str(&status.to_string().replace(name, "n1"))?;
    flat("policy", &status, &mut end);
    Ok(end)
}

fn beside(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/comparison").join(file)
}

fn read<T: serde::de::DeserializeOwned>(file: &str) -> anyhow::Result<T> {
    Ok(serde_saphyr::from_str(&std::fs::read_to_string(beside(file))?)?)
}

/// Where an end is not as expected, in the format of `differences.yaml`.
fn compared(expected: &End, end: &End) -> Vec<String> {
    let places: std::collections::BTreeSet<_> = expected.keys().chain(end.keys()).collect();
    let differs = |at: &&String| {
        let (wanted, is) = (expected.get(*at), end.get(*at));
        wanted != is && !(wanted.is_some_and(|wanted| wanted == "*") && is.is_some())
    };
    let shown = |value: Option<&String>| serde_json::to_string(&value).unwrap_or_default();
    places
        .into_iter()
        .filter(differs)
        .map(|at| {
            let (wanted, is) = (shown(expected.get(at)), shown(end.get(at)));
            format!("- at: {}\n  expected: {wanted}\n  is: {is}\n", shown(Some(at)))
        })
        .collect()
}

/// The end is that of virtual nodes, apart from what differs on kind, where it is on kind.
async fn ends_as(scene: &Scene, file: &str, differences: &str) -> anyhow::Result<()> {
    let end = end_of(scene).await?;
    let mut expected: End = read(file)?;
    if Kind::asked_for()?.has_real_nodes() {
        for Difference { at, on_virtual_nodes, on_kind, why } in read::<Vec<Difference>>(differences)? {
            anyhow::ensure!(!why.is_empty(), "{at} is not explained");
            anyhow::ensure!(
                on_virtual_nodes.as_deref() == Some("*") || expected.get(&at) == on_virtual_nodes.as_ref(),
                "{at} says on virtual nodes {:?}, and {differences} has {on_virtual_nodes:?}",
                expected.get(&at)
            );
            match on_kind {
                Some(value) => drop(expected.insert(at, value)),
                None => drop(expected.remove(&at)),
            }
        }
    }
    let different = compared(&expected, &end);
    anyhow::ensure!(
        different.is_empty(),
        "the end is another one; comparison/{file} has that of virtual nodes, and {differences} where kind \
         differs, each with why:\n{}\nall of it:\n{}",
        different.concat(),
        serde_saphyr::to_string(&end)?
    );
    Ok(())
}

#[test]
fn one_story_ends_in_the_same_state_on_virtual_nodes_and_on_kind() {
    scenario_on_any_nodes(async |scene| {
        let node = NodeSpec::new("n1", 2, "A100-80GB").label(POOL, "research").devices(NIC, 8);
        // The versions that can be built from Go modules, and run on kind.
        let release = "go-modules".to_owned();
        let fleet = Fleet { flavour: Flavour::Helm, release, nodes: vec![node], ..Fleet::default() };
        scene.world(fleet).await?;
        if !Kind::asked_for()?.has_real_nodes() {
            // Somebody who has a network card and no GPU: he is in nobody's way.
            scene.apply(pod("nic-only", NIC, 1)).await?;
            assert_eq!(scene.runs("nic-only").await?, "n1");
        }
        scene.operator().await?;
        let layout = |slices: &[(&str, u32)]| policy("research", "research").always(slices).evicts();
        scene.apply(layout(&[("1g.10gb", 7)])).await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await?;
        scene.apply(pod("p", &mig("1g.10gb"), 1)).await?;
        assert_eq!(scene.runs("p").await?, "n1");
        scene.converged("research").await?;
        scene.apply(layout(&[("3g.40gb", 2)])).await?;
        scene.is_gone("p").await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        // Discovery looks at its own pace.
        scene
            .node("n1", "is labelled by what it has", |node| {
                let labels = node.metadata.labels.as_ref()?;
                let new = labels.contains_key("nvidia.com/mig-3g.40gb.count");
                (new && !labels.contains_key("nvidia.com/mig-1g.10gb.count")).then_some(())
            })
            .await?;

        ends_as(scene, "end.yaml", "differences.yaml").await
    });
}

#[test]
fn a_story_of_shared_gpus_ends_in_the_same_state_on_virtual_nodes_and_on_kind() {
    scenario_on_any_nodes(async |scene| {
        let node = NodeSpec::new("n1", 2, "T4").label(POOL, "research");
        let release = "go-modules".to_owned();
        let fleet = Fleet { flavour: Flavour::Helm, release, nodes: vec![node], ..Fleet::default() };
        scene.world(fleet).await?;
        scene.operator_with(|settings| settings.patch_device_plugin = true).await?;
        let shared = |replicas: u32| {
            let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]);
            policy("research", "research")
                .spec("/layout", json!({"type": "None"}))
                .spec("/sharing", json!({"type": "TimeSlicing", "rules": rules}))
        };
        scene.apply(shared(4)).await?;
        scene.offers_resources("n1", &[(SHARED, 8)]).await?;
        scene.apply(pod("p", SHARED, 1)).await?;
        assert_eq!(scene.runs("p").await?, "n1");
        scene.converged("research").await?;
        // More for each GPU, under a pod that has a share.
        scene.apply(shared(6)).await?;
        scene.offers_resources("n1", &[(SHARED, 12)]).await?;
        scene.converged("research").await?;
        // Discovery looks at its own pace.
        scene
            .node("n1", "is labelled by how it is shared", |node| {
                let labels = node.metadata.labels.as_ref()?;
                (labels.get("nvidia.com/gpu.replicas")? == "6").then_some(())
            })
            .await?;
        ends_as(scene, "shared-end.yaml", "shared-differences.yaml").await
    });
}
