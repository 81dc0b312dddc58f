//! The prerequisites of the operator are removed while it runs: it reports this where users look, and
//! continues when they are restored.

use anyhow::Context;
use e2e::objects::{self, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};
use e2e::{NodeSpec, POOL, mig, pod, policy, scenario};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

#[test]
fn while_our_crds_are_gone_it_says_that_nothing_can_be_done_and_goes_on_when_they_are_back() {
    scenario(async |scene| {
        scene.research_has(["n1", "n2"].map(eight_gpus)).await?;
        scene.converged("research").await?;
        scene.remove_crds(&objects::our_crds()).await?;
        let operator = scene.operators().first().context("it was started")?;
        operator.is_ready(Some("gpunodes are not listed yet")).await?;
        operator.is_ready(Some("gpupartitionpolicies are not listed yet")).await?;
        objects::install_crds(&scene.client(), &objects::our_crds()).await?;
        operator.is_ready(None).await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        scene.converged("research").await
    });
}

/// Where the lease is in this story: the operator's own namespace has its
/// account too, without which it would be nobody.
const ROOM: &str = "room-of-the-lease";

fn room() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ROOM}})
}

/// The right to keep a lease there, which a namespace does not take with it.
fn rights() -> [Value; 2] {
    let name = "e2e-lease-elsewhere";
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": ["get", "create", "update"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR_ACCOUNT, "namespace": OPERATOR_NAMESPACE}]}),
    ]
}

#[test]
fn while_the_leases_namespace_is_gone_it_says_that_nobody_can_write_and_goes_on_when_it_is_back() {
    scenario(async |scene| {
        scene.apply(room()).await?;
        for right in rights() {
            scene.apply(right).await?;
        }
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.operator_with(|settings| ROOM.clone_into(&mut settings.lease.namespace)).await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        scene.delete(room()).await?;
        let operator = scene.operators().first().context("it was started")?;
        operator.is_ready(Some("nobody can write")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        let rooms: Api<Namespace> = Api::all(scene.client());
        e2e::wait::until_one(rooms, ROOM, "the namespace is gone", scene.patience(), |room| {
            room.map_or(Ok(()), |_| Err("it is there".to_owned()))
        })
        .await?;
        scene.apply(room()).await?;
        operator.is_ready(None).await?;
        scene.runs("asks").await?;
        scene.converged("research").await
    });
}
