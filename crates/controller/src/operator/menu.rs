//! The hardware profiles that are published for OpenShift AI: carries out what the round decided.

use std::collections::BTreeSet;

use jiff::Timestamp;
use reconcile::{MenuAct, MenuWrite, Round};

use super::Operator;
use super::refused::For;
use super::steps::together;
use crate::apply::Executor;
use crate::calls::CallError;
use crate::publish::menu;
use crate::settings::HardwareProfiles;
use crate::store::awaited::Subject;
use crate::store::{Foreign, Source};

/// Kinds of objects that name hardware profiles.
const USERS: [Foreign; 3] = [Foreign::Notebook, Foreign::InferenceService, Foreign::LlmInferenceService];

/// What came of one write; `None` when we may not write any more.
type Outcome = (String, Option<Result<Option<Subject>, CallError>>);

impl Operator {
    /// Writes the hardware profiles that are due; with `report`, nothing is.
    pub(super) async fn publish_menu(
        &mut self,
        round: &Round,
        now: Timestamp,
        awaited: &mut Vec<Subject>,
    ) -> usize {
        self.store.objects.menu_differs_since.clone_from(&round.menu.differs_since);
        self.store.objects.menu_was_there.clone_from(&round.menu.was_there);
        let Some(namespace) = &round.menu.namespace else { return 0 };
        let due: Vec<MenuWrite> = carried_out(
            &round.menu.writes,
            USERS.iter().all(|kind| self.store.is_current(&Source::Foreign(*kind))),
        )
        .filter(|write| self.may_write(&subject(&write.name)))
        .cloned()
        .collect();
        let served = self.store.definitions.contains(&Foreign::HardwareProfile.definition());
        if self.settings.hardware_profiles != HardwareProfiles::Publish || due.is_empty() || !served {
            return 0;
        }
        let version = match self.served_version(Foreign::HardwareProfile).await {
            Ok(version) => version,
            Err(error) => return self.judge("the version of hardware profiles", Err(error)),
        };
        let is_new = |write: &&MenuWrite| matches!(write.act, MenuAct::Create(_));
        let new: BTreeSet<String> = due.iter().filter(is_new).map(|write| write.name.clone()).collect();
        let mut work = Vec::new();
        for due in due {
            let (executor, version, namespace) = (self.executor.clone(), version.clone(), namespace.clone());
            work.push(async move { write(executor, version, namespace, due, now).await });
        }
        let outcomes = self.pump(together(self.settings.parallel_nodes, work)).await;
        let mut failures = 0;
        for (name, outcome) in outcomes {
            let Some(outcome) = outcome else { continue };
            let what = subject(&name);
            // Somebody may delete it before any round sees it, and then another wait begins.
            if outcome.is_ok() && new.contains(&name) {
                self.store.objects.menu_differs_since.remove(&name);
                self.store.objects.menu_was_there.insert(name.clone());
            }
            self.refused.note(For::Profile(name), &outcome);
            match outcome {
                Ok(subject) => {
                    awaited.extend(subject);
                    self.retries.succeeded(&what);
                }
                Err(error) => {
                    if error.is_not_found() {
                        self.versions.remove(&Foreign::HardwareProfile);
                    }
                    failures += self.judge(&what, Err(error));
                }
            }
        }
        failures
    }
}

/// Those that may be carried out. While it is not known who names a profile now, somebody may have come to name one that
/// nobody named before, and none is deleted.
fn carried_out(writes: &[MenuWrite], are_users_known: bool) -> impl Iterator<Item = &MenuWrite> {
    writes.iter().filter(move |write| are_users_known || !matches!(write.act, MenuAct::Delete { .. }))
}

async fn write(
    executor: Executor,
    version: String,
    namespace: String,
    due: MenuWrite,
    now: Timestamp,
) -> Outcome {
    if !executor.may_write() {
        return (due.name, None);
    }
    let outcome = menu::write(&executor.calls, &version, &namespace, &due, now).await;
    if outcome.is_ok() {
        let done = menu::done(&due.act);
        tracing::info!(namespace, profile = due.name, done, "a hardware profile of the menu is written");
    }
    (due.name, Some(outcome))
}

fn subject(name: &str) -> String {
    format!("HardwareProfile {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_profile_is_deleted_while_nobody_knows_who_names_it_now() {
        let if_version = || "7".to_owned();
        let acts = [
            MenuAct::Withdraw { if_version: if_version() },
            MenuAct::OfferAgain { if_version: if_version() },
            MenuAct::Delete { if_version: if_version(), uid: "u".to_owned() },
        ];
        let writes = acts.map(|act| MenuWrite { name: "small".to_owned(), act });
        assert_eq!(carried_out(&writes, true).count(), 3);
        let left: Vec<&MenuWrite> = carried_out(&writes, false).collect();
        assert_eq!(left, [&writes[0], &writes[1]]);
    }
}
