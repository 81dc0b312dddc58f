//! A policy on a real API server, as GitOps tools see it: no difference from Git, whatever the operator
//! did, and no labels or annotations on our objects that would make a tool treat them as its own.

use api::{GpuNode, GpuPartitionPolicy};
use cluster::NodeSpec;
use e2e::{POOL, Scene, a100, mig, pod, scenario};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// Who applies, as Argo CD names itself.
const TOOL: &str = "argocd-controller";

/// What Argo CD and Flux mark their resources with. A child that had it would
/// be taken for one of theirs, and pruned.
const MARKS: &[(&str, &str)] = &[
    ("labels", "app.kubernetes.io/instance"),
    ("labels", "kustomize.toolkit.fluxcd.io/name"),
    ("labels", "kustomize.toolkit.fluxcd.io/namespace"),
    ("annotations", "argocd.argoproj.io/tracking-id"),
];

/// The policies of the example repository, with the marks of both tools on
/// them, and one that says everything that a policy can say.
fn in_git() -> anyhow::Result<Vec<Value>> {
    let files = [
        include_str!("../../examples/policy-repo/base/research.yaml"),
        include_str!("../../examples/policy-repo/clusters/lab/teaching.yaml"),
        include_str!("everything.yaml"),
    ];
    let mut manifests = Vec::new();
    for file in files {
        manifests.extend(e2e::objects::documents(file)?);
    }
    for manifest in &mut manifests {
        for (kind, key) in MARKS {
            manifest["metadata"][*kind][*key] = json!("gpu-policies");
        }
    }
    Ok(manifests)
}

async fn applied(scene: &Scene, manifest: &Value, dry: bool) -> anyhow::Result<Value> {
    let (api, _) = e2e::objects::api_of(&scene.client(), manifest).await?;
    let params = PatchParams { dry_run: dry, ..PatchParams::apply(TOOL) };
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let object: DynamicObject = api.patch(name, &params, &Patch::Apply(manifest)).await?;
    Ok(serde_json::to_value(object)?)
}

/// Every field of a manifest that the live object has otherwise, by its path.
fn otherwise(manifest: &Value, live: &Value, path: &str, found: &mut Vec<String>) {
    match (manifest, live) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                otherwise(value, theirs.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (i, (value, live)) in ours.iter().zip(theirs).enumerate() {
                otherwise(value, live, &format!("{path}[{i}]"), found);
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => found.push(format!("{path}: {ours} in Git, {theirs} in the cluster")),
    }
}

#[test]
fn argo_cd_would_see_no_difference_whatever_the_operator_did() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-7g.80gb"), a100("n2", "all-7g.80gb")]).await?;
        scene.operator().await?;
        let manifests = in_git()?;
        for manifest in &manifests {
            applied(scene, manifest, false).await?;
        }
        scene.apply(pod("p", &mig("1g.10gb"), 1)).await?;
        scene.runs("p").await?;
        scene.converged("research").await?;
        for manifest in &manifests {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            scene
                .policy(name, "was looked at", |policy| policy.status.as_ref()?.policy_digest.clone())
                .await?;
            let (api, _) = e2e::objects::api_of(&scene.client(), manifest).await?;
            let mut live = serde_json::to_value(api.get(name).await?)?;
            let mut predicted = applied(scene, manifest, true).await?;
            // The operator may be writing the next status just now.
            for object in [&mut live, &mut predicted] {
                object["status"] = Value::Null;
                object["metadata"]["resourceVersion"] = Value::Null;
                object["metadata"]["managedFields"] = Value::Null;
            }
            assert_eq!(live["metadata"]["generation"], json!(1), "{name}: somebody wrote to its spec");
            assert_eq!(predicted, live, "{name}: an apply of what is in Git would change it");
            let mut found = Vec::new();
            otherwise(manifest, &live, "", &mut found);
            assert!(
                found.is_empty(),
                "{name}: the cluster keeps another form of what was written: {found:#?}"
            );
        }
        Ok(())
    });
}

#[test]
fn what_we_make_carries_no_mark_of_a_gitops_tool() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        for manifest in in_git()? {
            applied(scene, &manifest, false).await?;
        }
        scene.converged("research").await?;
        let nodes: Api<GpuNode> = Api::all(scene.client());
        let nodes = nodes.list(&ListParams::default()).await?;
        assert!(!nodes.items.is_empty());
        for node in nodes {
            for (_, mark) in MARKS {
                let marked = node.labels().contains_key(*mark) || node.annotations().contains_key(*mark);
                assert!(!marked, "GpuNode {} has {mark}", node.name_any());
            }
            let owners: Vec<_> = node.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
            assert_eq!(owners, ["Node"], "a GpuNode goes with its node, not with a policy");
        }
        Ok(())
    });
}

fn belongs_to_no_policy(node: &GpuNode) -> Option<()> {
    let conditions = &node.status.as_ref()?.conditions;
    let told = conditions.iter().any(|c| c.type_ == "Ready" && c.reason == "NoPolicy");
    (told && node.spec.policy.is_none()).then_some(())
}

#[test]
fn policies_that_are_deleted_are_gone_at_once_and_their_nodes_keep_their_layout() {
    scenario(async |scene| {
        // One that changes before, and one that never did: nothing was ever wanted of it but to be as it is.
        let a30 = NodeSpec::new("n2", 1, "A30").label(POOL, "teaching").layout("all-1g.6gb");
        scene.nodes_are([a100("n1", "all-7g.80gb"), a30]).await?;
        scene.operator().await?;
        for manifest in in_git()? {
            applied(scene, &manifest, false).await?;
        }
        scene.apply(pod("p", &mig("1g.10gb"), 1)).await?;
        scene.runs("p").await?;
        scene.converged("research").await?;
        scene.converged("teaching").await?;
        let policies: Api<GpuPartitionPolicy> = Api::all(scene.client());
        for (policy, node) in [("research", "n1"), ("teaching", "n2")] {
            let before = scene.nodes().get(node).await?.status.and_then(|status| status.allocatable);
            let gone = policies.delete(policy, &DeleteParams::default()).await?;
            assert!(gone.right().is_some(), "nothing holds a policy back: there is no finalizer");
            scene.gpu_node(node, "belongs to no policy", belongs_to_no_policy).await?;
            let after = scene.nodes().get(node).await?.status.and_then(|status| status.allocatable);
            assert_eq!(after, before);
        }
        assert_eq!(scene.running().await?, ["p"]);
        Ok(())
    });
}
