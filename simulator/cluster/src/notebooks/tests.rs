use super::*;

const NOW: &str = "2026-11-22T08:00:00Z";

fn at(minutes: i64) -> Timestamp {
    NOW.parse::<Timestamp>().expect("a time") + SignedDuration::from_mins(minutes)
}

fn lab() -> PodName {
    PodName::new("a", "lab")
}

/// A book with one Notebook, and what the API server makes of its writes.
struct Desk {
    book: Book,
    version: u64,
}

impl Desk {
    fn new(annotations: Value) -> Self {
        let mut desk = Self { book: Book::default(), version: 0 };
        desk.write(&json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "lab", "namespace": "a", "uid": "n", "annotations": annotations,
                "labels": {"app": "lab"}},
            "spec": {"template": {"spec": {"containers": [{"name": "lab", "image": "lab:1"}]}}},
        }));
        desk
    }

    fn write(&mut self, notebook: &Value) {
        self.version += 1;
        let mut notebook = notebook.clone();
        notebook["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object: DynamicObject = serde_json::from_value(notebook).expect("an object");
        take(&mut self.book.notebooks, lab(), object);
    }

    fn annotate(&mut self, key: &str, value: Option<&str>) {
        let mut notebook = serde_json::to_value(&self.book.notebooks[&lab()]).expect("data");
        notebook["metadata"]["annotations"][key] = json!(value);
        if value.is_none() {
            let annotations = notebook["metadata"]["annotations"].as_object_mut().expect("a map");
            annotations.remove(key);
        }
        self.write(&notebook);
    }

    fn pod_runs(&mut self) {
        let pod = json!({
            "metadata": {"name": "lab-0", "namespace": "a", "uid": "p", "resourceVersion": "1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "lab", "ready": true, "restartCount": 0, "image": "",
                    "imageID": "", "state": {"running": {"startedAt": NOW}}}]},
        });
        self.book.pods.insert(PodName::new("a", "lab-0"), serde_json::from_value(pod).expect("a pod"));
    }

    /// Takes its own StatefulSet in, and the status as it patched it.
    fn settle(&mut self, now: Timestamp) -> Vec<Write> {
        let due = self.book.due(now, now);
        for write in &due {
            match write {
                Write::CreateSet(set) => drop(self.book.sets.insert(lab(), (**set).clone())),
                Write::PatchStatus(name, patch, of) => {
                    self.book.reconciled(name.clone(), of.clone());
                    let mut notebook = serde_json::to_value(&self.book.notebooks[&lab()]).expect("data");
                    let mut status = patch["status"].clone();
                    let state = status["containerState"].as_object_mut().expect("a map");
                    state.retain(|_, value| !value.is_null());
                    notebook["status"] = status;
                    self.write(&notebook);
                }
                Write::PatchSet(_, patch) => {
                    let set = self.book.sets.get_mut(&lab()).expect("it was made");
                    let replicas = patch["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok());
                    set.spec.get_or_insert_default().replicas = replicas;
                }
                Write::PatchNotebook(_, patch) => {
                    let annotations = patch["metadata"]["annotations"].as_object().expect("a map");
                    for (key, value) in annotations {
                        self.annotate(key, value.as_str());
                    }
                }
                Write::DeletePod(_) | Write::Reissue(..) => {}
            }
        }
        due
    }
}

#[test]
fn a_notebook_becomes_a_set_whose_pod_has_its_labels_and_its_own_annotations_only() {
    let mut desk = Desk::new(json!({"team": "vision", "notebooks.opendatahub.io/x": "1"}));
    let due = desk.settle(at(0));
    let Some(Write::CreateSet(set)) = due.first() else { panic!("{due:?}") };
    let set = serde_json::to_value(set).expect("data");
    assert_eq!(set["spec"]["replicas"], 1);
    let template = &set["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"], json!({"team": "vision"}));
    assert_eq!(
        template["metadata"]["labels"],
        json!({"app": "lab", "notebook-name": "lab", "statefulset": "lab", "opendatahub.io/workbenches": "true"})
    );
    desk.pod_runs();
    let due = desk.settle(at(0));
    assert!(matches!(&due[..], [Write::PatchStatus(..)]), "{due:?}");
    assert_eq!(desk.settle(at(0)), [], "nothing has changed since");
}

