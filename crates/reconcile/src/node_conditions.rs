//! The conditions of a `GpuNode`: its state, and what an administrator should do.

use api::condition::{Tri, Wanted, kind, reason};
use jiff::Timestamp;
use planner::inventory::{Hold, Node};
use planner::names::{NodeName, PolicyName};
use rollout::{Outlook, StartBlocker};

use crate::answers::EXPECTED_BY;
use crate::conditions::waits_for_a_human;

/// What a node waits for by itself, and what waits for a human. On the node
/// itself also that it is not as it was proved, which a policy does not stall
/// for.
const fn needs_a_human(hold: &StartBlocker) -> bool {
    waits_for_a_human(hold)
        || matches!(
            hold,
            StartBlocker::NotAsVerified { .. }
                | StartBlocker::NotAsReported { .. }
                | StartBlocker::SharingMiscounted { .. }
        )
}

/// `Ready`, and `Reconciling`, `Stalled` and `Degraded` as they hold.
#[must_use]
pub fn conditions(
    name: &NodeName,
    node: Option<&Node>,
    policy: Option<&PolicyName>,
    outlook: Option<&Outlook>,
    now: Timestamp,
) -> Vec<Wanted> {
    let held = node.and_then(|node| node.hold.as_ref());
    let (ready, reconciling, stalled, degraded) = match (outlook, held) {
        (Some(Outlook::Failed(failure)), _) => {
            let message = format!("{}. {}", failure.why, failure.help(&name.0));
            (say(Tri::False, reason::ROLLOUT_FAILED, message), false, true, false)
        }
        (Some(Outlook::Working { waits_for, until }), _) => {
            let message = match *until > now {
                true => format!("it waits for {waits_for}, until {until} at the latest"),
                false => format!("it still waits for {waits_for}{EXPECTED_BY}{until}"),
            };
            (say(Tri::False, reason::CHANGING, message), true, false, false)
        }
        (Some(Outlook::Holding(hold)), _) => {
            // What holds a node otherwise keeps it from starting.
            let does_not = match hold {
                StartBlocker::Settling { .. }
                | StartBlocker::WriteRefused { .. }
                | StartBlocker::WriteUndone { .. } => "it is not changed",
                _ => "its change does not start",
            };
            let message = format!("{does_not}: {hold}. {}", hold.help(&name.0));
            let human = needs_a_human(hold);
            let waits = !human && !matches!(hold, StartBlocker::NotEnforced);
            (say(Tri::False, hold.reason().name, message), waits, human, false)
        }
        (_, Some(hold @ Hold::NotEstablished { .. })) => {
            (say(Tri::Unknown, reason::NOT_ESTABLISHED, hold.to_string()), false, false, true)
        }
        (_, Some(hold @ Hold::HandsOff { .. })) => (
            say(Tri::Unknown, reason::HANDS_OFF, format!("{hold}, so it is not changed")),
            false,
            false,
            true,
        ),
        (_, Some(Hold::Cordoned { by })) => {
            let message = format!(
                "{by} cordoned it, so no pod can be scheduled on it. {}",
                StartBlocker::CordonedByOthers.help(&name.0)
            );
            (say(Tri::False, StartBlocker::CordonedByOthers.reason().name, message), false, false, false)
        }
        _ if policy.is_none() => {
            let message = "no policy selects it, so it is not changed".to_owned();
            (say(Tri::True, reason::NO_POLICY, message), false, false, false)
        }
        _ => (say(Tri::True, reason::CONVERGED, "it has its layout".to_owned()), false, false, false),
    };
    let also = |kind: &'static str, holds: bool| Wanted {
        kind,
        status: if holds { Tri::True } else { Tri::False },
        ..ready.clone()
    };
    vec![
        also(kind::RECONCILING, reconciling),
        also(kind::STALLED, stalled),
        also(kind::DEGRADED, degraded),
        ready.clone(),
    ]
}

fn say(status: Tri, reason: &'static str, message: String) -> Wanted {
    Wanted { kind: kind::READY, status, reason, message }
}
