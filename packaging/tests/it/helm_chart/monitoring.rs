//! The chart's objects for monitoring: they are optional, have the API group of the installed Prometheus
//! operator, and never cause a surprise where it is missing.

use packaging::Render;
use serde_json::{Value, json};

use super::{Bench, MONITORING, the};

impl Bench {
    pub(crate) fn watched(&self, set: &[&str], apis: &[&'static str]) -> Vec<Value> {
        let set = super::with_registry(set);
        let render = Render { set, apis: apis.to_vec(), ..Render::default() };
        self.helm.objects(&packaging::chart(), &render).unwrap()
    }
}

#[test]
fn monitoring_kinds_that_are_not_there_are_skipped_or_named() {
    let bench = Bench::new();
    for (value, kind) in [("serviceMonitor", "ServiceMonitor"), ("prometheusRule", "PrometheusRule")] {
        let said = bench.refusal(&[&format!(r#"metrics.{value}={{"enabled":true}}"#)]);
        assert!(said.contains(&format!("has no kind {kind}")), "{said}");
        assert!(said.contains(&format!("metrics.{value}.ifAbsent=skip")), "{said}");
        let skip = format!(r#"metrics.{value}={{"enabled":true,"ifAbsent":"skip"}}"#);
        assert_eq!(bench.with(&[&skip]), bench.with(&[]));
    }
}

#[test]
fn the_api_group_is_that_of_their_prometheus() {
    let bench = Bench::new();
    let set = [
        r#"metrics={"apiGroup":"monitoring.rhobs","serviceMonitor":{"enabled":true},"prometheusRule":{"enabled":true}}"#,
    ];
    let apis = ["monitoring.rhobs/v1/ServiceMonitor", "monitoring.rhobs/v1/PrometheusRule"];
    let objects = bench.watched(&set, &apis);
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert_eq!(the(&objects, kind, "slicewright")["apiVersion"], "monitoring.rhobs/v1");
    }
}

#[test]
fn the_alerts_are_those_of_the_file_with_the_namespace_of_the_release() {
    let bench = Bench::new();
    let objects = bench.watched(&[r#"metrics.prometheusRule={"enabled":true}"#], &MONITORING);
    let rule = the(&objects, "PrometheusRule", "slicewright");
    let text = std::fs::read_to_string(packaging::chart().join("files/rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(rule["spec"], file, "the release's namespace is that of the file here");

    let mut command = bench.helm.command();
    command.args(["template", "gpus", "--namespace", "elsewhere"]).arg(packaging::chart());
    command.args(["--kube-version", packaging::KUBERNETES, "--set-json", packaging::REGISTRY]);
    command.args(["--set", "metrics.prometheusRule.enabled=true"]);
    command.args(["--set", "metrics.prometheusRule.runbooks=https://wiki.example.com/"]);
    for api in MONITORING {
        command.args(["--api-versions", api]);
    }
    let text = bench.helm.run(&mut command).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let rules = &the(&documents, "PrometheusRule", "gpus-slicewright")["spec"]["groups"][0]["rules"];
    let rules = rules.as_array().unwrap();
    let no_leader = rules.iter().find(|rule| rule["alert"] == "SlicewrightNoLeader").unwrap();
    assert_eq!(no_leader["labels"], json!({"severity": "warning", "namespace": "elsewhere"}));
    let runbook = &no_leader["annotations"]["runbook_url"];
    assert_eq!(*runbook, "https://wiki.example.com/SlicewrightNoLeader.md");
}

#[test]
fn metrics_over_tls_come_with_the_flags_the_rights_and_a_scrape_that_shows_a_token() {
    let bench = Bench::new();
    let secure = r#"metrics={"tls":{"secretName":"metrics-tls"},"serviceMonitor":{"enabled":true}}"#;
    let objects = bench.watched(&[secure], &MONITORING);
    let container = &the(&objects, "Deployment", "slicewright")["spec"]["template"]["spec"]["containers"][0];
    let flags: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    for flag in [format!("--metrics-certificate={mount}/tls.crt"), format!("--metrics-key={mount}/tls.key")] {
        assert!(flags.contains(&flag.as_str()), "{flag} is not in {flags:?}");
    }
    let endpoint = &the(&objects, "ServiceMonitor", "slicewright")["spec"]["endpoints"][0];
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(endpoint["tlsConfig"]["serverName"], "slicewright-metrics.slicewright-system.svc");
    assert_eq!(endpoint["tlsConfig"]["ca"]["secret"], json!({"name": "metrics-tls", "key": "ca.crt"}));
    let may = |objects: &[Value], resource: &str| {
        let rules = the(objects, "ClusterRole", "slicewright")["rules"].as_array().unwrap().clone();
        rules.iter().any(|rule| rule["resources"] == json!([resource]) && rule["verbs"] == json!(["create"]))
    };
    let plain = bench.with(&[]);
    for resource in ["tokenreviews", "subjectaccessreviews"] {
        assert!(may(&objects, resource) && !may(&plain, resource), "{resource}");
    }
    assert!(plain.iter().all(|object| object["metadata"]["name"] != "slicewright-metrics-reader"));
    let reader = &the(&objects, "ClusterRole", "slicewright-metrics-reader")["rules"];
    assert_eq!(*reader, json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));

    let said = bench.refusal(&[r#"metrics.tls={"serviceCa":true}"#]);
    assert!(said.contains("name the Secret that the service CA shall make"), "{said}");
    let served = bench.with(&[r#"metrics.tls={"secretName":"metrics-tls","serviceCa":true}"#]);
    let annotations = &the(&served, "Service", "slicewright-metrics")["metadata"]["annotations"];
    assert_eq!(annotations["service.beta.openshift.io/serving-cert-secret-name"], "metrics-tls");
}
