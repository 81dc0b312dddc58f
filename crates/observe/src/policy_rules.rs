//! Rules for policies that the schema cannot express: contradictory fields, profiles that no model has,
//! layouts that no GPU can have.

mod sharing;

use std::collections::BTreeMap;

use api::GpuPartitionPolicy;
use api::policy::{DemandDriven, Layout, LayoutType, MigMode, Rollout, Share, StaticGpus, StaticSlices};
use api::schema::Finding;
use api::selector::{RequirementOperator, Selector};
use api::spelling::nearest;
use api::syntax;
use api::units;
use mig::{Catalog, Counts, Model, ProfileName};

use rollout::window::{Window, WindowError};

use crate::labels;
use crate::problem::{Problem, Severity, Source};

/// Everything that makes no sense in a policy, with the field, the value, and
/// what is allowed. An `Error` keeps it from being used.
pub(crate) fn validate(policy: &GpuPartitionPolicy, catalog: &Catalog) -> Vec<Problem> {
    let mut check = Check { catalog, problems: Vec::new() };
    let spec = &policy.spec;
    if spec.node_selector.is_empty() {
        check.error(
            "spec.nodeSelector",
            "is empty and would select every node: name at least one label, such as `matchLabels: {slicewright.io/pool: research}`",
        );
    }
    check.selector("spec.nodeSelector", &spec.node_selector);
    check.lasting("spec.nodeSelector", &spec.node_selector);
    check.layout(&spec.layout);
    match &spec.sharing {
        Some(sharing) => check.sharing(sharing, &spec.layout),
        None if spec.layout.type_ == LayoutType::None => check.error(
            "spec.sharing",
            "is missing: layout.type is None, so the policy cuts no GPU, and without sharing it does nothing; write `sharing: {type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 4}]}`, or another layout",
        ),
        None => {}
    }
    check.rollout(&spec.rollout);
    check.problems
}

/// What else is wrong with a policy that its schema refuses, at other fields than these. Of one field, a rule speaks
/// instead of the schema, of which only the bounds are known: it says why, too.
pub(crate) fn beside(
    policy: &GpuPartitionPolicy,
    name: &str,
    findings: &mut Vec<Finding>,
    source: &Source,
) -> Vec<Problem> {
    let mut found = validate(policy, Catalog::builtin());
    found.retain(|problem| problem.severity == Severity::Error);
    findings.retain(|finding| found.iter().all(|problem| problem.field != finding.path));
    let is_other = |problem: &Problem| {
        let mut fields = findings.iter().map(|finding| &finding.path);
        fields.all(|field| !field.starts_with(&problem.field) && !problem.field.starts_with(field))
    };
    found.retain(is_other);
    found.into_iter().map(|problem| problem.of_policy(name, Some(source))).collect()
}

