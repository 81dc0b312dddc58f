//! What the operator sees of the admission policy that keeps each agent to its own node, by the answers of the API
//! server.

use std::time::Duration;

use controller::agents_policy::{missing, why_not};
use controller::calls::{CallError, Calls};
use controller::client::tamed;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICY: &str = "validatingadmissionpolicies";
const BINDING: &str = "validatingadmissionpolicybindings";

fn object(kind: &str, spec: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "slicewright-agent"},
        "spec": spec,
    }))
}

fn policy() -> ResponseTemplate {
    object("ValidatingAdmissionPolicy", json!({"validations": [{"expression": "false"}]}))
}

fn binding() -> ResponseTemplate {
    object(
        "ValidatingAdmissionPolicyBinding",
        json!({"policyName": "slicewright-agent", "validationActions": ["Deny"]}),
    )
}

fn status(code: u16, reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no",
    }))
}

/// What the operator sees where the API server answers so, when the two are asked for by their name.
async fn sees(policy: ResponseTemplate, binding: ResponseTemplate) -> Result<Option<String>, CallError> {
    let (_server, calls) = serves(policy, binding).await;
    why_not(&calls).await
}

async fn serves(policy: ResponseTemplate, binding: ResponseTemplate) -> (MockServer, Calls) {
    let server = MockServer::start().await;
    for (resource, answer) in [(POLICY, policy), (BINDING, binding)] {
        let at = path(format!("{GROUP}/{resource}/slicewright-agent"));
        Mock::given(method("GET")).and(at).respond_with(answer).mount(&server).await;
    }
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(60));
    (server, calls)
}

#[tokio::test]
async fn agents_are_kept_to_their_nodes_where_both_are_there_and_deny() {
    assert_eq!(sees(policy(), binding()).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_missing_refuses_nothing_or_may_not_be_seen_is_said() {
    let not_found = || status(404, "NotFound");
    let forbidden = || status(403, "Forbidden");
    let for_another = object(
        "ValidatingAdmissionPolicyBinding",
        json!({"policyName": "of-somebody-else", "validationActions": ["Deny"]}),
    );
    let audits = object(
        "ValidatingAdmissionPolicyBinding",
        json!({"policyName": "slicewright-agent", "validationActions": ["Audit"]}),
    );
    let empty = object("ValidatingAdmissionPolicy", json!({"validations": []}));
    for (policy, binding, said) in [
        (not_found(), binding(), "the ValidatingAdmissionPolicy slicewright-agent does not exist"),
        (policy(), not_found(), "the ValidatingAdmissionPolicyBinding slicewright-agent does not exist"),
        (
            forbidden(),
            forbidden(),
            "the operator's account may not get the ValidatingAdmissionPolicy slicewright-agent",
        ),
        (
            policy(),
            forbidden(),
            "the operator's account may not get the ValidatingAdmissionPolicyBinding slicewright-agent",
        ),
        (
            policy(),
            for_another,
            "the ValidatingAdmissionPolicyBinding slicewright-agent is for another policy",
        ),
        (
            policy(),
            audits,
            "the ValidatingAdmissionPolicyBinding slicewright-agent does not deny anything (`validationActions`)",
        ),
        (empty, binding(), "the ValidatingAdmissionPolicy slicewright-agent validates nothing"),
    ] {
        assert_eq!(sees(policy, binding).await.unwrap().as_deref(), Some(said));
    }
}

#[tokio::test]
async fn an_api_server_that_cannot_answer_has_said_nothing() {
    assert!(sees(policy(), status(500, "InternalError")).await.is_err());
}

/// A person who may not read them does not see what the operator sees.
#[tokio::test]
async fn who_may_not_ask_has_no_answer_and_who_may_has_the_operators() {
    for (policy, binding) in [(status(403, "Forbidden"), binding()), (policy(), status(403, "Forbidden"))] {
        let (_server, calls) = serves(policy, binding).await;
        assert!(missing(&calls).await.is_err_and(|error| error.is_forbidden()));
    }
    let (_server, calls) = serves(policy(), status(404, "NotFound")).await;
    let said = "the ValidatingAdmissionPolicyBinding slicewright-agent does not exist";
    assert_eq!(missing(&calls).await.unwrap().as_deref(), Some(said));
    let (_server, calls) = serves(policy(), binding()).await;
    assert_eq!(missing(&calls).await.unwrap(), None);
}
