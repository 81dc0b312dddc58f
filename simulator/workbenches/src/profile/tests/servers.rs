//! Model servers.

use super::*;

/// A model server with its wishes of nodes.
fn chat() -> Value {
    json!({
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "a", "annotations": {
            PROFILE_NAME: "slice", PROFILE_NAMESPACE: APPLICATIONS}},
        "spec": {"predictor": {
            "model": {"modelFormat": {"name": "onnx"}, "resources": {"requests": {"cpu": "2"}}},
            "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "own"}],
        }},
    })
}

/// A server of a large language model with a container beside the one that serves.
fn granite() -> Value {
    json!({
        "kind": "LLMInferenceService",
        "metadata": {"name": "granite", "namespace": "a", "annotations": {
            PROFILE_NAME: "slice", PROFILE_NAMESPACE: APPLICATIONS}},
        "spec": {"model": {"uri": "hf://granite"}, "template": {
            "containers": [{"name": "sidecar"}, {"name": "main"}], "nodeSelector": {"disk": "fast"},
        }},
    })
}

/// What each release makes of a model server.
fn served(
    object: &Value,
    before: Option<&Value>,
    profile: Option<&HardwareProfile>,
) -> [Result<Reviewed, Refused>; 5] {
    let workload =
        Workload::of_kind(object["kind"].as_str().expect("it has one")).expect("it is one of them");
    RULES.each_ref().map(|rules| review(rules, workload, object.clone(), before, |_, _| profile.cloned()))
}

/// The same, where all let it through.
fn stored(object: &Value, profile: &HardwareProfile) -> [Value; 5] {
    served(object, None, Some(profile)).map(|made| made.expect("the profile exists").object)
}

/// How often a release asks for the slice, and for how much CPU at most: of each container.
fn asks(containers: &[Value]) -> Vec<(Value, Value)> {
    let of = |container: &Value| {
        let resources = &container["resources"];
        (resources["requests"][SLICE].clone(), resources["limits"]["cpu"].clone())
    };
    containers.iter().map(of).collect()
}

#[test]
fn an_inference_service_gets_its_slice_in_every_release_and_its_limits_as_a_workbench_does() {
    let asks = stored(&chat(), &on_nodes()).map(|object| {
        let model = object["spec"]["predictor"]["model"].clone();
        assert_eq!(model["resources"]["requests"]["cpu"], "2", "what its user says stays");
        asks(&[model]).remove(0)
    });
    let one = |cpu: &str| (json!("1"), json!(cpu));
    assert_eq!(asks, [one("16"), one("16"), one("16"), one("16"), one("2")]);
}

#[test]
fn an_inference_service_runs_where_its_profile_says_and_from_3_4_on_where_its_user_says_too() {
    for (rules, object) in RULES.iter().zip(stored(&chat(), &on_nodes())) {
        let predictor = &object["spec"]["predictor"];
        let both = ["3.4", "3.5"].contains(&rules.release);
        let selected = if both { json!({"disk": "fast", "gpu": "yes"}) } else { json!({"gpu": "yes"}) };
        let own =
            if both { json!([{"key": "workload"}, {"key": "own"}]) } else { json!([{"key": "workload"}]) };
        assert_eq!(
            (&predictor["nodeSelector"], &predictor["tolerations"]),
            (&selected, &own),
            "{}",
            rules.release
        );
    }
    for object in stored(&chat(), &in_a_queue()) {
        assert_eq!(object["metadata"]["labels"][QUEUE], "gpus");
    }
}

#[test]
fn a_predictor_that_is_made_of_containers_gets_no_resources() {
    let mut custom = chat();
    custom["spec"]["predictor"] = json!({"containers": [{"name": "kserve-container"}]});
    for object in stored(&custom, &on_nodes()) {
        assert_eq!(object["spec"]["predictor"]["containers"], custom["spec"]["predictor"]["containers"]);
        assert_eq!(object["spec"]["predictor"]["nodeSelector"], json!({"gpu": "yes"}));
    }
}