/// A controller of others that writes without need, to which the operator must not answer with writes.
#[test]
fn the_status_is_written_at_each_look_with_the_time_of_it() {
    let mut desk = Desk::new(json!({}));
    desk.pod_runs();
    desk.settle(at(0));
    desk.settle(at(0));
    desk.annotate("notebooks.kubeflow.org/last-activity", Some(NOW));
    let due = desk.settle(at(1));
    let [Write::PatchStatus(_, patch, _)] = &due[..] else { panic!("{due:?}") };
    assert_eq!(patch["status"]["conditions"][0]["lastProbeTime"], "2026-11-22T08:01:00Z");
    assert_eq!(patch["status"]["readyReplicas"], 0);
    assert_eq!(desk.settle(at(2)), []);
}

#[test]
fn what_is_said_on_the_pod_is_said_again_on_the_notebook() {
    let mut desk = Desk::new(json!({}));
    desk.pod_runs();
    desk.settle(at(0));
    desk.settle(at(0));
    let event = json!({"metadata": {"name": "lab-0.1", "namespace": "a", "resourceVersion": "7"},
        "involvedObject": {"kind": "Pod", "namespace": "a", "name": "lab-0"},
        "type": "Normal", "reason": "SliceComing", "message": "n1 is changed for it"});
    desk.book.heard(serde_json::from_value(event).expect("an event"));
    let due = desk.settle(at(1));
    let [Write::Reissue(of, again)] = &due[..] else { panic!("{due:?}") };
    assert_eq!(again.message.as_deref(), Some("Reissued from pod/lab-0: n1 is changed for it"));
    desk.book.reissued.said(of);
    assert_eq!(desk.settle(at(1)), []);
}

#[test]
fn a_long_name_makes_a_set_and_a_pod_with_names_of_their_own() {
    let long = PodName::new("a", &"n".repeat(60));
    let notebook: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": long.name, "namespace": "a", "uid": "n", "resourceVersion": "1"},
        "spec": {"template": {"spec": {"containers": [{"name": long.name}]}}},
    }))
    .expect("an object");
    let mut book = Book::default();
    take(&mut book.notebooks, long.clone(), notebook);
    let due = book.due(at(0), at(0));
    let [Write::CreateSet(set)] = &due[..] else { panic!("{due:?}") };
    let name = set.metadata.name.clone().expect("a name");
    assert!(name.starts_with("nb-") && name.len() == 8, "{name}");
    assert_eq!(set.metadata.labels.as_ref().expect("labels")["notebook-name"], long.name);
    take(&mut book.sets, name_of(&set.metadata), (**set).clone());
    let due = book.due(at(0), at(0));
    assert!(!due.iter().any(|write| matches!(write, Write::CreateSet(_))), "it is found again: {due:?}");
    assert_eq!(pod_name(&long).name, format!("{name}-0"));
}

#[test]
fn the_stop_annotation_scales_the_set_and_a_restart_deletes_the_pod() {
    let mut desk = Desk::new(json!({}));
    desk.pod_runs();
    desk.settle(at(0));
    desk.settle(at(0));
    desk.annotate(STOPPED, Some(NOW));
    let due = desk.settle(at(1));
    assert!(due.contains(&Write::PatchSet(lab(), json!({"spec": {"replicas": 0}}))), "{due:?}");
    desk.annotate(STOPPED, None);
    let due = desk.settle(at(2));
    assert!(due.contains(&Write::PatchSet(lab(), json!({"spec": {"replicas": 1}}))), "{due:?}");
    desk.annotate(RESTART, Some("true"));
    let due = desk.settle(at(3));
    assert!(due.contains(&Write::DeletePod(PodName::new("a", "lab-0"))), "{due:?}");
}

/// A profile with these identifiers, and this node selector.
fn profile(identifiers: &[(&str, &str)], selector: &Value) -> HardwareProfile {
    let identifier = |(name, count): &(&str, &str)| json!({"identifier": name, "defaultCount": count});
    let identifiers: Vec<Value> = identifiers.iter().map(identifier).collect();
    serde_json::from_value(json!({"spec": {"identifiers": identifiers,
        "scheduling": {"type": "Node", "node": {"nodeSelector": selector}}}}))
    .expect("a profile")
}

