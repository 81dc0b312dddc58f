//! The sentences of the report: why a request waits, what would help, what holds a node. Conditions,
//! events, `explain` and the pull-request comment print these, so that the same fact always has the same
//! wording.

use std::fmt;

use mig::ProfileName;

use crate::inventory::{Hold, Seating, Slices, Use};
use crate::names::GpuId;
use crate::offered::Offered;
use crate::plan::GpuChange;
use crate::report::{Broken, BrokenPromise, HeldSeats, Help, Outcome, RequestReport, UnmetBound, Why};

/// Between why a request is not served and what would help it.
pub const WOULD_HELP: &str = ". What would help: ";

/// `a, b and 3 more`: at most five names.
fn some<T: fmt::Display>(items: &[T]) -> String {
    let shown: Vec<_> = items.iter().take(5).map(ToString::to_string).collect();
    match items.len().saturating_sub(5) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `3g.40gb on n1/gpu0 (A100-80GB)`, for each.
fn places(gpus: &[(GpuId, String, Offered)]) -> String {
    let place = |(gpu, model, offered): &(GpuId, String, Offered)| match offered {
        Offered::Slice(profile) => format!("{profile} on {gpu} ({model})"),
        Offered::WholeGpu => format!("{gpu} ({model}) as a whole"),
        Offered::SharedSlice(profile) => format!("a seat of {profile} on {gpu} ({model})"),
        Offered::SharedGpu => format!("a seat of {gpu} ({model})"),
    };
    some(&gpus.iter().map(place).collect::<Vec<_>>())
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicy => f.write_str("no policy changes it now"),
            Self::CoolingDown { until } => {
                write!(f, "it was changed recently, and its cooldown lasts until {until}")
            }
            Self::Changing => f.write_str("its layout is being changed"),
            Self::Cordoned { by } => write!(f, "it was cordoned by {by}"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Unhealthy { what } => write!(f, "a GPU is not healthy: {what}"),
            Self::ForeignLayout { label } => write!(f, "somebody else chose its layout ({label})"),
            Self::ForeignWork { who } => write!(f, "{who} works on it"),
            Self::HandsOff { who } => write!(f, "{who} manages its slices"),
            Self::Failed { why } => write!(f, "a change failed and needs an administrator: {why}"),
            Self::NotEstablished { why } => write!(f, "its layout is not known: {why}"),
            Self::Promised { to } => write!(f, "its slices were promised to {to}, whose pod has no node yet"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WholeGpu => {
                f.write_str("it asks for whole GPUs (nvidia.com/gpu), for which nothing is planned: only GPUs with MIG off serve them")
            }
            Self::NoPolicy => f.write_str("no policy covers its namespace and has a node that it may use"),
            Self::NoEligibleNode => f.write_str("no node fits its selector, affinity, tolerations, volumes and other resources"),
            Self::NoSuchProfile { profile } => write!(f, "no GPU of the nodes that it may use has {profile}"),
            Self::NeverCut { profile, nodes } => {
                let nodes: Vec<_> = nodes.iter().map(|(node, card)| format!("{node} ({card})")).collect();
                write!(
                    f,
                    "it asks for slices ({profile}), and the GPUs of the nodes that it may use are never partitioned: {}",
                    some(&nodes)
                )
            }
            Self::TooLarge { most, profile: profile @ (Offered::SharedSlice(_) | Offered::SharedGpu) } => {
                write!(f, "it asks for more {} than one node can have, which is {most}", profile.resource_name())
            }
            Self::TooLarge { most, profile: Offered::Slice(profile) } => {
                write!(f, "it asks for more {profile} than one node can have, which is {most}")
            }
            Self::TooLarge { most, profile: Offered::WholeGpu } => {
                write!(f, "it asks for more whole GPUs than one node can have, which is {most}")
            }
            Self::NeverTogether { slices } => {
                let slices: Vec<_> = slices.iter().map(|(profile, n)| format!("{n} of {profile}")).collect();
                write!(
                    f,
                    "it asks for {} on one node, and no node that it may use can have them at the same time",
                    slices.join(" and ")
                )
            }
            Self::NoRoom => {
                f.write_str("the nodes that it may use lack CPU, memory, ephemeral storage or pod slots")
            }
            Self::Elsewhere { node } => {
                write!(f, "it asks for whole GPUs, which are free on {node}, so MIG is not switched off for it")
            }
            Self::SeatsHeld { asks, nodes } => {
                let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "every {} that it could have is held, or is planned for requests that come first: {}",
                    asks.resource_name(),
                    some(&nodes)
                )
            }
            Self::OtherName { asks, offered: Some(offered) } => write!(
                f,
                "no node that it may use offers {}: there it is {}",
                asks.resource_name(),
                offered.resource_name()
            ),
            Self::OtherName { asks, offered: None } => {
                write!(f, "no node that it may use offers {}: none of them shares GPUs in this way", asks.resource_name())
            }
            Self::SeveralKinds => f.write_str(
                "it asks for whole GPUs (or seats of them) and for slices at the same time; Slicewright does not plan for such pods",
            ),
            Self::NoIdleNode => f.write_str(
                "no node has enough whole GPUs free for it, and MIG is switched off only on a node where no pod holds a GPU or a slice",
            ),
            Self::AllUsed => {
                f.write_str("every slice that could serve it is in use, or is planned for requests that come first")
            }
            Self::NotItsTurn { policy } => write!(
                f,
                "requests that are older, or of a higher priority, get what could serve it (policy {policy} serves \
                 the oldest first)"
            ),
            Self::NoDomain { topology, pods, fits, unseen } => write!(
                f,
                "its {pods} pods start together and have to be in one part of the cluster by {topology}, and none has \
                 slices for all of them{}",
                in_parts(fits, *unseen)
            ),
            Self::NeverWhole { asks, most, profile } => {
                let of = match profile {
                    Offered::Slice(profile) => profile.to_string(),
                    Offered::WholeGpu | Offered::SharedSlice(_) | Offered::SharedGpu => profile.resource_name(),
                };
                write!(
                    f,
                    "the pods of its workload start together and ask for {asks} of {of} in all, and the nodes that they may \
                     use can never have more than {most} at the same time"
                )
            }
            Self::Fragmented => f.write_str("enough is free for it, but in pieces that cannot be joined"),
            Self::Held { nodes } => {
                let nodes: Vec<_> =
                    nodes.iter().map(|(node, hold)| format!("{node} may not change now: {hold}")).collect();
                f.write_str(&some(&nodes))
            }
            Self::IdlenessNotProvable { gpus } => {
                write!(
                    f,
                    "GPUs that could serve it may be idle, but it is not known which of their slices pods hold: {}",
                    some(gpus)
                )
            }
            Self::PolicyForbids { policy, field } => write!(f, "policy {policy} does not allow it ({field})"),
            Self::BlockedElsewhere { message } => {
                write!(f, "its slice is ready, but something else keeps it from running; {message}")
            }
            Self::Refused { why } => write!(f, "it cannot start with any layout: {why}"),
            Self::NoPlan { why } => {
                write!(f, "the planner gave up and changes nothing: {why}; please report this")
            }
        }
    }
}

