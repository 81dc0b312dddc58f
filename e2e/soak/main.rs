//! A soak test: random events on a small fleet, one after another, and checks of the invariants (section
//! "Invariants" of `docs/architecture.md`).
//!
//! The gate has a short one of it, and the release check a long one; this runs any.

use std::process::ExitCode;

use clap::Parser;
use e2e::scenario;
use e2e::soak::{Plan, soak};

/// Random events on a control plane with virtual GPU nodes: arrivals, ends,
/// workbenches, faults, reboots, restarts of the operator, edits of the
/// policy, a bad way to the API server, a clock that is set, an older copy of
/// etcd that is put back. After each, nothing may have been taken from a pod; every now and
/// then faults end, and everything has to come to rest.
#[derive(Clone, Debug, Parser)]
struct Args {
    /// How many events.
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// Which events: the same seed, the same events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// After how many events faults end and everything has to come to rest.
    #[arg(long, default_value_t = 50)]
    settle_every: usize,
    /// The longest wait between two events, in milliseconds: about a minute of
    /// the simulated world is a second.
    #[arg(long, default_value_t = 400)]
    pause_ms: u64,
    /// Whether some of the nodes have agents, which are killed, uninstalled and only report now
    /// and then. They need `cargo build -p slicewright-node-agent -p simulated-nvml`.
    #[arg(long)]
    agents: bool,
    /// Whether there are T4s as well, which pods share: by how many changes, while they come and go.
    #[arg(long)]
    sharing: bool,
}

#[expect(clippy::print_stdout, reason = "what a soak found is its output")]
fn main() -> ExitCode {
    let args = Args::parse();
    println!("seed {}, {} events", args.seed, args.events);
    let Args { events, seed, settle_every, pause_ms, agents, sharing } = args;
    let plan = Plan { events, seed, settle_every, pause_ms, agents, sharing };
    let told = std::panic::catch_unwind(|| {
        scenario(async |scene| soak(scene, plan, |what| println!("{what}")).await);
    });
    if told.is_ok() {
        println!("no breach, nothing cordoned or paused in silence, nothing written at rest");
        ExitCode::SUCCESS
    } else {
        println!("seed {seed}: something was broken; see above");
        ExitCode::FAILURE
    }
}
