//! The texts of statuses and conditions, and the reasons that hold a node.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::sync::Arc;

use crate::cluster::{Cluster, OPERATOR, Until};
use rollout::Phase;
use serde_json::json;

fn text(found: Option<(String, String, String)>) -> String {
    found.map_or_else(
        || "(not there)".to_owned(),
        |(status, reason, message)| format!("{status} {reason}: {message}"),
    )
}

#[test]
fn a_status_has_supply_demand_digests_and_who_is_not_served() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("has", "7g.80gb", Some("n1"));
    cluster.pod("asks", "1g.10gb", None);
    let round = cluster.step(Until::End);
    let status = round.policies.values().next().unwrap();
    let whole = status.supply.iter().find(|s| s.profile == "7g.80gb").unwrap();
    assert_eq!((whole.attainable, whole.present, whole.allocated, whole.free), (1, 1, 1, 0));
    let unserved = status.unserved.as_ref().unwrap();
    assert_eq!(unserved.total, 1);
    assert_eq!(unserved.requests[0].reason, "AllUsed");
    assert_eq!(unserved.requests[0].slices, "1 x 1g.10gb");
    assert!(unserved.requests[0].message.contains("pod team/has ends"), "{}", unserved.requests[0].message);
    assert_eq!(status.plan_digest.as_deref(), Some(round.planned.plan.digest().as_str()));
    assert_eq!(
        status.policy_digest.as_deref(),
        Some(reconcile::policy_digest::policy_digest(&cluster.objects.policies).as_str())
    );
    assert!(!status.certificate.is_empty());
    let nodes = status.nodes.as_ref().unwrap();
    assert_eq!((nodes.total, nodes.ready), (1, 1));
    assert_eq!(status.observed_generation, Some(1));
    assert!(status.conditions.iter().all(|c| c.observed_generation == Some(1)));
}

#[test]
fn of_very_many_who_are_not_served_the_oldest_fifty_are_named_and_all_are_counted() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("has", "7g.80gb", Some("n1"));
    // The later the name, the older the pod.
    for i in (0..60).rev() {
        cluster.pod(&format!("asks-{i:02}"), "1g.10gb", None);
        cluster.now += jiff::SignedDuration::from_secs(1);
    }
    let round = cluster.step(Until::End);
    let unserved = round.policies.values().next().unwrap().unserved.clone().unwrap();
    assert_eq!((unserved.total, unserved.requests.len()), (60, 50));
    let named: Vec<_> = unserved.requests.iter().map(|request| request.name.as_str()).collect();
    assert_eq!((named[0], named[49]), ("asks-59", "asks-10"));
}

#[test]
fn the_node_remembers_what_it_has_and_since_when_slices_are_free() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let _ = cluster.step(Until::End);
    let stored = cluster.objects.gpu_nodes["n1"].status.clone().unwrap();
    assert_eq!(stored.slices.as_deref(), Some("7g.80gb (1 free)"));
    let observed = stored.observed.unwrap();
    assert_eq!((observed.gpus[0].model.as_str(), observed.gpus[0].mig_enabled), ("A100-80GB", true));
    let since = stored.rollout.unwrap().schedulable_since["7g.80gb"];
    assert_eq!(since, cluster.now);
    cluster.now += jiff::SignedDuration::from_mins(3);
    let _ = cluster.step(Until::End);
    let rollout = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap();
    assert_eq!(rollout.schedulable_since["7g.80gb"], since, "it does not move while the slice is free");
    cluster.pod("has", "7g.80gb", Some("n1"));
    let _ = cluster.step(Until::End);
    let rollout = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap();
    assert!(rollout.schedulable_since.is_empty());
}

/// Somebody waits for `Ready` and reads the next column: the write that says the one says the other.
#[test]
fn the_write_that_calls_a_changed_node_ready_says_what_it_has_now() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.hgx("n2");
    cluster.pod("works", "7g.80gb", Some("n2"));
    cluster.settle();
    let before = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().slices;
    cluster.pod("asks", "1g.10gb", None);
    let mut changed = false;
    for _ in 0..200 {
        let writes = cluster.writes;
        let round = cluster.step(Until::End);
        let (status, reason, _) = Cluster::node_condition(&round, "n1", "Ready").unwrap();
        let has = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().slices;
        changed |= reason == "Changing";
        if changed && status == "True" {
            assert_ne!(has, before, "it is ready, and says what it had");
            assert!(has.unwrap().contains("1g.10gb"));
            return;
        }
        if writes == cluster.writes {
            let soon = cluster.now + jiff::SignedDuration::from_secs(1);
            cluster.now = round.wake_at.unwrap_or(soon).max(soon);
        }
    }
    panic!("it is never ready again");
}

