//! News for users: transitions of policies and nodes, and answers to requests for slices. Pure; sending is
//! [`super::events`].

use std::collections::{BTreeMap, BTreeSet};

use api::condition::{kind, reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use observe::{Objects, Severity};
use planner::names::{NodeName, PolicyName, RequestId};
use reconcile::answers::{Answer, Kind};
use reconcile::steps::{StepEvent, step_taken};
use reconcile::{CheckState, NodeRound, Round, review};

use super::discreet::{self, TellNames};
use super::events::Draft;
use super::place::{Place, Places, reference};

/// What those who asked were told. It is lost in a crash; what the status of a
/// policy says then counts as told, and what is said again has the same name,
/// and is not sent twice.
#[derive(Debug, Default)]
pub struct SentEvents {
    requests: BTreeMap<RequestId, SentAnswer>,
    /// What is wrong with objects of others, as it was told: object, with the
    /// identity of that on which it was told, and sentence.
    problems: BTreeSet<(String, String)>,
    /// That the API's data went back in time: policy and sentence.
    restores: BTreeSet<(PolicyName, String)>,
}

/// What somebody who asked was told.
#[derive(Debug)]
struct SentAnswer {
    kind: Kind,
    /// How many answers of another kind came before it.
    times: u32,
    /// Every topic of this kind, with the identities of the objects on which it
    /// was told: a workbench's pod may come later. A topic that comes back, as while several nodes are
    /// on their way, is not told again.
    topics: BTreeMap<&'static str, BTreeSet<String>>,
}

/// What of a round was written: only that is news.
#[derive(Debug, Default)]
pub struct Written {
    /// Nodes whose progress is stored.
    pub nodes: BTreeSet<NodeName>,
    /// Policies whose status is what the round wants.
    pub policies: BTreeSet<PolicyName>,
}

/// Everything that is new, with the names that may be told where it is told.
pub fn drafts(
    told: &mut SentEvents,
    names: TellNames,
    objects: &Objects,
    round: &Round,
    written: &Written,
    now: Timestamp,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for name in &written.policies {
        of_policy(name, objects, round, now, &mut drafts);
        drafts.extend(of_review(name, objects, round));
    }
    for name in &written.nodes {
        if let Some(node) = round.nodes.get(name) {
            drafts.extend(of_node(name, node, objects));
        }
    }
    of_restore(told, objects, round, written, &mut drafts);
    of_requests(told, objects, &round.answers, &mut drafts);
    of_others(told, objects, round, &mut drafts);
    of_retries(objects, round, &mut drafts);
    for Draft { regarding, note, .. } in &mut drafts {
        // What has no namespace is the administrators'.
        if let Some(namespace) = &regarding.namespace {
            *note = discreet::in_namespace(names, namespace, note, objects);
        }
    }
    drafts
}

/// The conditions of a policy whose turns are told.
pub(super) const TOLD: [&str; 3] = [kind::ACCEPTED, kind::PLANNED, kind::READY];

/// Whether somebody should look: that a policy is not ready is what a change
/// looks like, unless it is stuck.
fn is_warning(after: &Condition) -> bool {
    let stuck = [reason::ROLLOUT_FAILED, reason::FOREIGN_LAYOUT].contains(&after.reason.as_str());
    stuck || after.type_ != kind::READY && after.status == "False"
}

/// Conditions that turned: another status, or another reason.
fn of_policy(name: &PolicyName, objects: &Objects, round: &Round, now: Timestamp, drafts: &mut Vec<Draft>) {
    let (Some(object), Some(status)) = (objects.policies.get(&name.0), round.policies.get(name)) else {
        return;
    };
    let before = object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let turned = |after: &&Condition| {
        let old = before.iter().find(|c| c.type_ == after.type_);
        let same = old.is_some_and(|old| old.status == after.status && old.reason == after.reason);
        // That a new policy makes sense, or is served, is no news.
        let expected = after.status == "True"
            && after.type_ != kind::READY
            && old.is_none_or(|old| old.status == "Unknown");
        !same && !expected
    };
    for after in status.conditions.iter().filter(|c| TOLD.contains(&c.type_.as_str())).filter(turned) {
        drafts.push(Draft {
            regarding: reference(api::API_VERSION, "GpuPartitionPolicy", &object.metadata),
            related: None,
            warning: is_warning(after),
            reason: after.reason.clone(),
            action: "Plan".to_owned(),
            note: after.message.clone(),
            once: format!("{} {} {now}", after.type_, after.status),
        });
    }
}

/// The reason with which it is told that a review moved.
pub(super) const REVIEW_MOVED: &str = "ReviewMoved";

/// What was reviewed is not what would be done. While the policies are still
/// others than those that were reviewed, perhaps only some have come.
fn of_review(name: &PolicyName, objects: &Objects, round: &Round) -> Option<Draft> {
    let (object, status) = (objects.policies.get(&name.0)?, round.policies.get(name)?);
    let before = object.status.as_ref().and_then(|status| status.review.as_ref());
    let moved = review::turned(before, status.review.as_ref())?;
    Some(Draft {
        regarding: reference(api::API_VERSION, "GpuPartitionPolicy", &object.metadata),
        related: None,
        warning: review::is_judged(moved),
        reason: REVIEW_MOVED.to_owned(),
        action: "Compare".to_owned(),
        note: moved.message.clone(),
        once: format!("{} {}", moved.reviewed, moved.at),
    })
}

/// That the API's data went back in time, told once on each policy.
fn of_restore(
    told: &mut SentEvents,
    objects: &Objects,
    round: &Round,
    written: &Written,
    drafts: &mut Vec<Draft>,
) {
    let degraded = |name: &PolicyName| {
        let conditions = round.policies.get(name).into_iter().flat_map(|status| &status.conditions);
        let mut of_kind = conditions.filter(|condition| condition.type_ == kind::DEGRADED);
        of_kind.find(|condition| condition.reason == reason::DATA_WENT_BACK).cloned()
    };
    for name in &written.policies {
        let Some((object, condition)) = objects.policies.get(&name.0).zip(degraded(name)) else { continue };
        if told.restores.insert((name.clone(), condition.message.clone())) {
            drafts.push(Draft {
                regarding: reference(api::API_VERSION, "GpuPartitionPolicy", &object.metadata),
                related: None,
                warning: true,
                reason: condition.reason,
                action: "Wait".to_owned(),
                note: condition.message.clone(),
                once: condition.message,
            });
        }
    }
}

/// A node that took a step.
fn of_node(name: &NodeName, node: &NodeRound, objects: &Objects) -> Option<Draft> {
    let next = &node.advance.progress;
    let StepEvent { reason, action, warning, note } = step_taken(name, &node.before, next)?.event?;
    let object = objects.nodes.get(&name.0)?;
    let mut regarding = reference("v1", "Node", &object.metadata);
    // Events of kubelet and of the node controller have the name there, and
    // `kubectl describe node` looks for it.
    regarding.uid = Some(name.0.clone());
    Some(Draft {
        regarding,
        related: objects
            .gpu_nodes
            .get(&name.0)
            .map(|gpu_node| reference(api::API_VERSION, "GpuNode", &gpu_node.metadata)),
        warning,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note,
        once: next.since.map(|at| at.to_string()).unwrap_or_default(),
    })
}

/// Those who asked, where the answer is another than the last.
fn of_requests(told: &mut SentEvents, objects: &Objects, answers: &[Answer], drafts: &mut Vec<Draft>) {
    let asking: BTreeSet<&RequestId> = answers.iter().map(|answer| &answer.id).collect();
    told.requests.retain(|id, _| asking.contains(id));
    let mut places: Option<Places<'_>> = None;
    // The pods to be of one owner have one object, which is told once.
    let mut owners_told: BTreeSet<(String, &'static str, u32)> = BTreeSet::new();
    for answer in answers {
        let last = told.requests.get(&answer.id);
        // Who finds a free slice at once needs no word from us.
        if last.is_none() && answer.kind == Kind::Free {
            continue;
        }
        let places = places.get_or_insert_with(|| Places::new(objects));
        // Before a restart, or by another replica, it was told already.
        let before = last.is_none() && is_in_a_status(objects, answer);
        let first = || SentAnswer { kind: answer.kind, times: 0, topics: BTreeMap::new() };
        let said = told.requests.entry(answer.id.clone()).or_insert_with(first);
        if said.kind != answer.kind {
            *said = SentAnswer { times: said.times + 1, ..first() };
        }
        let Some(Place { regarding, identity }) = places.of_request(&answer.id) else { continue };
        let is_new = said.topics.entry(answer.topic).or_default().insert(identity.clone());
        let ours = (identity.clone(), answer.topic, said.times);
        if before || !is_new || !owners_told.insert(ours) {
            continue;
        }
        let (reason, _) = answer.kind.told();
        // The uid of the object is in the event's name; what has none is told
        // apart by its identity, so that a successor of the same name is told too.
        let once = match &regarding.uid {
            Some(_) => format!("{} {}", answer.topic, said.times),
            None => format!("{} {} {identity}", answer.topic, said.times),
        };
        drafts.push(Draft {
            regarding,
            related: None,
            warning: false,
            reason: reason.to_owned(),
            action: "Plan".to_owned(),
            note: answer.text.clone(),
            once,
        });
    }
}

/// That a workload goes back into its queue, told where its requests are. Kueue
/// resets what the check said at once.
fn of_retries(objects: &Objects, round: &Round, drafts: &mut Vec<Draft>) {
    let retries = round.checks.iter().filter(|answer| answer.state == CheckState::Retry);
    let mut places: Option<Places<'_>> = None;
    for answer in retries {
        let (Some(workload), Some(queued)) =
            (objects.workloads.get(&answer.workload), round.planned.view.queued.get(&answer.workload))
        else {
            continue;
        };
        let places = places.get_or_insert_with(|| Places::new(objects));
        // It has quota since another moment each time that it goes back.
        let reserved = workload.status.conditions.iter().find(|c| c.type_ == "QuotaReserved");
        let once = format!(
            "{} {} {}",
            answer.check,
            answer.state.name(),
            reserved.map(|c| c.last_transition_time.0).unwrap_or_default()
        );
        let mut told = BTreeSet::new();
        for id in queued.sets.iter().flat_map(|set| &set.requests) {
            let Some(Place { regarding, identity }) = places.of_request(id) else { continue };
            if told.insert(identity.clone()) {
                drafts.push(Draft {
                    regarding,
                    related: None,
                    warning: false,
                    reason: Kind::Unavailable.told().0.to_owned(),
                    action: "Retry".to_owned(),
                    note: answer.message.clone(),
                    once: format!("{once} {identity}"),
                });
            }
        }
    }
}

/// What is told of the menu: the word, and what it means.
pub(super) const PROBLEMS: [(&str, &str); 2] = [
    (
        "ProfileProblem",
        "on a HardwareProfile: no user can get the slice that it offers, or the dashboard hides it; the note says why",
    ),
    ("MenuProblem", "on a GpuPartitionPolicy: no hardware profiles are published for it; the note says why"),
];

/// What is wrong with hardware profiles, and with workbenches that ask for
/// nothing because of it. Nobody is told where there is no policy: then the
/// slices are somebody else's business.
fn of_others(told: &mut SentEvents, objects: &Objects, round: &Round, drafts: &mut Vec<Draft>) {
    let mut now = BTreeSet::new();
    let any_policy = !round.planned.view.policies.is_empty();
    let menu = round.menu.problems.iter();
    let problems = round.planned.view.problems.iter().filter(|p| p.object.contains('/')).chain(menu);
    let mut places: Option<Places<'_>> = None;
    for problem in problems.filter(|p| any_policy && p.severity == Severity::Warning) {
        let Some((kind, name)) = problem.object.split_once(' ') else { continue };
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let key = (namespace.to_owned(), name.to_owned());
        let draft = |regarding, warning, reason: &str, note| Draft {
            regarding,
            related: None,
            warning,
            reason: reason.to_owned(),
            action: "Plan".to_owned(),
            note,
            once: problem.message.clone(),
        };
        let note = format!("it {}", problem.message);
        let (draft, identity) = match kind {
            "HardwareProfile" => {
                let Some(profile) = objects.hardware_profiles.get(&key) else { continue };
                let regarding = reference("infrastructure.opendatahub.io/v1", kind, &profile.metadata);
                (draft(regarding, true, PROBLEMS[0].0, note), String::new())
            }
            // It asks for nothing, so it has no answer. It reads this where answers are, under the word for them.
            "Notebook" if problem.field == observe::requests::NO_CONTAINER => {
                let places = places.get_or_insert_with(|| Places::new(objects));
                let id = RequestId { kind: kind.to_owned(), namespace: key.0, name: key.1, ordinal: 0 };
                let Some(Place { regarding, identity }) = places.of_workbench(&id) else { continue };
                let note = format!("not served: it requests neither a slice nor a GPU, since {note}");
                // The uid, which the name of an event has, is not known of a StatefulSet.
                let once = format!("{} {identity}", problem.message);
                (Draft { once, ..draft(regarding, false, Kind::Unavailable.told().0, note) }, identity)
            }
            "GpuPartitionPolicy" => {
                let Some(policy) = objects.policies.get(name) else { continue };
                let regarding = reference(api::API_VERSION, kind, &policy.metadata);
                (draft(regarding, true, PROBLEMS[1].0, note), String::new())
            }
            _ => continue,
        };
        let said = (format!("{} {identity}", problem.object), problem.message.clone());
        let is_new = !told.problems.contains(&said);
        if now.insert(said) && is_new {
            drafts.push(draft);
        }
    }
    told.problems = now;
}

/// Whether the status of a policy gives this answer already.
fn is_in_a_status(objects: &Objects, answer: &Answer) -> bool {
    let Answer { id, text, gist: _, kind: _, topic: _ } = answer;
    let mut unserved =
        objects.policies.values().filter_map(|policy| policy.status.as_ref()?.unserved.as_ref());
    // An owner has one entry for each of its pods, in each policy that may serve it; a pod that has come since was told
    // nothing.
    unserved.any(|unserved| {
        let told = unserved.requests.iter().filter(|request| {
            (&request.kind, &request.namespace, &request.name) == (&id.kind, &id.namespace, &id.name)
                && request.message == *text
        });
        u32::try_from(told.count()).is_ok_and(|told| told > id.ordinal)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ObjectReference, Pod};

    use super::*;

    fn answer(name: &str, text: &str) -> Answer {
        let id = RequestId {
            kind: "Pod".to_owned(),
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            ordinal: 0,
        };
        Answer { id, text: text.to_owned(), gist: text.to_owned(), kind: Kind::Unavailable, topic: "Held" }
    }

    fn coming(topic: &'static str, text: &str) -> Answer {
        Answer { kind: Kind::Coming, topic, ..answer("train", text) }
    }

    /// What is sent, as `reason note`, when these answers follow each other.
    fn sent(answers: &[Answer]) -> Vec<String> {
        let mut objects = Objects::default();
        let pod = serde_json::json!({
            "metadata": {"namespace": "team-a", "name": "train", "uid": "u-train"},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable"}]},
        });
        let pod: Pod = serde_json::from_value(pod).expect("it is a pod");
        objects.pods.insert(("team-a".to_owned(), "train".to_owned()), std::sync::Arc::new(pod));
        let (mut told, mut drafts) = (SentEvents::default(), Vec::new());
        for answer in answers {
            of_requests(&mut told, &objects, std::slice::from_ref(answer), &mut drafts);
        }
        let names: BTreeSet<_> = drafts.iter().map(|draft| (&draft.reason, &draft.once)).collect();
        assert_eq!(names.len(), drafts.len(), "each has a name of its own");
        drafts.iter().map(|draft| format!("{} {}", draft.reason, draft.note)).collect()
    }

    #[test]
    fn who_waits_while_several_nodes_are_on_their_way_is_told_once() {
        let answers = [
            coming("Budget", "a3 has to change: at most 1 may be unavailable, and 1 is: a1"),
            coming("", "a1 is changed for it"),
            coming("Budget", "a3 has to change: at most 1 may be unavailable, and 1 is: a2"),
            coming("", "a2 is changed for it"),
            coming("Budget", "a4 has to change: at most 1 may be unavailable, and 1 is: a2"),
        ];
        assert_eq!(
            sent(&answers),
            [
                "SliceComing a3 has to change: at most 1 may be unavailable, and 1 is: a1",
                "SliceComing a1 is changed for it"
            ]
        );
    }

    #[test]
    fn another_kind_of_answer_is_news_also_when_it_comes_back() {
        let free = |text| Answer { kind: Kind::Free, topic: "", ..answer("train", text) };
        let answers = [
            free("1g.10gb is free on a1"),
            answer("train", "not served: a1 is not ready"),
            coming("", "a1 is changed for it"),
            answer("train", "not served: a1 is not ready"),
            free("1g.10gb is free on a1"),
        ];
        assert_eq!(
            sent(&answers),
            [
                "SliceUnavailable not served: a1 is not ready",
                "SliceComing a1 is changed for it",
                "SliceUnavailable not served: a1 is not ready",
                "SliceFree 1g.10gb is free on a1"
            ]
        );
    }

    /// What is told, as `kind/name uid`, of a workbench in this state.
    fn told_on(told: &mut SentEvents, pod: Option<&str>, has_set: bool, notebook: &str) -> Vec<String> {
        let mut objects = Objects::default();
        let key = || ("team-a".to_owned(), "lab".to_owned());
        let lab = serde_json::json!({"metadata": {"namespace": "team-a", "name": "lab", "uid": notebook}});
        objects
            .notebooks
            .insert(key(), std::sync::Arc::new(serde_json::from_value(lab).expect("a Notebook")));
        if has_set {
            objects.unmade.insert(key(), "exceeded quota".to_owned());
        }
        if let Some(uid) = pod {
            let pod = serde_json::json!({
                "metadata": {"namespace": "team-a", "name": "lab-0", "uid": uid, "labels": {"notebook-name": "lab"}},
                "spec": {"containers": []}, "status": {"phase": "Pending"},
            });
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            objects.pods.insert(("team-a".to_owned(), "lab-0".to_owned()), std::sync::Arc::new(pod));
        }
        let id = RequestId { kind: "Notebook".to_owned(), ..answer("lab", "").id };
        let answer = Answer { id, ..answer("lab", "not served: a1 is not ready") };
        let mut drafts = Vec::new();
        of_requests(told, &objects, &[answer], &mut drafts);
        let on = |o: &ObjectReference| {
            let word = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{} {}", word(&o.kind), word(&o.name), word(&o.uid)).trim_end().to_owned()
        };
        drafts.iter().map(|draft| on(&draft.regarding)).collect()
    }

    #[test]
    fn a_workbench_is_told_once_where_the_dashboard_looks() {
        let mut told = SentEvents::default();
        assert_eq!(told_on(&mut told, Some("p1"), false, "n1"), ["Pod/lab-0 p1"], "not on the Notebook, too");
        assert_eq!(told_on(&mut told, Some("p1"), false, "n1"), [""; 0]);
        assert_eq!(
            told_on(&mut told, Some("p2"), false, "n1"),
            ["Pod/lab-0 p2"],
            "another pod has no events yet"
        );
    }

    #[test]
    fn a_workbench_without_a_pod_is_told_on_its_set_and_without_that_on_itself() {
        let mut told = SentEvents::default();
        assert_eq!(told_on(&mut told, None, false, "n1"), ["Notebook/lab n1"]);
        assert_eq!(told_on(&mut told, None, true, "n1"), ["StatefulSet/lab"]);
        assert_eq!(told_on(&mut told, None, true, "n1"), [""; 0]);
        assert_eq!(told_on(&mut told, None, true, "n2"), ["StatefulSet/lab"], "a new workbench of the name");
        assert_eq!(told_on(&mut told, Some("p1"), false, "n2"), ["Pod/lab-0 p1"], "its pod came");
    }

    #[test]
    fn what_a_status_says_counts_as_told_and_another_answer_does_not() {
        let mut objects = Objects::default();
        let policy = serde_json::json!({
            "apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy", "metadata": {"name": "research"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "research"}},
                "layout": {"type": "DemandDriven", "demandDriven": {}}},
            "status": {"unserved": {"total": 1, "requests": [{
                "kind": "Pod", "namespace": "team-a", "name": "train", "slices": "1 x 3g.40gb",
                "since": "2026-11-20T08:00:00Z", "reason": "NodesHeld", "message": "not served: a1 is not ready",
            }]}},
        });
        for name in ["research", "shared"] {
            let policy = serde_json::from_value(policy.clone()).expect("it is a policy");
            objects.policies.insert(name.to_owned(), policy);
        }
        assert!(is_in_a_status(&objects, &answer("train", "not served: a1 is not ready")));
        assert!(!is_in_a_status(&objects, &answer("train", "not served: a2 is not ready")));
        assert!(!is_in_a_status(&objects, &answer("other", "not served: a1 is not ready")));
        let mut second = answer("train", "not served: a1 is not ready");
        second.id.ordinal = 1;
        assert!(!is_in_a_status(&objects, &second), "each status has one pod of this owner");
    }
}