impl fmt::Display for UnmetBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, wanted, reached } = self;
        if field.ends_with("maxCount") {
            write!(f, "{field} is {wanted}, but {reached} are there that may not go")
        } else if field.ends_with("minComputeSlices") {
            // What is asked for may be less than the share.
            write!(
                f,
                "{field}: {wanted} compute slices of it are asked for or held, but the plan reaches only {reached}"
            )
        } else if field.contains(".static.") {
            write!(f, "{field} is for {wanted} GPUs, but only {reached} can have what it says")
        } else {
            write!(f, "{field} is {wanted}, but the plan reaches only {reached}")
        }
    }
}

impl fmt::Display for Seating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, held) = (self.offers().resource_name(), self.held());
        let free = self.total().saturating_sub(held);
        let Self { card, gpus, sharing, .. } = self;
        match sharing.replicas {
            1 => write!(f, "{gpus} x {card}, as {resource}: {held} held, {free} free"),
            n => write!(
                f,
                "{gpus} x {card}, each shared by {n}, as {resource}: {} seats, {held} held, {free} free",
                self.total()
            ),
        }
    }
}

impl fmt::Display for HeldSeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, replicas, total, held, by } = self;
        let what = if *replicas > 1 { "seats" } else { "GPUs" };
        write!(f, "{held} of {total} {what} of node {node} are held")?;
        if by.is_empty() { Ok(()) } else { write!(f, " by {}", some(by)) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeGone => f.write_str("the node does not exist any more"),
            Self::Unschedulable => f.write_str("the node takes no pods now: it is cordoned or not ready"),
            Self::NotEligible { reason } => write!(f, "the node {reason}"),
            Self::NoPolicy => f.write_str("the policy of the node does not cover its namespace any more"),
            Self::Layout { policy } => {
                write!(f, "policy {policy} gives the node another layout, and evicts for it")
            }
            Self::NoSlice { profile: profile @ (Offered::Slice(_) | Offered::SharedSlice(_)) } => {
                write!(f, "the node has no {profile} for it any more")
            }
            Self::NoSlice { profile: Offered::WholeGpu | Offered::SharedGpu } => {
                f.write_str("the node has no whole GPU for it any more")
            }
            Self::HigherPriority { to } => {
                write!(f, "{to} has a higher priority and needs what was promised")
            }
        }
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, why } = self;
        write!(f, "what was promised on {node} cannot be kept: {why}")
    }
}

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodEnds { pod, gpu, profile: Some(profile) } => {
                write!(f, "pod {pod} ends (or moves): it holds {profile} on {gpu}")
            }
            Self::PodEnds { pod, gpu, profile: None } => {
                write!(f, "pod {pod} ends (or moves): it uses {gpu}, where MIG is off")
            }
            Self::HolderEnds { pod, node, holds } => {
                write!(f, "pod {pod} ends (or moves): it holds {} of node {node}", holds.resource_name())
            }
            Self::EnoughSeats { count, card, replicas, asks } => {
                let seats = match replicas {
                    1 => String::new(),
                    n => format!(" ({n} seats each)"),
                };
                write!(
                    f,
                    "at most {count} more {card}{seats}, which would serve everybody who waits for {} at its priority and above",
                    asks.resource_name()
                )
            }
            Self::HoldEnds { node, hold } => write!(f, "{node} may change again; at present, {hold}"),
            Self::ChangePolicy { policy, field, to } => write!(f, "policy {policy}: set {field} to {to}"),
            Self::MoreGpus { count: 1, model } => write!(f, "one more {model}"),
            Self::MoreGpus { count, model } => write!(f, "{count} more {model}"),
            Self::EnoughGpus { count, model } => {
                write!(
                    f,
                    "at most {count} more {model}, which would serve every request of its priority and above"
                )
            }
            Self::FreeNow { profile } => write!(f, "ask for {profile} instead: one is free now"),
            Self::ForOthers { help } => {
                write!(f, "only for others, who ask for the same and come first: {help}")
            }
            Self::ChangeRequest { advice } => f.write_str(advice),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServedNow { node, gpus } if gpus.is_empty() => {
                write!(f, "served now by {node}, which has enough free")
            }
            Self::ServedNow { node, gpus } => write!(f, "served now by {node}: {}", places(gpus)),
            Self::ServedByPlan { node, gpus } => {
                write!(f, "served once {node} has changed: {}", places(gpus))
            }
            Self::Unserved { why, help } => {
                write!(f, "not served: {why}")?;
                if !help.is_empty() {
                    let help: Vec<_> = help.iter().map(ToString::to_string).collect();
                    write!(f, "{WOULD_HELP}{}", help.join("; or "))?;
                }
                Ok(())
            }
        }
    }
}