#[test]
fn a_progress_that_cannot_be_read_holds_the_node_and_is_kept() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let _ = cluster.step(Until::End);
    let strange = json!({"phase": "Teleporting", "engine": 2});
    let mut node = cluster.objects.gpu_nodes["n1"].as_ref().clone();
    node.status.as_mut().unwrap().rollout.as_mut().unwrap().progress = Some(strange.clone());
    cluster.objects.gpu_nodes.insert("n1".to_owned(), Arc::new(node));
    cluster.pod("asks", "1g.10gb", None);
    let round = cluster.step(Until::End);
    assert!(round.nodes.is_empty(), "nothing is done to it");
    assert!(round.planned.plan.steps.is_empty(), "nothing is planned on it");
    let kept = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap().progress;
    assert_eq!(kept, Some(strange));
    let said = text(Cluster::node_condition(&round, "n1", "Degraded"));
    assert!(said.contains("slicewright release n1"), "{said}");
    let said = text(Cluster::condition(&round, "Degraded"));
    assert!(said.starts_with("True NotEstablished: n1: "), "{said}");
}

#[test]
fn a_cluster_policy_without_our_map_gets_the_exact_command() {
    let mut cluster = Cluster::new();
    cluster.cluster_policy("default-mig-parted-config");
    cluster.node("n1");
    let command = "kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"migManager\":{\"config\":{\"name\":\"slicewright-mig-config\"}}}}'";
    let round = cluster.step(Until::End);
    let said = text(Cluster::condition(&round, "Degraded"));
    assert!(said.starts_with("True MapNotOurs: ") && said.contains(command), "{said}");
    assert!(cluster.our_map().contains("all-1g.10gb"), "the map is there before anybody points to it");
    cluster.pod("asks", "1g.10gb", None);
    let round = cluster.step(Until::End);
    let said = text(Cluster::condition(&round, "Stalled"));
    assert!(said.starts_with("True MapNotOurs: ") && said.contains(command), "{said}");
    cluster.cluster_policy("slicewright-mig-config");
    cluster.settle();
    assert_eq!(Cluster::condition(&cluster.round(), "Degraded"), None);
    assert_ne!(cluster.offers("n1", "1g.10gb"), "0");
}

/// A GitOps tool that puts `ClusterPolicy` back each time would have MIG manager restart on every node, again and again.
#[test]
fn who_points_mig_manager_elsewhere_again_is_told_until_when_it_is_left_so() {
    let mut cluster = Cluster::new();
    cluster.cluster_policy("default-mig-parted-config");
    cluster.node("n1");
    let until = cluster.now + jiff::SignedDuration::from_hours(1);
    cluster.obstacles.map_pointer_rests_until = Some(until);
    let said = text(Cluster::condition(&cluster.round(), "Degraded"));
    assert!(said.starts_with("True MapNotOurs: "), "{said}");
    assert!(said.contains(&format!("so the operator leaves it so until {until}; let whoever")), "{said}");
    cluster.now = until;
    let said = text(Cluster::condition(&cluster.round(), "Degraded"));
    assert!(said.contains("so no node can be changed; run: kubectl patch"), "{said}");
}

#[test]
fn nodes_of_dra_and_das_are_left_alone_and_it_is_said() {
    let mut dra = Cluster::new();
    dra.node("n1");
    dra.objects.gpu_cluster = true;
    let mut das = Cluster::new();
    das.node("n1");
    das.edit_node("n1", |node| {
        let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity("7".to_owned());
        let status = node.status.as_mut().unwrap();
        status.capacity.get_or_insert_default().insert("mig.das.com/1g.10gb".to_owned(), quantity);
    });
    for (mut cluster, who) in [(dra, "DRA (GPUCluster)"), (das, "the Dynamic Accelerator Slicer (DAS)")] {
        cluster.pod("asks", "1g.10gb", None);
        let round = cluster.step(Until::End);
        assert!(round.nodes.values().all(|n| n.advance.actions.is_empty()));
        assert_eq!(round.nodes.values().next().unwrap().advance.progress.phase, Phase::Idle);
        for said in
            [Cluster::condition(&round, "Degraded"), Cluster::node_condition(&round, "n1", "Degraded")]
        {
            let said = text(said);
            assert!(said.starts_with("True HandsOff: ") && said.contains(who), "{said}");
        }
    }
}

