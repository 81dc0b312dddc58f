//! The request of a workbench without a pod, and the reasons why its pod can never be created: the cluster
//! would not report them, so we do.

use std::collections::BTreeMap;

use api::foreign::HardwareProfile;
use api::foreign::notebook::{Notebook, PROFILE_NAME};
use k8s_openapi::api::core::v1::PodSpec;
use mig::GpuResource;
use planner::demand::Refusal;

use super::Asked;
use crate::objects::{Objects, title};
use crate::pods;
use crate::problem::{Problem, Severity};

/// The field of a workbench at which it is told that it requests no GPU, since its hardware profile is applied to none of
/// its containers.
pub const NO_CONTAINER: &str = "spec.template.spec.containers";

/// How long the value of a label may be. The pod of a workbench, and the set
/// that makes it, carry the workbench's name in one.
const LONGEST_NAME: usize = 63;

/// What a workbench asks for: its pod template, with what its hardware profile
/// adds where the template is silent (as the profile's webhook does it).
pub(super) fn asks<'a>(notebook: &'a Notebook, objects: &Objects, problems: &mut Vec<Problem>) -> Asked<'a> {
    let mut asked = Asked::of_template("Notebook", &notebook.metadata, notebook.spec.template.spec.whole());
    let own_name = notebook.metadata.name.as_deref().unwrap_or_default();
    if own_name.len() > LONGEST_NAME {
        let why = format!(
            "its name has {} characters, and its pod has the name in a label, which allows {LONGEST_NAME}: no pod will be created",
            own_name.len()
        );
        let advice = format!("create the workbench again with a name of at most {LONGEST_NAME} characters");
        asked.refused = Some(Refusal { why, advice });
    }
    let Some((namespace, name)) = notebook.hardware_profile() else { return asked };
    match objects.hardware_profiles.get(&(namespace.clone(), name.clone())) {
        None => missing(&mut asked, &format!("{namespace}/{name}"), problems),
        Some(profile) => match target(asked.spec.to_mut(), own_name) {
            Some(at) => apply(asked.spec.to_mut(), at, profile),
            None if pods::asks_for_gpus(&asked.spec) => {}
            None => problems.extend(not_applied(notebook, &name, profile)),
        },
    }
    asked
}

/// Whether a hardware profile that it names has no container to which it is applied.
pub(super) fn has_no_container(notebook: &Notebook) -> bool {
    let own_name = notebook.metadata.name.as_deref().unwrap_or_default();
    let template = &notebook.spec.template.spec;
    // The store keeps no containers of a pod that has very many.
    template.names().count() > 1 && template.names().all(|name| name != own_name)
}

/// That it requests nothing of what its hardware profile offers, for one whose containers request no GPU. Its pod starts
/// without one, and nobody else says why.
pub(super) fn without_its_profile(notebook: &Notebook, objects: &Objects) -> Option<Problem> {
    let key = notebook.hardware_profile()?;
    not_applied(notebook, &key.1, objects.hardware_profiles.get(&key)?)
}

/// The profile that it names is not there. What its own container asks for
/// counts; where that is nothing, nobody can tell what it wants.
fn missing(asked: &mut Asked<'_>, profile: &str, problems: &mut Vec<Problem>) {
    let takes = pods::takes(&asked.spec);
    let asks_itself = !takes.slices.is_empty() || takes.whole_gpus > 0 || !takes.shared.is_empty();
    let what = format!("names the hardware profile {profile}, which does not exist");
    let rest = if asks_itself { "; only the requests of its own container count" } else { "" };
    problems.push(
        Problem::new(Severity::Warning, asked.object.clone(), format!("{what}{rest}"))
            .field(format!("metadata.annotations[{PROFILE_NAME}]")),
    );
    if !asks_itself {
        asked.is_unknown = true;
        asked.refused.get_or_insert(Refusal {
            why: format!("it {what}, and has no slice requests of its own, so its demand is unknown"),
            advice:
                "choose another hardware profile for the workbench, or ask for this one to be created again"
                    .to_owned(),
        });
    }
}

fn not_applied(notebook: &Notebook, name: &str, profile: &HardwareProfile) -> Option<Problem> {
    // What offers no GPU is somebody else's business.
    let mut offered = profile.spec.identifiers.iter();
    if !has_no_container(notebook) || !offered.any(|offer| GpuResource::is_one(&offer.identifier)) {
        return None;
    }
    let own_name = notebook.metadata.name.as_deref().unwrap_or_default();
    let names: Vec<&str> = notebook.spec.template.spec.names().collect();
    let message = format!(
        "has the containers {}, but none has the name {own_name} of the workbench, so OpenShift AI from 3.4 on does not apply its hardware profile {name} (up to 3.3, it applied it to every container); give one container this name",
        names.join(", ")
    );
    Some(Problem::new(Severity::Warning, title("Notebook", &notebook.metadata), message).field(NO_CONTAINER))
}

/// The only container, or the one that is named like the workbench.
fn target(spec: &PodSpec, name: &str) -> Option<usize> {
    let only = spec.containers.len() == 1;
    spec.containers.iter().position(|c| only || c.name == name)
}

/// What the profile's webhook injects: identifiers whose keys the target
/// container lacks, node selector and tolerations.
fn apply(spec: &mut PodSpec, at: usize, profile: &HardwareProfile) {
    if let Some(container) = spec.containers.get_mut(at) {
        let resources = container.resources.get_or_insert_default();
        for identifier in &profile.spec.identifiers {
            let key = &identifier.identifier;
            let has = |list: &Option<BTreeMap<String, _>>| list.as_ref().is_some_and(|l| l.contains_key(key));
            if has(&resources.requests) || has(&resources.limits) {
                continue;
            }
            let count = match &identifier.default_count {
                Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(n)) => n.to_string(),
                Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text)) => text.clone(),
                None => continue,
            };
            let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(count);
            resources.requests.get_or_insert_default().insert(key.clone(), quantity);
        }
    }
    let Some(scheduling) = &profile.spec.scheduling else { return };
    // With a queue, the webhook writes neither selector nor tolerations.
    if let Some(node) = scheduling.node.as_ref().filter(|_| scheduling.type_ != "Queue") {
        spec.node_selector.get_or_insert_default().extend(node.node_selector.clone());
        spec.tolerations.get_or_insert_default().extend(node.tolerations.iter().cloned());
    }
}
