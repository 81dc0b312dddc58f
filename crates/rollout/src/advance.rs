//! One node, one step: [`advance`]. It is pure and total, and can be called any number of times: for the
//! same observation it returns the same answer.
//!
//! The order of a rollout: [`start`](self) (is a change wanted, and may one
//! start), `quiesce` (map, cordon, pods), `change` (the label, MIG manager,
//! the proof), and `ladder` (what to try when something goes wrong).

mod agent;
mod change;
mod hand_back;
mod key;
mod ladder;
mod proof;
mod quiesce;
mod sharing;
mod start;

use jiff::{SignedDuration, Timestamp};

use ::agent::{Permit, Wish};

use crate::action::Action;
use crate::agent_seen::WantedSlices;
use crate::cordon;
use crate::layout::NodeLayout;
use crate::observed::{Listing, Observed};
use crate::outlook::{Failure, FailureReason, Outlook, StartBlocker, Trouble, WaitsFor};
use crate::progress::{Phase, Progress, Target};
use crate::rules::NodeRules;
use crate::sharing::SharingWanted;

/// What is due for a node.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// To be stored before any action is done.
    pub progress: Progress,
    /// To be done in this order, until one fails.
    pub actions: Vec<Action>,
    /// How things stand.
    pub outlook: Outlook,
    /// When to call again at the latest, even if nothing is seen to change.
    /// `None` only when the node rests.
    pub wake_at: Option<Timestamp>,
    /// What `spec.change` of its `GpuNode` should be: what its agent is told.
    pub change: Option<Wish>,
}

/// The next step of one node. `wanted` is the layout that it should have;
/// `None` when nobody wants one (no policy selects it).
pub fn advance(
    seen: &Observed,
    wanted: Option<&NodeLayout>,
    rules: &NodeRules,
    progress: &Progress,
    now: Timestamp,
) -> Advance {
    run(seen, Wishes { wanted, ..Wishes::default() }, rules, progress, now)
}

/// The same for a node whose GPUs are shared as a policy says: once its layout
/// is at rest. `None` when no policy says so; then its sharing stays as it is.
pub fn advance_sharing(
    seen: &Observed,
    wanted: Option<&NodeLayout>,
    sharing: Option<&SharingWanted>,
    rules: &NodeRules,
    progress: &Progress,
    now: Timestamp,
) -> Advance {
    run(seen, Wishes { wanted, sharing, slices: None }, rules, progress, now)
}

/// The next step of one node whose agent changes single slices. `wanted` are the
/// slices that its GPUs should have; `None` when nobody wants any.
pub fn advance_slices(
    seen: &Observed,
    wanted: Option<&WantedSlices>,
    rules: &NodeRules,
    progress: &Progress,
    now: Timestamp,
) -> Advance {
    run(seen, Wishes { slices: wanted, ..Wishes::default() }, rules, progress, now)
}

/// What is wanted of a node.
#[derive(Clone, Copy, Default)]
struct Wishes<'a> {
    wanted: Option<&'a NodeLayout>,
    slices: Option<&'a WantedSlices>,
    sharing: Option<&'a SharingWanted>,
}

fn run(
    seen: &Observed,
    wishes: Wishes<'_>,
    rules: &NodeRules,
    progress: &Progress,
    now: Timestamp,
) -> Advance {
    let Wishes { wanted, slices: slices_wanted, sharing: sharing_wanted } = wishes;
    let next = progress.clone().no_later_than(now);
    let (actions, permit) = (Vec::new(), None);
    let mut run = Run { seen, wanted, slices_wanted, sharing_wanted, rules, now, next, actions, permit };
    run.rest_no_longer();
    run.note_agent();
    run.follow_key();
    // Steps that need no write lead on to the next at once. A rollout has 12
    // steps and never goes round in one observation; the bound is for the
    // mistake that nobody has found yet, and costs one poll.
    for _ in 0..24 {
        if let Flow::Rest(outlook, wake_at) = run.step() {
            return run.done(outlook, wake_at);
        }
    }
    let until = now + rules.settings.poll;
    run.done(Outlook::Working { waits_for: WaitsFor::Pickup, until }, Some(until))
}

