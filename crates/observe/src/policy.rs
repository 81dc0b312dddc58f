//! Our policies: this module converts valid policies for the planner and the rollout.

use std::collections::BTreeMap;

use api::GpuPartitionPolicy;
use api::policy::{self as spec, LayoutType};
use api::review::{self, REVIEWED_NODES, REVIEWED_PLAN, Reviewed};
use api::selector::{RequirementOperator, Selector};
use api::units::{self, NodeCount};
use mig::{Catalog, ProfileName};
use planner::demand::{Expression, Operator};
use planner::inventory::{Gpu, Inventory};
use planner::names::{GpuIndex, PolicyName};
use planner::policy::{
    Bounds, Drain, LayoutPolicy, Mode, Order, Policy, Share, StaticCut, StaticRule, Unrequested,
};
use rollout::fleet::PolicyRollout;
use rollout::window::Window;
use rollout::{MaxUnavailable, RolloutRules};

use crate::objects::Objects;
use crate::policy_rules::validate;
use crate::problem::{Problem, Severity};

/// All policies, by name; what is wrong with them goes to `problems`. One that
/// makes no sense comes out as `Paused` and without bounds, so that its nodes
/// stay as they are instead of falling to another policy; one whose selector
/// makes no sense is left out.
pub fn all(
    objects: &Objects,
    catalog: &Catalog,
    problems: &mut Vec<Problem>,
) -> (Vec<Policy>, BTreeMap<PolicyName, PolicyRollout>) {
    let mut policies = Vec::new();
    let mut rollouts = BTreeMap::new();
    for (name, policy) in &objects.policies {
        let findings = validate(policy, catalog);
        let mut wrong = false;
        for finding in findings {
            wrong |= finding.severity == Severity::Error;
            problems.push(finding.of_policy(name, objects.sources.get(name)));
        }
        for finding in reviews(policy) {
            problems.push(finding.of_policy(name, objects.sources.get(name)));
        }
        if policy.spec.node_selector.is_empty() {
            continue;
        }
        let name = PolicyName(name.clone());
        let converted = convert(&name, policy, wrong);
        let enforce = converted.mode == Mode::Enforce;
        policies.push(converted);
        rollouts.insert(name, PolicyRollout { rules: rules(&policy.spec.rollout), enforce });
    }
    (policies, rollouts)
}

/// Annotations about a review that nobody can read: they change nothing, and
/// whoever wrote them believes that they do.
fn reviews(policy: &GpuPartitionPolicy) -> Vec<Problem> {
    let annotation = |key: &str| policy.metadata.annotations.as_ref()?.get(key);
    let plan = annotation(REVIEWED_PLAN).and_then(|text| text.parse::<Reviewed>().err());
    let nodes = annotation(REVIEWED_NODES).and_then(|text| review::nodes(text).err());
    let wrong = [(REVIEWED_PLAN, plan), (REVIEWED_NODES, nodes)];
    let warn = |(key, error): (&str, Option<review::ReviewError>)| {
        let message = format!("cannot be read, so nothing is compared: {}", error?);
        Some(Problem::new(Severity::Warning, "", message).field(format!("metadata.annotations[{key}]")))
    };
    wrong.into_iter().filter_map(warn).collect()
}

/// Nodes that several policies of one priority select: which has them is
/// decided by name, which is hardly what anybody meant.
pub fn contradictions(inventory: &Inventory, policies: &[Policy], problems: &mut Vec<Problem>) {
    for (index, first) in policies.iter().enumerate() {
        for second in &policies[index + 1..] {
            if first.priority != second.priority {
                continue;
            }
            let both: Vec<&str> = inventory
                .nodes
                .iter()
                .filter(|(_, node)| {
                    [first, second].iter().all(|p| planner::selector::matches(&p.nodes, &node.labels))
                })
                .map(|(name, _)| name.0.as_str())
                .collect();
            let Some(node) = both.first() else { continue };
            let (winner, loser) = if first.name < second.name { (first, second) } else { (second, first) };
            problems.push(
                Problem::new(
                    Severity::Warning,
                    format!("GpuPartitionPolicy {}", loser.name),
                    format!(
                        "selects {} node(s) that `{}` selects with the same priority {}, such as {node}; `{}` has them, because its name sorts first: give one of the two a higher priority, or select other nodes",
                        both.len(),
                        winner.name,
                        winner.priority,
                        winner.name
                    ),
                )
                .field("spec.priority"),
            );
        }
    }
}

