//! Bad values are refused before anything is installed, and the answer names
//! the value and what is allowed.

use crate::Bench;

#[track_caller]
fn check(bench: &Bench, set: &str, says: &[&str]) {
    let said = bench.refusal(&[set]);
    for part in says {
        assert!(said.contains(part), "{set}: {part:?} is not in:\n{said}");
    }
}

#[test]
fn bad_values_are_refused_with_the_key_and_what_is_allowed() {
    let bench = Bench::new();
    let check = |set: &str, says: &[&str]| check(&bench, set, says);
    check(r#"repicas=2"#, &["repicas", "not allowed"]);
    check(r#"gpuOperator={"namspace":"x"}"#, &["gpuOperator", "namspace", "not allowed"]);
    check(r#"replicas="two""#, &["replicas", "want integer"]);
    check(r#"replicas=6"#, &["replicas", "maximum", "5"]);
    check(r#"rollout.mapSettle="two minutes""#, &["rollout", "mapSettle", "pattern"]);
    check(r#"rollout.parallelNodes=0"#, &["parallelNodes", "minimum", "1"]);
    check(r#"logging.format="logfmt""#, &["logging", "format", "'json', 'text'"]);
    check(r#"image.digest="sha256:12""#, &["image", "digest", "pattern"]);
    check(r#"image.pullPolicy="Sometimes""#, &["pullPolicy", "'Always', 'IfNotPresent', 'Never'"]);
    check(r#"gpuOperator.namespace="""#, &["gpuOperator", "namespace"]);
    check(r#"gpuOperator.administratorsMap="a/b/c""#, &["administratorsMap", "pattern"]);
    check(
        r#"openshift.adaptSecurityContext="yes""#,
        &["adaptSecurityContext", "'auto', 'force', 'disabled'"],
    );
    check(r#"networkPolicy.apiServerPorts=[]"#, &["apiServerPorts", "minItems"]);
    check(r#"metrics.serviceMonitor.interval="often""#, &["interval", "pattern"]);
    check(r#"metrics.apiGroup="monitoring""#, &["apiGroup", "'monitoring.coreos.com', 'monitoring.rhobs'"]);
    check(r#"metrics.tls.minVersion="TLS1.3""#, &["minVersion", "'VersionTLS12', 'VersionTLS13'"]);
    check(r#"metrics.tls.cipherSuites=["a b"]"#, &["cipherSuites", "pattern"]);
    check(r#"metrics.prometheusRule.runbooks="ftp://x""#, &["runbooks", "pattern"]);
    check(r#"serviceAccount={"create":false}"#, &["serviceAccount.name is empty", "name the account"]);
}
