//! One offer of the menu, and how it is written as a hardware profile: complete, since the dashboard hides a
//! profile without CPU and memory; with one slice or GPU, since a CUDA process sees only one slice, and a second
//! seat is no second share; and under a name that ends with the digest of its spec, since a profile in use must
//! not change.

use std::collections::BTreeMap;

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{
    DISABLED, HardwareProfileSpec, MANAGED_BY, MANAGER, OFFERS, SPEC_DIGEST,
};
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mig::ProfileName;
use planner::plan::digest;
use planner::report::Offered;
use rollout::Method;
use serde_json::{Value, json};

/// What the profiles of queues say that they offer begins with, where others have the name of a policy.
pub(super) const OF_QUEUES: &str = "queue";
/// How much of the digest is in a name.
const DIGEST_LENGTH: usize = 8;
/// How much of a policy's, a queue's or a product's name is in a name: all of
/// it together has to be a label's length.
const LONGEST_PART: usize = 18;

/// One offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The slice or the GPU, or by its name a seat of one.
    pub offered: Offered,
    /// How several pods share each of these slices or GPUs, where they do: then it is a seat that is offered.
    pub seat: Option<Seat>,
    /// Who may take it, and where it runs.
    pub place: Place,
    /// The CPU and memory that come with it.
    pub share: Share,
}

/// A seat of a slice or a GPU that several pods share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// How many pods share it.
    pub replicas: u32,
    /// Whether fewer share it on some nodes.
    pub fewer_elsewhere: bool,
    /// By what it is shared.
    pub by: Method,
}

impl Seat {
    /// What two seats of one name are worth that somebody gets one or the other of; `None` is one for itself.
    #[must_use]
    pub fn one_of(this: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (most, least) = if this < other { (other?, this) } else { (this?, other) };
        let fewer_elsewhere = most.fewer_elsewhere
            || least.is_none_or(|least| least.fewer_elsewhere || least.replicas < most.replicas);
        // Equal shares of memory are not to be promised to who may get none.
        let by = if least.is_some_and(|least| least.by == Method::TimeSlicing) {
            Method::TimeSlicing
        } else {
            most.by
        };
        Some(Self { fewer_elsewhere, by, ..most })
    }

    /// By how many it is shared, in words.
    fn number(self) -> String {
        format!("{}{}", if self.fewer_elsewhere { "up to " } else { "" }, self.replicas)
    }
}

/// Where an offer runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// On nodes of a pool with a GPU product.
    Nodes {
        /// The pool's policy.
        policy: String,
        /// The product, as GFD labels it.
        product: String,
        /// The labels of these nodes.
        selector: BTreeMap<String, String>,
        /// The taints that say that they have GPUs.
        tolerations: Vec<Toleration>,
    },
    /// Where a queue of Kueue decides.
    Queue {
        /// The local queue.
        name: String,
    },
}

/// CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whole cores.
    pub cpu: u32,
    /// Whole GiB.
    pub memory_gib: u32,
}

impl Share {
    /// The lesser of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { cpu: self.cpu.min(other.cpu), memory_gib: self.memory_gib.min(other.memory_gib) }
    }

    /// What a hardware profile of ours gives.
    #[must_use]
    pub fn from_profile(profile: &HardwareProfile) -> Option<Self> {
        let count = |name: &str| {
            let found = profile.spec.identifiers.iter().find(|i| i.identifier == name);
            found.and_then(|identifier| identifier.default_count.as_ref())
        };
        let (IntOrString::Int(cpu), IntOrString::String(memory)) = (count("cpu")?, count("memory")?) else {
            return None;
        };
        let memory_gib = memory.strip_suffix("Gi")?.parse().ok()?;
        Some(Self { cpu: u32::try_from(*cpu).ok()?, memory_gib })
    }
}

/// Lower case letters, digits and dashes, not too many.
fn part(text: &str, longest: usize) -> String {
    let plain = text.to_ascii_lowercase();
    let plain: String = plain.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    plain.chars().take(longest).collect::<String>().trim_matches('-').to_owned()
}

/// A product as people say it: `A100 SXM4 80GB`.
fn spoken(product: &str) -> String {
    product.trim_start_matches("NVIDIA-").replace('-', " ")
}

impl Card {
    /// What it offers and where, whatever its CPU and memory are.
    #[must_use]
    pub fn offers(&self) -> String {
        match &self.place {
            Place::Nodes { policy, product, .. } => format!("{policy}/{product}/{}", self.what()),
            Place::Queue { name } => format!("{OF_QUEUES}/{name}/{}", self.what()),
        }
    }

    /// The slice or the GPU, how many share it, and by what.
    fn what(&self) -> String {
        match self.seat {
            None => self.offered.to_string(),
            Some(seat @ Seat { by, .. }) => {
                let by = if by == Method::Mps { "/mps" } else { "" };
                format!("{}/{}{by}", self.offered, seat.number().replace(' ', "-"))
            }
        }
    }

    /// What people call it: the slice or the GPU, and who else is on it. It is a part of the spec, so what is shared
    /// otherwise is another profile.
    fn called(&self) -> String {
        let one = match self.offered.profile() {
            Some(profile) => format!("GPU slice {profile}"),
            None => "GPU".to_owned(),
        };
        let by = |seat: Seat| {
            let through = if seat.by == Method::Mps { " through MPS" } else { "" };
            format!(", shared by {}{through}", seat.number())
        };
        format!("{one}{}", self.seat.map(by).unwrap_or_default())
    }

