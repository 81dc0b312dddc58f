//! What the hardware does, by slice, beside what the operator says: the metrics of NVIDIA's dcgm-exporter, which the
//! GPU Operator runs. `packaging/dcgm-exporter.yaml` lists what it documents of them.

use super::{Panel, Query, Row, Shape, Unit};

const fn query(legend: &'static str, expr: &'static str) -> Query {
    Query { expr, legend }
}

/// The row. Power and temperature are measured by GPU and not by slice, and the panels say so.
pub(super) const ROW: Row = Row {
    title: "The hardware, by slice (DCGM)",
    panels: &[
        Panel {
            title: "Slices held, and slices that compute, by profile",
            says: "Held: slices that pods have. Computing: slices that were busy for more than 1 % of the last ten minutes. A notebook that is open and idle holds a slice and does not compute on it.",
            shape: Shape::Table(&["profile"]),
            unit: Unit::Count,
            width: 4,
            queries: &[
                query(
                    "Held",
                    r#"sum by (profile) (max by (node, profile, state) (slicewright_slices{state!="free"}))"#,
                ),
                query(
                    "Computing",
                    r#"count by (profile) (label_replace(max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_PROFILE!=""}[10m])) > 0.01, "profile", "$1", "GPU_I_PROFILE", "(.*)"))"#,
                ),
            ],
        },
        Panel {
            title: "How busy each slice is",
            says: "The share of time in which the compute engine of the slice was active. DCGM_FI_DEV_GPU_UTIL, which many dashboards show, has no value on a GPU that is cut.",
            shape: Shape::Lines,
            unit: Unit::Share,
            width: 4,
            queries: &[query(
                "{{Hostname}} gpu{{gpu}} {{GPU_I_PROFILE}} #{{GPU_I_ID}}",
                r#"max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_PROFILE!=""})"#,
            )],
        },
        Panel {
            title: "How full the memory of each slice is",
            says: "Used memory, as a share of the slice's memory. A slice that is nearly full is a reason for a larger profile, one that is nearly empty for a smaller one.",
            shape: Shape::Lines,
            unit: Unit::Share,
            width: 4,
            queries: &[query(
                "{{Hostname}} gpu{{gpu}} {{GPU_I_PROFILE}} #{{GPU_I_ID}}",
                r#"max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_DEV_FB_USED{GPU_I_PROFILE!=""}) / (max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_DEV_FB_USED{GPU_I_PROFILE!=""}) + max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_DEV_FB_FREE{GPU_I_PROFILE!=""}))"#,
            )],
        },
        Panel {
            title: "Power of each GPU",
            says: "Power draw of the whole GPU: it is not measured by slice. Slices of one GPU share its power limit.",
            shape: Shape::Lines,
            unit: Unit::Watts,
            width: 6,
            queries: &[query("{{Hostname}} gpu{{gpu}}", "max by (Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE)")],
        },
        Panel {
            title: "Temperature of each GPU",
            says: "Temperature of the whole GPU, which its slices share.",
            shape: Shape::Lines,
            unit: Unit::Celsius,
            width: 6,
            queries: &[query("{{Hostname}} gpu{{gpu}}", "max by (Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP)")],
        },
    ],
};
