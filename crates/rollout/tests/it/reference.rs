//! Compares `docs/reference/rollout.md` with the code.

use std::fmt::Write as _;
use std::path::Path;

use slicewright_rollout::{Phase, Settings, reasons};

fn phase(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Idle => (
            "Nothing is under way.",
            "`Mapping` when a change is wanted and nothing is against it; `Changing` after a reboot or a foreign run.",
        ),
        Phase::Mapping => (
            "The entry is added to the map, and the kubelet delivers it to MIG manager.",
            "`Cordoning` when admitted; `Idle` when the change is not wanted any more.",
        ),
        Phase::Cordoning => (
            "The node is cordoned, with the operator's label.",
            "`Quiescing` after the settle time; `Retreating`.",
        ),
        Phase::Quiescing => (
            "The operator lists the pods and waits until they start, end or are evicted; then it writes the label.",
            "`Changing` when the label is seen; `Retreating`.",
        ),
        Phase::Changing => (
            "The operator has written the label, and MIG manager works. This is the point of no return.",
            "`Verifying` at success; `Healing`, `Relabelling` or `Failed` in trouble.",
        ),
        Phase::Verifying => (
            "The operator verifies that the slices are schedulable.",
            "`Releasing` when verified; `Healing`, `Relabelling` or `Failed` in trouble.",
        ),
        Phase::Healing => {
            ("MIG manager's pod is replaced.", "`Changing` when the new pod is ready; `Failed`.")
        }
        Phase::Relabelling => (
            "An alias, or the last verified layout, is written.",
            "`Changing` when the label is seen; `Failed`.",
        ),
        Phase::Releasing => ("The slices are verified, and the operator's cordon is lifted.", "`Idle`."),
        Phase::Retreating => (
            "The change was reverted, and the operator's cordon is lifted.",
            "`Idle`; `Changing` when the label was written after all.",
        ),
        Phase::Failed => (
            "The node stays cordoned until an administrator has looked at it.",
            "`Releasing` when the node has a correct layout again.",
        ),
        Phase::Released => ("An administrator ended the rollout.", "`Idle` when resumed."),
    }
}

/// What the states mean where an agent changes slices.
const AGENT: [(Phase, &str); 7] = [
    (
        Phase::Cordoning,
        "In one write, the node is cordoned and the device plugin, DCGM and its exporter are paused. Where the policy allows evictions and a pod has a slice that goes, the node is cordoned first, and those pods are evicted; the operands are paused when they are gone.",
    ),
    (
        Phase::Quiescing,
        "The agent reports who holds what, with the device plugin gone; the operator proves that no pod loses a slice, and permits the change. Until the agent claims it, everything can be taken back.",
    ),
    (Phase::Changing, "The agent has claimed the change and works on it. Only its outcome ends this state."),
    (
        Phase::Verifying,
        "The agent has ended the change; the operands are resumed, and kubelet has to offer exactly what the GPUs have.",
    ),
    (Phase::Releasing, "The cordon is lifted."),
    (
        Phase::Retreating,
        "Nothing was changed: the permission is withdrawn, the operands are resumed, and the cordon is lifted.",
    ),
    (
        Phase::Failed,
        "The agent disappeared after its claim, did not finish, or kubelet does not offer the slices. The node goes on when the agent reports its outcome.",
    ),
];

/// What they mean where it changes how GPUs are shared.
const SHARING: [(Phase, &str); 6] = [
    (
        Phase::Mapping,
        "The key is added to the map `slicewright-plugin-config`, and the kubelet delivers it to the device plugin. Pods that hold GPUs are waited for.",
    ),
    (
        Phase::Quiescing,
        "The operator lists the pods and waits until none would share a GPU without having asked for it; then it writes `nvidia.com/device-plugin.config`.",
    ),
    (
        Phase::Verifying,
        "The node has to offer exactly its GPUs times the number of pods that share each, under one name.",
    ),
    (Phase::Relabelling, "The device plugin did not do so, and the previous label is written again, once."),
    (Phase::Releasing, "The cordon is lifted."),
    (
        Phase::Failed,
        "Neither the new configuration nor the previous one is offered, or someone else wrote the label. The node goes on when it offers what its label says.",
    ),
];

