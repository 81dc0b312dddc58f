//! Bad values are refused before anything is installed, and the error names the value and what is allowed.

use packaging::Render;
use serde_json::Value;

use super::Bench;

/// The name without a registry would be looked for wherever the node looks first.
#[test]
fn an_image_that_nobody_has_published_is_refused_in_one_sentence_that_says_how_to_get_one() {
    let bench = Bench::new();
    // As the values are until the first release.
    let nowhere = Render { set: vec![r#"image.registry="""#.to_owned()], ..Render::default() };
    let said = match bench.helm.text(&packaging::chart(), &nowhere) {
        Err(packaging::Error::Refused(said)) => said,
        other => panic!("not refused: {other:?}"),
    };
    for part in [
        "image.registry and image.digest are empty",
        "cargo xtask image operator",
        "kind load image-archive target/images/operator.tar",
        "CRC",
        "registry of your own",
        "--set image.registry=localhost",
        "docs/guides/images.md",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    let digest = format!(r#"image.digest="sha256:{}""#, "1f".repeat(32));
    let render = Render { set: vec![digest], ..Render::default() };
    assert!(bench.helm.text(&packaging::chart(), &render).is_ok(), "a digest names one image wherever it is");
}

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
    for registry in ["https://quay.io/me", "quay.io/me/slicewright:1.2.3", "quay.io:me", "quay.io/my space"] {
        check(&format!(r#"image.registry="{registry}""#), &["image", "registry", "pattern"]);
        check(&format!(r#"agent.image.registry="{registry}""#), &["agent", "image", "registry", "pattern"]);
    }
    check(r#"image.digest="sha256:12""#, &["image", "digest", "pattern"]);
    check(r#"image.pullPolicy="Sometimes""#, &["pullPolicy", "'Always', 'IfNotPresent', 'Never'"]);
    check(r#"gpuOperator.namespace="""#, &["gpuOperator", "namespace"]);
    check(r#"gpuOperator.administratorsMap="a/b/c""#, &["administratorsMap", "pattern"]);
    check(
        r#"openshift.adaptSecurityContext="yes""#,
        &["adaptSecurityContext", "'auto', 'force', 'disabled'"],
    );
    check(r#"networkPolicy.enabled="yes""#, &["networkPolicy", "enabled", "'auto'"]);
    check(r#"imagePullSecrets=[{"nme":"a"}]"#, &["imagePullSecrets"]);
    check(r#"extraArgs=["poll"]"#, &["extraArgs", "pattern"]);
    check(r#"extraEnv=[{"value":"x"}]"#, &["extraEnv", "name"]);
    check(r#"networkPolicy.apiServerPorts=[]"#, &["apiServerPorts", "minItems"]);
    check(r#"metrics.serviceMonitor.interval="often""#, &["interval", "pattern"]);
    check(r#"metrics.apiGroup="monitoring""#, &["apiGroup", "'monitoring.coreos.com', 'monitoring.rhobs'"]);
    check(r#"metrics.tls.minVersion="TLS1.3""#, &["minVersion", "'VersionTLS12', 'VersionTLS13'"]);
    check(r#"metrics.tls.cipherSuites=["a b"]"#, &["cipherSuites", "pattern"]);
    check(r#"metrics.prometheusRule.runbooks="ftp://x""#, &["runbooks", "pattern"]);
    check(r#"serviceAccount={"create":false}"#, &["serviceAccount.name is empty", "name the account"]);
}

/// Every object of the schema whose fields are known refuses others, so that a misspelt key is never silently without
/// effect. What has no fields of its own (labels, annotations, resources) is as Kubernetes takes it.
#[test]
fn the_schema_of_values_is_closed_wherever_it_knows_the_fields_and_knows_every_value() {
    fn open(at: &str, schema: &Value, found: &mut Vec<String>) -> usize {
        let mut closed = 0;
        if schema["properties"].is_object() {
            match &schema["additionalProperties"] {
                Value::Bool(false) => closed += 1,
                other => found.push(format!("{at}: {other}")),
            }
        }
        match schema {
            Value::Object(map) => {
                closed
                    + map.iter().map(|(key, value)| open(&format!("{at}/{key}"), value, found)).sum::<usize>()
            }
            Value::Array(all) => closed + all.iter().map(|value| open(at, value, found)).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => closed,
        }
    }
    let read = |file: &str| std::fs::read_to_string(packaging::chart().join(file)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut found = Vec::new();
    let closed = open("", &schema, &mut found);
    assert_eq!(found, [""; 0], "an unknown key would be taken there and do nothing");
    assert!(closed > 8, "{closed}");
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    for key in values.as_object().unwrap().keys() {
        assert!(known.contains(&key), "the schema does not know {key}");
    }
}
