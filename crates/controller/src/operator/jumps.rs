//! Notices when the clock of this machine is set while the operator runs. The records of nodes have times
//! of this clock: a clock that is put forward by an hour would make every node late, and one that is put
//! back would make a list of pods look fresh for an hour.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::Operator;
use crate::clock;

/// A clock that is slewed moves by less than a millisecond a second; one that
/// differs by more than this since the last turn, some seconds ago, was set.
const MOST_DRIFT: SignedDuration = SignedDuration::from_secs(1);

/// What the clock was seen to do.
#[derive(Debug, Default)]
pub(super) struct Jumps {
    /// When it was looked at last, by the clock and by the one that only goes
    /// forward.
    last: Option<(Timestamp, Instant)>,
    /// When it was last seen to be set, by what it said then.
    set_at: Option<Timestamp>,
}

impl Jumps {
    /// By how much the clock was set since the last look: forward if that is
    /// positive, back if it is negative.
    fn look(&mut self, now: Timestamp, instant: Instant) -> Option<SignedDuration> {
        let (then, before) = self.last.replace((now, instant))?;
        let passed = SignedDuration::try_from(instant.saturating_duration_since(before)).ok()?;
        let jump = now.duration_since(then) - passed;
        let is_set = jump.abs() > MOST_DRIFT;
        if is_set {
            self.set_at = Some(now);
        }
        is_set.then_some(jump)
    }

    /// A moment that was dated by this clock, unless it was dated before the
    /// clock was set, or is still to come: how long ago it is, nobody knows.
    pub(super) fn known(&self, at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        at.filter(|at| *at <= now && self.set_at.is_none_or(|set| *at >= set))
    }
}