#[test]
fn a_wrong_map_of_the_administrators_is_a_condition_and_keeps_nobody_waiting() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.administrators_map(
        "version: v1\nmig-configs:\n  ours:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {3g.40gb: 2}\n",
    );
    cluster.settle();
    assert!(cluster.our_map().contains("\n  ours:\n"));
    assert_eq!(Cluster::condition(&cluster.round(), "Degraded"), None);
    cluster.administrators_map("version: v2\nmig-configs: {}\n");
    cluster.pod("asks", "1g.10gb", None);
    cluster.settle();
    let said = text(Cluster::condition(&cluster.round(), "Degraded"));
    assert!(said.starts_with("True MapInvalid: ") && said.contains("version is `v2`"), "{said}");
    assert!(cluster.our_map().contains("\n  ours:\n"), "what it had before stays");
    assert_ne!(cluster.offers("n1", "1g.10gb"), "0", "and others are served");
}

#[test]
fn a_preview_writes_no_map_and_touches_no_node() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster.edit_policy(|policy| policy.spec.mode = api::policy::Mode::Preview);
    let round = cluster.step(Until::End);
    assert_eq!(round.map.write, None);
    assert!(round.nodes.values().all(|n| n.advance.actions.is_empty()));
    assert_eq!(round.planned.plan.steps.len(), 1, "it plans, and says what it would do");
    let said = text(Cluster::condition(&round, "Ready"));
    assert!(said.starts_with("False Preview: "), "{said}");
    assert!(
        !cluster
            .objects
            .config_maps
            .contains_key(&(OPERATOR.to_owned(), "slicewright-mig-config".to_owned()))
    );
}

#[test]
fn a_cordon_of_ours_that_can_be_taken_back_is_hidden_from_the_planner() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    let mut rounds = 0;
    while !cluster.is_cordoned("n1") {
        let round = cluster.step(Until::End);
        cluster.now = round.wake_at.unwrap();
        rounds += 1;
        assert!(rounds < 50);
    }
    let round = cluster.round();
    let node = round.planned.view.inventory.nodes.values().next().unwrap();
    assert!(node.schedulable && node.hold.is_none(), "{:?}", node.hold);
    cluster.objects.pods.retain(|(namespace, _), _| namespace != "team");
    cluster.settle();
    assert!(!cluster.is_cordoned("n1"), "nobody asks any more: it is taken back");
    assert_eq!(cluster.offers("n1", "7g.80gb"), "1");
}

/// The checker never finds fault with our own plans, so the note is made up.
#[test]
fn a_plan_that_breaks_a_rule_stops_what_is_disruptive_and_says_so() {
    for already in [false, true] {
        let mut cluster = Cluster::new();
        cluster.node("n1");
        cluster.pod("asks", "1g.10gb", None);
        while already && !cluster.is_cordoned("n1") {
            cluster.now = cluster.step(Until::End).wake_at.unwrap();
        }
        let note = planner::check::Note {
            severity: planner::check::Severity::Fatal,
            node: Some("n1".into()),
            gpu: None,
            problem: planner::check::Problem::NodeTwice,
        };
        let expected = note.to_string();
        let round = cluster.round_with(note);
        let actions: Vec<_> =
            round.nodes.values().flat_map(|n| &n.advance.actions).map(rollout::Action::name).collect();
        assert_eq!(actions, if already { vec!["Uncordon"] } else { vec![] });
        let said = text(Cluster::condition(&round, "Degraded"));
        assert!(said.starts_with("True PlanRefused: ") && said.ends_with(&expected), "{said}");
    }
}

#[test]
fn a_policy_that_makes_no_sense_is_not_ready_and_says_which_field() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.policy(json!({"type": "Static"}));
    let round = cluster.step(Until::End);
    for kind in ["Accepted", "Ready"] {
        let said = text(Cluster::condition(&round, kind));
        assert!(said.starts_with("False Invalid: spec.layout.static.gpus: "), "{said}");
    }
    let said = text(Cluster::condition(&round, "Stalled"));
    assert!(said.starts_with("True Invalid: "), "{said}");
}

