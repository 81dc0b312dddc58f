mod servers;

use serde_json::{Value, json};

use super::*;

const APPLICATIONS: &str = "redhat-ods-applications";
const SLICE: &str = "nvidia.com/mig-1g.5gb";

/// A slice with CPU and memory, of which people may choose more.
fn profile(scheduling: Value) -> HardwareProfile {
    serde_json::from_value(json!({
        "metadata": {"name": "slice", "namespace": APPLICATIONS},
        "spec": {"identifiers": [
            {"identifier": SLICE, "defaultCount": 1},
            {"identifier": "cpu", "defaultCount": 8, "maxCount": 16},
            {"identifier": "memory", "defaultCount": "32Gi", "maxCount": "64Gi"},
        ], "scheduling": scheduling},
    }))
    .expect("a profile")
}

fn on_nodes() -> HardwareProfile {
    profile(json!({"type": "Node", "node": {
        "nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "workload"}]}}))
}

fn in_a_queue() -> HardwareProfile {
    profile(json!({"type": "Queue", "kueue": {"localQueueName": "gpus"}}))
}

/// A workbench with a proxy beside it, and some wishes of its user.
fn lab() -> Value {
    json!({
        "metadata": {"name": "lab", "namespace": "a", "annotations": {
            PROFILE_NAME: "slice", PROFILE_NAMESPACE: APPLICATIONS}},
        "spec": {"template": {"spec": {
            "containers": [{"name": "lab", "resources": {"requests": {"cpu": "2"}}}, {"name": "oauth-proxy"}],
            "nodeSelector": {"gpu": "maybe", "disk": "fast"}, "tolerations": [{"key": "own"}, {"key": "workload"}],
        }}},
    })
}

/// What the webhook of each release makes of a Notebook.
fn each(
    notebook: &Value,
    before: Option<&Value>,
    profile: Option<&HardwareProfile>,
) -> [Result<Reviewed, Refused>; 5] {
    let review = |rules| review(rules, Workload::Notebook, notebook.clone(), before, |_, _| profile.cloned());
    RULES.each_ref().map(review)
}

/// The pod's spec that each release stores, where all let it through.
fn specs(profile: &HardwareProfile) -> [Value; 5] {
    each(&lab(), None, Some(profile))
        .map(|made| made.expect("the profile exists").object["spec"]["template"]["spec"].clone())
}

#[test]
fn keys_that_the_user_gave_stay_and_the_others_come_from_the_profile_in_every_release() {
    for spec in specs(&on_nodes()) {
        assert_eq!(
            spec["containers"][0]["resources"]["requests"],
            json!({"cpu": "2", "memory": "32Gi", SLICE: "1"})
        );
    }
}

#[test]
fn up_to_3_3_the_proxy_gets_a_slice_too() {
    let proxies =
        specs(&on_nodes()).map(|spec| spec["containers"][1]["resources"]["requests"][SLICE].clone());
    let one = || json!("1");
    assert_eq!(proxies, [one(), one(), one(), Value::Null, Value::Null]);
}

#[test]
fn limits_are_the_most_at_first_and_then_what_is_asked_for() {
    let limits = specs(&on_nodes()).map(|spec| spec["containers"][0]["resources"]["limits"].clone());
    // Of a slice without a maximum there is no limit: the API server refuses such a pod.
    let most = json!({"cpu": "16", "memory": "64Gi"});
    let asked_and_most = json!({"cpu": "16", "memory": "64Gi", SLICE: "1"});
    let asked = json!({"cpu": "2", "memory": "32Gi", SLICE: "1"});
    assert_eq!(limits, [most.clone(), most.clone(), most, asked_and_most, asked]);
}

/// As the real webhook of 2.25 does, to which the release check compares it.
#[test]
fn a_profile_that_says_little_adds_little() {
    let mut bare = lab();
    bare["metadata"]["annotations"].as_object_mut().expect("annotations").remove(PROFILE_NAMESPACE);
    bare["metadata"]["namespace"] = json!(APPLICATIONS);
    let of = |spec: Value| serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a profile");
    let reviewed = |profile: HardwareProfile| {
        let [first, ..] = each(&bare, None, Some(&profile));
        first.expect("the profile exists").object
    };
    assert_eq!(reviewed(of(json!({}))), bare, "nothing at all");

    let only_nodes = json!({"scheduling": {"type": "Node", "node": {"nodeSelector": {"gpu": "yes"}}}});
    let containers = &reviewed(of(only_nodes))["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[1], json!({"name": "oauth-proxy"}), "no resources");

    let no_maximum = json!({"identifiers": [{"identifier": "cpu", "defaultCount": 1}]});
    let containers = &reviewed(of(no_maximum))["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[1]["resources"], json!({"requests": {"cpu": "1"}, "limits": {}}));
}

#[test]
fn what_the_user_says_of_nodes_is_replaced_at_first_and_from_3_4_on_kept_beside() {
    let [first, second, third, fourth, fifth] = specs(&on_nodes());
    for spec in [first, second, third] {
        assert_eq!(spec["nodeSelector"], json!({"gpu": "yes"}));
        assert_eq!(spec["tolerations"], json!([{"key": "workload"}]));
    }
    for spec in [fourth, fifth] {
        assert_eq!(spec["nodeSelector"], json!({"gpu": "yes", "disk": "fast"}), "the profile wins");
        assert_eq!(spec["tolerations"], json!([{"key": "workload"}, {"key": "own"}]));
    }
}

#[test]
fn in_3_2_and_3_3_what_the_user_says_of_nodes_goes_at_each_write_also_where_the_profile_says_nothing() {
    let says_nothing = serde_json::from_value(json!({"metadata": {}, "spec": {}})).expect("a profile");
    let mut queued = lab();
    queued["metadata"]["labels"] = json!({QUEUE: "of-the-user"});
    let [first, second, third, fourth, fifth] =
        each(&queued, None, Some(&says_nothing)).map(|made| made.expect("the profile exists").object);
    for untouched in [first, second, fourth, fifth] {
        assert_eq!(untouched, queued);
    }
    let spec = &third["spec"]["template"]["spec"];
    assert_eq!((&spec["nodeSelector"], &spec["tolerations"]), (&Value::Null, &Value::Null));
    assert_eq!(third["metadata"]["labels"], json!({}));
    assert_eq!(spec["containers"], queued["spec"]["template"]["spec"]["containers"]);
}

#[test]
fn a_queue_gets_its_label_and_from_3_0_on_neither_selector_nor_tolerations() {
    let queued = |profile: &HardwareProfile| {
        each(&lab(), None, Some(profile)).map(|made| made.expect("the profile exists").object)
    };
    let of_the_user = json!({"gpu": "maybe", "disk": "fast"});
    for (rules, notebook) in RULES.iter().zip(queued(&in_a_queue())) {
        assert_eq!(notebook["metadata"]["labels"][QUEUE], "gpus");
        let stays = if rules.release == "3.2" { &Value::Null } else { &of_the_user };
        assert_eq!(&notebook["spec"]["template"]["spec"]["nodeSelector"], stays, "{}", rules.release);
    }
    // Such a profile cannot be made today; one of release 2.25 may be left.
    let mut both = on_nodes();
    both.spec.scheduling.as_mut().expect("it has one").kueue =
        in_a_queue().spec.scheduling.expect("it has one").kueue;
    let selected =
        queued(&both).map(|notebook| notebook["spec"]["template"]["spec"]["nodeSelector"]["gpu"].clone());
    assert_eq!(selected, [json!("yes"), json!("maybe"), Value::Null, json!("maybe"), json!("maybe")]);
}

#[test]
fn a_profile_that_is_not_there_is_refused_and_a_workbench_whose_profile_is_gone_can_be_changed_from_3_5_on() {
    let words = "hardware profile 'slice' not found in namespace 'redhat-ods-applications'";
    for made in each(&lab(), None, None) {
        assert_eq!(made, Err(Refused(words.to_owned())));
    }
    let mut stopped = lab();
    stopped["metadata"]["annotations"]["kubeflow-resource-stopped"] = json!("2026-11-27T18:00:00Z");
    let [.., fourth, fifth] = each(&stopped, Some(&lab()), None);
    assert_eq!(fourth, Err(Refused(words.to_owned())), "it cannot even be stopped");
    let let_through = fifth.expect("it is forgiven");
    assert_eq!(let_through.object, stopped);
    assert_eq!(let_through.warnings.len(), 1);
    // Another one that is not there is refused always.
    let mut other = stopped;
    other["metadata"]["annotations"][PROFILE_NAME] = json!("none");
    assert!(each(&other, Some(&lab()), None).iter().all(Result::is_err));
}

#[test]
fn another_profile_takes_the_place_of_the_one_before_from_3_4_on_and_its_resources_from_3_5_on() {
    let made = review(newest(), Workload::Notebook, lab(), None, |_, _| Some(on_nodes()));
    let was = made.expect("it exists").object;
    let mut changed = was.clone();
    changed["metadata"]["annotations"][PROFILE_NAME] = json!("queued");
    let [_, second, third, fourth, fifth] =
        each(&changed, Some(&was), Some(&in_a_queue())).map(|made| made.expect("it exists").object);
    let spec = |notebook: &Value| notebook["spec"]["template"]["spec"].clone();
    assert_eq!(spec(&second)["nodeSelector"]["gpu"], "yes", "what was once written stays");
    let cpu = |notebook: &Value| spec(notebook)["containers"][0]["resources"]["requests"]["cpu"].clone();
    assert_eq!((cpu(&fourth), cpu(&fifth)), (json!("2"), json!("8")));
    for notebook in [third, fourth, fifth] {
        assert_eq!(spec(&notebook)["nodeSelector"], Value::Null);
        assert_eq!(notebook["metadata"]["labels"][QUEUE], "gpus");
    }
}

#[test]
fn a_profile_that_is_not_named_any_more_takes_its_nodes_with_it_from_3_4_on() {
    let mut plain = lab();
    plain["spec"]["template"]["spec"]["tolerations"] = json!([]);
    plain["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    let made = review(newest(), Workload::Notebook, plain, None, |_, _| Some(on_nodes()));
    let was = made.expect("it exists").object;
    let mut freed = was.clone();
    freed["metadata"]["annotations"].as_object_mut().expect("a map").remove(PROFILE_NAME);
    let [_, second, third, fourth, fifth] =
        each(&freed, Some(&was), Some(&on_nodes())).map(|made| made.expect("nothing is named").object);
    assert_eq!((&second, &third), (&freed, &freed));
    for notebook in [fourth, fifth] {
        let spec = &notebook["spec"]["template"]["spec"];
        assert_eq!((&spec["nodeSelector"], &spec["tolerations"]), (&Value::Null, &Value::Null));
        assert_eq!(spec["containers"][0]["resources"]["requests"][SLICE], "1", "the resources stay");
    }
}

#[test]
fn a_workbench_without_a_container_of_its_own_gets_a_warning_from_3_4_on() {
    let mut strange = lab();
    strange["spec"]["template"]["spec"]["containers"][0]["name"] = json!("jupyter");
    let [_, second, _, fourth, fifth] =
        each(&strange, None, Some(&on_nodes())).map(|made| made.expect("it exists"));
    let asks = |made: &Reviewed| {
        made.object["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][SLICE].clone()
    };
    assert_eq!((asks(&second), second.warnings.len()), (json!("1"), 0));
    for made in [fourth, fifth] {
        assert_eq!((asks(&made), made.warnings.len()), (Value::Null, 1));
    }
}

#[test]
fn a_profile_without_a_namespace_is_one_of_its_own_and_that_is_written_down() {
    let mut lab = lab();
    lab["metadata"]["annotations"].as_object_mut().expect("a map").remove(PROFILE_NAMESPACE);
    for rules in &RULES {
        let made = review(rules, Workload::Notebook, lab.clone(), None, |namespace, name| {
            (namespace == "a" && name == "slice").then(on_nodes)
        });
        let made = made.expect("it is in the namespace of the Notebook").object;
        assert_eq!(made["metadata"]["annotations"][PROFILE_NAMESPACE], "a", "{}", rules.release);
    }
}
