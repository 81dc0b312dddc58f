//! A soak test: random events on a small fleet, one after another, and checks of the invariants (section
//! "Invariants" of `docs/architecture.md`).
//!
//! It is not part of the tests: it takes minutes, and its course depends on timing. Its seed is printed,
//! and gives the same events again.

mod checks;
mod events;
mod state;

use std::process::ExitCode;

use clap::Parser;
use e2e::scenario;

use crate::state::Soak;

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
}

#[expect(clippy::print_stdout, reason = "what a soak found is its output")]
fn main() -> ExitCode {
    let args = Args::parse();
    println!("seed {}, {} events", args.seed, args.events);
    let told = std::panic::catch_unwind(|| {
        scenario(async |scene| {
            let mut soak = Soak::begin(scene, args.seed).await?;
            for n in 1..=args.events {
                let what = soak.event(scene).await?;
                println!("{n}: {what}");
                soak.pause(args.pause_ms).await;
                soak.nothing_is_broken(scene).await?;
                if n % args.settle_every == 0 || n == args.events {
                    println!("{n}: {}", soak.settle(scene).await?);
                }
            }
            println!("{}", soak.summary());
            Ok(())
        });
    });
    if told.is_ok() {
        println!("no breach, nothing cordoned in silence, nothing written at rest");
        ExitCode::SUCCESS
    } else {
        println!("seed {}: something was broken; see above", args.seed);
        ExitCode::FAILURE
    }
}