#[test]
fn a_policy_that_selects_by_a_label_that_goes_away_is_accepted_with_a_warning() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let warned = |cluster: &Cluster| text(Cluster::condition(&cluster.round(), "Accepted"));
    assert_eq!(warned(&cluster), "True Valid: it has 1 node");
    cluster.edit_policy(|policy| {
        let labels = &mut policy.spec.node_selector.match_labels;
        labels.clear();
        labels.insert("nvidia.com/mig.capable".to_owned(), "true".to_owned());
    });
    let said = warned(&cluster);
    let begins =
        "True Valid: it has 1 node. Warning: spec.nodeSelector.matchLabels[nvidia.com/mig.capable]: ";
    assert!(said.starts_with(begins), "{said}");
    assert!(said.contains("or by `nvidia.com/gpu.present: \"true\"`"), "{said}");
    // It is no obstacle: what has been asked for is planned.
    cluster.pod("asks", "3g.40gb", None);
    cluster.settle();
    assert_eq!(cluster.offers("n1", "3g.40gb"), "2");
    // Without the label, nobody else would say where the node has gone.
    cluster.edit_node("n1", |node| {
        node.metadata.labels.get_or_insert_default().remove("nvidia.com/mig.capable");
    });
    let said = warned(&cluster);
    assert!(
        said.starts_with("False NoNodes: its nodeSelector selects no node with GPUs. Warning: "),
        "{said}"
    );
}

#[test]
fn ready_says_how_many_of_the_nodes_have_their_layout_and_names_the_first_that_is_left_alone() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2", "n3"] {
        cluster.hgx(node);
    }
    let ready = |cluster: &Cluster| text(Cluster::condition(&cluster.round(), "Ready"));
    assert_eq!(ready(&cluster), "True Converged: every node has its layout");
    let contradict = |cluster: &mut Cluster, name: &str| {
        cluster.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/mig.config".to_owned(), "all-1g.10gb".to_owned());
        });
    };
    contradict(&mut cluster, "n2");
    let said = ready(&cluster);
    assert!(said.starts_with("True Converged: 2 of 3 nodes have their layout; n2: "), "{said}");
    assert!(said.contains("label nvidia.com/mig.config says `all-1g.10gb`"), "{said}");
    // Where nothing is known of any, nothing is ready.
    for node in ["n1", "n3"] {
        contradict(&mut cluster, node);
    }
    let said = ready(&cluster);
    assert!(said.starts_with("False NotEstablished: 0 of 3 nodes have their layout; n1: "), "{said}");
}

#[test]
fn a_policy_by_demand_is_refused_under_strategy_single_with_the_command_that_helps() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster.strategy("single");
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("nvidia.com/mig.strategy".to_owned(), "single".to_owned());
    });
    let round = cluster.step(Until::End);
    for (kind, status) in [("Accepted", "False"), ("Ready", "False"), ("Stalled", "True")] {
        let said = text(Cluster::condition(&round, kind));
        assert!(said.starts_with(&format!("{status} StrategySingle: spec.layout.type: ")), "{said}");
        let command = "kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"mig\":{\"strategy\":\"mixed\"}}}'";
        assert!(said.contains(command), "{said}");
    }
    assert_eq!(Cluster::condition(&round, "Degraded"), None, "it is said once");
    assert!(round.nodes.values().all(|n| n.advance.actions.is_empty()));
    // One profile on all GPUs works there.
    cluster.policy(
        json!({"type": "Static", "static": {"gpus": [{"slices": [{"profile": "1g.10gb", "count": 7}]}]}}),
    );
    assert_eq!(Cluster::condition(&cluster.round(), "Accepted").unwrap().1, "Valid");
}

#[test]
fn a_gpu_operator_that_is_not_set_up_stalls_the_policy_with_the_next_step() {
    let mut absent = Cluster::new();
    absent.node("n1");
    absent.objects.cluster_policies.clear();
    let mut off = Cluster::new();
    off.node("n1");
    off.edit_node("n1", |node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("nvidia.com/gpu.deploy.mig-manager".to_owned(), "false".to_owned());
    });
    for (mut cluster, reason, help) in [
        (absent, "NoClusterPolicy", "Install the GPU Operator and create its `ClusterPolicy`."),
        (off, "ManagerDisabled", "Set `spec.migManager.enabled: true`, and the node's label to `true`."),
    ] {
        cluster.pod("asks", "1g.10gb", None);
        let round = cluster.step(Until::End);
        for said in [Cluster::condition(&round, "Stalled"), Cluster::node_condition(&round, "n1", "Stalled")]
        {
            let said = text(said);
            assert!(said.starts_with(&format!("True {reason}: ")) && said.ends_with(help), "{said}");
        }
        assert_eq!(Cluster::condition(&round, "Reconciling"), None, "nothing goes on by itself");
    }
}

