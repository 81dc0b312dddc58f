//! The stories of the repository, one test for each file: the output is compared with its golden
//! transcript. `UPDATE=1 cargo test -p slicewright-cli --test it stories` rewrites the transcripts; review
//! the diff.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories")
}

/// Runs one story and compares its transcript.
#[track_caller]
fn check(name: &str) {
    let story = folder().join(format!("{name}.story"));
    let golden = folder().join(format!("{name}.golden"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["slicewright".into(), "simulate".into(), story.clone().into_os_string()];
    let status = cli::run(args, &mut out, &mut err);
    let transcript = String::from_utf8(out).expect("transcripts are text");
    let err = String::from_utf8_lossy(&err);
    #[expect(
        clippy::disallowed_methods,
        reason = "how goldens are written anew; nothing of the product reads it"
    )]
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(&golden, &transcript).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(expected == transcript, "{}", difference(&golden, &expected, &transcript));
    assert_eq!(status.code(), 0, "the story does not hold: {err}\n{}", misses(&transcript));
    for sentence in
        ["plan again", "plan is clean according to check", "no slice was taken from a pod (invariant 1)"]
    {
        assert!(
            transcript.contains(&format!("\n= {sentence}")),
            "the story does not end as every story must: {sentence}"
        );
    }
}

fn misses(transcript: &str) -> String {
    transcript.lines().filter(|line| line.starts_with("NOT AS")).map(|line| format!("  {line}\n")).collect()
}

/// The first lines that differ, with what comes before them.
fn difference(golden: &Path, expected: &str, found: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let at = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let mut text = format!(
        "{}: differs from line {} on (UPDATE=1 writes it anew):\n",
        golden.file_name().unwrap_or_default().to_string_lossy(),
        at + 1
    );
    for line in &old[at.saturating_sub(3).min(old.len())..at] {
        text += &format!("    {line}\n");
    }
    for line in old.iter().skip(at).take(6) {
        text += &format!("  - {line}\n");
    }
    for line in new.iter().skip(at).take(6) {
        text += &format!("  + {line}\n");
    }
    text
}

/// The nodes that are closed at each moment of a transcript at which one more closes.
fn closed_at(transcript: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let (mut closed, mut moments) = (BTreeSet::new(), BTreeMap::new());
    for line in transcript.lines() {
        let Some((at, told)) = line.split_once("  ROLLOUT ") else { continue };
        let (node, what) = told.split_once(' ').expect("a rollout tells what it does");
        if what.ends_with("is cordoned, and its device plugin is paused") {
            closed.insert(node);
            moments.insert(at, closed.clone());
        } else if what.ends_with("it is uncordoned") {
            closed.remove(node);
        }
    }
    moments
}

/// The policy allows four at a time. The transcript is what [`check`] has compared.
#[test]
fn of_twenty_nodes_with_agents_as_many_as_the_budget_allows_are_closed_at_a_time_and_never_more() {
    let golden = folder().join("twenty-at-once-by-their-agents.golden");
    let transcript = std::fs::read_to_string(golden).expect("the golden is there");
    let moments = closed_at(&transcript);
    assert_eq!(moments.values().map(BTreeSet::len).collect::<Vec<_>>(), [4; 5], "{moments:?}");
    assert_eq!(moments.values().flatten().collect::<BTreeSet<_>>().len(), 20, "{moments:?}");
}

