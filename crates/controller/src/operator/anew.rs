//! What happens when the data of the API went back in time, as after the
//! restore of an older etcd backup: the operator discards its caches, abandons
//! every action in progress, and reads the cluster as after a start.
//!
//! For a while after that no node is changed. Kubelets and controllers adapt to the restored state:
//! restored pods are started, pods that were created since the backup are stopped, and the status of nodes
//! dates from before the restore until they report it again.

use std::collections::{BTreeMap, BTreeSet};

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
        self.settles_until = self.settles_until.filter(|until| *until > now);
        Obstacles {
            settles_until: self.settles_until,
            map: self.refused.map(),
            plugin_map: self.refused.plugin_map(),
            plugin_pointer: self.refused.plugin_pointer(),
            pointer_rests_until: self.pointed.rests_until(),
            map_pointer_rests_until: self.layouts_pointed.rests_until(),
        }
    }

    /// Begins anew, if the data went back.
    pub(super) fn begin_anew_if_due(&mut self) {
        if self.store.went_back().is_none() {
            return;
        }
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
        let settles = SignedDuration::try_from(self.settings.settle_after_restore).unwrap_or_default();
        self.settles_until = Some(self.settings.clock.now() + settles);
        self.touch();
    }
}
