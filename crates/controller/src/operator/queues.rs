//! Kueue's queues: whether our checks are active, and their answers for the workloads that wait for them.

use std::sync::Arc;

use api::foreign::AdmissionCheck;
use jiff::Timestamp;
use observe::Objects;
use observe::objects::Key;
use reconcile::{CheckAnswer, Round};

use super::Operator;
use super::refused::For;
use super::steps::together;
use crate::apply::Executor;
use crate::calls::CallError;
use crate::publish::{discreet, kueue};
use crate::settings::Kueue;
use crate::store::Foreign;
use crate::store::awaited::Subject;
use crate::unanswered;

/// What came of one write; `None` when we may not write any more.
type Outcome = (String, Option<Result<Subject, CallError>>);

impl Operator {
    /// Writes what our checks say, where that differs from what they say.
    pub(super) async fn answer_checks(
        &mut self,
        objects: &Arc<Objects>,
        round: &Round,
        now: Timestamp,
        awaited: &mut Vec<Subject>,
    ) -> usize {
        if self.settings.kueue != Kueue::AdmissionCheck || self.settling.lasts() {
            return 0;
        }
        let inactive: Vec<_> = objects
            .admission_checks
            .values()
            .filter(|check| check.is_ours())
            .filter_map(|check| Some((check.clone(), kueue::active(check, now)?)))
            .filter(|(check, _)| self.may_write(&check_subject(check)))
            .collect();
        let answers: Vec<Vec<CheckAnswer>> = round
            .checks
            .chunk_by(|one, next| one.workload == next.workload)
            .map(|answers| self.news(objects, answers))
            .filter(|news| {
                news.first().is_some_and(|first| self.may_write(&workload_subject(&first.workload)))
            })
            .collect();
        if inactive.is_empty() && answers.is_empty() {
            return 0;
        }
        let version = match self.served_version(Foreign::Workload).await {
            Ok(version) => version,
            Err(error) => return self.judge("Kueue's version", Err(error)),
        };
        let at_once = self.settings.parallel_nodes;
        let mut work = Vec::new();
        for (check, condition) in inactive {
            let (executor, version) = (self.executor.clone(), version.clone());
            work.push(async move { activate(executor, version, check, condition).await });
        }
        let mut outcomes = self.pump(together(at_once, work)).await;
        let mut work = Vec::new();
        for answers in answers {
            let (executor, version, objects) = (self.executor.clone(), version.clone(), Arc::clone(objects));
            work.push(async move { say(executor, version, objects, answers, now).await });
        }
        outcomes.extend(self.pump(together(at_once, work)).await);
        let mut failures = 0;
        for (what, outcome) in outcomes {
            let Some(outcome) = outcome else { continue };
            self.refused.note(For::Queue(what.clone()), &outcome);
            match outcome {
                Ok(subject) => {
                    awaited.push(subject);
                    self.retries.succeeded(&what);
                }
                Err(error) => {
                    // Another version may be served by now.
                    if error.is_not_found() {
                        self.versions.remove(&Foreign::Workload);
                    }
                    failures += self.judge(&what, Err(error));
                }
            }
        }
        failures
    }

    /// Where the operator does not answer checks: says so of every check of ours, once for each time that it
    /// leads. Its queues would give quota to workloads that wait for ever.
    pub(super) async fn withdraw_checks(&mut self, now: Timestamp) -> usize {
        if !self.withdraws || !self.executor.may_write() {
            return 0;
        }
        let calls = Arc::clone(&self.calls);
        let withdrawn = self.pump(async move { unanswered::withdraw_where_allowed(&calls, now).await }).await;
        let outcome = withdrawn.map(|names| {
            self.withdraws = false;
            for check in names {
                tracing::info!(check, "an admission check of ours is not answered any more, and says so");
            }
        });
        self.judge("our admission checks", outcome)
    }

    /// What is news of the answers of one workload, as it is told.
    fn news(&self, objects: &Objects, answers: &[CheckAnswer]) -> Vec<CheckAnswer> {
        let told = answers.iter().map(|answer| discreet::answer(self.settings.tell_names, answer, objects));
        told.filter(|answer| {
            objects.workloads.get(&answer.workload).is_some_and(|now| kueue::is_news(now, answer))
        })
        .collect()
    }

    /// The version of a foreign kind that is served here; asked once.
    pub(super) async fn served_version(&mut self, foreign: Foreign) -> Result<String, CallError> {
        if let Some(version) = self.versions.get(&foreign) {
            return Ok(version.clone());
        }
        let (group, _, _, versions) = foreign.names();
        let calls = Arc::clone(&self.calls);
        let served = self
            .pump(async move {
                let client = calls.client();
                let asked = async { client.list_api_groups().await };
                calls.ask("the groups of kinds", asked).await
            })
            .await?;
        let group = served.groups.iter().find(|found| found.name == group);
        let serves =
            |version: &str| group.is_some_and(|group| group.versions.iter().any(|v| v.version == version));
        let version = versions.iter().find(|version| serves(version)).unwrap_or(&versions[0]);
        self.versions.insert(foreign, (*version).to_owned());
        Ok((*version).to_owned())
    }
}

async fn activate(
    executor: Executor,
    version: String,
    check: AdmissionCheck,
    condition: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition,
) -> Outcome {
    let what = check_subject(&check);
    if !executor.may_write() {
        return (what, None);
    }
    let outcome = kueue::say_whether_active(&executor.calls, &version, &check, &condition).await;
    (what, Some(outcome))
}

async fn say(
    executor: Executor,
    version: String,
    objects: Arc<Objects>,
    answers: Vec<CheckAnswer>,
    now: Timestamp,
) -> Outcome {
    let Some(key) = answers.first().map(|answer| &answer.workload) else { return (String::new(), None) };
    let what = workload_subject(key);
    let Some(workload) = objects.workloads.get(key).filter(|_| executor.may_write()) else {
        return (what, None);
    };
    let ours = objects.admission_checks.iter().filter(|(_, check)| check.is_ours());
    let ours = ours.map(|(name, _)| name.as_str()).collect();
    let outcome = kueue::answer(&executor.calls, &version, workload, &answers, &ours, now).await;
    for answer in answers.iter().filter(|_| outcome.is_ok()) {
        let (state, message) = (answer.state.name(), &answer.message);
        tracing::info!(
            workload = what,
            check = answer.check,
            state,
            message,
            "an admission check is answered"
        );
    }
    (what, Some(outcome))
}

fn workload_subject((namespace, name): &Key) -> String {
    format!("Workload {namespace}/{name}")
}

fn check_subject(check: &AdmissionCheck) -> String {
    format!("AdmissionCheck {}", check.metadata.name.as_deref().unwrap_or_default())
}
