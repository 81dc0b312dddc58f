//! OpenShift AI up to 3.3 writes the slice of a hardware profile into every container of a workbench: what is
//! counted is what the pod will ask for.

use anyhow::ensure;
use e2e::{NodeSpec, POOL, TEAM, mig, pod, policy, scenario, workbench};
use serde_json::{Value, json};

use crate::snapshot::Recorder;

/// A workbench as the API server stores it after the webhook of release 2.25: its proxy asks for a slice, too.
fn with_a_sidecar() -> Value {
    let mut lab = Value::from(workbench("lab", &mig("3g.40gb"), 1));
    let containers = &mut lab["spec"]["template"]["spec"]["containers"];
    let mut proxy = containers[0].clone();
    proxy["name"] = json!("oauth-proxy");
    *containers = json!([containers[0], proxy]);
    lab
}

#[test]
fn a_workbench_whose_proxy_asks_for_a_slice_too_gets_both_on_one_node_and_its_user_can_read_why() {
    scenario(async |scene| {
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        let held = pod("holds", &mig("7g.80gb"), 5);
        scene.apply(held).await?;
        scene.runs("holds").await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(with_a_sidecar()).await?;
        let node = scene.workbench_runs("lab").await?;
        let holder = format!("{TEAM}/lab-0");
        let mut slices = 0;
        for gpu in scene.simulator().truth(&node)? {
            slices +=
                gpu.slices.iter().filter(|slice| slice.holder.as_deref() == Some(holder.as_str())).count();
        }
        ensure!(slices == 2, "each of its containers has one: {slices}");
        let said = Recorder::new(scene).await?.explains("workbench", &format!("{TEAM}/lab")).await?;
        let why = format!("2 of its containers ask for {} (lab, oauth-proxy)", mig("3g.40gb"));
        ensure!(said.to_string().contains(&why), "{why}: {said}");
        scene.converged("research").await
    });
}