#[test]
fn a_server_of_a_language_model_is_not_looked_at_on_2_25_and_then_gets_slices_in_every_container_until_3_3() {
    let [first, second, third, fourth, fifth] = stored(&granite(), &on_nodes());
    assert_eq!(first, granite());
    let asks =
        |object: &Value| asks(object["spec"]["template"]["containers"].as_array().expect("containers"));
    let (none, most) = ((Value::Null, Value::Null), (json!("1"), json!("16")));
    for object in [second, third] {
        assert_eq!(asks(&object), [most.clone(), most.clone()]);
        assert_eq!(object["spec"]["template"]["nodeSelector"], json!({"gpu": "yes"}));
    }
    assert_eq!(asks(&fourth), [none.clone(), most]);
    assert_eq!(asks(&fifth), [none, (json!("1"), json!("8"))]);
    for object in [fourth, fifth] {
        assert_eq!(object["spec"]["template"]["nodeSelector"], json!({"disk": "fast", "gpu": "yes"}));
    }
}

#[test]
fn a_server_of_a_language_model_without_containers_gets_one_for_its_slice() {
    let mut bare = granite();
    bare["spec"].as_object_mut().expect("a map").remove("template");
    let [_, later @ ..] = stored(&bare, &in_a_queue());
    for object in later {
        let containers = object["spec"]["template"]["containers"].as_array().expect("one was made");
        assert_eq!(containers.len(), 1);
        assert_eq!((&containers[0]["name"], &asks(containers)[0].0), (&json!("main"), &json!("1")));
    }
}

#[test]
fn a_server_of_a_language_model_without_a_container_called_main_gets_nothing_from_3_4_on() {
    let mut strange = granite();
    strange["spec"]["template"]["containers"] = json!([{"name": "vllm"}]);
    let [.., third, fourth, fifth] =
        served(&strange, None, Some(&on_nodes())).map(|made| made.expect("it is let through"));
    assert_eq!(third.object["spec"]["template"]["containers"][0]["resources"]["requests"][SLICE], "1");
    assert_eq!((&fourth.object, fourth.warnings.len()), (&strange, 1));
    assert_eq!((&fifth.object, fifth.warnings.len()), (&strange, 0), "only an event says so");
}

/// Of Notebooks this has changed with 3.5, of model servers it has not.
#[test]
fn a_model_server_whose_profile_is_gone_cannot_be_changed_in_any_release() {
    let mut stopped = chat();
    stopped["metadata"]["annotations"]["serving.kserve.io/stop"] = json!("true");
    let [earlier @ .., last] = served(&stopped, Some(&chat()), None);
    for made in earlier {
        let words = "hardware profile 'slice' not found in namespace 'redhat-ods-applications'";
        assert_eq!(made, Err(Refused(words.to_owned())));
    }
    let words = "hardware profile \"slice\" not found in namespace \"redhat-ods-applications\"";
    assert_eq!(last, Err(Refused(words.to_owned())));
    let [of_2_25, later @ ..] = served(&granite(), Some(&granite()), None);
    assert!(of_2_25.is_ok() && later.iter().all(Result::is_err));
}

#[test]
fn another_profile_of_a_model_server_leaves_its_resources_as_they_are_in_every_release() {
    let made = review(newest(), Workload::InferenceService, chat(), None, |_, _| Some(on_nodes()));
    let was = made.expect("it exists").object;
    let mut changed = was.clone();
    changed["metadata"]["annotations"][PROFILE_NAME] = json!("queued");
    for (rules, made) in RULES.iter().zip(served(&changed, Some(&was), Some(&in_a_queue()))) {
        let predictor = made.expect("it exists").object["spec"]["predictor"].clone();
        assert_eq!(predictor["model"], was["spec"]["predictor"]["model"]);
        let stays = ["2.25", "3.0"].contains(&rules.release);
        assert_eq!(predictor["nodeSelector"]["gpu"].is_string(), stays, "{}", rules.release);
    }
}