/// Indices in a static layout that no GPU of the policy's nodes has: the rule is right for other nodes, or a number is
/// misspelt. Nodes of which no GPU is known yet may have them.
pub fn absent_indices(inventory: &Inventory, policies: &[Policy], problems: &mut Vec<Problem>) {
    for policy in policies {
        let LayoutPolicy::Static { gpus: rules } = &policy.layout else { continue };
        let selected = inventory.nodes.values();
        let selected: Vec<_> =
            selected.filter(|node| planner::selector::matches(&policy.nodes, &node.labels)).collect();
        if selected.iter().any(|node| node.gpus.is_empty()) {
            continue;
        }
        for (at, rule) in rules.iter().enumerate() {
            let model = |gpu: &&Gpu| rule.model.as_deref().is_none_or(|model| model == gpu.model);
            let largest = selected.iter().filter_map(|node| {
                node.gpus.iter().filter(|(_, gpu)| model(gpu)).map(|(index, _)| *index).max()
            });
            let (Some(largest), Some(indices)) = (largest.max(), &rule.indices) else { continue };
            let absent: Vec<String> =
                indices.iter().filter(|index| **index > largest).map(ToString::to_string).collect();
            if absent.is_empty() {
                continue;
            }
            let of_model = rule.model.as_ref().map(|model| format!(" {model}")).unwrap_or_default();
            problems.push(
                Problem::new(
                    Severity::Warning,
                    format!("GpuPartitionPolicy {}", policy.name),
                    format!(
                        "names GPU {}, which none of the {} node(s) of this policy has: their{of_model} GPUs have the indices 0 to {largest}",
                        absent.join(", "),
                        selected.len(),
                    ),
                )
                .field(format!("spec.layout.static.gpus[{at}].indices")),
            );
        }
    }
}

fn convert(name: &PolicyName, policy: &GpuPartitionPolicy, wrong: bool) -> Policy {
    let mode = match policy.spec.mode {
        _ if wrong => Mode::Invalid,
        spec::Mode::Enforce => Mode::Enforce,
        spec::Mode::Preview => Mode::Preview,
        spec::Mode::Paused => Mode::Paused,
    };
    let nothing = spec::DemandDriven::default();
    let layout = match (&policy.spec.layout.type_, wrong) {
        (_, true) => demand_driven(&nothing),
        (LayoutType::DemandDriven, false) => {
            demand_driven(policy.spec.layout.demand_driven.as_ref().unwrap_or(&nothing))
        }
        (LayoutType::Static, false) => {
            let gpus = policy.spec.layout.static_.iter().flat_map(|layout| &layout.gpus);
            LayoutPolicy::Static { gpus: gpus.map(static_rule).collect() }
        }
        // GPUs that no rule matches stay as they are.
        (LayoutType::None, false) => LayoutPolicy::Static { gpus: Vec::new() },
    };
    Policy {
        name: name.clone(),
        nodes: expressions(&policy.spec.node_selector),
        priority: policy.spec.priority,
        mode,
        layout,
        drain: drain(policy.spec.rollout.drain),
    }
}

const fn drain(drain: spec::Drain) -> Drain {
    match drain {
        spec::Drain::Never => Drain::Never,
        spec::Drain::Evict => Drain::Evict,
    }
}