    /// The name of the hardware profile. The dashboard sorts by it.
    #[must_use]
    pub fn name(&self) -> String {
        let profile = part(&self.what(), LONGEST_PART);
        let stem = match &self.place {
            Place::Nodes { policy, product, .. } => {
                let product = part(product.trim_start_matches("NVIDIA-"), LONGEST_PART);
                format!("gpu-{}-{product}-{profile}", part(policy, LONGEST_PART))
            }
            Place::Queue { name } => format!("gpu-q-{}-{profile}", part(name, LONGEST_PART)),
        };
        format!("{}-{}", part(&stem, 63 - DIGEST_LENGTH - 1), self.digest())
    }

    /// The digest of its spec.
    #[must_use]
    pub fn digest(&self) -> String {
        let spec: HardwareProfileSpec =
            serde_json::from_value(self.spec()).expect("what is written here can be read");
        spec_digest(&spec)
    }

    /// The spec. It is never changed.
    #[must_use]
    pub fn spec(&self) -> Value {
        let Share { cpu, memory_gib } = self.share;
        let memory = format!("{memory_gib}Gi");
        let identifier = |name: &str, shown: &str, kind: &str, [min, count]: [Value; 2]| {
            json!({
                "displayName": shown, "identifier": name, "resourceType": kind,
                "minCount": min, "defaultCount": count, "maxCount": count,
            })
        };
        let scheduling = match &self.place {
            Place::Nodes { selector, tolerations, .. } => {
                let mut node = json!({"nodeSelector": selector});
                if !tolerations.is_empty() {
                    node["tolerations"] = json!(tolerations);
                }
                json!({"type": "Node", "node": node})
            }
            Place::Queue { name } => json!({"type": "Queue", "kueue": {"localQueueName": name}}),
        };
        json!({
            "identifiers": [
                identifier("cpu", "CPU", "CPU", [json!(1), json!(cpu)]),
                identifier("memory", "Memory", "Memory", [json!("1Gi"), json!(memory)]),
                identifier(
                    &self.offered.resource_name(),
                    &self.called(),
                    "Accelerator",
                    [json!(1), json!(1)],
                ),
            ],
            "scheduling": scheduling,
        })
    }

    /// What people read of it.
    #[must_use]
    pub fn texts(&self) -> [(&'static str, String); 2] {
        let (whose, queued) = match &self.place {
            Place::Nodes { policy, product, .. } => {
                (format!("{}, {}", spoken(product), part(policy, 60)), "")
            }
            Place::Queue { name } => (format!("queue {}", part(name, 60)), " in the queue"),
        };
        let shown = format!("{} ({whose})", self.called());
        let one = match (self.offered.profile(), self.seat) {
            (Some(ProfileName { compute, memory_gb, .. }), _) => {
                let slices = if compute == 1 { "slice" } else { "slices" };
                format!("{compute} compute {slices} and {memory_gb} GB of memory of a GPU")
            }
            (None, Some(_)) => "A GPU".to_owned(),
            (None, None) => "A whole GPU, with all of its memory".to_owned(),
        };
        let beside =
            self.seat.map(|seat| format!(", shared by {} pods{}", seat.number(), seat.by.isolation()));
        let beside = beside.unwrap_or_default();
        let described = format!("{one}{beside}. If none is free, the workload waits{queued} until one is.");
        let cut = |text: String, longest: usize| text.chars().take(longest).collect::<String>();
        [
            ("opendatahub.io/display-name", cut(shown, 128)),
            ("opendatahub.io/description", cut(described, 255)),
        ]
    }

    /// The whole object, for the operator to create.
    #[must_use]
    pub fn manifest(&self, namespace: &str) -> Value {
        let mut object = self.plain_manifest(namespace);
        object["metadata"]["labels"] = json!({MANAGED_BY: MANAGER});
        object["metadata"]["annotations"][OFFERS] = json!(self.offers());
        object["metadata"]["annotations"][SPEC_DIGEST] = json!(self.digest());
        object
    }

    /// The object for Git: without the operator's marks, so that the operator
    /// leaves it alone.
    #[must_use]
    pub fn plain_manifest(&self, namespace: &str) -> Value {
        let mut annotations: BTreeMap<&str, String> = self.texts().into();
        // The dashboard's switch replaces the key, and fails where there is none.
        annotations.insert(DISABLED, "false".to_owned());
        json!({
            "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": self.name(), "namespace": namespace, "annotations": annotations},
            "spec": self.spec(),
        })
    }
}

/// The digest of a spec as it is read. What is absent is no part of it: a field that a later release of the
/// operator reads must not make another profile of each that is published.
pub(super) fn spec_digest(spec: &HardwareProfileSpec) -> String {
    let said = said(serde_json::to_value(spec).expect("a spec is plain data"));
    let mut all = digest(said.to_string().as_bytes());
    all.truncate(DIGEST_LENGTH);
    all
}

/// A value without what is empty in it.
fn said(value: Value) -> Value {
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    match value {
        Value::Array(all) => Value::Array(all.into_iter().map(said).collect()),
        Value::Object(all) => {
            // In the order of the keys, however the library keeps them.
            let sorted: BTreeMap<String, Value> = all.into_iter().collect();
            let kept = sorted.into_iter().map(|(key, value)| (key, said(value)));
            Value::Object(kept.filter(|(_, value)| is_said(value)).collect())
        }
        other => other,
    }
}