struct Check<'a> {
    catalog: &'a Catalog,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn error(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(Severity::Error, "", message).field(field));
    }

    fn selector(&mut self, field: &str, selector: &Selector) {
        self.labels(field, selector);
        for (index, requirement) in selector.match_expressions.iter().enumerate() {
            let field = format!("{field}.matchExpressions[{index}]");
            let needs = matches!(requirement.operator, RequirementOperator::In | RequirementOperator::NotIn);
            if needs && requirement.values.is_empty() {
                self.error(
                    format!("{field}.values"),
                    format!("is empty, but {} needs at least one value; to test whether the label exists, write `operator: Exists`", requirement.operator.name()),
                );
            }
            if !needs && !requirement.values.is_empty() {
                self.error(
                    format!("{field}.values"),
                    format!(
                        "has values, but {} allows none: remove them, or write `operator: In`",
                        requirement.operator.name()
                    ),
                );
            }
            // The same label must have two values at once.
            if requirement.operator == RequirementOperator::In
                && let Some(value) = selector.match_labels.get(&requirement.key)
                && !requirement.values.contains(value)
            {
                self.error(
                    field,
                    format!(
                        "`{}` must be one of {}, but matchLabels requires `{value}`: no object can match both",
                        requirement.key,
                        requirement.values.join(", ")
                    ),
                );
            }
        }
    }

    /// Keys and values that no label can have: the API server takes them in our selectors, and nothing matches
    /// them, or (of `NotIn` and `DoesNotExist`) everything.
    fn labels(&mut self, field: &str, selector: &Selector) {
        let label = |(key, value): (&String, &String)| {
            (format!("{field}.matchLabels[{key}]"), key.clone(), vec![value.clone()])
        };
        let labels = selector.match_labels.iter().map(label);
        let requirements = selector.match_expressions.iter().enumerate();
        let requirements = requirements
            .map(|(n, r)| (format!("{field}.matchExpressions[{n}]"), r.key.clone(), r.values.clone()));
        for (field, key, values) in labels.chain(requirements).collect::<Vec<_>>() {
            if !syntax::is_label_key(&key) {
                self.error(
                    &field,
                    format!("`{key}` cannot be the key of a label: write {}", syntax::LABEL_KEY),
                );
            }
            for value in values.iter().filter(|value| !syntax::is_label_value(value)) {
                self.error(
                    &field,
                    format!("`{value}` cannot be the value of a label: write {}", syntax::LABEL_VALUE),
                );
            }
        }
    }

    /// A node should not leave its policy because its GPUs are cut.
    fn lasting(&mut self, field: &str, selector: &Selector) {
        let labels = selector.match_labels.keys().map(|key| (format!("{field}.matchLabels[{key}]"), key));
        let requirements = selector.match_expressions.iter().enumerate();
        let requirements = requirements.map(|(n, r)| (format!("{field}.matchExpressions[{n}].key"), &r.key));
        let found = labels.chain(requirements).filter_map(|(field, key)| {
            // One that no label can have is an error already.
            let badly = labels::selects_badly(key).filter(|_| syntax::is_label_key(key))?;
            Some(Problem::new(Severity::Warning, "", badly).field(field))
        });
        self.problems.extend(found);
    }

    fn layout(&mut self, layout: &Layout) {
        let Layout { type_, demand_driven, static_ } = layout;
        match type_ {
            LayoutType::DemandDriven => {
                if static_.is_some() {
                    self.error(
                        "spec.layout.static",
                        "is not used with type DemandDriven: remove it, or write `type: Static`",
                    );
                }
                if let Some(demand_driven) = demand_driven {
                    self.demand_driven(demand_driven);
                }
            }
            LayoutType::None => {
                for (field, there) in
                    [("demandDriven", demand_driven.is_some()), ("static", static_.is_some())]
                {
                    if there {
                        self.error(
                            format!("spec.layout.{field}"),
                            "is not used with type None: remove it, or write the type that it is for",
                        );
                    }
                }
            }
            LayoutType::Static => {
                if demand_driven.is_some() {
                    self.error(
                        "spec.layout.demandDriven",
                        "is not used with type Static: remove it, or write `type: DemandDriven`",
                    );
                }
                match static_ {
                    Some(layout) if !layout.gpus.is_empty() => self.static_rules(&layout.gpus),
                    _ => self.error(
                        "spec.layout.static.gpus",
                        "is missing: specify the slices of the GPUs, such as `static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}`",
                    ),
                }
            }
        }
    }

    fn shares(&mut self, shares: &[Share]) {
        for (index, share) in shares.iter().enumerate() {
            let field = format!("spec.layout.demandDriven.shares[{index}]");
            self.selector(&format!("{field}.namespaceSelector"), &share.namespace_selector);
            match (share.min_compute_slices, share.max_compute_slices) {
                (min, Some(max)) if min > max => self.error(
                    format!("{field}.minComputeSlices"),
                    format!("is {min}, but maxComputeSlices is {max}; lower minComputeSlices, raise maxComputeSlices, or remove it"),
                ),
                (min, None) if min <= 0 => self.error(
                    field,
                    "has no bounds: write minComputeSlices, maxComputeSlices, or both",
                ),
                _ => {}
            }
        }
    }

    fn demand_driven(&mut self, layout: &DemandDriven) {
        self.selector("spec.layout.demandDriven.namespaceSelector", &layout.namespace_selector);
        self.shares(&layout.shares);
        let mut seen: BTreeMap<ProfileName, usize> = BTreeMap::new();
        for (index, slice) in layout.slices.iter().enumerate() {
            let field = format!("spec.layout.demandDriven.slices[{index}]");
            if let Some(profile) = self.profile(&format!("{field}.profile"), &slice.profile, None)
                && let Some(first) = seen.insert(profile, index)
            {
                self.error(
                    format!("{field}.profile"),
                    format!("`{}` is already in slices[{first}]; each profile may be listed only once: combine the two entries", slice.profile),
                );
            }
            self.bounds(&field, (slice.min_count, slice.spare_count, slice.max_count));
        }
        if let Some(whole) = &layout.whole_gpus {
            let bounds = (whole.min_count, whole.spare_count, whole.max_count);
            self.bounds("spec.layout.demandDriven.wholeGpus", bounds);
        }
    }

    /// A minimum and a spare beyond the maximum.
    fn bounds(&mut self, field: &str, (min, spare, max): (i32, i32, Option<i32>)) {
        let Some(max) = max else { return };
        for (name, value) in [("minCount", min), ("spareCount", spare)] {
            if value > max {
                self.error(
                    format!("{field}.{name}"),
                    format!("is {value}, but maxCount is {max}, so there cannot be more than {max}; lower {name}, raise maxCount, or remove maxCount"),
                );
            }
        }
    }

    fn static_rules(&mut self, rules: &[StaticGpus]) {
        for (index, rule) in rules.iter().enumerate() {
            let field = format!("spec.layout.static.gpus[{index}]");
            let model = match &rule.model {
                None => None,
                Some(text) => match self.catalog.find(text) {
                    Ok(model) => Some(model),
                    Err(error) => {
                        self.error(format!("{field}.model"), error.to_string());
                        continue;
                    }
                },
            };
            match (rule.mig, rule.slices.is_empty()) {
                (None, true) => {
                    self.error(
                        format!("{field}.slices"),
                        "is empty: a GPU needs at least one slice, such as `[{profile: 7g.80gb, count: 1}]`; for whole GPUs, write `mig: Disabled`",
                    );
                    continue;
                }
                (Some(MigMode::Disabled), false) => {
                    self.error(
                        format!("{field}.mig"),
                        "is Disabled, but the rule has slices, which exist only where MIG is on: remove `slices`, or remove `mig`",
                    );
                    continue;
                }
                (None, false) | (Some(MigMode::Disabled), true) => {}
            }
            let mut names = Vec::new();
            for (at, slice) in rule.slices.iter().enumerate() {
                let field = format!("{field}.slices[{at}].profile");
                if let Some(name) = self.profile(&field, &slice.profile, model) {
                    names.push((name, slice));
                }
            }
            if rule.mig.is_none() && names.len() == rule.slices.len() {
                self.fits(&format!("{field}.slices"), &names, model);
            }
            if rules[..index].iter().any(|earlier| covers(earlier, rule)) {
                self.problems.push(
                    Problem::new(Severity::Warning, "", "is never used: an earlier rule matches every GPU that it matches; put it first, or remove it")
                        .field(field),
                );
            }
        }
    }

    /// A profile's name; of this model, or of any.
    fn profile(&mut self, field: &str, text: &str, model: Option<&Model>) -> Option<ProfileName> {
        let models = self.catalog.models();
        let name: Result<ProfileName, _> = text.parse();
        let known = |name: ProfileName| match model {
            Some(model) => model.geometry.profile_named(name).is_some(),
            None => models.iter().any(|model| model.geometry.profile_named(name).is_some()),
        };
        if let Ok(name) = name
            && known(name)
        {
            return Some(name);
        }
        let mut all: Vec<ProfileName> = match model {
            Some(model) => model.profiles.iter().map(|p| p.name).collect(),
            None => models.iter().flat_map(|m| m.profiles.iter().map(|p| p.name)).collect(),
        };
        all.sort();
        all.dedup();
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        let meant = match nearest(text, all.iter().map(String::as_str)) {
            Some(right) => format!("; did you mean `{right}`?"),
            None => ".".to_owned(),
        };
        let message = match (&name, model) {
            (Err(error), _) => format!("{error}{}", meant.trim_end_matches('.')),
            (Ok(_), Some(model)) => {
                format!("`{text}` is not a profile of {}{meant} It has: {}", model.id, all.join(", "))
            }
            (Ok(_), None) => format!("`{text}` is not a profile of any known model{meant}"),
        };
        self.error(field, message);
        None
    }

    /// Whether the slices fit one GPU of the model, or of any model that has
    /// all the profiles.
    fn fits(&mut self, field: &str, slices: &[(ProfileName, &StaticSlices)], model: Option<&Model>) {
        let candidates: Vec<&Model> = match model {
            Some(model) => vec![model],
            None => self
                .catalog
                .models()
                .iter()
                .filter(|model| slices.iter().all(|(name, _)| model.geometry.profile_named(*name).is_some()))
                .collect(),
        };
        let written: Vec<String> = slices.iter().map(|(name, s)| format!("{} x {name}", s.count)).collect();
        let written = written.join(" + ");
        if candidates.is_empty() {
            self.error(field, format!("no model has all of these profiles, so no GPU can have {written}: write one rule for each model"));
            return;
        }
        let fits = |model: &&Model| {
            let counts: Counts = slices
                .iter()
                .filter_map(|(name, s)| {
                    Some((model.geometry.profile_named(*name)?, u8::try_from(s.count).ok()?))
                })
                .collect();
            model.lattice().find_multiset(&counts).is_some()
        };
        if !candidates.iter().any(fits) {
            let names: Vec<&str> = candidates.iter().map(|model| model.id.as_str()).collect();
            self.error(
                field,
                format!(
                    "{written} do not fit one GPU ({}); `slicewright fit {} {}` says why",
                    names.join(", "),
                    names[0],
                    slices
                        .iter()
                        .map(|(name, s)| format!("{name}:{}", s.count))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
            );
        }
    }

    fn rollout(&mut self, rollout: &Rollout) {
        let Rollout { max_unavailable, drain: _, cooldown, windows } = rollout;
        if let Err(error) = units::node_count(max_unavailable) {
            self.error("spec.rollout.maxUnavailable", error.to_string());
        }
        if let Some(Err(error)) = cooldown.as_deref().map(units::duration) {
            self.error("spec.rollout.cooldown", error.to_string());
        }
        for (index, window) in windows.iter().enumerate() {
            let field = format!("spec.rollout.windows[{index}]");
            match units::duration(&window.duration) {
                Ok(duration) if duration.is_zero() => {
                    self.error(
                        format!("{field}.duration"),
                        format!(
                            "is {}, so the window never opens: write how long it stays open, such as 6h",
                            window.duration
                        ),
                    );
                }
                Ok(_) => {
                    let (schedule, duration) = (&window.schedule, &window.duration);
                    if let Err(error) = Window::new(schedule, duration, &window.time_zone) {
                        let name = match error {
                            WindowError::Schedule(_) => "schedule",
                            WindowError::Duration { .. } => "duration",
                            WindowError::TimeZone { .. } => "timeZone",
                        };
                        self.error(format!("{field}.{name}"), error.to_string());
                    }
                }
                Err(error) => self.error(format!("{field}.duration"), error.to_string()),
            }
        }
    }
}

/// Whether every GPU that `later` matches is matched by `earlier`.
fn covers(earlier: &StaticGpus, later: &StaticGpus) -> bool {
    let model = earlier.model.is_none() || earlier.model == later.model;
    let indices = match (&earlier.indices, &later.indices) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(earlier), Some(later)) => later.iter().all(|index| earlier.contains(index)),
    };
    model && indices
}
