//! Kueue is installed after Slicewright: until then an operator that answers its checks serves whoever asks
//! without a queue, and from then on those who wait in one.

use controller::settings::Kueue;
use e2e::{NodeSpec, POOL, mig, objects, pod, policy, scenario};
use serde_json::{Value, json};

use crate::queues::{check_says, guide, kueue, was_unschedulable};

/// Kinds of Kueue that come with the cluster of a scenario.
fn of_kueue() -> anyhow::Result<Vec<Value>> {
    let all = objects::foreign_crds()?.into_iter();
    Ok(all.filter(|crd| crd["spec"]["group"] == "kueue.x-k8s.io").collect())
}

#[test]
fn an_operator_that_was_there_before_kueue_answers_its_checks_as_soon_as_there_is_one() {
    scenario(async |scene| {
        scene.remove_crds(&of_kueue()?).await?;
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research")).await?;
        // Without Kueue it is an operator like any other.
        scene.apply(pod("early", &mig("2g.20gb"), 1)).await?;
        let early = scene.runs("early").await?;
        scene.converged("research").await?;
        scene.queues().await?;
        for object in guide()? {
            scene.apply(object).await?;
        }
        check_says(scene, "lab", "Ready", "its slices are free on").await?;
        scene.workbench_runs("lab").await?;
        assert!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        assert_eq!(scene.runs("early").await?, early);
        // The operator that answered is the one that was there before.
        assert_eq!(scene.operators().len(), 1);
        let (checks, _) =
            objects::api_of(&scene.client(), &kueue("AdmissionCheck", "gpu-slices", json!({}))).await?;
        let active = checks.get("gpu-slices").await?.data["status"]["conditions"][0].clone();
        assert_eq!((&active["type"], &active["status"]), (&json!("Active"), &json!("True")));
        scene.converged("research").await
    });
}
