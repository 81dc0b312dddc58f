//! The proof that no pod can lose a slice, the permit, and the agent's claim.

use std::collections::BTreeMap;

use agent::{Container, PodLife, PodList, PodUid, ReportNumber, Unproven, prove};
use jiff::SignedDuration;

use crate::agent_seen::ListAsked;
use crate::observed::{Listing, Pod, PodPhase};
use crate::operand::Operand;
use crate::outlook::{StartBlocker, Trouble, WaitsFor};
use crate::progress::Phase;

use super::super::{Flow, Run};

impl Run<'_> {
    pub(super) fn agent_proving(&mut self) -> Flow {
        if self.next.target.is_none() {
            return self.enter(Phase::Idle);
        }
        if self.stage().is_some() {
            return self.enter(Phase::Changing);
        }
        if self.agent_only_reports() {
            return self.enter(Phase::Retreating);
        }
        if let Some(flow) = self.agent_restoring() {
            return flow;
        }
        if !self.restores() && self.agent_should_return() {
            return self.enter(Phase::Retreating);
        }
        if !self.cordoned_by_us() || !self.seen.operands.pausable.is_empty() {
            return self.retreat(Trouble::HoldLifted);
        }
        self.keep_mark();
        let limit = self.rules.settings.hold_limit;
        match self.proof() {
            Ok(()) if self.late(limit) => self.retreat(Trouble::NotClaimed),
            Ok(()) => self.wait(WaitsFor::Claim, limit),
            Err(missing) if self.late(limit) => self.retreat(Trouble::NotProved { missing }),
            Err(missing) => self.wait(WaitsFor::AgentProof { missing }, limit),
        }
    }

    /// Makes the permit for the agent's last report, if that can be proved. The
    /// list of pods has to be begun after that report was known: the order
    /// counts, and no clock.
    pub(super) fn proof(&mut self) -> Result<(), String> {
        let Some(agent) = self.seen.agent.clone() else { return Err("the agent says nothing".to_owned()) };
        let Some(change) = self.slices().cloned() else { return Ok(()) };
        // What is ordered stays as it is from the claim on, and what is permitted is that.
        let ordered = self.ordered().filter(|_| self.next.phase.past_return());
        let wish = ordered.unwrap_or_else(|| change.wish());
        if !wish.destroys() {
            return Ok(());
        }
        // Whoever wrote the account may have called held slices idle.
        if agent.unguarded {
            return Err(StartBlocker::AgentUnguarded.to_string());
        }
        let report = agent.account.report;
        let begun_after = if self.listed_after(report) { report } else { ReportNumber::default() };
        let list = PodList { begun_after, pods: self.pods_for_proof() };
        match prove(&wish, &agent.account, &list) {
            Ok(permit) => {
                self.permit = Some(permit);
                Ok(())
            }
            Err(Unproven::ListTooOld) => {
                self.ask_for_list(report);
                Err("the pods of the node are being listed".to_owned())
            }
            Err(missing) => {
                // Pods come, go and fail without a new report.
                if missing != Unproven::GateNotClosed {
                    self.ask_for_list(report);
                }
                Err(missing.to_string())
            }
        }
    }

    /// Whether there is a list of the pods that was begun after the agent's last report.
    pub(super) fn is_listed_for_report(&self) -> bool {
        self.seen.agent.as_ref().is_some_and(|agent| self.listed_after(agent.account.report))
    }

    /// Whether the last list was begun no longer ago than this.
    pub(super) fn listed_within(&self, time: SignedDuration) -> bool {
        matches!(self.seen.listing, Listing::Consistent { at } if at <= self.now && self.now < at + time)
    }

    fn listed_after(&self, report: ReportNumber) -> bool {
        let Some(asked) = self.slices().and_then(|change| change.listed.as_ref()) else { return false };
        let Listing::Consistent { at } = self.seen.listing else { return false };
        asked.report == report.0 && at >= asked.at && at <= self.now && asked.older != Some(at)
    }

    fn ask_for_list(&mut self, report: ReportNumber) {
        self.list_pods();
        let older = match self.seen.listing {
            Listing::Consistent { at } => Some(at),
            Listing::Cached => None,
        };
        let asked = ListAsked { report: report.0, at: self.now, older };
        if let Some(change) = self.target().and_then(|target| target.slices.as_mut())
            && change.listed.as_ref().is_none_or(|before| before.report != report.0)
        {
            change.listed = Some(asked);
        }
    }

    /// The pods as the proof takes them.
    fn pods_for_proof(&self) -> Vec<agent::Pod> {
        self.seen.pods.iter().map(for_proof).collect()
    }
}

/// A pod as the proof takes it.
pub(super) fn for_proof(pod: &Pod) -> agent::Pod {
    let container =
        |(name, asks): &(String, BTreeMap<String, u64>)| Container { name: name.clone(), asks: asks.clone() };
    let unknown = |resource: &String, n| Container {
        name: String::new(),
        asks: BTreeMap::from([(resource.clone(), n)]),
    };
    agent::Pod {
        uid: PodUid(pod.kubelet_uid.clone()),
        name: pod.pod.to_string(),
        life: match pod.phase {
            PodPhase::Ended => PodLife::Ended,
            PodPhase::Pending | PodPhase::Started => PodLife::Live,
        },
        is_plugin: pod.operand == Some(Operand::DevicePlugin),
        containers: match pod.containers.is_empty() {
            // It is not known which container asks, so that no book can account for it.
            true => pod.resources().map(|name| unknown(name, pod.requests[name])).collect(),
            false => pod.containers.iter().map(container).collect(),
        },
    }
}
