//! Hardware profiles are the choices that OpenShift AI offers: each offer must be attainable, or the report
//! says that it is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::foreign::HardwareProfile;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mig::resource::Unit;
use mig::{GpuResource, ProfileName};
use planner::inventory::Inventory;
use planner::names::NodeName;
use planner::policy::{LayoutPolicy, Policy};

use crate::objects::{Objects, title};
use crate::pods;
use crate::problem::{Problem, Severity};
use crate::view::NodeView;

mod ever;

use ever::Fleet;

/// Judges every hardware profile that offers slices or GPUs.
pub fn check(
    objects: &Objects,
    views: &BTreeMap<NodeName, Arc<NodeView>>,
    inventory: &Inventory,
    policies: &[Policy],
    problems: &mut Vec<Problem>,
) {
    let fleet = Fleet::new(objects, views, inventory, policies);
    for profile in objects.hardware_profiles.values().filter(|profile| !profile.is_disabled()) {
        let object = title("HardwareProfile", &profile.metadata);
        if profile.spec.dra.is_some() {
            problems.push(Problem::new(
                Severity::Note,
                object,
                "uses dynamic resource allocation, so it belongs to the DRA driver and is ignored",
            ));
            continue;
        }
        let mut offers_parts = false;
        for (index, identifier) in profile.spec.identifiers.iter().enumerate() {
            let resource = &identifier.identifier;
            let Some(GpuResource { unit, shared }) = GpuResource::parse(resource) else { continue };
            // Who offers whole GPUs may let people have several, and knows how they are counted.
            offers_parts |= shared || unit != Unit::Gpu;
            let field = format!("spec.identifiers[{index}]");
            if unit == Unit::UnknownSlice {
                problems.push(
                    Problem::new(
                        Severity::Warning,
                        object.clone(),
                        format!("offers `{resource}`, which is not the resource of a profile; such resources are named like nvidia.com/mig-1g.10gb"),
                    )
                    .field(format!("{field}.identifier")),
                );
                continue;
            }
            if let Some(why) = fleet.never(profile, resource) {
                let what = match unit {
                    Unit::Slice(name) if !shared => name.to_string(),
                    Unit::Slice(_) | Unit::Gpu | Unit::UnknownSlice => resource.clone(),
                };
                problems.push(
                    Problem::new(Severity::Warning, object.clone(), format!("offers {what}, which {why}"))
                        .field(format!("{field}.identifier")),
                );
            }
            let several = |count: &Option<IntOrString>| match count {
                Some(IntOrString::Int(n)) => *n > 1,
                Some(IntOrString::String(text)) => text.parse::<i64>().is_ok_and(|n| n > 1),
                None => false,
            };
            if several(&identifier.max_count) || several(&identifier.default_count) {
                let why = match (unit, shared) {
                    (Unit::Gpu, false) => continue,
                    (Unit::Gpu, true) => {
                        "lets users request more than one share of a GPU, but a second share gives no second GPU, and the device plugin may refuse the pod"
                    }
                    (Unit::Slice(_) | Unit::UnknownSlice, _) => {
                        "lets users request more than one slice, but a CUDA process sees only one, and some releases of OpenShift AI create invalid pods for it"
                    }
                };
                problems.push(
                    Problem::new(
                        Severity::Note,
                        object.clone(),
                        format!("{why}: write 1 for minCount, defaultCount and maxCount"),
                    )
                    .field(format!("{field}.maxCount")),
                );
            }
        }
        if offers_parts {
            incomplete(profile, &object, problems);
            uncountable(profile, &object, problems);
        }
    }
}

/// The dashboard hides a profile that lacks CPU or memory.
fn incomplete(profile: &HardwareProfile, object: &str, problems: &mut Vec<Problem>) {
    let has = |resource: &str, kind: &str| {
        let mut all = profile.spec.identifiers.iter();
        all.any(|i| i.identifier == resource || i.resource_type.as_deref() == Some(kind))
    };
    let missing: Vec<&str> = [("cpu", "CPU"), ("memory", "Memory")]
        .into_iter()
        .filter(|(resource, kind)| !has(resource, kind))
        .map(|(resource, _)| resource)
        .collect();
    if !missing.is_empty() {
        problems.push(
            Problem::new(
                Severity::Warning,
                object,
                format!(
                    "has no identifier for {}, so the dashboard hides it: add one",
                    missing.join(" and ")
                ),
            )
            .field("spec.identifiers"),
        );
    }
}

/// The dashboard hides a profile if one of its counts is no number or less than
/// one, or if they are not in order. CPU and memory may have units; everything
/// else is whole.
fn uncountable(profile: &HardwareProfile, object: &str, problems: &mut Vec<Problem>) {
    for (index, identifier) in profile.spec.identifiers.iter().enumerate() {
        let resource = identifier.identifier.as_str();
        let has_units = matches!(identifier.resource_type.as_deref(), Some("CPU" | "Memory"))
            || matches!(resource, "cpu" | "memory");
        let all = [
            ("minCount", &identifier.min_count),
            ("defaultCount", &identifier.default_count),
            ("maxCount", &identifier.max_count),
        ];
        let mut warn = |field: &str, what: String| {
            let message = format!(
                "has for {resource} a {what}, so the dashboard hides the profile: counts are numbers from 1 on, with minCount <= defaultCount <= maxCount"
            );
            let problem = Problem::new(Severity::Warning, object, message);
            problems.push(problem.field(format!("spec.identifiers[{index}].{field}")));
        };
        // The number before, in thousandths, to which the next is compared.
        let mut before: Option<(&str, String, i128)> = None;
        for (field, count) in all {
            let Some(count) = count else { continue };
            let text = match count {
                IntOrString::Int(n) => n.to_string(),
                IntOrString::String(text) => text.clone(),
            };
            let Some(number) = pods::milli(&text) else {
                warn(field, format!("{field} `{text}` that is no number"));
                continue;
            };
            if !has_units && number % 1000 != 0 {
                warn(field, format!("{field} `{text}` that is no whole number"));
                continue;
            }
            if number <= 0 {
                warn(field, format!("{field} {text} that is less than 1"));
                continue;
            }
            if let Some((lower, least, _)) = before.as_ref().filter(|(_, _, least)| *least > number) {
                warn(lower, format!("{lower} {least} that is more than {field} {text}"));
            }
            before = Some((field, text, number));
        }
    }
}

/// Whether a policy lets its nodes have slices of a profile at all.
#[must_use]
pub fn allows(policy: &Policy, name: ProfileName) -> bool {
    match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => {
            slices.get(&name).is_none_or(|bounds| bounds.max != Some(0))
        }
        LayoutPolicy::Static { gpus } => gpus.iter().any(|rule| rule.cuts_into(name)),
    }
}