fn demand_driven(layout: &spec::DemandDriven) -> LayoutPolicy {
    let count = |n: i32| u32::try_from(n).unwrap_or(0);
    let slices = layout
        .slices
        .iter()
        .filter_map(|slice| {
            let profile: ProfileName = slice.profile.parse().ok()?;
            let bounds = Bounds {
                min: count(slice.min_count),
                spare: count(slice.spare_count),
                max: slice.max_count.map(count),
            };
            Some((profile, bounds))
        })
        .collect();
    LayoutPolicy::DemandDriven {
        namespaces: expressions(&layout.namespace_selector),
        slices,
        unrequested: match layout.unrequested {
            spec::Unrequested::Keep => Unrequested::Keep,
            spec::Unrequested::Whole => Unrequested::Whole,
        },
        order: match layout.order {
            spec::Order::MostServed => Order::MostServed,
            spec::Order::OldestFirst => Order::OldestFirst,
        },
        shares: layout
            .shares
            .iter()
            .map(|share| Share {
                namespaces: expressions(&share.namespace_selector),
                per_namespace: share.per_namespace,
                min: count(share.min_compute_slices),
                max: share.max_compute_slices.map(count),
            })
            .collect(),
        whole_gpus: layout.whole_gpus.as_ref().map(|whole| Bounds {
            min: count(whole.min_count),
            spare: count(whole.spare_count),
            max: whole.max_count.map(count),
        }),
    }
}

fn static_rule(rule: &spec::StaticGpus) -> StaticRule {
    let slices = rule.slices.iter().filter_map(|slice| {
        let profile: ProfileName = slice.profile.parse().ok()?;
        Some((profile, u8::try_from(slice.count).ok()?))
    });
    let cut = match rule.mig {
        Some(spec::MigMode::Disabled) => StaticCut::MigOff,
        None => StaticCut::Slices(slices.collect()),
    };
    let catalog = Catalog::builtin();
    StaticRule {
        // One name for a model, however it was written.
        model: rule
            .model
            .as_ref()
            .map(|model| catalog.find(model).map_or_else(|_| model.clone(), |m| m.id.clone())),
        indices: rule
            .indices
            .as_ref()
            .map(|all| all.iter().filter_map(|i| u16::try_from(*i).ok()).map(GpuIndex).collect()),
        cut,
    }
}

/// The expressions of a selector; all must match.
#[must_use]
pub fn expressions(selector: &Selector) -> Vec<Expression> {
    let labels = selector.match_labels.iter().map(|(key, value)| Expression {
        key: key.clone(),
        operator: Operator::In,
        values: vec![value.clone()],
    });
    let others = selector.match_expressions.iter().map(|requirement| Expression {
        key: requirement.key.clone(),
        operator: match requirement.operator {
            RequirementOperator::In => Operator::In,
            RequirementOperator::NotIn => Operator::NotIn,
            RequirementOperator::Exists => Operator::Exists,
            RequirementOperator::DoesNotExist => Operator::DoesNotExist,
        },
        values: requirement.values.clone(),
    });
    labels.chain(others).collect()
}

/// What makes no sense was reported, and the policy is not in force: then the
/// rollout's own defaults stand there, and a window is left out.
fn rules(rollout: &spec::Rollout) -> RolloutRules {
    let spec::Rollout { max_unavailable, drain: _, cooldown, windows } = rollout;
    let defaults = RolloutRules::default();
    let window = |window: &spec::Window| {
        let duration = units::duration(&window.duration).ok()?;
        Window::lasting(&window.schedule, duration, &window.time_zone).ok()
    };
    RolloutRules {
        max_unavailable: match units::node_count(max_unavailable) {
            Ok(NodeCount::Number(n)) => MaxUnavailable::Nodes(n),
            Ok(NodeCount::Percent(n)) => MaxUnavailable::Percent(n),
            Err(_) => defaults.max_unavailable,
        },
        drain: self::drain(rollout.drain),
        cooldown: cooldown.as_deref().and_then(|text| units::duration(text).ok()),
        windows: windows.iter().filter_map(window).collect(),
    }
}
