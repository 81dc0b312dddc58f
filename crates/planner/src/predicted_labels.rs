//! The future values of the labels that GPU feature discovery derives from a node's layout, when a request
//! has its slices there.
//!
//! Only a request's own selectors use these labels, by their names, and the values depend on the request
//! and on the possible layouts of the GPUs, so the planner has to know the names. They are in this module
//! and nowhere else in the planner. No fact of the node is derived from them; typed facts come from
//! `observe` (`docs/adr/0009-observe-once.md`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mig::{Attribute, Geometry, ProfileName};

use crate::demand::Request;
use crate::inventory::{Node, Sharing};
use crate::selector::Label;

const PREFIX: &str = "nvidia.com/";
const PRODUCT: &str = "nvidia.com/gpu.product";
/// How the product's name ends where GPUs are shared under their own name.
const SHARED: &str = "-SHARED";
const OF_A_PROFILE: &str = "nvidia.com/mig-";

/// Whether a label tells of the slices of one profile, so that what it will be
/// depends on which slices a request asks for.
pub(crate) fn is_of_a_profile(key: &str) -> bool {
    key.starts_with(OF_A_PROFILE)
}

/// What to select by instead of `gpu.product: X-MIG-1g.5gb`, which exists under
/// strategy `single` only; `None` for every other selector.
pub(crate) fn instead_of_single(key: &str, wanted: &str) -> Option<(String, String)> {
    let (product, profile) = wanted.rsplit_once("-MIG-").filter(|_| key == PRODUCT)?;
    Some(match profile.parse::<ProfileName>() {
        Ok(profile) => (format!("{}.product", profile.resource_name()), wanted.to_owned()),
        Err(_) => (PRODUCT.to_owned(), product.to_owned()),
    })
}

/// What the labels of a node that follow the layout will be after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelsAfter {
    /// The product's name without any `-MIG-…` and `-SHARED`, as far as it is known.
    product: Option<String>,
    /// Whether the product's label says that GPUs, or slices under strategy `single`, are shared under their own name.
    is_shared: bool,
    /// For each profile that the node can have: how many are in use, and the
    /// most that it can have.
    counts: BTreeMap<ProfileName, (u32, u32)>,
    mig_off: bool,
    /// Whether slices are `nvidia.com/gpu` there, and labelled as GPUs.
    is_single: bool,
}

impl LabelsAfter {
    /// Reads it off a node: what its GPUs can be cut into, and the product
    /// that its labels name (they may name it in the form of strategy `single`).
    #[must_use]
    pub fn predict(node: &Node) -> Self {
        let mut counts: BTreeMap<ProfileName, (u32, u32)> = BTreeMap::new();
        let mut most: HashMap<*const Geometry, Vec<(ProfileName, u32)>> = HashMap::new();
        for gpu in node.gpus.values() {
            let of_geometry =
                most.entry(Arc::as_ptr(&gpu.geometry)).or_insert_with(|| most_of(&gpu.geometry));
            for (profile, most) in of_geometry {
                counts.entry(*profile).or_default().1 += *most;
            }
        }
        for (profile, held) in &node.allocated {
            counts.entry(*profile).or_default().0 = *held;
        }
        let labelled = node.labels.get(PRODUCT);
        let is_shared = labelled.is_some_and(|product| product.ends_with(SHARED));
        let product = labelled.map(|product| {
            let name = product.strip_suffix(SHARED).unwrap_or(product);
            name.split("-MIG-").next().unwrap_or(name).to_owned()
        });
        let mig_off = node.gpus.values().any(|gpu| gpu.slices.is_mig_off());
        Self { product, is_shared, counts, mig_off, is_single: false }
    }

    /// The same for who asks for `nvidia.com/gpu` of a node under strategy `single`, all of whose GPUs are cut into
    /// slices of one profile, or will be: there that is the product's name.
    #[must_use]
    pub(crate) fn predict_single(node: &Node, profile: Option<ProfileName>) -> Self {
        let mut after = Self { is_single: true, ..Self::predict(node) };
        if let Some(profile) = profile {
            let shared = if after.is_shared { SHARED } else { "" };
            after.product = after.product.map(|product| format!("{product}-MIG-{}{shared}", in_key(profile)));
        }
        after
    }

    /// Whether this is for who asks for `nvidia.com/gpu` of a node on which that is a slice.
    pub(crate) const fn is_single(&self) -> bool {
        self.is_single
    }