impl Operator {
    /// Notices that the clock was set: what is remembered of nodes moves with
    /// it, and what was listed counts as not listed.
    pub(super) fn notice_jumps(&mut self) {
        let now = self.settings.clock.now();
        let Some(jump) = self.jumps.look(now, clock::instant()) else { return };
        let seconds = jump.as_secs();
        tracing::warn!(
            seconds,
            "the clock of this machine was set; the durations of steps are calculated without the jump"
        );
        for local in self.local.values_mut() {
            local.listed = None;
        }
        // What is dated in the future counts from now on anyway, and what another
        // replica remembered is not dated by this clock.
        if jump.is_positive() && self.led {
            for name in self.store.objects.gpu_nodes.keys() {
                let local = self.local.entry(planner::names::NodeName(name.clone())).or_default();
                local.put_forward += jump;
            }
            let objects = &mut self.store.objects;
            let unserved = objects.unserved_quota.since.values_mut();
            for since in objects.starting_since.values_mut().chain(unserved) {
                *since = (*since + jump).min(now);
            }
        }
        self.settling.moves_with_the_clock(jump);
        self.wake = None;
        self.touch();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use planner::names::NodeName;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::calls::Calls;
    use crate::clock::Clock;
    use crate::health::Health;
    use crate::lease::Keeper;
    use crate::metrics::Metrics;
    use crate::settings::Settings;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_runs() {
        let (mut jumps, at, instant) = (Jumps::default(), Timestamp::UNIX_EPOCH, clock::instant());
        assert_eq!(jumps.look(at + HOUR, instant), None, "the first look knows nothing of before");
        let later = |seconds| instant + Duration::from_secs(seconds);
        let shown = |seconds: i64| at + HOUR + SignedDuration::from_secs(seconds);
        assert_eq!(jumps.look(shown(20), later(20)), None);
        assert_eq!(
            jumps.look(shown(41), later(40)),
            None,
            "a second in twenty may be the machine's own hurry"
        );
        assert_eq!(jumps.look(shown(60) + HOUR, later(60)), Some(HOUR - SignedDuration::from_secs(1)));
        assert_eq!(jumps.look(shown(80), later(80)), Some(-HOUR));
    }

    #[test]
    fn what_was_dated_before_the_clock_was_set_is_of_no_known_age() {
        let (mut jumps, at, instant) = (Jumps::default(), Timestamp::UNIX_EPOCH + HOUR, clock::instant());
        assert_eq!(jumps.known(Some(at), at), Some(at));
        assert_eq!(jumps.known(Some(at + HOUR), at), None, "it is still to come");
        let _first = jumps.look(at, instant);
        let _forward = jumps.look(at + HOUR, instant);
        assert_eq!(jumps.known(Some(at), at + HOUR), None);
        assert_eq!(jumps.known(Some(at + HOUR), at + HOUR), Some(at + HOUR));
    }

    /// A replica whose clock people set: it remembers something of one node. It
    /// has not got the lease, and nobody listens where it would ask for it.
    pub(in super::super) fn replica(ahead: &Arc<AtomicI64>) -> Operator {
        let ahead = Arc::clone(ahead);
        let says = move || clock::now() + SignedDuration::from_secs(ahead.load(Ordering::SeqCst));
        let settings = Settings { clock: Clock::told_by(says), ..Settings::new("me", "ns") };
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:9"));
        let client = kube::Client::try_from(config).expect("a client of nobody");
        let calls = Arc::new(Calls::new(client.clone(), settings.call_timeout));
        let (_, claim) =
            Keeper::new(Arc::clone(&calls), settings.lease.clone(), "me".to_owned(), settings.clock.clone());
        let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::new(settings.stuck_after)));
        let mut made =
            Operator::new(client, settings, calls, claim, metrics, health, &CancellationToken::new());
        made.store
            .objects
            .gpu_nodes
            .insert("gpu-1".to_owned(), Arc::new(api::GpuNode::new("gpu-1", Default::default())));
        made.notice_jumps();
        made
    }

    /// By how many whole hours what it remembers of the node was put forward.
    fn hours(replica: &Operator) -> i64 {
        let local: &BTreeMap<NodeName, _> = &replica.local;
        local
            .get(&NodeName("gpu-1".to_owned()))
            .map_or(0, |local| local.put_forward.round(jiff::Unit::Hour).unwrap().as_hours())
    }

    #[tokio::test]
    async fn the_clock_of_who_leads_moves_what_it_remembers() {
        let ahead = Arc::default();
        let mut replica = replica(&ahead);
        replica.led = true;
        ahead.fetch_add(3600, Ordering::SeqCst);
        replica.notice_jumps();
        assert_eq!(hours(&replica), 1);
        ahead.fetch_add(3600, Ordering::SeqCst);
        replica.notice_jumps();
        assert_eq!(hours(&replica), 2, "one jump after another, before a round has written them down");
        ahead.fetch_sub(3600, Ordering::SeqCst);
        replica.notice_jumps();
        assert_eq!(hours(&replica), 2, "what is dated in the future counts from now on anyway");
    }

    #[tokio::test]
    async fn the_clock_of_who_follows_moves_nothing_that_another_replica_dated() {
        let ahead = Arc::default();
        let mut replica = replica(&ahead);
        ahead.fetch_add(3600, Ordering::SeqCst);
        replica.notice_jumps();
        assert_eq!(hours(&replica), 0, "the leader's clock was not set");
        replica.led = true;
        replica.notice_jumps();
        assert_eq!(hours(&replica), 0, "and it is not made up for when the lease is won");
    }

    #[tokio::test]
    async fn a_jump_is_forgotten_with_the_lease() {
        let ahead = Arc::default();
        let mut replica = replica(&ahead);
        replica.led = true;
        ahead.fetch_add(3600, Ordering::SeqCst);
        replica.notice_jumps();
        assert_eq!(hours(&replica), 1);
        replica.lead();
        assert!(!replica.led, "nobody gave it the lease");
        assert_eq!(hours(&replica), 0, "who leads now dates what is remembered by its own clock");
    }
}
