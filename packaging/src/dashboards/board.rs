//! The content of the dashboards. Queries take the largest value of all replicas (`max by (…)`) before they
//! sum up: after a change of the leader, two replicas export the same values for a while. Requests without
//! a policy have an empty policy, which `$policy|` includes.

use super::{Panel, Query, Row, Shape, Unit};

const fn query(legend: &'static str, expr: &'static str) -> Query {
    Query { expr, legend }
}

const fn figure(
    title: &'static str,
    says: &'static str,
    alarming_from: Option<u8>,
    queries: &'static [Query],
) -> Panel {
    Panel { title, says, shape: Shape::Figure { alarming_from }, unit: Unit::Count, width: 3, queries }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "At a glance",
        panels: &[
            figure(
                "Requests without a slice",
                "Requests that the plan in force does not serve. The reasons are further down, and in each policy's status.",
                Some(1),
                &[query(
                    "requests",
                    r#"sum(max by (policy, profile, reason) (slicewright_unserved_requests{policy=~"$policy|"})) or vector(0)"#,
                )],
            ),
            figure(
                "Promised slices that are missing",
                "Slices of a policy's minCount that do not exist.",
                Some(1),
                &[query(
                    "slices",
                    r#"sum(max by (policy, profile) (slicewright_floor_missing_slices{policy=~"$policy"})) or vector(0)"#,
                )],
            ),
            figure(
                "Nodes that failed",
                "These nodes stay cordoned until an administrator acts. The GpuNode shows the problem, and the runbook SlicewrightNodeStuck the solution.",
                Some(1),
                &[query(
                    "nodes",
                    r#"sum(max by (policy, phase) (slicewright_nodes{policy=~"$policy", phase="Failed"})) or vector(0)"#,
                )],
            ),
            figure(
                "Policies that cannot do what they say",
                "Stalled: an administrator must act. Degraded: something is wrong. The condition gives the details.",
                Some(1),
                &[query(
                    "policies",
                    r#"count(max by (policy) (slicewright_policy_condition{policy=~"$policy", type=~"Stalled|Degraded", status="True"})) or vector(0)"#,
                )],
            ),
            figure(
                "Slices that are free",
                "Free slices of all nodes.",
                None,
                &[query(
                    "slices",
                    r#"sum(max by (node, profile, state) (slicewright_slices{state="free"})) or vector(0)"#,
                )],
            ),
            Panel {
                unit: Unit::Share,
                ..figure(
                    "Free, but beside others",
                    "The largest share of any policy: free compute slices on GPUs with another slice in use. They cannot become one full-size slice.",
                    None,
                    &[query("share", r#"max(slicewright_fragmentation_ratio{policy=~"$policy"})"#)],
                )
            },
            figure(
                "Nodes on their way",
                "Nodes that are being changed, or that wait for their pods to end.",
                None,
                &[query(
                    "nodes",
                    r#"sum(max by (policy, phase) (slicewright_nodes{policy=~"$policy", phase!~"Idle|Failed|Released"})) or vector(0)"#,
                )],
            ),
            figure(
                "Replicas with the lease",
                "One replica writes, the others watch. If there is none for long, see the runbook SlicewrightNoLeader.",
                Some(2),
                &[query("replicas", "sum(slicewright_leader) or vector(0)")],
            ),
        ],
    },
    Row {
        title: "Supply and demand",
        panels: &[
            Panel {
                title: "Slices, by profile",
                says: "Existing slices, slices in use, and requested slices that are not bound yet. Whole GPUs are shown as gpu.",
                shape: Shape::Table(&["profile"]),
                unit: Unit::Count,
                width: 6,
                queries: &[
                    query("There", "sum by (profile) (max by (node, profile, state) (slicewright_slices))"),
                    query(
                        "Held",
                        r#"sum by (profile) (max by (node, profile, state) (slicewright_slices{state!="free"}))"#,
                    ),
                    query(
                        "Free",
                        r#"sum by (profile) (max by (node, profile, state) (slicewright_slices{state="free"}))"#,
                    ),
                    query("Asked for", "max by (profile) (slicewright_pending_slice_requests)"),
                ],
            },
            Panel {
                title: "Supply against demand, by profile",
                says: "There: slices that exist. Wanted: slices in use, and requested slices that are not bound yet.",
                shape: Shape::Lines,
                unit: Unit::Count,
                width: 6,
                queries: &[
                    query(
                        "{{profile}} there",
                        "sum by (profile) (max by (node, profile, state) (slicewright_slices))",
                    ),
                    query(
                        "{{profile}} wanted",
                        r#"sum by (profile) (max by (node, profile, state) (slicewright_slices{state!="free"}) or max by (profile) (slicewright_pending_slice_requests))"#,
                    ),
                ],
            },
            Panel {
                title: "Requests without a slice, by reason",
                says: "A request for two profiles counts for both. slicewright explain shows the meaning of each reason and gives advice.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 6,
                queries: &[query(
                    "{{reason}}",
                    r#"sum by (reason) (max by (policy, profile, reason) (slicewright_unserved_requests{policy=~"$policy|"}))"#,
                )],
            },
            Panel {
                title: "How long the oldest of them waits",
                says: "The longest wait for each reason. The alert SlicewrightRequestsUnserved fires after an hour.",
                shape: Shape::Lines,
                unit: Unit::Seconds,
                width: 6,
                queries: &[query(
                    "{{reason}}",
                    r#"time() - min by (reason) (slicewright_unserved_requests_oldest_timestamp_seconds{policy=~"$policy|"})"#,
                )],
            },
        ],
    },
    Row {
        title: "Nodes and their changes",
        panels: &[
            Panel {
                title: "Nodes, by phase",
                says: "The phases of the policies' nodes. In the phase Idle, a node is not being changed.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 6,
                queries: &[query(
                    "{{phase}}",
                    r#"sum by (phase) (max by (policy, phase) (slicewright_nodes{policy=~"$policy"}))"#,
                )],
            },
            Panel {
                title: "Nodes that should change and do not start",
                says: "Nodes by reason: the budget, a window, the cooldown, a layout of another client.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 6,
                queries: &[query(
                    "{{reason}}",
                    r#"sum by (reason) (max by (node, policy, reason) (slicewright_node_held{policy=~"$policy"}))"#,
                )],
            },
            Panel {
                title: "Nodes on their way",
                says: "The time for which each node has been in its phase.",
                shape: Shape::Table(&["node", "policy", "phase"]),
                unit: Unit::Seconds,
                width: 6,
                queries: &[query(
                    "For",
                    r#"time() - min by (node, policy, phase) (slicewright_node_phase_since_timestamp_seconds{policy=~"$policy"})"#,
                )],
            },
            Panel {
                title: "What the plan in force asks for",
                says: "Nodes and GPUs that the plan still has to change.",
                shape: Shape::Lines,
                unit: Unit::Count,
                width: 6,
                queries: &[query("{{kind}}", "max by (kind) (slicewright_plan_changes)")],
            },
            Panel {
                title: "Changes of nodes that ended, in an hour",
                says: "verified: the node has the planned layout. rolled_back and taken_back: the node is usable. failed: an administrator has to act.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 6,
                queries: &[query(
                    "{{result}}",
                    "sum by (result) (increase(slicewright_gpu_repartition_total[1h]))",
                )],
            },
            Panel {
                title: "How long a change takes",
                says: "The time from the cordon until the layout was verified, for the changes of the last six hours.",
                shape: Shape::Lines,
                unit: Unit::Seconds,
                width: 6,
                queries: &[
                    query(
                        "half of them",
                        "histogram_quantile(0.5, sum by (le) (rate(slicewright_gpu_repartition_duration_seconds_bucket[6h])))",
                    ),
                    query(
                        "19 of 20",
                        "histogram_quantile(0.95, sum by (le) (rate(slicewright_gpu_repartition_duration_seconds_bucket[6h])))",
                    ),
                ],
            },
        ],
    },
    Row {
        title: "Broken promises and healings",
        panels: &[
            Panel {
                title: "Promised slices that are missing",
                says: "Missing slices of a policy's minCount. The alert SlicewrightFloorNotMet fires after half an hour.",
                shape: Shape::Lines,
                unit: Unit::Count,
                width: 4,
                queries: &[query(
                    "{{policy}}: {{profile}}",
                    r#"max by (policy, profile) (slicewright_floor_missing_slices{policy=~"$policy"}) > 0"#,
                )],
            },
            Panel {
                title: "MIG manager healed, in an hour",
                says: "MIG manager hung or failed, and its pod was replaced.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 4,
                queries: &[query(
                    "{{node}}",
                    "sum by (node) (increase(slicewright_mig_manager_healed_total[1h])) > 0",
                )],
            },
            Panel {
                title: "Changes that did not end well, in an hour",
                says: "By what went wrong.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 4,
                queries: &[query(
                    "{{result}}: {{reason}}",
                    r#"sum by (result, reason) (increase(slicewright_gpu_repartition_total{result!="verified"}[1h])) > 0"#,
                )],
            },
        ],
    },
    Row {
        title: "The operator",
        panels: &[
            Panel {
                title: "Errors, in ten minutes",
                says: "Writes that the API server refused or did not answer, by class; watches that broke, by kind; operations that are being retried.",
                shape: Shape::Lines,
                unit: Unit::Count,
                width: 6,
                queries: &[
                    query(
                        "{{action}}: {{result}}",
                        r#"sum by (action, result) (increase(slicewright_actions_total{result!="done"}[10m])) > 0"#,
                    ),
                    query(
                        "watch of {{kind}}",
                        "sum by (kind) (increase(slicewright_watch_failures_total[10m])) > 0",
                    ),
                    query("tried again", "sum(slicewright_retrying)"),
                ],
            },
            Panel {
                title: "Rounds a minute, by result",
                says: "Without changes there are few rounds. The runbook SlicewrightNotReconciling explains all results except ok.",
                shape: Shape::Stacked,
                unit: Unit::Count,
                width: 6,
                queries: &[query(
                    "{{result}}",
                    "sum by (result) (rate(slicewright_reconcile_total[5m])) * 60",
                )],
            },
            Panel {
                title: "How long a round thinks",
                says: "The time from the objects to the necessary actions, without the writes.",
                shape: Shape::Lines,
                unit: Unit::Seconds,
                width: 6,
                queries: &[
                    query(
                        "half of them",
                        "histogram_quantile(0.5, sum by (le) (rate(slicewright_reconcile_duration_seconds_bucket[5m])))",
                    ),
                    query(
                        "99 of 100",
                        "histogram_quantile(0.99, sum by (le) (rate(slicewright_reconcile_duration_seconds_bucket[5m])))",
                    ),
                ],
            },
            Panel {
                title: "What waits for longest",
                says: "The oldest change that no round has handled yet, and the oldest failure that is being retried.",
                shape: Shape::Lines,
                unit: Unit::Seconds,
                width: 6,
                queries: &[
                    query("for a round", "time() - min(slicewright_workqueue_oldest_timestamp_seconds)"),
                    query("since it failed", "time() - min(slicewright_retrying_oldest_timestamp_seconds)"),
                ],
            },
        ],
    },
];