    /// A label of the node, as it will be once slices for `request` are there.
    pub(crate) fn label(&self, request: &Request, node: &Node, key: &str) -> Label {
        let now = || Label::from(node.labels.get(key));
        let Some(key) = key.strip_prefix(PREFIX) else { return now() };
        if let Some(field) = key.strip_prefix("gpu.") {
            let single_only = ["slices.", "engines.", "multiprocessors"];
            return match field {
                "product" => match &self.product {
                    // The suffix goes with the last GPU that is shared as a whole, and which one is cut is open.
                    Some(product) if self.is_shared && !self.is_single => {
                        Label::Either(product.clone(), format!("{product}{SHARED}"))
                    }
                    product => Label::from(product.as_ref()),
                },
                "replicas" if self.mig_off => Label::Is("0".to_owned()),
                _ if !self.is_single && single_only.iter().any(|s| field.starts_with(s)) => Label::Absent,
                _ => now(),
            };
        }
        if key == "mig.config.state" {
            return Label::Is("success".to_owned());
        }
        let Some((profile, field)) = key.strip_prefix("mig-").and_then(split_field) else { return now() };
        // Whether slices that it does not ask for stay or come is open; what
        // is there now is the best guess.
        let Some(asked) = request.asks_of(profile) else { return now() };
        let Some((in_use, most)) = self.counts.get(&profile).filter(|(_, most)| *most > 0) else {
            return Label::Absent;
        };
        if let Some(Sharing { replicas, .. }) = node.shared.get(&profile) {
            // Of slices that several share, those in use are counted in seats.
            return match field {
                "count" => Label::Between(1, i64::from(*most)),
                "replicas" => Label::Is(replicas.to_string()),
                _ => Label::Any,
            };
        }
        match (field, now()) {
            ("count", _) => Label::Between(i64::from((in_use + asked).min(*most)), i64::from(*most)),
            // What the driver reports of a profile does not depend on the rest.
            (_, label @ Label::Is(_)) => label,
            ("product", _) => match &self.product {
                Some(product) => Label::Is(format!("{product}-MIG-{}", in_key(profile))),
                None => Label::Any,
            },
            ("memory", _) => {
                // The name rounds to eighths of the GPU's memory, and the
                // driver keeps some: 11008 MiB are a 12gb slice.
                let named = i64::from(profile.memory_gb) * 1024;
                Label::Between(named * 85 / 100, named * 103 / 100)
            }
            ("slices.gi" | "slices.ci", _) => Label::Is(profile.compute.to_string()),
            ("replicas", _) => Label::Is("1".to_owned()),
            ("sharing-strategy", _) => Label::Is("none".to_owned()),
            _ => Label::Any,
        }
    }
}

/// The most slices of each profile that one GPU can have, whatever is on it.
/// Of slices of equal size, taking the first start that is free is best.
fn most_of(geometry: &Geometry) -> Vec<(ProfileName, u32)> {
    let most = |spec: &mig::ProfileSpec| {
        if matches!(spec.name.attribute, Attribute::Media | Attribute::AllMedia) {
            return 1;
        }
        let mut end = 0;
        let fitting = spec.starts.iter().filter(|start| {
            let fits = **start >= end;
            if fits {
                end = **start + spec.size;
            }
            fits
        });
        let by_memory = u32::try_from(fitting.count()).unwrap_or(u32::MAX);
        by_memory.min(u32::from(geometry.compute() / spec.compute))
    };
    geometry.profiles().iter().map(|spec| (spec.name, most(spec))).collect()
}

/// `1g.10gb.me.count` into the profile and the field.
fn split_field(key: &str) -> Option<(ProfileName, &str)> {
    const FIELDS: [&str; 7] =
        ["product", "count", "replicas", "sharing-strategy", "memory", "multiprocessors", "slices.gi"];
    let known = FIELDS.iter().chain(&["slices.ci"]).find_map(|field| {
        let profile = key.strip_suffix(field)?.strip_suffix('.')?;
        Some((profile, *field))
    });
    let (profile, field) = match known {
        Some(split) => split,
        None => key.split_once(".engines.")?,
    };
    Some((profile.parse().ok()?, field))
}

fn in_key(profile: ProfileName) -> String {
    profile.to_string().replace('+', ".")
}
