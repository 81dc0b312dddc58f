//! Nothing keeps the agent of one node from reporting for another one: that is said, with what to apply, as long as any
//! agent reports.

use std::sync::Arc;

use api::node_agent::{AgentMode, AgentStatus};

use crate::cluster::{Cluster, Until};

fn reports(cluster: &mut Cluster, node: &str) {
    let known = cluster.objects.gpu_nodes.get_mut(node).expect("the operator has recorded the node");
    let status = Arc::make_mut(known).status.get_or_insert_default();
    let at = "2026-11-20T08:00:00Z";
    let said = serde_json::json!({
        "podUid": "u", "bootId": "b", "version": "9.8.7", "mode": AgentMode::Report, "report": 1, "at": at,
    });
    status.agent = Some(serde_json::from_value::<AgentStatus>(said).expect("the status of an agent"));
}

fn degraded(cluster: &Cluster) -> Option<(String, String)> {
    let (status, reason, message) = Cluster::condition(&cluster.round(), "Degraded")?;
    (status == "True").then_some((reason, message))
}

#[test]
fn that_reports_of_agents_are_not_acted_upon_is_said_with_what_to_apply_and_is_over_when_they_are() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2", "n3"] {
        cluster.hgx(node);
    }
    cluster.pod("has", "7g.80gb", Some("n2"));
    let _ = cluster.step(Until::End);
    let why = "the ValidatingAdmissionPolicyBinding slicewright-agent does not exist";
    cluster.objects.unguarded_agents = Some(why.to_owned());
    assert_eq!(degraded(&cluster), None, "there is no agent");

    reports(&mut cluster, "n2");
    let (reason, message) = degraded(&cluster).expect("it is said");
    assert_eq!(reason, "AgentUnguarded");
    assert_eq!(
        message,
        "reports of node agents are not acted upon: the ValidatingAdmissionPolicyBinding slicewright-agent does not \
         exist. Without the ValidatingAdmissionPolicy and the ValidatingAdmissionPolicyBinding slicewright-agent, the agent \
         of one node could report for every other one. Nodes keep the slices that they have, and nobody knows which of them \
         are idle. Install the chart with `agent.admissionPolicy=true`, or apply what `helm template slicewright \
         charts/slicewright --set agent.enabled=true --show-only templates/agent.yaml` renders. If both are there, let the \
         operator's account `get` them: `docs/reference/rbac.md`."
    );
    cluster.objects.unguarded_agents = None;
    assert_eq!(degraded(&cluster), None);
}
