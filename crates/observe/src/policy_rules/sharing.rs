//! What of `spec.sharing` cannot be carried out on any node: each with the field, the value and what to write.

use std::collections::BTreeMap;

use api::policy::{Layout, LayoutType, Sharing, SharingRule, SharingType};
use api::spelling::nearest;
use mig::GpuResource;
use mig::resource::Unit;
use mig::sharing::{Known, cards, find};

use crate::cards::card_id;
use crate::problem::{Problem, Severity};

use super::Check;

impl Check<'_> {
    pub(super) fn sharing(&mut self, sharing: &Sharing, layout: &Layout) {
        let Sharing { type_, rename: _, one_each: _, rules } = sharing;
        let bounds = layout.demand_driven.as_ref().and_then(|layout| layout.whole_gpus.as_ref());
        let makes_whole = bounds.is_some_and(|bounds| bounds.max_count != Some(0));
        let layout = layout.type_;
        if *type_ == SharingType::Mps && layout != LayoutType::None {
            self.error(
                "spec.sharing.type",
                format!(
                    "is MPS beside layout {}, and MPS serves whole GPUs with MIG off only: write `layout: {{type: None}}` in a policy for the nodes that share by MPS, or `sharing.type: TimeSlicing`, which also shares slices",
                    layout.name()
                ),
            );
        }
        match (type_, rules.is_empty()) {
            (SharingType::None, false) => self.error(
                "spec.sharing.rules",
                "is not used with type None: remove it, or write `type: TimeSlicing`",
            ),
            (SharingType::TimeSlicing | SharingType::Auto | SharingType::Mps, true) => self.error(
                "spec.sharing.rules",
                "is missing: say how many pods share a GPU, such as `rules: [{model: T4, resource: nvidia.com/gpu, replicas: 4}]`, or write `type: None`",
            ),
            _ => {}
        }
        let mut seen: BTreeMap<(Option<String>, &str), usize> = BTreeMap::new();
        for (index, rule) in rules.iter().enumerate() {
            let field = format!("spec.sharing.rules[{index}]");
            self.sharing_rule(&field, rule, *type_, layout);
            if makes_whole {
                self.whole_gpus_are_not_shared(&field, rule, *type_);
            }
            let model = rule.model.as_ref().map(|text| card_id(text).unwrap_or(text).to_owned());
            let is_any = seen.keys().any(|(model, resource)| model.is_none() && *resource == rule.resource);
            let has_mig = matches!(rule.model.as_deref().map(find), Some(Some(Known::Model(_))));
            match seen.insert((model, &rule.resource), index) {
                Some(first) => self.error(
                    field,
                    format!("is for the same resource and model as rules[{first}]: keep one of them"),
                ),
                None if is_any => self.never_used(
                    field,
                    "is never used: an earlier rule matches every model; put it first, or remove it",
                ),
                None if *type_ == SharingType::Auto && has_mig => self.never_used(
                    field,
                    "is never used: with type Auto only cards without MIG are shared, and this model has MIG; write `type: TimeSlicing` and `layout: {type: None}` to share it whole",
                ),
                None => {}
            }
        }
    }

    /// A GPU becomes whole for a pod that asks for one alone. Where several share each, that pod never gets one.
    fn whole_gpus_are_not_shared(&mut self, field: &str, rule: &SharingRule, type_: SharingType) {
        let may_have_mig = match rule.model.as_deref() {
            Some(text) => matches!(find(text), Some(Known::Model(_))),
            None => true,
        };
        if type_ == SharingType::TimeSlicing && may_have_mig && rule.resource == GpuResource::GPU {
            self.error(
                format!("{field}.resource"),
                "is `nvidia.com/gpu` beside `wholeGpus`, by which a GPU becomes whole for a pod that asks for one alone, and none would be: remove one of the two, or name a card without MIG in `model`",
            );
        }
    }

    fn never_used(&mut self, field: String, why: &str) {
        self.problems.push(Problem::new(Severity::Warning, "", why).field(field));
    }

    fn sharing_rule(&mut self, field: &str, rule: &SharingRule, type_: SharingType, layout: LayoutType) {
        let card = rule.model.as_deref().map(find);
        if let (Some(text), Some(None)) = (&rule.model, card) {
            let ids: Vec<&str> = cards()
                .iter()
                .map(|card| card.id.as_str())
                .chain(self.catalog.models().iter().map(|model| model.id.as_str()))
                .collect();
            let meant = nearest(text, ids.iter().copied())
                .map_or_else(|| ".".to_owned(), |right| format!("; did you mean `{right}`?"));
            self.error(
                format!("{field}.model"),
                format!("`{text}` is not a known card{meant} There are: {}", ids.join(", ")),
            );
        }
        let card = card.flatten();
        if self.shared_resource(&format!("{field}.resource"), rule, card) && rule.resource != GpuResource::GPU
        {
            if type_ != SharingType::TimeSlicing {
                self.error(
                    format!("{field}.resource"),
                    format!(
                        "is `{}`, and type {} shares whole GPUs only: write `type: TimeSlicing`, or `resource: nvidia.com/gpu`",
                        rule.resource,
                        type_.name()
                    ),
                );
            } else if layout == LayoutType::None {
                self.error(
                    format!("{field}.resource"),
                    format!(
                        "is `{}`, and layout.type is None, so there are no slices to share: write `resource: nvidia.com/gpu`, or a layout that cuts",
                        rule.resource
                    ),
                );
            }
        }
        self.replicas(&format!("{field}.replicas"), rule.replicas, type_, card);
    }

    fn replicas(&mut self, field: &str, replicas: i32, type_: SharingType, card: Option<Known<'_>>) {
        let bound = |card: Known<'_>| i32::try_from(card.most_by_mps()).unwrap_or(i32::MAX);
        let most = card.filter(|_| type_ == SharingType::Mps).map_or(48, bound);
        let why = match replicas {
            ..2 => {
                "fewer than two is no sharing, and the device plugin does not start with it (since 0.12): leave the rule out"
            }
            n if n <= most => return,
            _ if most < 48 => {
                "the control daemon of MPS does not start with more on a card before compute capability 7.5"
            }
            _ => "no GPU serves more",
        };
        self.error(field, format!("is {replicas}; 2 to {most} are allowed: {why}"));
    }

    /// Whether a rule is for a resource that its card, or any card, can have.
    fn shared_resource(&mut self, field: &str, rule: &SharingRule, card: Option<Known<'_>>) -> bool {
        let resource = &rule.resource;
        let known = self.catalog.models();
        let message = match GpuResource::parse(resource) {
            Some(GpuResource { shared: true, .. }) => format!(
                "is `{resource}`, which is the name that `sharing.rename` makes: write the resource itself, {}",
                resource.trim_end_matches(GpuResource::SHARED)
            ),
            Some(GpuResource { unit: Unit::Gpu, .. }) => return true,
            Some(GpuResource { unit: Unit::Slice(profile), .. }) => match card {
                Some(card) if card.has_resource(resource) => return true,
                Some(Known::Card(card)) => format!(
                    "is `{resource}`, and {} has no MIG, so no slices: write `resource: nvidia.com/gpu`",
                    card.id
                ),
                Some(Known::Model(model)) => {
                    let has: Vec<String> =
                        model.profiles.iter().map(|profile| profile.name.resource_name()).collect();
                    format!(
                        "is `{resource}`, and {} has no such slices; it has: {}",
                        model.id,
                        has.join(", ")
                    )
                }
                None if known.iter().any(|model| model.geometry.profile_named(profile).is_some()) => {
                    return true;
                }
                None => format!("is `{resource}`, and no known model has such slices"),
            },
            Some(GpuResource { unit: Unit::UnknownSlice, .. }) if is_of_compute_instance(resource) => {
                format!(
                    "is `{resource}`, a part of a slice (a compute instance), which has no resource of its own: write that of the whole slice, such as nvidia.com/mig-1g.10gb"
                )
            }
            Some(GpuResource { unit: Unit::UnknownSlice, .. }) | None => format!(
                "is `{resource}`, which is no resource of GPUs: write nvidia.com/gpu, or that of a slice such as nvidia.com/mig-1g.10gb"
            ),
        };
        self.error(field, message);
        false
    }
}

/// Whether a name is that of a profile such as `1c.3g.40gb`.
fn is_of_compute_instance(resource: &str) -> bool {
    let profile = resource.strip_prefix(mig::ProfileName::RESOURCE_PREFIX).unwrap_or_default();
    let first = profile.split('.').next().and_then(|first| first.strip_suffix('c'));
    first.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