#[test]
fn a_foreign_label_comes_with_the_command_for_each_way_out() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster.settle();
    let ours = cluster.objects.nodes["n1"].metadata.labels.as_ref().unwrap()["nvidia.com/mig.config"].clone();
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("nvidia.com/mig.config".to_owned(), "all-disabled".to_owned());
    });
    let round = cluster.step(Until::End);
    for kind in ["Ready", "Stalled"] {
        let said = text(Cluster::condition(&round, kind));
        assert!(said.contains("ForeignLayout: n1: nvidia.com/mig.config has `all-disabled`"), "{said}");
        let give_back = format!("kubectl label node n1 nvidia.com/mig.config={ours} --overwrite");
        assert!(said.contains(&give_back) && said.contains("slicewright release n1"), "{said}");
    }
}

#[test]
fn a_policy_that_selects_nothing_is_not_ready() {
    let cluster = Cluster::new();
    let round = cluster.round();
    for kind in ["Accepted", "Ready"] {
        let said = text(Cluster::condition(&round, kind));
        assert!(said.starts_with("False NoNodes: "), "{said}");
    }
}

/// A larger request that comes before the slices are being made may replace the
/// plan: a time that was told by then would be one that is taken back.
#[test]
fn no_time_is_promised_before_the_slices_are_being_made() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    let (mut planned, mut promised) = (Vec::new(), Vec::new());
    let name = planner::names::NodeName::from("n1");
    cluster.until("n1", Phase::Verifying, |_, round, _| {
        let answer = &round.answers[0];
        let says = (round.nodes[&name].advance.progress.phase, answer.text.clone(), answer.topic);
        if answer.text.contains("will be ready there, at about ") {
            promised.push(says);
        } else if answer.text.starts_with("planned: ") {
            planned.push(says);
        }
    });
    let text =
        "planned: n1 is to be changed for it (1g.10gb); a time is given once its slices are being made";
    let before = |phase: &Phase| phase.can_return();
    assert!(planned.iter().all(|(phase, said, topic)| before(phase) && said == text && *topic == "Planned"));
    assert!(planned.iter().any(|(phase, ..)| *phase == Phase::Mapping), "{planned:?}");
    assert!(
        !promised.is_empty() && promised.iter().all(|(phase, _, topic)| !before(phase) && topic.is_empty())
    );
}

/// Eight GPUs, each with two halves, and one pod on one of them, nobody knows which.
#[test]
fn where_only_an_agent_could_know_what_is_idle_the_policy_says_how_to_install_one() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.hgx(node);
        cluster.edit_node(node, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.remove("nvidia.com/mig-7g.80gb.count");
            labels.insert("nvidia.com/mig-3g.40gb.count".to_owned(), "16".to_owned());
            labels.insert("nvidia.com/mig.config".to_owned(), "all-3g.40gb".to_owned());
            let status = node.status.get_or_insert_default();
            for resources in [&mut status.allocatable, &mut status.capacity] {
                let resources = resources.get_or_insert_default();
                resources.remove("nvidia.com/mig-7g.80gb");
                resources.insert("nvidia.com/mig-3g.40gb".to_owned(), Quantity("16".to_owned()));
            }
        });
        cluster.pod(&format!("train-{node}"), "3g.40gb", Some(node));
    }
    let planned = |cluster: &Cluster| text(Cluster::condition(&cluster.round(), "Planned"));
    assert!(planned(&cluster).starts_with("True DemandServed: "));
    // Somebody asks for more than the nodes can ever have: no agent helps.
    cluster.pod("mad", "1g.5gb", None);
    assert!(!planned(&cluster).contains("agent"), "{}", planned(&cluster));
    cluster.pod("large", "7g.80gb", None);
    let said = planned(&cluster);
    assert!(said.starts_with("False DemandUnserved: 2 requests not served; "), "{said}");
    assert!(
        said.contains("installs it with agent.enabled=true; under OLM, apply what `helm template"),
        "{said}"
    );
}
