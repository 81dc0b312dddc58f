//! The parts of hardware profiles that we write: a whole object once, then two annotations, at last its end.
//! The spec of a profile that is there is never written.

use api::foreign::hardware_profile::{DISABLED, WITHDRAWN};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Preconditions};
use kube::core::GroupVersionKind;
use reconcile::{MenuAct, MenuWrite};
use serde_json::{Value, json};

use crate::calls::{CallError, Calls, Target, managers};
use crate::store::awaited::Subject;
use crate::store::{Foreign, Source};

/// What is done with a profile, for the log.
#[must_use]
pub const fn done(act: &MenuAct) -> &'static str {
    match act {
        MenuAct::Create(_) => "created",
        MenuAct::Withdraw { .. } => "disabled",
        MenuAct::OfferAgain { .. } => "enabled",
        MenuAct::Delete { .. } => "deleted",
    }
}

/// Does what is due with one profile, if it still is what that was decided
/// on. To wait for, if anything: what the watch has to show.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn write(
    calls: &Calls,
    version: &str,
    namespace: &str,
    due: &MenuWrite,
    now: Timestamp,
) -> Result<Option<Subject>, CallError> {
    let (group, kind, plural, _) = Foreign::HardwareProfile.names();
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> = Api::namespaced_with(calls.client(), namespace, &kind);
    let MenuWrite { name, act } = due;
    let title = format!("HardwareProfile {namespace}/{name}");
    let written = match act {
        MenuAct::Create(manifest) => {
            calls.create(&api, &title, managers::MENU.name, &object(manifest, name, &kind)).await?
        }
        MenuAct::Withdraw { if_version } => {
            let body = annotated(if_version, "true", &json!(format!("{now:.0}")));
            calls.merge(&api, &title, &managers::MENU, Target::Object, name, &body).await?
        }
        MenuAct::OfferAgain { if_version } => {
            let body = annotated(if_version, "false", &Value::Null);
            calls.merge(&api, &title, &managers::MENU, Target::Object, name, &body).await?
        }
        MenuAct::Delete { if_version, uid } => {
            let conditions =
                Preconditions { uid: Some(uid.clone()), resource_version: Some(if_version.clone()) };
            calls.delete(&api, &title, name, &DeleteParams::default().preconditions(conditions)).await?;
            return Ok(None);
        }
    };
    Ok(Some(Subject::Version {
        source: Source::Foreign(Foreign::HardwareProfile),
        key: (namespace.to_owned(), name.clone()),
        version: written.metadata.resource_version.unwrap_or_default(),
    }))
}

/// The object of a manifest, in the version that is served here.
fn object(manifest: &Value, name: &str, kind: &ApiResource) -> DynamicObject {
    let mut object = DynamicObject::new(name, kind);
    object.metadata = serde_json::from_value(manifest["metadata"].clone()).unwrap_or_default();
    object.data = json!({"spec": manifest["spec"]});
    object
}

fn annotated(if_version: &str, disabled: &str, withdrawn: &Value) -> Value {
    json!({"metadata": {
        "resourceVersion": if_version, "annotations": {DISABLED: disabled, WITHDRAWN: withdrawn},
    }})
}
