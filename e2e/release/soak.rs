//! The long soak: two thousand random events on a fleet in which some nodes have agents. `e2e/scenarios/soak.rs` is the
//! short one of every change; `cargo run -p slicewright-e2e --bin soak -- --help` runs any.

use e2e::scenario;
use e2e::soak::{Plan, soak};

#[test]
fn after_two_thousand_events_beside_agents_no_pod_has_lost_its_slice_and_everything_comes_to_rest() {
    let plan = Plan { settle_every: 100, ..Plan::new(2_000, 11) }.with_agents();
    scenario(async |scene| soak(scene, plan, |what| println!("{what}")).await);
}
