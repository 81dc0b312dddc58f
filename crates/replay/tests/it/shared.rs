//! The public trace, if it is beside the repository: see `docs/results.md`.

use std::path::Path;

use replay::{Player, Trace};

use crate::support::{all, fleet, play_from, rules};

/// A cluster's requests for GPUs, mapped to slices (Alibaba's cluster-trace-gpu-v2023).
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/traces/openb_mig_events.csv");

#[test]
fn the_public_trace_is_read_and_played_where_it_is() {
    if !Path::new(TRACE).exists() {
        println!("left out: there is no {TRACE}");
        return;
    }
    let text = std::fs::read_to_string(TRACE).unwrap();
    let fleet = fleet("9x8xA100-80GB");
    let trace = Trace::parse(&text, &fleet.profiles(), None).unwrap();
    assert_eq!((trace.requests.len() + trace.momentary, trace.peak().0), (7064, 464));
    let played = play_from(
        &trace,
        &fleet,
        &Player::Static,
        &rules(replay::Actuator::IdleGpus),
        &all(&fleet, "7g.80gb"),
    );
    assert!(played.figures.served > 4000);
}