impl RequestReport {
    /// The answer in a sentence, with the promise that is not kept, if there is one.
    #[must_use]
    pub fn answer(&self) -> String {
        match &self.broken {
            Some(broken) => format!("{broken}; {}", self.outcome),
            None => self.outcome.to_string(),
        }
    }
}

/// `: for 4 in b, for 3 in a; 2 more were not looked at`.
fn in_parts(fits: &[(String, u32)], unseen: u32) -> String {
    let fits: Vec<String> = fits.iter().map(|(part, n)| format!("for {n} in {part}")).collect();
    let fits = if fits.is_empty() { String::new() } else { format!(": {}", fits.join(", ")) };
    if unseen > 0 { format!("{fits}; {unseen} more were not looked at") } else { fits }
}

/// `2 x 1g.10gb, 3g.40gb`: how many of each, in the order of the profiles.
pub fn counted<K: Ord + fmt::Display>(items: impl IntoIterator<Item = K>) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    if counts.is_empty() {
        return "nothing".to_owned();
    }
    let part = |(item, n): (K, u32)| if n == 1 { item.to_string() } else { format!("{n} x {item}") };
    counts.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

/// What a GPU should have, in words.
#[must_use]
pub fn aim(after: &[(ProfileName, u8)]) -> String {
    if after.is_empty() { "MIG off".to_owned() } else { counted(after.iter().map(|(profile, _)| *profile)) }
}

