//! A node that MIG manager does not have any more.

use slicewright_rollout::{Report, names};

use super::{Event, World};

impl World {
    /// An agent has the node, and changes it no more: it has reported what there
    /// is, and MIG manager was switched off for it.
    pub fn was_handed_over(&mut self) {
        self.stood_down();
        self.labels.insert(names::MIG_CONFIG.to_owned(), names::HANDED_TO_AGENT.to_owned());
    }

    /// MIG manager was switched off for an agent, which has reported what there
    /// is and has not taken the node over.
    pub fn stood_down(&mut self) {
        self.manager = None;
        self.labels.insert(names::DEPLOY_MIG_MANAGER.to_owned(), "false".to_owned());
        self.report = Some(Report { layout: Some(self.hardware.clone()), has_left: false });
    }

    /// In one write: the entry, without a state, and MIG manager on.
    pub(super) fn is_handed_back(&mut self, entry: &str, with_manager: bool) {
        self.labels.remove(names::MIG_CONFIG_STATE);
        self.set(names::MIG_CONFIG, entry);
        if with_manager {
            self.labels.insert(names::DEPLOY_MIG_MANAGER.to_owned(), "true".to_owned());
            self.after(8, Event::ManagerPod);
        }
    }
}
