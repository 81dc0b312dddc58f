//! Policies that are paused or in preview: what they have published stays as it is, also what is published for queues,
//! which is of no policy.

use super::*;
use api::policy::Mode;

const FROZEN: [Mode; 2] = [Mode::Paused, Mode::Preview];

/// With profiles for a queue as well.
fn with_a_queue() -> Cluster {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    cluster
}

#[test]
fn a_policy_that_is_paused_or_in_preview_neither_publishes_nor_withdraws() {
    for mode in FROZEN {
        let mut cluster = with_a_queue();
        cluster.edit_policy(|policy| policy.spec.mode = mode);
        assert_eq!(minutes(&mut cluster, 60), [""; 0]);
        cluster.edit_policy(|policy| policy.spec.mode = Mode::Enforce);
        round(&mut cluster);
        cluster.edit_policy(|policy| policy.spec.mode = mode);
        assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    }
}

/// A third node is of another policy. Its CPU is twice that of the others, and its policy forbids what theirs allows.
fn of_two_policies() -> Cluster {
    let mut cluster = with_a_queue();
    cluster.hgx("n3");
    cluster.edit_node("n3", |node| {
        node.metadata.labels.get_or_insert_default().insert("pool".to_owned(), "large".to_owned());
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.get_mut("cpu").unwrap().0 = "128".to_owned();
    });
    let mut second = cluster.objects.policies.values().next().unwrap().clone();
    second.metadata.name = Some("large".to_owned());
    second.spec.node_selector.match_labels = [("pool".to_owned(), "large".to_owned())].into();
    cluster.objects.policies.insert("large".to_owned(), second);
    cluster
}

/// What is published for the queue was made for the smaller nodes, which are those of the policy that is paused.
#[test]
fn a_policy_that_is_paused_leaves_what_is_published_for_queues_whatever_the_other_policies_would_offer() {
    for mode in FROZEN {
        let mut cluster = of_two_policies();
        round(&mut cluster);
        let queued = name(&cluster, &["gpu-q-gpus-7g-80gb"]);
        let cpu = |cluster: &mut Cluster, name: &str| {
            json!(profile(cluster, name).spec.identifiers[0].default_count).as_u64().unwrap()
        };
        let before = cpu(&mut cluster, &queued);
        let policy = cluster.objects.policies.get_mut("research").unwrap();
        policy.spec.mode = mode;
        assert_eq!(minutes(&mut cluster, 60), [""; 0]);
        assert_eq!(stand(&cluster, &queued), None, "nobody judges it");
        // It goes, with its nodes: now the profile is of the larger ones.
        cluster.objects.policies.remove("research");
        let done = minutes(&mut cluster, 30);
        assert!(done.contains(&format!("withdraw {queued}")), "{done:?}");
        let after = name(&cluster, &["gpu-q-gpus-7g-80gb"]);
        assert!(cpu(&mut cluster, &after) > before);
    }
}

/// Who has no node has published nothing.
#[test]
fn a_policy_without_nodes_that_is_paused_keeps_nothing_for_queues() {
    let mut cluster = of_two_policies();
    let policy = cluster.objects.policies.get_mut("large").unwrap();
    policy.spec.mode = Mode::Paused;
    policy.spec.node_selector.match_labels = [("pool".to_owned(), "nowhere".to_owned())].into();
    round(&mut cluster);
    let queued = name(&cluster, &["gpu-q-gpus-7g-80gb"]);
    never_again(&mut cluster, "7g.80gb");
    assert!(minutes(&mut cluster, 12).contains(&format!("withdraw {queued}")));
}
