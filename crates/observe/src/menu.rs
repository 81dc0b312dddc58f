//! Hardware profiles are the choices that OpenShift AI offers: each offer must be attainable, or the report
//! says that it is not.

use std::collections::BTreeMap;

use api::foreign::HardwareProfile;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mig::ProfileName;
use planner::assign;
use planner::inventory::{Inventory, Slices};
use planner::names::NodeName;
use planner::policy::{LayoutPolicy, Policy};

use crate::objects::{Objects, title};
use crate::pods;
use crate::problem::{Problem, Severity};

/// Judges every hardware profile that offers slices.
pub fn check(objects: &Objects, inventory: &Inventory, policies: &[Policy], problems: &mut Vec<Problem>) {
    let assignment = assign::policy_of(inventory, policies);
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
        let mut offers_slices = false;
        for (index, identifier) in profile.spec.identifiers.iter().enumerate() {
            let resource = &identifier.identifier;
            if !resource.starts_with(ProfileName::RESOURCE_PREFIX) {
                continue;
            }
            offers_slices = true;
            let field = format!("spec.identifiers[{index}]");
            let plain = resource.strip_suffix(mig::GpuResource::SHARED).unwrap_or(resource);
            let Some(name) = ProfileName::from_resource_name(plain) else {
                problems.push(
                    Problem::new(
                        Severity::Warning,
                        object.clone(),
                        format!("offers `{resource}`, which is not the resource of a profile; such resources are named like nvidia.com/mig-1g.10gb"),
                    )
                    .field(format!("{field}.identifier")),
                );
                continue;
            };
            if let Some(why) = unattainable(name, profile, inventory, policies, &assignment.policy_of) {
                problems.push(
                    Problem::new(Severity::Warning, object.clone(), format!("offers {name}, which {why}"))
                        .field(format!("{field}.identifier")),
                );
            }
            let several = |count: &Option<IntOrString>| match count {
                Some(IntOrString::Int(n)) => *n > 1,
                Some(IntOrString::String(text)) => text.parse::<i64>().is_ok_and(|n| n > 1),
                None => false,
            };
            if several(&identifier.max_count) || several(&identifier.default_count) {
                problems.push(
                    Problem::new(
                        Severity::Note,
                        object.clone(),
                        "lets users request more than one slice, but a CUDA process sees only one, and some releases of OpenShift AI create invalid pods for it: write 1 for minCount, defaultCount and maxCount",
                    )
                    .field(format!("{field}.maxCount")),
                );
            }
        }
        if offers_slices {
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

/// Why no policy can ever give a slice of this profile; `None` if one can.
fn unattainable(
    name: ProfileName,
    profile: &HardwareProfile,
    inventory: &Inventory,
    policies: &[Policy],
    policy_of: &BTreeMap<NodeName, planner::names::PolicyName>,
) -> Option<String> {
    let having: Vec<_> = inventory
        .nodes
        .iter()
        .filter(|(_, node)| node.gpus.values().any(|gpu| gpu.geometry.profile_named(name).is_some()))
        .collect();
    // What a node has whose GPUs are not known (yet) nobody can deny.
    if inventory.nodes.values().any(|node| node.gpus.is_empty()) {
        return None;
    }
    if having.is_empty() {
        return Some("no GPU of the fleet can have".to_owned());
    }
    let selector = profile.spec.scheduling.as_ref().and_then(|s| s.node.as_ref()).map(|n| &n.node_selector);
    let selected: Vec<_> = having
        .into_iter()
        .filter(|(_, node)| {
            // A product label under strategy `mixed` does not follow the layout.
            selector.is_none_or(|s| s.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
        })
        .collect();
    if selected.is_empty() {
        return Some("no node that its node selector allows can have".to_owned());
    }
    let allowed = selected.iter().any(|(node, found)| {
        // Somebody else may have cut it so.
        if found.gpus.values().any(|gpu| has(&gpu.slices, name)) {
            return true;
        }
        let policy = policy_of.get(*node).and_then(|name| policies.iter().find(|p| p.name == *name));
        policy.is_some_and(|policy| allows(policy, name))
    });
    (!allowed).then(|| "no policy of its nodes allows".to_owned())
}

fn has(slices: &Slices, name: ProfileName) -> bool {
    slices.profiles().any(|profile| profile == name)
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