#[test]
fn a_profile_that_is_missing_leaves_a_new_notebook_without_a_pod_and_a_later_one_changes_nothing() {
    let named = json!({api::foreign::notebook::PROFILE_NAME: "slice"});
    let mut desk = Desk::new(named);
    assert_eq!(desk.settle(at(0)), []);
    let name = || PodName::new("a", "slice");
    desk.book.profiles.insert(name(), profile(&[("cpu", "1")], &json!({"gpu": "yes"})));
    assert!(matches!(&desk.settle(at(0))[..], [Write::CreateSet(_), ..]));
    desk.settle(at(0));
    desk.book.profiles.insert(name(), profile(&[("cpu", "2")], &json!({"gpu": "yes"})));
    assert_eq!(desk.settle(at(0)), [], "only a write to the Notebook asks the webhook again");
    desk.annotate("touched", Some("yes"));
    let due = desk.settle(at(0));
    assert!(matches!(&due[..], [Write::PatchStatus(..)]), "what was once written stays: {due:?}");
    for (touched, changed) in [
        ("again", profile(&[("cpu", "2"), ("memory", "1Gi")], &json!({"gpu": "yes"}))),
        ("a third time", profile(&[("cpu", "2"), ("memory", "1Gi")], &json!({"gpu": "no"}))),
    ] {
        desk.book.profiles.insert(name(), changed);
        desk.annotate("touched", Some(touched));
        let due = desk.settle(at(0));
        let [Write::PatchSet(_, patch), Write::PatchStatus(..)] = &due[..] else {
            panic!("{touched}: {due:?}")
        };
        let cpu = &patch["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"];
        assert_eq!(cpu, "1", "an identifier that is new and a selector restart it, a count does not");
    }
}

#[test]
fn a_profile_that_is_gone_leaves_a_running_notebook_with_what_it_has() {
    let mut desk = Desk::new(json!({api::foreign::notebook::PROFILE_NAME: "slice"}));
    let name = PodName::new("a", "slice");
    desk.book.profiles.insert(name.clone(), profile(&[("cpu", "1")], &json!({"gpu": "yes"})));
    desk.settle(at(0));
    desk.settle(at(0));
    desk.book.profiles.remove(&name);
    desk.annotate("touched", Some("yes"));
    let due = desk.settle(at(0));
    assert!(matches!(&due[..], [Write::PatchStatus(..)]), "{due:?}");
}

#[test]
fn another_notebook_of_the_same_name_has_nothing_of_the_one_before() {
    let mut desk = Desk::new(json!({api::foreign::notebook::PROFILE_NAME: "slice"}));
    let name = PodName::new("a", "slice");
    desk.book.profiles.insert(name.clone(), profile(&[("cpu", "1")], &json!({"gpu": "yes"})));
    desk.settle(at(0));
    desk.book.profiles.remove(&name);
    desk.book.sets.clear();
    let mut another = serde_json::to_value(&desk.book.notebooks[&lab()]).expect("data");
    another["metadata"]["uid"] = json!("m");
    desk.write(&another);
    assert_eq!(desk.settle(at(0)), [], "its profile is missing");
}

#[test]
fn what_its_user_changes_of_a_notebook_with_a_profile_is_changed_and_the_rest_of_the_profile_stays() {
    let mut desk = Desk::new(json!({api::foreign::notebook::PROFILE_NAME: "slice"}));
    let both = profile(&[("cpu", "1"), ("memory", "1Gi")], &json!({}));
    desk.book.profiles.insert(PodName::new("a", "slice"), both);
    desk.settle(at(0));
    desk.settle(at(0));
    let mut notebook = serde_json::to_value(&desk.book.notebooks[&lab()]).expect("data");
    notebook["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "4"}});
    desk.write(&notebook);
    let due = desk.settle(at(0));
    let [Write::PatchSet(_, patch), ..] = &due[..] else { panic!("{due:?}") };
    let container = &patch["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"], json!({"cpu": "4", "memory": "1Gi"}));
    assert_eq!(container["image"], "lab:1");
}

