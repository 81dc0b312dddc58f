//! The layout follows the requests.

use e2e::{a100, mig, pod, policy, scenario, scenario_on_any_nodes, workbench};
use serde_json::json;

#[test]
fn a_workbench_asks_for_a_slice_that_no_node_has_and_gets_it() {
    scenario_on_any_nodes(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        scene.converged("research").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        let sentence = scene.told("Notebook", "lab", "3g.40gb will be ready there").await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n1");
        // What people read of it (docs/adr/0014): ours is no warning, and has its
        // whole sentence in the log; the scheduler's red line has only the time
        // at which its series began, so that ours stays the newest.
        let log = scene.event_log("lab").await?;
        let ours = log.iter().find(|event| event.message.as_ref() == Some(&sentence));
        assert_eq!(ours.and_then(|event| event.type_.as_deref()), Some("Normal"));
        let of_scheduler: Vec<_> =
            log.iter().filter(|event| event.reason.as_deref() == Some("FailedScheduling")).collect();
        assert!(!of_scheduler.is_empty(), "it was unschedulable at first");
        for event in of_scheduler {
            assert!(event.event_time.is_some() && event.last_timestamp.is_none(), "{event:?}");
        }
        scene.converged("research").await
    });
}

#[test]
fn slices_in_use_stay_while_everything_around_them_changes() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(pod("old", &mig("1g.10gb"), 1).annotated("sim.slicewright.io/opens", "at-once")).await?;
        let keeps = scene.runs("old").await?;
        let people = [("a", "3g.40gb"), ("b", "2g.20gb")];
        for (name, profile) in people {
            scene.apply(workbench(name, &mig(profile), 1)).await?;
            scene.is_unschedulable(&format!("{name}-0")).await?;
        }
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        for (name, profile) in people {
            assert_ne!(scene.workbench_runs(name).await?, keeps, "{profile} comes from the other node");
        }
        // A node without an agent changes as a whole or not at all.
        scene.each_gpu_offers(&keeps, &[("1g.10gb", 7)]).await?;
        assert!(scene.running().await?.contains(&"old".to_owned()));
        Ok(())
    });
}

#[test]
fn an_idle_notebook_keeps_its_slice_until_its_user_stops_it() {
    scenario_on_any_nodes(async |scene| {
        scene.research_has([a100("n1", "all-7g.80gb")]).await?;
        // It never opens the slice that it holds.
        scene.apply(workbench("idle", &mig("7g.80gb"), 1)).await?;
        scene.workbench_runs("idle").await?;
        scene.apply(workbench("eager", &mig("1g.10gb"), 1)).await?;
        let answer = scene.told("Notebook", "eager", "not served").await?;
        assert!(answer.contains("team-a/idle-0"), "{answer}");
        assert_eq!(scene.running().await?, ["idle-0"]);
        let stop =
            json!({"metadata": {"annotations": {"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"}}});
        scene.patch(workbench("idle", &mig("7g.80gb"), 1), stop).await?;
        scene.workbench_runs("eager").await?;
        assert_eq!(scene.running().await?, ["eager-0"]);
        scene.converged("research").await
    });
}

#[test]
fn a_pod_that_asks_for_two_slices_gets_them_on_one_node() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-3g.40gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(pod("one", &mig("3g.40gb"), 1)).await?;
        assert_eq!(scene.runs("one").await?, "n1");
        scene.apply(pod("two", &mig("3g.40gb"), 2)).await?;
        assert_eq!(scene.runs("two").await?, "n2");
        scene.apply(pod("three", &mig("3g.40gb"), 3)).await?;
        scene.told("Pod", "three", "ask for at most 2 of nvidia.com/mig-3g.40gb").await?;
        Ok(())
    });
}

#[test]
fn idleness_that_cannot_be_proved_leaves_the_gpus_alone_and_says_so() {
    scenario_on_any_nodes(async |scene| {
        let mut node = a100("n1", "all-3g.40gb");
        node.gpus[0].count = 2;
        scene.research_has([node]).await?;
        scene.apply(pod("train", &mig("3g.40gb"), 1)).await?;
        scene.runs("train").await?;
        scene.apply(workbench("lab", &mig("7g.80gb"), 1)).await?;
        let answer = scene.told("Notebook", "lab", "it is not known which of their slices pods hold").await?;
        assert!(answer.contains("pod team-a/train ends"), "{answer}");
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await
    });
}

#[test]
fn a_workbench_whose_shape_exists_nowhere_gets_its_answer() {
    scenario_on_any_nodes(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        scene.apply(workbench("lab", &mig("1g.5gb"), 1)).await?;
        scene.told("Notebook", "lab", "not served").await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await
    });
}

/// The virtual node has 500 GiB of ephemeral storage. Of three pods that want
/// 200 each two fit, as kube-scheduler sees it, too: slices are cut for two, and
/// the third is told what is short.
#[test]
fn slices_are_cut_for_as_many_pods_as_have_scratch_space() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-7g.80gb")]).await?;
        let wants = |name: &str| {
            let storage = "/spec/containers/0/resources/requests/ephemeral-storage";
            pod(name, &mig("1g.10gb"), 1).with(storage, "200Gi")
        };
        scene.apply(wants("first")).await?;
        scene.apply(wants("second")).await?;
        scene.runs("first").await?;
        scene.runs("second").await?;
        scene.apply(wants("third")).await?;
        scene.told("Pod", "third", "lack CPU, memory, ephemeral storage or pod slots").await?;
        scene.is_unschedulable("third").await
    });
}

#[test]
fn a_pod_that_is_unschedulable_for_want_of_cpu_changes_nothing_and_is_told() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        let greedy = pod("greedy", &mig("3g.40gb"), 1)
            .with("/spec/containers/0/resources/requests/cpu", "1000")
            .with("/spec/containers/0/resources/limits/cpu", "1000");
        scene.apply(greedy).await?;
        scene.is_unschedulable("greedy").await?;
        scene.told("Pod", "greedy", "not served").await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}