fn page() -> String {
    let mut page = String::from(
        "# Rollout: states, times, reasons\n\nGenerated from `crates/rollout` and compared with it by its test `reference`. \
         [ADR 2](../adr/0002-rollout.md) gives the reasons.\n\n## States\n\n| state | what happens | leads to |\n|---|---|---|\n",
    );
    for each in Phase::ALL {
        let (what, next) = phase(each);
        let _ = writeln!(page, "| `{each:?}` | {what} | {next} |");
    }
    let Settings {
        map_settle,
        cordon_settle,
        list_fresh,
        write_limit,
        quiesce_limit,
        drain_limit,
        pickup_limit,
        wedged_after,
        change_limit,
        verify_limit,
        stable_for,
        interruption_limit,
        retreat_backoff,
        roll_back_backoff,
        longest_backoff,
        hold_limit,
        agent_limit,
        agent_gone_after,
        poll,
    } = Settings::default();
    page.push_str(
        "\nWhere the agent of a node changes single slices, the states mean the following.\n\n| state | what happens |\n|---|---|\n",
    );
    for (state, what) in AGENT {
        let _ = writeln!(page, "| `{state:?}` | {what} |");
    }
    page.push_str(
        "\nWhen the sharing of GPUs changes, the states mean the following; other states are unchanged.\n\n| state | what happens |\n|---|---|\n",
    );
    for (state, what) in SHARING {
        let _ = writeln!(page, "| `{state:?}` | {what} |");
    }
    page.push_str("\n## Times\n\n| setting | default | what it limits |\n|---|---|---|\n");
    for (name, value, what) in [
        (
            "mapSettle",
            map_settle,
            "wait after the map has the entry, since the kubelet's mount cannot be observed",
        ),
        ("cordonSettle", cordon_settle, "wait after the cordon, for the scheduler"),
        ("listFresh", list_fresh, "the oldest consistent list on which a label is written"),
        ("writeLimit", write_limit, "until a write that is not observed counts as a problem"),
        (
            "quiesceLimit",
            quiesce_limit,
            "until the change is reverted because pods do not start or do not end",
        ),
        ("drainLimit", drain_limit, "until the change is reverted because evictions do not succeed"),
        ("pickupLimit", pickup_limit, "until a MIG manager that does not respond counts as a problem"),
        (
            "wedgedAfter",
            wedged_after,
            "until the state `pending` with paused operands counts as a hang of MIG manager",
        ),
        ("changeLimit", change_limit, "until a change or a reboot that does not finish counts as a problem"),
        (
            "verifyLimit",
            verify_limit,
            "from success until slices that are not schedulable count as a problem",
        ),
        ("stableFor", stable_for, "how long the expected slices must remain"),
        (
            "interruptionLimit",
            interruption_limit,
            "how long another controller may work on a node whose change is not finished",
        ),
        ("retreatBackoff", retreat_backoff, "pause after a retreat; doubles"),
        ("rollBackBackoff", roll_back_backoff, "pause after a rollback, for the same layout; doubles"),
        ("longestBackoff", longest_backoff, "the longest such pause"),
        (
            "holdLimit",
            hold_limit,
            "until a change of single slices that the agent has not claimed is taken back",
        ),
        ("agentLimit", agent_limit, "how long an agent may take for a change that it has claimed"),
        (
            "agentGoneAfter",
            agent_gone_after,
            "how long no pod of an agent is on a node before the agent counts as uninstalled there",
        ),
        ("poll", poll, "how often the operator checks what it waits for"),
    ] {
        let _ = writeln!(page, "| `{name}` | {value:#} | {what} |");
    }
    page.push_str(
        "\n## Reasons\n\n| reason | what it means | what an administrator should do |\n|---|---|---|\n",
    );
    for reason in reasons::ALL {
        let _ = writeln!(page, "| `{}` | {} | {} |", reason.name, reason.means, reason.help);
    }
    page
}

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/rollout.md");
    let page = page();
    #[expect(clippy::disallowed_methods, reason = "how golden files are overwritten on purpose")]
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(there, page, "run this test with UPDATE_GOLDEN=1 and look at the diff");
}

#[test]
fn reasons_are_distinct_and_say_what_to_do() {
    let mut names: Vec<_> = reasons::ALL.iter().map(|reason| reason.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), reasons::ALL.len());
    assert!(reasons::ALL.iter().all(|reason| reason.help.len() > 10 && reason.means.ends_with('.')));
}