/// The profile is of the container with the workbench's name, wherever that stands.
#[test]
fn what_its_user_adds_to_a_notebook_with_a_profile_is_added_and_nothing_else() {
    let mut desk = Desk::new(json!({api::foreign::notebook::PROFILE_NAME: "slice"}));
    desk.book.profiles.insert(PodName::new("a", "slice"), profile(&[("cpu", "1")], &json!({})));
    desk.settle(at(0));
    desk.settle(at(0));
    let template = |desk: &mut Desk, change: &dyn Fn(&mut Value)| {
        let mut notebook = serde_json::to_value(&desk.book.notebooks[&lab()]).expect("data");
        change(&mut notebook["spec"]["template"]["spec"]["containers"]);
        desk.write(&notebook);
        let due = desk.settle(at(0));
        let [Write::PatchSet(_, patch), ..] = &due[..] else { panic!("{due:?}") };
        patch["spec"]["template"]["spec"]["containers"].clone()
    };
    let env = json!([{"name": "TEAM", "value": "vision"}]);
    let lab = json!({"name": "lab", "image": "lab:1", "env": env, "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}});
    let with_env = template(&mut desk, &|containers| containers[0]["env"] = env.clone());
    assert_eq!(with_env, json!([lab]));
    let proxy = json!({"name": "proxy", "image": "proxy:1"});
    let in_front = template(&mut desk, &|containers| {
        containers.as_array_mut().expect("a list").insert(0, proxy.clone());
    });
    assert_eq!(in_front, json!([proxy, lab]));
    // Also when the profile is gone: what was stored of it stays where nobody changes it.
    desk.book.profiles.clear();
    let changed = template(&mut desk, &|containers| containers[1]["image"] = json!("lab:2"));
    assert_eq!(changed[1]["resources"], lab["resources"]);
}

/// Nobody stopped it: it is about to run.
#[test]
fn a_locked_notebook_has_a_set_without_a_pod_and_is_then_let_go_by_itself() {
    let mut desk = Desk::new(json!({STOPPED: LOCK}));
    let due = desk.settle(at(0));
    let [Write::CreateSet(set)] = &due[..] else { panic!("{due:?}") };
    assert_eq!(set.spec.as_ref().and_then(|spec| spec.replicas), Some(0));
    assert!(matches!(&desk.settle(at(0))[..], [Write::PatchStatus(..)]), "there is nothing to be let go yet");
    let due = desk.settle(at(0));
    let [Write::PatchNotebook(_, patch)] = &due[..] else { panic!("{due:?}") };
    assert_eq!(patch["metadata"]["annotations"], json!({STOPPED: null}));
    assert_eq!(patch["metadata"]["resourceVersion"], "2", "as it was looked at");
    let due = desk.settle(at(0));
    assert!(due.contains(&Write::PatchSet(lab(), json!({"spec": {"replicas": 1}}))), "{due:?}");
    assert!(!due.iter().any(|write| matches!(write, Write::PatchNotebook(..))), "{due:?}");
}

/// Somebody deletes the set meanwhile.
#[test]
fn a_locked_notebook_whose_set_is_gone_is_not_let_go_before_it_is_there_again() {
    let mut desk = Desk::new(json!({STOPPED: LOCK}));
    desk.settle(at(0));
    desk.settle(at(0));
    desk.book.sets.clear();
    let reconciled = desk.book.due(at(0), at(0));
    assert!(matches!(&reconciled[..], [Write::CreateSet(_)]), "{reconciled:?}");
}

#[test]
fn a_notebook_that_its_user_stopped_while_it_was_locked_stays_stopped() {
    let mut desk = Desk::new(json!({STOPPED: LOCK}));
    desk.settle(at(0));
    desk.annotate(STOPPED, Some(NOW));
    for _ in 0..3 {
        let due = desk.settle(at(1));
        assert!(due.iter().all(|write| matches!(write, Write::PatchStatus(..))), "{due:?}");
    }
}

#[test]
fn culling_stops_what_nobody_used_and_only_when_it_is_on() {
    let mut desk = Desk::new(json!({}));
    desk.pod_runs();
    desk.settle(at(0));
    desk.settle(at(0));
    assert_eq!(desk.book.next_event(), None);
    let data = [("ENABLE_CULLING", "true"), ("CULL_IDLE_TIME", "30")];
    desk.book.culling =
        Culling::from_data(&data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    desk.settle(at(10));
    assert_eq!(desk.book.next_event(), Some(at(40)));
    let stops = |due: &[Write]| {
        due.iter().any(|write| {
            matches!(write, Write::PatchNotebook(_, patch)
            if patch["metadata"]["annotations"][STOPPED].is_string())
        })
    };
    assert!(!stops(&desk.settle(at(39))));
    assert!(stops(&desk.settle(at(40))));
}
