//! Tenants give their pods the names and labels of the GPU Operator's and of
//! ours, in a namespace that sorts before theirs.

use api::gpu_node::ObservedBy;
use e2e::agents::AGENT_NAMESPACE;
use e2e::wait::{self, until};
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario, workbench};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use serde_json::{Value, json};

use crate::agent_changes::{the_agent_has_cut_for_a_workbench, they_have_what_they_had};

const THEIRS: &str = "a-team-of-impostors";
/// What the operator looks for: the two operands that it acts upon, and the
/// Operator's checks, which hold no slice for anybody.
const APPS: [&str; 4] = [
    "nvidia-mig-manager",
    "nvidia-device-plugin-daemonset",
    "nvidia-cuda-validator",
    "nvidia-device-plugin-validator",
];

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THEIRS}})
}

/// Their namespace is gone: the next scenario on the same control plane makes it anew.
async fn they_leave(scene: &Scene) -> anyhow::Result<()> {
    scene.delete(namespace()).await?;
    let namespaces: Api<Namespace> = Api::all(scene.client());
    wait::until_one(namespaces, THEIRS, "the impostors' namespace is gone", scene.patience(), |seen| {
        if seen.is_none() { Ok(()) } else { Err("it is there".to_owned()) }
    })
    .await
}

/// A DaemonSet with the name and the label of an operand, whose pods never
/// become ready on any node.
fn daemon_set(app: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": app, "namespace": THEIRS},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {
                    "labels": {"app": app},
                    "annotations": {"sim.slicewright.io/starts-after": "24h"},
                },
                "spec": {
                    "nodeSelector": {POOL: "research"},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "registry.example/impostor:1"}],
                },
            },
        },
    })
}

/// The pods of the impostors, by name and UID: one that is deleted comes back
/// with another.
async fn theirs(api: &Api<Pod>) -> anyhow::Result<Vec<(String, String)>> {
    let pods = api.list(&kube::api::ListParams::default()).await?;
    let name_and_uid =
        |pod: Pod| (pod.metadata.name.unwrap_or_default(), pod.metadata.uid.unwrap_or_default());
    let mut pods: Vec<_> = pods.items.into_iter().map(name_and_uid).collect();
    pods.sort();
    Ok(pods)
}

#[test]
fn impostors_of_operands_lose_no_pod_fail_no_proof_and_hide_no_holder() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.apply(namespace()).await?;
        for app in APPS {
            scene.apply(daemon_set(app)).await?;
        }
        let pods: Api<Pod> = Api::namespaced(scene.client(), THEIRS);
        until(pods.clone(), "impostors are on both nodes", scene.patience(), |seen| {
            let bound = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let found = seen.values().filter(bound).count();
            if found == 2 * APPS.len() { Ok(()) } else { Err(format!("{found} are")) }
        })
        .await?;
        // Those who hold slices say that they are the Operator's checks: seven
        // fill a GPU each, one has only a slice of the last on its node.
        for (n, app) in APPS[2..].iter().cycle().take(8).enumerate() {
            let slices = if n < 7 { 7 } else { 1 };
            let holder = pod(&format!("holder-{n}"), &mig("1g.10gb"), slices)
                .labelled("app", app)
                .with("/spec/nodeName", "n1");
            scene.apply(holder).await?;
            scene.runs(&format!("holder-{n}")).await?;
        }
        let before = theirs(&pods).await?;

        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        // MIG manager gets stuck, so that its own pod is replaced, and no other.
        scene.simulator().turn("n2", "does-not-stop dcgm-exporter")?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        scene.phase("n2", "Healing").await?;
        scene.simulator().clear("n2")?;
        assert_eq!(scene.workbench_runs("lab").await?, "n2", "every GPU of n1 has a holder");
        scene.converged("research").await?;
        scene.offers("n1", &[("1g.10gb", 56)]).await?;
        for n in 0..8 {
            assert_eq!(scene.runs(&format!("holder-{n}")).await?, "n1");
        }
        assert_eq!(theirs(&pods).await?, before, "a pod of somebody else was deleted");
        let deleted = scene.audit()?.writes()?;
        let mut deleted = deleted.iter().filter(|w| w.verb == "delete" && w.object_ref.resource == "pods");
        assert!(deleted.all(|write| write.object_ref.namespace != THEIRS));
        they_leave(scene).await
    });
}

/// A tenant's DaemonSet has the labels of our agents' pods. The agent of a node is uninstalled: MIG manager gets the
/// node back, whatever pods of that tenant stay there.
#[test]
fn an_impostor_of_the_agent_keeps_no_node_from_going_back() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_cut_for_a_workbench(scene).await?;
        scene.apply(namespace()).await?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), AGENT_NAMESPACE);
        let real = pods.get("agent-n1").await?;
        let app = "slicewright-agent";
        let mut impostor = daemon_set(app);
        for (key, value) in real.metadata.labels.iter().flatten() {
            impostor["spec"]["template"]["metadata"]["labels"][key] = json!(value);
        }
        scene.apply(impostor).await?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), THEIRS);
        until(pods.clone(), "an impostor is on n1", scene.patience(), |seen| {
            let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let found = seen.values().any(|pod| on(pod).as_deref() == Some("n1"));
            if found { Ok(()) } else { Err("it is not".to_owned()) }
        })
        .await?;

        agent.kill().await?;
        scene.agent_is_uninstalled("n1").await?;
        scene
            .gpu_node("n1", "is seen by the operator", |node| {
                let status = node.status.as_ref()?;
                let observed = status.observed.as_ref()?;
                (observed.by == ObservedBy::Controller && status.agent.is_none()).then_some(())
            })
            .await?;
        they_have_what_they_had(scene, &before)?;
        let left = theirs(&pods).await?;
        assert!(!left.is_empty(), "the impostor is still there");
        scene.converged("research").await?;
        they_leave(scene).await
    });
}
