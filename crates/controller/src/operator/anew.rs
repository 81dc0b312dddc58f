//! What happens when the data of the API went back in time, as after the
//! restore of an older etcd backup: the operator discards its caches, abandons
//! every action in progress, and reads the cluster as after a start.
//!
//! For a while after that no node is changed. Kubelets and controllers adapt to the restored state:
//! restored pods are started, pods that were created since the backup are stopped, and the status of nodes
//! dates from before the restore until they report it again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reconcile::Obstacles;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Operator, owners, refused, tell, undone, unmade};
use crate::agents_policy::Guard;
use crate::publish::news::SentEvents;
use crate::retries::Retries;
use crate::store::Store;
use crate::watch::BACKLOG;

/// How long no node is changed, since the data of the API went back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Settling {
    /// It is over, or there is nothing from which the cluster would have to recover.
    Over,
    /// No round has looked since. It takes its time to read everything again, and until then nobody has seen the cluster
    /// recover or been told: the time counts from the round that does.
    FromNextRound,
    /// Until this moment.
    Until(Timestamp),
}

impl Settling {
    pub(super) const fn lasts(self) -> bool {
        !matches!(self, Self::Over)
    }

    /// A clock was set by so much.
    pub(super) fn moves_with_the_clock(&mut self, jump: SignedDuration) {
        if let Self::Until(until) = self {
            *until += jump;
        }
    }

    /// Until when it lasts, for a round that begins now; `None` if it is over.
    fn until(&mut self, now: Timestamp, long: Duration) -> Option<Timestamp> {
        let until = match *self {
            Self::Over => None,
            Self::FromNextRound => Some(now + SignedDuration::try_from(long).unwrap_or_default()),
            Self::Until(until) => Some(until).filter(|until| *until > now),
        };
        *self = until.map_or(Self::Over, Self::Until);
        until
    }
}

impl Operator {
    /// Notices that the data went back: from now on nothing more is done on
    /// what was read, however far the round is.
    pub(super) fn notice(&mut self) {
        if let Some(how) = self.store.went_back()
            && !self.executor.went_back.is_cancelled()
        {
            tracing::error!(
                %how,
                "the data of the API went back in time, as after the restore of an older etcd backup: \
                 everything is read again, and no node is changed for {:?}; see the runbook SlicewrightDataWentBack",
                self.settings.settle_after_restore
            );
            self.executor.went_back.cancel();
        }
    }

    /// What keeps this round's actions from being done.
    pub(super) fn obstacles(&mut self, now: Timestamp) -> Obstacles {
        Obstacles {
            settles_until: self.settling.until(now, self.settings.settle_after_restore),
            map: self.refused.map(),
            plugin_map: self.refused.plugin_map(),
            plugin_pointer: self.refused.plugin_pointer(),
            pointer_rests_until: self.pointed.rests_until(),
            map_pointer_rests_until: self.layouts_pointed.rests_until(),
        }
    }

    /// Begins anew, if the data went back.
    pub(super) fn begin_anew_if_due(&mut self) {
        if self.store.went_back().is_some() {
            self.begin_anew();
        }
    }

    fn begin_anew(&mut self) {
        self.metrics.went_back();
        self.executor.went_back = CancellationToken::new();
        let (sender, changes) = mpsc::channel(BACKLOG);
        self.changes = changes;
        self.store = Store::sparing();
        self.watches.begin_anew(sender, &mut self.store);
        self.local = BTreeMap::new();
        self.retries = Retries::new(self.settings.longest_retry);
        self.owners = owners::Owners::default();
        self.unmade = unmade::Unmade::default();
        self.guard = Guard::default();
        self.told = SentEvents::default();
        self.unsent = tell::Unsent::default();
        self.refused = refused::Refused::default();
        self.undone = undone::Undone::new(self.settings.longest_retry);
        self.outdated = BTreeSet::new();
        self.wake = None;
        self.settling = Settling::FromNextRound;
        self.touch();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::super::jumps::tests::replica;

    /// On a busy machine everything is read again only after that time: then too the first round does nothing to a node,
    /// and says why.
    #[tokio::test]
    async fn after_a_restore_the_time_without_changes_begins_when_a_round_looks() {
        let ahead = Arc::default();
        let mut replica = replica(&ahead);
        let mut round = |after: i64| {
            ahead.fetch_add(after, Ordering::SeqCst);
            let now = replica.settings.clock.now();
            let lasts = replica.obstacles(now).settling(now).is_some();
            assert_eq!(lasts, replica.settling.lasts(), "for whatever else is not done meanwhile");
            if after == 0 {
                replica.begin_anew();
                assert!(replica.settling.lasts());
            }
            lasts
        };
        assert!(!round(0), "nothing went back");
        assert!(round(3600), "an hour later a round looks for the first time");
        assert!(round(100));
        assert!(!round(30), "two minutes after that");
    }
}
