//! A short soak with a fixed seed. The release check has a long one (`e2e/release/soak.rs`).

use e2e::scenario;
use e2e::soak::{Plan, soak};

#[test]
fn whatever_happens_beside_agents_no_pod_loses_its_slice_and_no_node_stays_closed_or_paused_in_silence() {
    let plan = Plan { pause_ms: 200, ..Plan::new(40, 20) }.with_agents();
    scenario(async |scene| soak(scene, plan, |what| println!("{what}")).await);
}

#[test]
fn whatever_happens_beside_t4s_that_pods_share_nobody_shares_one_unawares_and_no_node_stays_closed_in_silence()
 {
    let plan = Plan { pause_ms: 200, ..Plan::new(60, 23) }.with_sharing();
    scenario(async |scene| soak(scene, plan, |what| println!("{what}")).await);
}
