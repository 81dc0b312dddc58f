//! What a round asks of each workbench and of each workload, most of which run and ask for nothing new: a few yes or no,
//! and times. It follows from the object alone, so it is read once for each version of one.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::foreign::notebook::Intent;
use api::foreign::{Notebook, Workload};
use jiff::Timestamp;

use super::queued_workloads::QueuedCheck;
use crate::by_identity::ByIdentity;
use crate::objects::{Key, Objects};
use crate::pods;

/// What is asked of a workbench.
#[derive(Debug)]
pub(crate) struct Workbench {
    /// Whether it should run, and stays.
    pub(crate) should_run: bool,
    /// When somebody last used it, where that is known.
    pub(crate) last_activity: Option<Timestamp>,
}

impl Workbench {
    fn read(notebook: &Notebook) -> Self {
        Self {
            should_run: notebook.metadata.deletion_timestamp.is_none() && notebook.intent() == Intent::Run,
            last_activity: notebook.last_activity(),
        }
    }
}

/// What is asked of a workload of Kueue.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Whether its checks may be answered.
    pub(crate) has_quota: bool,
    /// Whether it has ended.
    pub(crate) is_finished: bool,
    /// Since when Kueue has let it go.
    pub(crate) admitted: Option<Timestamp>,
    /// When it was made.
    pub(crate) created: Option<Timestamp>,
    /// Whether it takes the place of another one.
    pub(crate) replaces: bool,
    /// The resources of GPUs that its pods ask for. Those of workloads that ask for the same are mostly the same set.
    pub(crate) asks: Arc<BTreeSet<String>>,
    /// What checks say of it that may still say something, whosever they are.
    pub(crate) checks: Box<[QueuedCheck]>,
}

impl Queued {
    fn read(workload: &Workload, asks: Arc<BTreeSet<String>>) -> Self {
        let checks = workload.status.admission_checks.iter();
        let open = checks.filter_map(|check| {
            let is_ready = match check.state.as_str() {
                "Pending" => false,
                "Ready" => true,
                _ => return None,
            };
            Some(QueuedCheck { name: check.name.clone(), is_ready })
        });
        Self {
            has_quota: workload.has_quota(),
            is_finished: workload.is("Finished"),
            admitted: workload.since("Admitted"),
            created: workload.metadata.creation_timestamp.as_ref().map(|created| created.0),
            replaces: workload.replaces().is_some(),
            asks,
            checks: open.collect(),
        }
    }
}

/// What workloads ask for, each set once: there are a few.
#[derive(Default)]
struct Asked(BTreeSet<Arc<BTreeSet<String>>>);

impl Asked {
    /// The set that is equal to this one.
    fn once(&mut self, set: BTreeSet<String>) -> Arc<BTreeSet<String>> {
        if let Some(known) = self.0.get(&set) {
            return Arc::clone(known);
        }
        let set = Arc::new(set);
        self.0.insert(Arc::clone(&set));
        set
    }
}

/// What is asked of all of them.
#[derive(Debug, Default)]
pub(crate) struct Briefs {
    workbenches: ByIdentity<Notebook, Workbench>,
    workloads: ByIdentity<Workload, Queued>,
}

impl Briefs {
    /// Reads those objects that have changed.
    pub(crate) fn update(&mut self, objects: &Objects) {
        self.workbenches.update(objects.notebooks.values(), Workbench::read);
        let mut asked = Asked::default();
        self.workloads.update(objects.workloads.values(), |of| {
            Queued::read(of, asked.once(pods::resources_of_workload(of)))
        });
    }

    /// The workbenches of these objects, which are those that were read last.
    pub(crate) fn workbenches<'a>(
        &'a self,
        objects: &'a Objects,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Notebook>, &'a Workbench)> {
        debug_assert_eq!(objects.notebooks.len(), self.workbenches.iter().len());
        let all = objects.notebooks.keys().zip(self.workbenches.iter());
        all.map(|(key, (notebook, brief))| (key, notebook, brief))
    }

    /// The workloads of these objects, which are those that were read last.
    pub(crate) fn workloads<'a>(
        &'a self,
        objects: &'a Objects,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Workload>, &'a Queued)> {
        debug_assert_eq!(objects.workloads.len(), self.workloads.iter().len());
        let all = objects.workloads.keys().zip(self.workloads.iter());
        all.map(|(key, (workload, brief))| (key, workload, brief))
    }
}