impl fmt::Display for Slices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed(slices) => f.pad(&counted(slices.iter().map(|s| s.profile))),
            Self::Counted(slices) => f.pad(&counted(slices.iter().map(|s| s.profile))),
            Self::MigOff { .. } => f.pad("MIG off"),
        }
    }
}

impl fmt::Display for GpuChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gpu, model, before, after, creation_order: _ } = self;
        write!(f, "gpu{gpu} ({model}): {before} -> {}", aim(after))
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.pad("idle"),
            Self::InUse { by } => write!(f, "held by {by}"),
            Self::MaybeInUse { by } => write!(f, "maybe held by {}", some(by)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::names::{GpuIndex, PodRef};

    use super::*;

    #[test]
    fn an_answer_says_why_and_what_would_help() {
        let pod = PodRef { namespace: "team-a".to_owned(), name: "lab-0".to_owned() };
        let gpu = GpuId { node: "n1".into(), gpu: GpuIndex(3) };
        let profile = Some("3g.40gb".parse().expect("a profile"));
        let outcome = Outcome::Unserved {
            why: Why::AllUsed,
            help: vec![
                Help::PodEnds { pod, gpu, profile },
                Help::MoreGpus { count: 1, model: "A30".to_owned() },
            ],
        };
        assert_eq!(
            outcome.to_string(),
            "not served: every slice that could serve it is in use, or is planned for requests that come first. \
             What would help: pod team-a/lab-0 ends (or moves): it holds 3g.40gb on n1/gpu3; or one more A30"
        );
    }

    #[test]
    fn a_bound_that_is_not_met_is_told_in_its_own_words() {
        let bound = |field: &str| UnmetBound { field: field.to_owned(), wanted: 4, reached: 2 }.to_string();
        let says = [
            ("slices[1g.10gb].minCount", "is 4, but the plan reaches only 2"),
            ("slices[1g.10gb].maxCount", "is 4, but 2 are there that may not go"),
            ("shares[0].minComputeSlices", "4 compute slices of it are asked for or held, but"),
            ("spec.layout.static.gpus", "is for 4 GPUs, but only 2 can have what it says"),
        ];
        for (field, words) in says {
            assert!(bound(field).contains(words), "{}", bound(field));
        }
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(counted(["b", "a", "b"]), "a, 2 x b");
        assert_eq!(counted(Vec::<String>::new()), "nothing");
    }
}
