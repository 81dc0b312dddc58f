//! A soak: random events on a small fleet, one after another, and checks of the invariants (section
//! "Invariants" of `docs/architecture.md`). Its course depends on timing; its seed gives the same events again.

mod agents;
mod checks;
mod events;
mod node_agent;
mod sharers;
mod state;
mod tenants;

use crate::Scene;
use state::Soak;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many events.
    pub events: usize,
    /// Which events.
    pub seed: u64,
    /// After how many events faults end and everything has to come to rest.
    pub settle_every: usize,
    /// The longest wait between two events, in milliseconds.
    pub pause_ms: u64,
    /// Whether some of the nodes have agents.
    pub agents: bool,
    /// Whether there are T4s as well, which pods share.
    pub sharing: bool,
}

impl Plan {
    /// As many events as this, and no agents.
    #[must_use]
    pub const fn new(events: usize, seed: u64) -> Self {
        Self { events, seed, settle_every: 50, pause_ms: 400, agents: false, sharing: false }
    }

    /// The same with agents on some of the nodes.
    #[must_use]
    pub const fn with_agents(self) -> Self {
        Self { agents: true, ..self }
    }

    /// The same with T4s beside the other nodes, which pods share.
    #[must_use]
    pub const fn with_sharing(self) -> Self {
        Self { sharing: true, ..self }
    }
}

/// Lets it happen in this cluster; `say` is told each event, and what was found.
///
/// # Errors
/// When something was broken, or does not come to rest.
pub async fn soak(scene: &mut Scene, plan: Plan, say: impl Fn(String)) -> anyhow::Result<()> {
    let mut soak = Soak::begin(scene, plan).await?;
    if plan.agents {
        soak.agents_begin(scene).await?;
    }
    if plan.sharing {
        soak.sharing_begins(scene).await?;
    }
    for n in 1..=plan.events {
        let what = soak.event(scene).await?;
        say(format!("{n}: {what}"));
        soak.pause(plan.pause_ms).await;
        soak.agents_go_on(scene).await?;
        soak.nothing_is_broken(scene).await?;
        if n.is_multiple_of(plan.settle_every) || n == plan.events {
            say(format!("{n}: {}", soak.settle(scene).await?));
        }
    }
    say(soak.summary());
    Ok(())
}