/// Whether a step leads on or waits.
enum Flow {
    Again,
    Rest(Outlook, Option<Timestamp>),
}

struct Run<'a> {
    seen: &'a Observed,
    wanted: Option<&'a NodeLayout>,
    slices_wanted: Option<&'a WantedSlices>,
    sharing_wanted: Option<&'a SharingWanted>,
    rules: &'a NodeRules,
    now: Timestamp,
    next: Progress,
    actions: Vec<Action>,
    /// What was proved in this call.
    permit: Option<Permit>,
}

impl Run<'_> {
    fn step(&mut self) -> Flow {
        if let Some(flow) = self.interruption() {
            return flow;
        }
        if let Some(flow) = self.lost_agent() {
            return flow;
        }
        if self.agent().is_some() {
            return self.agent_step();
        }
        let shares = self.sharing().is_some();
        match self.next.phase {
            Phase::Changing if shares => self.enter(Phase::Verifying),
            Phase::Verifying if shares => self.sharing_verifying(),
            Phase::Healing | Phase::Relabelling if shares => self.sharing_goes_back(),
            Phase::Failed if shares => self.sharing_failed(),
            Phase::Idle => self.idle(),
            Phase::Mapping => self.mapping(),
            Phase::Cordoning => self.cordoning(),
            Phase::Quiescing => self.quiescing(),
            Phase::Changing => self.changing(),
            Phase::Verifying => self.verifying(),
            Phase::Healing => self.healing(),
            Phase::Relabelling => self.relabelling(),
            Phase::Releasing => self.releasing(),
            Phase::Retreating => self.retreating(),
            Phase::Failed => self.failed(),
            Phase::Released => self.hold(StartBlocker::Released),
        }
    }

    fn done(self, outlook: Outlook, wake_at: Option<Timestamp>) -> Advance {
        let change = self.spec_change();
        // Nothing is seen to happen when an agent comes to count as uninstalled.
        let gone_at = self.next.agent_left_since.filter(|_| !self.next.agent_gone);
        let gone_at = gone_at.map(|since| since + self.rules.settings.agent_gone_after);
        let gone_at = gone_at.filter(|at| *at > self.now);
        let wake_at = wake_at.into_iter().chain(gone_at).min();
        Advance { progress: self.next, actions: self.actions, outlook, wake_at, change }
    }

    fn enter(&mut self, phase: Phase) -> Flow {
        self.next.phase = phase;
        self.next.since = Some(self.now);
        self.next.matched_since = None;
        Flow::Again
    }

    /// The rollout's target. Every phase between Idle and Idle has one; a
    /// stored progress that lost it is answered by starting over.
    fn target(&mut self) -> Option<&mut Target> {
        self.next.target.as_mut()
    }

    fn since(&self) -> Timestamp {
        self.next.since.unwrap_or(self.now)
    }

    /// Whether a consistent list began at or after `after`, and not longer ago
    /// than `list_fresh`. One that is dated in the future is of a clock that was
    /// put back since: how old it is, nobody knows.
    fn listed(&self, after: Timestamp) -> bool {
        let fresh = self.rules.settings.list_fresh;
        matches!(self.seen.listing, Listing::Consistent { at }
            if at >= after && at <= self.now && at + fresh >= self.now)
    }

    fn late(&self, limit: SignedDuration) -> bool {
        self.now >= self.since() + limit
    }

    /// Waits for something that comes with an observation, up to a limit from
    /// the beginning of the step.
    fn wait(&self, waits_for: WaitsFor, limit: SignedDuration) -> Flow {
        self.wait_until(waits_for, self.since() + limit)
    }

    fn wait_until(&self, waits_for: WaitsFor, until: Timestamp) -> Flow {
        let poll = self.now + self.rules.settings.poll;
        // A moment that has passed stays what it was: people are told that it is late.
        let wake = if until <= self.now { poll } else { until.min(poll) };
        Flow::Rest(Outlook::Working { waits_for, until }, Some(wake))
    }

    /// Holds; what ends the hold is mostly seen, and looked for every minute
    /// in case it is not.
    fn hold(&self, hold: StartBlocker) -> Flow {
        let minute = self.now + SignedDuration::from_mins(1);
        let known = match &hold {
            StartBlocker::Window { opens: Some(at) } => *at,
            StartBlocker::Cooldown { until } | StartBlocker::BackedOff { until, .. } => *until,
            _ => minute,
        };
        let wake = known.clamp(self.now + SignedDuration::from_secs(1), minute.max(known));
        Flow::Rest(Outlook::Holding(hold), Some(wake))
    }

    fn fail(&mut self, why: FailureReason) -> Flow {
        if let FailureReason::ChangeFailed(trouble)
        | FailureReason::RollBackFailed(trouble)
        | FailureReason::RestoreFailed(trouble)
        | FailureReason::SharingFailed(trouble) = &why
        {
            self.next.last_error = Some(trouble.clone());
        }
        self.next.failed = Some(why);
        self.next.interrupted_since = None;
        self.enter(Phase::Failed)
    }

    fn failure(&self) -> Failure {
        let why = self.next.failed.clone().unwrap_or(FailureReason::ChangeFailed(
            self.next.last_error.clone().unwrap_or(Trouble::WriteNotSeen),
        ));
        let layout = self.next.target.as_ref().filter(|target| target.sharing.is_none());
        Failure { why, wanted: layout.map(|target| target.layout.clone()) }
    }

    /// While somebody else works on a node that we have not finished, we do
    /// nothing, and our clocks stand still.
    fn interruption(&mut self) -> Option<Flow> {
        let ours = self.next.phase.past_return() && self.next.phase != Phase::Failed;
        match (self.seen.work_under_way(), self.next.interrupted_since) {
            (Some(who), _) if ours => Some(self.stands_still(who)),
            // Whoever takes something back does as much as he can meanwhile.
            (Some(_), Some(_)) if self.next.phase == Phase::Retreating => None,
            (_, Some(_)) => {
                self.next.interrupted_since = None;
                self.restart_clock();
                None
            }
            (_, None) => None,
        }
    }

    /// Waits for somebody else's work to end, and not for ever.
    fn stands_still(&mut self, who: String) -> Flow {
        let since = *self.next.interrupted_since.get_or_insert(self.now);
        let until = since + self.rules.settings.interruption_limit;
        if self.now >= until {
            return self.fail(FailureReason::ChangeFailed(Trouble::Interrupted { who }));
        }
        self.wait_until(WaitsFor::ForeignWork { who }, until)
    }

    /// Gives the step its full time again, after something that was not its fault.
    fn restart_clock(&mut self) {
        self.next.since = Some(self.now);
        self.next.matched_since = None;
        let now = self.now;
        if let Some(target) = self.target() {
            target.written_at = target.written_at.map(|_| now);
        }
    }

    fn version(&self) -> String {
        self.seen.resource_version.clone()
    }

    fn cordon(&mut self) {
        // Two steps of one call may both want it.
        if !self.actions.iter().any(|action| matches!(action, Action::Cordon { .. })) {
            let if_version = self.version();
            self.actions.push(Action::Cordon { if_version });
        }
    }

    fn cordoned_by_us(&self) -> bool {
        self.seen.cordoned_by_us(&self.next)
    }

    fn cordoned_by_others(&self) -> bool {
        self.seen.cordoned_by_others(&self.next)
    }

    /// Puts the mark of our cordon back where somebody removed it. Nothing waits
    /// for it: the cordon is ours with and without.
    fn keep_mark(&mut self) {
        let again = self.next.marked_again_at.is_none_or(|at| self.now >= at + cordon::MARK_AGAIN);
        if self.cordoned_by_us() && !self.seen.marked() && again {
            self.next.marked_again_at = Some(self.now);
            self.cordon();
        }
    }

    fn list_pods(&mut self) {
        if !self.actions.contains(&Action::ListPods) {
            self.actions.push(Action::ListPods);
        }
    }
}
