//! OpenShift AI is installed later than the operator.

use e2e::{Fleet, a100, mig, objects, pod, policy, scenario, workbench};

#[test]
fn crds_of_openshift_ai_that_come_later_are_noticed() {
    scenario(async |scene| {
        let late: Vec<_> = objects::foreign_crds()?
            .into_iter()
            .filter(|crd| {
                crd["spec"]["group"] != "nvidia.com" && crd["spec"]["group"] != "sim.slicewright.io"
            })
            .collect();
        scene.remove_crds(&late).await?;
        let nodes = vec![a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")];
        scene.world(Fleet { openshift_ai: false, nodes, ..Fleet::default() }).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(pod("p", &mig("3g.40gb"), 2)).await?;
        let first = scene.runs("p").await?;
        objects::install_crds(&scene.client(), &late).await?;
        // Nobody makes a pod of it here: the workbench alone is a request.
        let lab = workbench("lab", &mig("2g.20gb"), 1);
        scene.apply(lab).await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        scene.told("Notebook", "lab", &format!("2g.20gb is free on {other}")).await?;
        // And they may go again.
        scene.remove_crds(&late).await?;
        scene.apply(pod("q", &mig("2g.20gb"), 1)).await?;
        scene.runs("q").await?;
        scene.converged("research").await
    });
}
