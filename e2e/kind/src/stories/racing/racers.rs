//! Pods that ask nobody but kubelet: bound by hand to the node, created and deleted at any moment. They open nothing, so
//! that the driver lets their slices go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use serde_json::{Value, json};

use super::witness::Witness;
use crate::call::call_with;
use crate::stories::stage::{Stage, TEAM};
use crate::waiting::pause;

/// How many of them there are at a time, at most.
const AT_ONCE: usize = 5;

/// Numbers that a seed decides (splitmix64).
#[derive(Debug)]
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end.max(1)
    }
}

/// What became of them.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Kubelet took them, and gave them their slice.
    pub(super) admitted: u64,
    /// They were deleted before kubelet had decided.
    pub(super) withdrawn: u64,
    /// Kubelet took them and gave them nothing.
    pub(super) without: u64,
    /// Kubelet refused them: by the reason, how many.
    pub(super) refused: BTreeMap<String, u64>,
    /// The uids of these.
    pub(super) refused_pods: BTreeSet<String>,
    /// Those that ended although nobody had told them to.
    pub(super) harmed: Vec<String>,
}

/// How far the race is, for those who race and for the one who recuts.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// So many may have been created by now.
    pub(super) may: AtomicU64,
    pub(super) created: AtomicU64,
    pub(super) is_over: AtomicBool,
}

/// One of them.
struct Racer {
    /// So many rounds it stays.
    stays: u64,
    decided: bool,
}

/// Why kubelet did not take a pod, if that is how it ended.
pub(super) fn refusal(status: &Value) -> Option<String> {
    let reason = status["reason"].as_str().filter(|_| status["phase"] == "Failed")?;
    let message = status["message"].as_str().unwrap_or_default();
    match reason {
        "UnexpectedAdmissionError" if message.contains("healthy devices") => {
            Some("no healthy device (the gate)".to_owned())
        }
        "UnexpectedAdmissionError" => Some("no device left".to_owned()),
        _ if reason.starts_with("OutOf") => Some("not allocatable".to_owned()),
        _ => None,
    }
}

/// Races until it is over; what became of those who did.
pub(super) fn race(
    stage: &Stage<'_>,
    node: &str,
    witness: &Witness,
    pace: &Pace,
    mut numbers: Numbers,
) -> anyhow::Result<Ends> {
    let mut ends = Ends::default();
    let mut there: BTreeMap<String, Racer> = BTreeMap::new();
    loop {
        let is_over = pace.is_over.load(Ordering::Relaxed);
        let created = pace.created.load(Ordering::Relaxed);
        let room = (AT_ONCE - there.len().min(AT_ONCE)) as u64;
        let left = pace.may.load(Ordering::Relaxed).saturating_sub(created);
        let new = (1 + numbers.below(3)).min(room).min(if is_over { 0 } else { left });
        let pods: Vec<Value> = (0..new)
            .map(|n| {
                let name = format!("racer-{}", created + n + 1);
                there.insert(name.clone(), Racer { stays: 1 + numbers.below(5), decided: false });
                let resource = if numbers.below(3) == 0 { "mig-3g.40gb" } else { "mig-1g.10gb" };
                racer(stage, node, &name, resource)
            })
            .collect();
        if !pods.is_empty() {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string();
            call_with(stage.cluster.kubectl()?.args(["create", "--filename=-"]), list.as_bytes())?;
            pace.created.fetch_add(new, Ordering::Relaxed);
        }
        if is_over && there.is_empty() {
            return Ok(ends);
        }
        let said =
            stage.kubectl(&["get", "pods", "--namespace", TEAM, "--selector=race", "--output=json"])?;
        let listed: Value = serde_json::from_str(&said).context("kubectl does not answer in JSON")?;
        let mut goes = Vec::new();
        for pod in listed["items"].as_array().into_iter().flatten() {
            let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
            let (Some(name), Some(uid)) = (name.as_str(), uid.as_str()) else { continue };
            let Some(racer) = there.get_mut(name) else { continue };
            let status = &pod["status"];
            if !racer.decided {
                racer.decided = true;
                if status["phase"] == "Running" {
                    ends.admitted += 1;
                } else if let Some(reason) = refusal(status) {
                    *ends.refused.entry(reason).or_default() += 1;
                    ends.refused_pods.insert(uid.to_owned());
                } else {
                    racer.decided = false;
                }
            }
            let failed = matches!(status["phase"].as_str(), Some("Failed" | "Succeeded"));
            if failed && racer.decided && ends.refused_pods.contains(uid) {
                // Nothing was taken from it.
            } else if failed && !witness.seen().knows(uid) {
                // Kubelet lets a pod in, without a device, that asks for a resource of which it has never heard.
                ends.without += 1;
                if std::mem::replace(&mut racer.decided, true) {
                    ends.admitted -= 1;
                }
            } else if failed {
                // How it ended, and what it said: nobody asked it to.
                let ended = &status["containerStatuses"][0]["state"];
                let said = stage.logs(name).unwrap_or_else(|error| format!("{error:#}"));
                let reason = &status["reason"];
                ends.harmed.push(format!("{name} ended: {reason} {ended}: {}", said.trim()));
            }
            racer.stays = racer.stays.saturating_sub(1);
            // Who is not decided about is taken away only now and then: most of them are to get a slice.
            let is_due = (racer.stays == 0 || is_over) && (racer.decided || numbers.below(8) == 0);
            if failed || is_due {
                goes.push((name.to_owned(), uid.to_owned(), racer.decided));
            }
        }
        if !goes.is_empty() {
            witness.are_told_to_end(goes.iter().map(|(_, uid, _)| uid.clone()));
            let names = goes.iter().map(|(name, ..)| name.as_str());
            let delete = ["delete", "pods", "--namespace", TEAM, "--wait=false"];
            stage.kubectl(&delete.into_iter().chain(names).collect::<Vec<_>>())?;
            for (name, uid, decided) in &goes {
                there.remove(name);
                if !decided {
                    let has = witness.seen().knows(uid);
                    *(if has { &mut ends.admitted } else { &mut ends.withdrawn }) += 1;
                }
            }
        }
        witness.is_awake()?;
        pause(u32::try_from(numbers.below(4)).unwrap_or_default());
    }
}

/// A pod that is bound to the node already when it is created.
fn racer(stage: &Stage<'_>, node: &str, name: &str, resource: &str) -> Value {
    let mut pod = stage.pod(node, name, resource, 1, "never");
    pod["metadata"]["labels"]["race"] = json!("true");
    pod["spec"]["nodeSelector"].take();
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_lost_its_slice_was_not_refused() {
        let ended =
            |reason: &str, message: &str| json!({"phase": "Failed", "reason": reason, "message": message});
        let gate = ended("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present");
        assert_eq!(refusal(&gate).as_deref(), Some("no healthy device (the gate)"));
        let full = ended("OutOfnvidia.com/mig-1g.10gb", "Node didn't have enough resource");
        assert_eq!(refusal(&full).as_deref(), Some("not allocatable"));
        assert_eq!(refusal(&json!({"phase": "Failed"})), None);
        assert_eq!(refusal(&ended("Evicted", "")), None);
        assert_eq!(refusal(&json!({"phase": "Running", "reason": "OutOfcpu"})), None);
    }
}