macro_rules! stories {
    ($($test:ident = $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_story_of_the_folder_is_a_test() {
            let listed: BTreeSet<String> = [$($name.to_owned()),*].into();
            let files = std::fs::read_dir(folder()).expect("the folder is there");
            let there: BTreeSet<String> = files
                .filter_map(|file| Some(file.ok()?.path().file_name()?.to_str()?.strip_suffix(".story")?.to_owned()))
                .collect();
            assert_eq!(listed, there);
        }
    };
}

stories! {
    whole_gpus_beside_slices = "whole-gpus-beside-slices";
    whole_gpus_on_demand = "whole-gpus-on-demand";
    an_agent_recuts_the_rest_of_a_gpu_while_a_notebook_computes_on_it = "an-agent-recuts-beside-notebooks";
    an_agent_cuts_a_gpu_although_dcgm_keeps_slices_open = "dcgm-holds-slices-beside-an-agent";
    an_agent_gives_up_what_dcgm_does_not_let_go = "dcgm-does-not-let-go";
    an_agent_keeps_the_slice_of_an_init_container = "an-init-container-holds-a-slice";
    an_agent_ends_its_change_although_containers_and_kubelet_start_again = "what-happens-in-the-gap";
    an_agent_takes_a_slice_that_kubelet_gave_twice_from_nobody = "kubelet-gives-one-slice-twice";
    twenty_at_once_by_their_agents = "twenty-at-once-by-their-agents";
    an_agents_change_survives_failures = "an-agents-change-survives-failures";
    a_budget_of_one_node_over_ten = "a-budget-of-one-node-over-ten";
    a_disruption_budget_refuses = "a-disruption-budget-refuses";
    a_failed_change_is_rolled_back = "a-failed-change-is-rolled-back";
    a_failed_node_is_released = "a-failed-node-is-released";
    a_floor_that_cannot_be_met = "a-floor-that-cannot-be-met";
    a_foreign_label = "a-foreign-label";
    a_fresh_node_with_mig_off = "a-fresh-node-with-mig-off";
    a_full_fleet = "a-full-fleet";
    a_higher_priority_breaks_a_promise = "a-higher-priority-breaks-a-promise";
    a_label_that_goes_away = "a-label-that-goes-away";
    a_menu_that_is_unattainable = "a-menu-that-is-unattainable";
    a_pod_that_asks_for_two_slices = "a-pod-that-asks-for-two-slices";
    a_reboot = "a-reboot";
    a_request_for_whole_gpus = "a-request-for-whole-gpus";
    a_wedged_mig_manager_is_healed = "a-wedged-mig-manager-is-healed";
    a_window_closes_mid_way = "a-window-closes-mid-way";
    a_working_day = "a-working-day";
    a_hopper_node_of_an_agent_reboots = "a-hopper-node-of-an-agent-reboots";
    an_agents_node_reboots = "an-agents-node-reboots";
    an_agent_comes_and_goes = "an-agent-comes-and-goes";
    an_agent_proves_idleness = "an-agent-proves-idleness";
    an_idle_notebook_is_left_alone = "an-idle-notebook-is-left-alone";
    cooldown = "cooldown";
    demand_vanishes_after_the_label = "demand-vanishes-after-the-label";
    demand_vanishes_before_the_label = "demand-vanishes-before-the-label";
    floors_and_spares = "floors-and-spares";
    idleness_that_cannot_be_proved = "idleness-that-cannot-be-proved";
    max_count = "max-count";
    most_is_served = "most-is-served";
    planning_in_a_batch = "planning-in-a-batch";
    preview_and_paused = "preview-and-paused";
    priorities = "priorities";
    real_manifests = "real-manifests";
    seed_000_mixed_seven_workbenches = "seed-000-mixed-seven-workbenches";
    seed_000_single_one_workbench_takes_seven = "seed-000-single-one-workbench-takes-seven";
    seed_001_eight_gpus_56_slices = "seed-001-eight-gpus-56-slices";
    seed_001_the_failing_order = "seed-001-the-failing-order";
    seed_002_selector_as_it_stands = "seed-002-selector-as-it-stands";
    seed_002_selector_on_a_count = "seed-002-selector-on-a-count";
    seed_002_selector_on_the_product_label = "seed-002-selector-on-the-product-label";
    seed_003_a_busy_gpu = "seed-003-a-busy-gpu";
    seed_003_a_display_gpu_beside = "seed-003-a-display-gpu-beside";
    seed_003_the_disable_path = "seed-003-the-disable-path";
    seed_004_how_to_share_each_card = "seed-004-how-to-share-each-card";
    seed_004_labels_of_nfd_and_gfd = "seed-004-labels-of-nfd-and-gfd";
    slice_by_slice_beside_running_pods = "slice-by-slice-beside-running-pods";
    slices_in_use_are_left_alone = "slices-in-use-are-left-alone";
    somebody_elses_cordon = "somebody-elses-cordon";
    static_with_drain_evict = "static-with-drain-evict";
    static_with_drain_never = "static-with-drain-never";
    stopped_and_culled = "stopped-and-culled";
    teams_have_shares = "teams-have-shares";
    the_oldest_comes_first = "the-oldest-comes-first";
    the_operator_crashes = "the-operator-crashes";
    the_pod_to_wait_for = "the-pod-to-wait-for";
    auto_shares_cards_without_mig = "auto-shares-cards-without-mig";
    seed_002_both_keys_as_a_policy = "seed-002-both-keys-as-a-policy";
    two_policies_share_one_node = "two-policies-share-one-node";
    a_foreign_sharing_label = "a-foreign-sharing-label";
    a_sharing_policy_is_deleted_mid_way = "a-sharing-policy-is-deleted-mid-way";
    slices_that_two_share = "slices-that-two-share";
    time_slicing_by_policy = "time-slicing-by-policy";
    two_models_with_one_profile_name = "two-models-with-one-profile-name";
    two_policies_on_one_node = "two-policies-on-one-node";
    unrequested_whole = "unrequested-whole";
    what_was_promised_is_kept = "what-was-promised-is-kept";
    what_was_reviewed_has_moved = "what-was-reviewed-has-moved";
}

/// A transcript shows messages as their readers get them: who is told why they wait is not told whose pods are in the way.
#[test]
fn no_message_to_a_user_names_a_pod_of_another_namespace() {
    let mut told = 0;
    let mut hidden = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "golden") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let workloads: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("> workbench ").or_else(|| line.strip_prefix("> pod ")))
            .filter_map(|rest| rest.split(' ').next())
            .collect();
        for line in text.lines() {
            let Some((_, message)) = line.split_once("  -> ") else { continue };
            let Some((reader, message)) = message.split_once(' ') else { continue };
            let Some((namespace, _)) = reader.split_once('/') else { continue };
            told += 1;
            hidden += usize::from(message.contains("of another namespace"));
            for other in workloads.iter().filter(|other| !other.starts_with(&format!("{namespace}/"))) {
                assert!(!message.contains(other), "{}: {line}", path.display());
            }
        }
    }
    assert!(told > 100 && hidden > 5, "{told} messages, {hidden} of which leave something out");
}
