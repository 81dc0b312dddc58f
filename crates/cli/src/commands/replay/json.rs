//! A replay for programs. Times are seconds; a slice-second is one compute
//! slice for one second.

use serde_json::{Value, json};

use super::{Findings, Row, Size};

/// It grows when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

pub(super) fn value(told: &Findings<'_>) -> Value {
    let Findings { args, trace, fleet, bound, rows, sizes, too_large } = told;
    let (from, until) = trace.span();
    let (peak, peak_at) = trace.peak();
    json!({
        "formatVersion": FORMAT_VERSION,
        "trace": {
            "requests": trace.requests.len(),
            "momentary": trace.momentary,
            "tooLarge": too_large,
            "from": from,
            "until": until,
            "peak": {"computeSlices": peak, "at": peak_at},
        },
        "fleet": {
            "nodes": fleet.nodes.len(),
            "gpus": fleet.gpus().count(),
            "computeSlices": fleet.compute(),
            "words": fleet.words(),
        },
        "mapSettle": args.map_settle.as_secs(),
        "bound": {"sliceSeconds": bound.slice_seconds, "gpus": bound.gpus},
        "played": rows.iter().map(row).collect::<Vec<_>>(),
        "sizes": sizes.iter().map(size).collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    json!({
        "player": row.player,
        "actuator": row.actuator.map(replay::Actuator::name),
        "away": row.away.as_secs(),
        "figures": row.played.figures,
        "timeline": row.played.timeline,
    })
}

fn size(size: &Size) -> Value {
    json!({
        "nodes": size.nodes,
        "gpus": size.fleet.gpus().count(),
        "actuator": size.actuator.name(),
        "bound": {"sliceSeconds": size.bound.slice_seconds, "gpus": size.bound.gpus},
        "figures": size.played.figures,
    })
}
