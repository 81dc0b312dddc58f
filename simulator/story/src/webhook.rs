//! OpenShift AI's webhook for Notebooks: refuses a hardware profile that does not exist, and has the others
//! injected.

use api::foreign::HardwareProfile;
use kube::core::DynamicObject;
use workbenches::profile::{Refused, Reviewed, Workload, newest, review};

use crate::store::{Shelf, path};

/// The annotation that names the profile.
pub(crate) const PROFILE_NAME: &str = "opendatahub.io/hardware-profile-name";
/// The annotation that names its namespace.
pub(crate) const PROFILE_NAMESPACE: &str = "opendatahub.io/hardware-profile-namespace";
/// Where the dashboard keeps the profiles of everybody.
pub(crate) const APPLICATION_NAMESPACE: &str = "redhat-ods-applications";

/// Injects the hardware profile that the Notebook names, if it names one.
///
/// # Errors
/// What the API server answers when there is no such profile.
pub(crate) fn inject(notebook: &mut DynamicObject, profiles: &Shelf<DynamicObject>) -> Result<(), String> {
    let wrong =
        |error: serde_json::Error| format!("the Notebook, or its hardware profile, cannot be read: {error}");
    let find = |namespace: &str, name: &str| {
        let profile = serde_json::to_value(profiles.get(&path(namespace, name))?).ok()?;
        serde_json::from_value::<HardwareProfile>(profile).ok()
    };
    let written = serde_json::to_value(&*notebook).map_err(wrong)?;
    let reviewed = review(newest(), Workload::Notebook, written, None, find);
    let Reviewed { object: stored, warnings: _ } = reviewed.map_err(|Refused(why)| {
        format!(
            "admission webhook \"hardwareprofile-notebook-injector.opendatahub.io\" denied the request: {why}"
        )
    })?;
    *notebook = serde_json::from_value(stored).map_err(wrong)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::Revision;

    fn profile(scheduling: Value) -> Shelf<DynamicObject> {
        let mut shelf = Shelf::default();
        let object = json!({
            "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": "slice", "namespace": APPLICATION_NAMESPACE},
            "spec": {"identifiers": [
                {"identifier": "nvidia.com/mig-1g.5gb", "defaultCount": 1},
                {"identifier": "cpu", "defaultCount": 8}, {"identifier": "memory", "defaultCount": "32Gi"},
            ], "scheduling": scheduling},
        });
        let object = serde_json::from_value(object).expect("an object");
        shelf.put(object, Timestamp::UNIX_EPOCH, &mut Revision::default());
        shelf
    }

    fn notebook(requests: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "lab", "namespace": "a", "annotations": {
                PROFILE_NAME: "slice", PROFILE_NAMESPACE: APPLICATION_NAMESPACE}},
            "spec": {"template": {"spec": {"containers": [{"name": "lab", "resources": {"requests": requests}}]}}},
        }))
        .expect("an object")
    }

    #[test]
    fn keys_that_the_user_gave_stay_and_the_others_come_from_the_profile() {
        let mut lab = notebook(json!({"cpu": "2"}));
        inject(
            &mut lab,
            &profile(json!({"type": "Node", "node": {
            "nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "workload"}]}})),
        )
        .expect("the profile is there");
        let pod = &lab.data["spec"]["template"]["spec"];
        assert_eq!(
            pod["containers"][0]["resources"]["requests"],
            json!({"cpu": "2", "memory": "32Gi", "nvidia.com/mig-1g.5gb": "1"})
        );
        assert_eq!(pod["nodeSelector"], json!({"gpu": "yes"}));
        assert_eq!(pod["tolerations"], json!([{"key": "workload"}]));
    }

    #[test]
    fn a_queue_gets_its_label_and_nothing_else() {
        let mut lab = notebook(json!({}));
        inject(&mut lab, &profile(json!({"type": "Queue", "kueue": {"localQueueName": "gpus"}})))
            .expect("it is there");
        assert_eq!(lab.metadata.labels.expect("a label")["kueue.x-k8s.io/queue-name"], "gpus");
        assert_eq!(lab.data["spec"]["template"]["spec"]["nodeSelector"], Value::Null);
    }

    #[test]
    fn a_profile_that_is_not_there_is_refused() {
        let error = inject(&mut notebook(json!({})), &Shelf::default()).expect_err("there is none");
        assert!(
            error.ends_with("hardware profile 'slice' not found in namespace 'redhat-ods-applications'"),
            "{error}"
        );
    }
}
