//! The promises of the chart: exactly the permissions of the code, flags that the operator has, pods that a
//! restricted namespace admits, and policies that survive.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Bench, the};

fn read(file: &str) -> String {
    std::fs::read_to_string(packaging::root().join(file)).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Rules as a set: neither their order nor that of their words matters.
fn rules(role: &Value) -> BTreeSet<String> {
    let sorted = |value: &Value| -> Vec<String> {
        let mut all: Vec<String> =
            value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let fields =
                ["apiGroups", "resources", "resourceNames", "verbs"].map(|field| sorted(&rule[field]));
            json!(fields).to_string()
        })
        .collect()
}

#[test]
fn the_chart_grants_what_the_code_asks_for_and_nothing_else() {
    let objects = Bench::new().with(&[]);
    let granted = documents(&read("deploy/rbac.yaml"));
    for (kind, ours, theirs) in [
        ("ClusterRole", "slicewright", "slicewright-operator"),
        ("Role", "slicewright", "slicewright-operator"),
        ("Role", "slicewright-maps", "slicewright-operator-maps"),
    ] {
        assert_eq!(rules(the(&objects, kind, ours)), rules(the(&granted, kind, theirs)), "{kind} {ours}");
    }
    // Beside those: what people may be given, and what the hook may do before the chart goes.
    let others: BTreeSet<_> = objects
        .iter()
        .filter(|o| ["ClusterRole", "Role"].contains(&o["kind"].as_str().unwrap()))
        .map(|o| format!("{} {}", o["kind"].as_str().unwrap(), o["metadata"]["name"].as_str().unwrap()))
        .collect();
    let expected = [
        "ClusterRole slicewright",
        "ClusterRole slicewright-policy-editor",
        "ClusterRole slicewright-release",
        "ClusterRole slicewright-view",
        "Role slicewright",
        "Role slicewright-maps",
        "Role slicewright-release",
    ];
    assert_eq!(others, expected.map(str::to_owned).into());
}

#[test]
fn cluster_policy_may_be_written_only_where_the_value_says_so() {
    let bench = Bench::new();
    let may = |objects: &[Value]| {
        rules(the(objects, "ClusterRole", "slicewright"))
            .iter()
            .any(|rule| rule.contains("clusterpolicies") && rule.contains("\"patch\""))
    };
    assert!(!may(&bench.with(&[])));
    // Either setting writes it, and none other.
    for setting in ["patchClusterPolicy", "patchDevicePlugin"] {
        let objects = bench.with(&[&format!("gpuOperator.{setting}=true")]);
        assert!(may(&objects), "{setting}");
        let flag = format!(
            "--patch-{}",
            if setting == "patchDevicePlugin" { "device-plugin" } else { "cluster-policy" }
        );
        assert_eq!(arguments(&objects), [flag]);
    }
}

#[test]
fn a_map_in_another_namespace_comes_with_the_right_to_read_it_and_only_it() {
    let bench = Bench::new();
    let objects = bench.with(&[r#"gpuOperator.administratorsMap="platform/mig-layouts""#]);
    let role = the(&objects, "Role", "slicewright-administrators-map");
    assert_eq!(role["metadata"]["namespace"], "platform");
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mig-layouts"], "verbs": ["list", "watch"]}])
    );
    let near = bench.with(&[r#"gpuOperator.administratorsMap="nvidia-gpu-operator/mig-layouts""#]);
    assert!(near.iter().all(|o| o["metadata"]["name"] != "slicewright-administrators-map"));
}

#[test]
fn every_flag_is_one_that_the_operator_knows() {
    let reference = read("docs/reference/operator.md");
    let objects = Bench::new().with(&EVERY_SETTING);
    let flags = arguments(&objects);
    assert_eq!(flags.len(), 22, "{flags:?}");
    for flag in flags {
        let name = flag.split('=').next().unwrap();
        let known = reference.lines().any(|line| line.trim().split([' ', '\n']).next() == Some(name));
        assert!(known, "{flag} is not in docs/reference/operator.md");
    }
    let hook = &the(&objects, "Job", "slicewright-release")["spec"]["template"]["spec"]["containers"][0];
    let cli = read("docs/reference/cli.md");
    for flag in hook["args"].as_array().unwrap().iter().skip(1) {
        let name = flag.as_str().unwrap().split('=').next().unwrap();
        assert!(
            cli.lines().any(|line| line.trim().starts_with(name)),
            "{name} is not in docs/reference/cli.md"
        );
    }
}

/// Every setting of the operator that is a value, and none as it is by default.
const EVERY_SETTING: [&str; 8] = [
    r#"agent.namespace="gpu-agents""#,
    r#"hardwareProfiles={"mode":"publish","namespace":"opendatahub","queues":["a","b"],"hold":"5m"}"#,
    "tellNames=\"all\"",
    r#"gpuOperator={"namespace":"gpu-operator","patchClusterPolicy":true,"patchDevicePlugin":true,"administratorsMap":"a/b"}"#,
    r#"kueue="report""#,
    r#"rollout={"mapSettle":"3m","cordonSettle":"6s","batchDelay":"1s","stableFor":"30s","blockedAfter":"3m","parallelNodes":9}"#,
    r#"logging={"format":"text","filter":"debug"}"#,
    r#"metrics.tls={"secretName":"tls","minVersion":"VersionTLS13","cipherSuites":["TLS_AES_128_GCM_SHA256"]}"#,
];

/// The operator's flags.
fn arguments(objects: &[Value]) -> Vec<String> {
    let container = &the(objects, "Deployment", "slicewright")["spec"]["template"]["spec"]["containers"][0];
    container["args"].as_array().into_iter().flatten().map(|a| a.as_str().unwrap().to_owned()).collect()
}

/// A flag wins over the environment, so one that says what is the default anyway takes the setting away from
/// `spec.config.env` of OLM's Subscription, and from `extraEnv`.
#[test]
fn a_setting_that_is_left_at_its_default_is_no_flag() {
    let bench = Bench::new();
    assert_eq!(arguments(&bench.with(&[])), [""; 0]);
    // What the operator takes by itself, by its own reference.
    let reference = read("docs/reference/operator.md");
    let default_of = |flag: &str| -> Option<String> {
        let mut lines =
            reference.lines().skip_while(|line| !line.trim_start().starts_with(&format!("{flag} <")));
        lines.next()?;
        let own = lines.take_while(|line| !line.trim_start().starts_with("--"));
        own.filter_map(|line| line.trim().strip_prefix("[default: ")?.strip_suffix(']'))
            .map(str::to_owned)
            .next()
    };
    let values: Value =
        documents(&std::fs::read_to_string(packaging::chart().join("values.yaml")).unwrap())[0].clone();
    for (flag, value) in [
        ("--gpu-operator-namespace", "/gpuOperator/namespace"),
        ("--agent-namespace", "/agent/namespace"),
        ("--administrators-map", "/gpuOperator/administratorsMap"),
        ("--map-settle", "/rollout/mapSettle"),
        ("--cordon-settle", "/rollout/cordonSettle"),
        ("--batch-delay", "/rollout/batchDelay"),
        ("--stable-for", "/rollout/stableFor"),
        ("--blocked-after", "/rollout/blockedAfter"),
        ("--parallel-nodes", "/rollout/parallelNodes"),
        ("--hardware-profiles", "/hardwareProfiles/mode"),
        ("--hardware-profile-hold", "/hardwareProfiles/hold"),
        ("--hardware-profile-queues", "/hardwareProfiles/queues"),
        ("--kueue", "/kueue"),
        ("--tell-names", "/tellNames"),
        ("--metrics-tls-min-version", "/metrics/tls/minVersion"),
        ("--log-format", "/logging/format"),
        ("--log", "/logging/filter"),
    ] {
        let chart = values.pointer(value).unwrap_or_else(|| panic!("there is no value {value}"));
        let chart = match chart {
            Value::String(text) => text.clone(),
            Value::Array(all) if all.is_empty() => String::new(),
            other => other.to_string(),
        };
        assert_eq!(chart, default_of(flag).unwrap_or_default(), "{flag} and {value}");
        // And the one that is left out is left out for being that one.
        let differs = arguments(&bench.with(&EVERY_SETTING));
        assert!(differs.iter().any(|found| found.starts_with(&format!("{flag}="))), "{flag} of {differs:?}");
    }
}

/// Where OpenShift AI has its applications is the only place for hardware profiles.
#[test]
fn hardware_profiles_are_written_in_one_namespace_and_only_where_the_value_says_publish() {
    let bench = Bench::new();
    let name = "slicewright-hardware-profiles";
    let roles = |values: &[&str]| {
        let objects = bench.with(values);
        objects
            .into_iter()
            .filter(|o| o["kind"] == "Role" && o["metadata"]["name"] == name)
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(&[]), Vec::<Value>::new());
    assert_eq!(roles(&[r#"hardwareProfiles.mode="report""#]), Vec::<Value>::new());
    assert_eq!(roles(&["rbac.configuredByEnvironment=true"]), Vec::<Value>::new());
    let roles = roles(&[r#"hardwareProfiles.mode="publish""#, r#"hardwareProfiles.namespace="opendatahub""#]);
    assert_eq!(roles.len(), 1);
    assert_eq!(roles[0]["metadata"]["namespace"], "opendatahub");
    assert_eq!(
        roles[0]["rules"],
        json!([{"apiGroups": ["infrastructure.opendatahub.io"], "resources": ["hardwareprofiles"],
            "verbs": ["create", "patch", "delete"]}])
    );
}

#[test]
fn flags_environment_and_objects_that_the_chart_knows_nothing_of_are_taken() {
    let objects = Bench::new().with(&[
        r#"logging.format="text""#,
        r#"extraArgs=["--poll=5s"]"#,
        r#"extraEnv=[{"name":"SLICEWRIGHT_CALL_TIMEOUT","value":"20s"}]"#,
        r#"extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{ .Release.Name }}-a"}},"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b-{{ .Release.Namespace }}\n"]"#,
    ]);
    assert_eq!(arguments(&objects), ["--log-format=text", "--poll=5s"]);
    let container = &the(&objects, "Deployment", "slicewright")["spec"]["template"]["spec"]["containers"][0];
    let names: Vec<&str> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["POD_NAME", "POD_NAMESPACE", "SLICEWRIGHT_CALL_TIMEOUT"]);
    the(&objects, "ConfigMap", "slicewright-a");
    the(&objects, "ConfigMap", "b-slicewright-system");
}

#[test]
fn pull_secrets_are_references_as_a_pod_has_them_and_names_are_taken_too() {
    let objects =
        Bench::new().with(&[r#"imagePullSecrets=[{"name":"a"},"b"]"#, r#"priorityClassName="gpu""#]);
    for (kind, name) in [("Deployment", "slicewright"), ("Job", "slicewright-release")] {
        let pod = &the(&objects, kind, name)["spec"]["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]), "{kind}");
        assert_eq!(pod["priorityClassName"], "gpu", "{kind}");
    }
}

/// Whoever sets them by the environment has no value from which the chart could see which rights they need.
#[test]
fn rights_of_what_is_set_by_the_environment_are_granted_where_the_value_says_so() {
    let bench = Bench::new();
    let by_values = bench.with(&[
        "gpuOperator.patchClusterPolicy=true",
        r#"metrics.tls.secretName="tls""#,
        r#"kueue="admission-check""#,
        r#"hardwareProfiles.mode="publish""#,
    ]);
    let by_environment = bench.with(&["rbac.configuredByEnvironment=true"]);
    let of = |objects: &[Value]| rules(the(objects, "ClusterRole", "slicewright"));
    assert_eq!(of(&by_environment), of(&by_values));
    assert_ne!(of(&by_environment), of(&bench.with(&[])));
}

/// The rules of the operator's network policy, or nothing where it has none.
fn network(objects: &[Value]) -> Option<Value> {
    objects.iter().find(|object| object["kind"] == "NetworkPolicy").map(|policy| policy["spec"].clone())
}

#[test]
fn the_network_policy_says_from_where_and_to_where_and_is_there_where_that_is_known() {
    let bench = Bench::new();
    // Elsewhere nobody knows on which port pods reach the API server: on a wrong one the operator would be cut off.
    assert_eq!(network(&bench.with(&[])), None);
    assert_eq!(
        network(&bench.with(&[r#"openshift.adaptSecurityContext="force""#, "networkPolicy.enabled=false"])),
        None
    );
    let seen = network(&bench.watched(&[], &["security.openshift.io/v1"])).unwrap();
    let said = network(&bench.with(&[r#"openshift.adaptSecurityContext="force""#])).unwrap();
    assert_eq!(seen, said);
    assert_eq!(seen["policyTypes"], json!(["Ingress", "Egress"]));
    let names = |rule: &Value| rule["namespaceSelector"]["matchExpressions"][0]["values"].clone();
    assert_eq!(seen["ingress"].as_array().unwrap().len(), 1, "metrics, and nothing else: {seen}");
    assert_eq!(
        names(&seen["ingress"][0]["from"][0]),
        json!(["openshift-monitoring", "openshift-user-workload-monitoring"])
    );
    let [dns, server] = seen["egress"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!(names(&dns["to"][0]), json!(["kube-system", "openshift-dns"]));
    assert_eq!(server["ports"], json!([{"port": 443}, {"port": 6443}]));
    // Their Prometheus may be anywhere.
    let theirs = network(
        &bench.with(&[r#"openshift.adaptSecurityContext="force""#, r#"metrics.apiGroup="monitoring.rhobs""#]),
    );
    assert_eq!(theirs.unwrap()["ingress"][0]["from"], json!([{"namespaceSelector": {}}]));
    let narrow = network(&bench.with(&[
        r#"networkPolicy={"enabled":true,"apiServerTo":[{"ipBlock":{"cidr":"10.0.0.0/24"}}],"dnsTo":[{"podSelector":{}}],"metricsFrom":[{"podSelector":{}}]}"#,
    ]))
    .unwrap();
    assert_eq!(narrow["egress"][1]["to"], json!([{"ipBlock": {"cidr": "10.0.0.0/24"}}]));
    assert_eq!(narrow["egress"][0]["to"], json!([{"podSelector": {}}]));
    assert_eq!(narrow["ingress"][0]["from"], json!([{"podSelector": {}}]));
}

/// In a namespace that denies everything else, `helm uninstall` would wait for a hook that reaches nobody.
#[test]
fn the_network_policy_lets_the_hook_of_an_uninstall_reach_the_api_server_and_lets_nobody_reach_it() {
    let bench = Bench::new();
    let objects = bench.with(&["networkPolicy.enabled=true"]);
    let labels = &the(&objects, "Job", "slicewright-release")["spec"]["template"]["metadata"]["labels"];
    let (operators, hooks) = (
        &the(&objects, "NetworkPolicy", "slicewright")["spec"],
        &the(&objects, "NetworkPolicy", "slicewright-release")["spec"],
    );
    let selects = |spec: &Value| {
        let wanted = spec["podSelector"]["matchLabels"].as_object().unwrap();
        wanted.iter().all(|(key, value)| labels[key] == *value)
    };
    assert!(!selects(operators) && selects(hooks), "{labels}");
    assert_eq!(hooks["egress"], operators["egress"], "it goes where the operator goes");
    assert_eq!((&hooks["policyTypes"], hooks.get("ingress")), (&json!(["Ingress", "Egress"]), None));
    // It is part of the release, so that it is there until the hook has ended.
    assert_eq!(
        the(&objects, "NetworkPolicy", "slicewright-release")["metadata"]
            .pointer("/annotations/helm.sh~1hook"),
        None
    );
    let without = bench.with(&["networkPolicy.enabled=true", "uninstall.release=false"]);
    assert_eq!(without.iter().filter(|object| object["kind"] == "NetworkPolicy").count(), 1);
}

/// Who grants permissions by hand has a page to grant them from, also those of the hook.
#[test]
fn every_permission_of_the_hook_is_on_the_page_that_says_what_to_grant() {
    let bench = Bench::new();
    let objects = bench.with(&[]);
    let page = read("docs/reference/rbac.md");
    let (_, section) =
        page.split_once("## Before an uninstallation\n").expect("the page has a section for the hook");
    let mut found = 0;
    for kind in ["ClusterRole", "Role"] {
        for rule in the(&objects, kind, "slicewright-release")["rules"].as_array().unwrap() {
            let all = |field: &str| -> Vec<&str> {
                rule[field].as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect()
            };
            let group = all("apiGroups").concat();
            let names =
                all("resourceNames").iter().map(|name| format!(" named `{name}`")).collect::<String>();
            for resource in all("resources") {
                for verb in all("verbs") {
                    let dot = if group.is_empty() { "" } else { "." };
                    let row = format!("| `{resource}{dot}{group}`{names} | {verb} | to ");
                    assert!(section.contains(&row), "{row}");
                    found += 1;
                }
            }
        }
    }
    assert_eq!(found, section.matches("\n| `").count(), "and nothing else is there");
}

#[test]
fn where_the_chart_makes_no_roles_it_says_which_account_runs_the_hook_and_what_it_needs() {
    let bench = Bench::new();
    let account = |set: &[&str]| {
        let objects = bench.with(set);
        the(&objects, "Job", "slicewright-release")["spec"]["template"]["spec"]["serviceAccountName"].clone()
    };
    let theirs = r#"uninstall.serviceAccountName="gpu-admin""#;
    assert_eq!(account(&["rbac.create=false"]), "slicewright");
    assert_eq!(account(&["rbac.create=false", theirs]), "gpu-admin");
    assert_eq!(account(&[theirs]), "slicewright-release", "the chart's own account has the permissions");
    let section = "\"Before an uninstallation\"";
    for file in ["charts/slicewright/templates/NOTES.txt", "charts/slicewright/README.md"] {
        let text = read(file);
        let says = text.contains(section) && text.contains("docs/reference/rbac.md");
        assert!(says, "{file} does not say what to grant");
    }
}

#[test]
fn the_values_of_the_helm_release_are_ones_that_the_chart_takes() {
    let objects = documents(&read("examples/gitops/flux/helm-release.yaml"));
    let release = objects.iter().find(|o| o["kind"] == "HelmRelease").unwrap();
    let spec = &release["spec"];
    assert!(
        packaging::root().join(spec["chart"]["spec"]["chart"].as_str().unwrap()).join("Chart.yaml").exists()
    );
    // The hook is part of an uninstallation, and CRDs are templates.
    assert_eq!(spec["uninstall"]["disableHooks"], false);
    let set: Vec<String> =
        spec["values"].as_object().unwrap().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let rendered = Bench::new().with(&set);
    let image =
        &the(&rendered, "Deployment", "slicewright")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert!(image.as_str().unwrap().starts_with("registry.example.com/"), "{image}");
    let source = spec["chart"]["spec"]["sourceRef"].clone();
    assert!(objects.iter().any(|o| o["kind"] == source["kind"] && o["metadata"]["name"] == source["name"]));
}

/// Pod Security's level `restricted`, and OpenShift's restricted-v2.
#[test]
fn every_pod_is_one_that_a_restricted_namespace_admits() {
    let bench = Bench::new();
    for (set, ids) in [
        (r#"openshift.adaptSecurityContext="disabled""#, true),
        (r#"openshift.adaptSecurityContext="force""#, false),
    ] {
        let objects = bench.with(&[set]);
        let pods = [the(&objects, "Deployment", "slicewright"), the(&objects, "Job", "slicewright-release")];
        for pod in pods.map(|owner| &owner["spec"]["template"]["spec"]) {
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            for id in ["runAsUser", "runAsGroup", "fsGroup"] {
                assert_eq!(pod["securityContext"].get(id).is_some(), ids, "{set}: {id}");
            }
            for container in pod["containers"].as_array().unwrap() {
                let context = &container["securityContext"];
                assert_eq!(context["allowPrivilegeEscalation"], false);
                assert_eq!(context["readOnlyRootFilesystem"], true);
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
                assert!(container["resources"]["requests"]["memory"].is_string());
                assert!(container["resources"]["limits"].get("cpu").is_none());
            }
        }
    }
}

#[test]
fn crds_stay_with_every_policy_unless_told_otherwise() {
    let bench = Bench::new();
    let of = |objects: &[Value]| -> Vec<Value> {
        objects.iter().filter(|o| o["kind"] == "CustomResourceDefinition").cloned().collect()
    };
    let kept = of(&bench.with(&[]));
    assert_eq!(kept.len(), 2);
    for crd in &kept {
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        let file = format!(
            "docs/reference/crds/slicewright.io_{}.yaml",
            crd["spec"]["names"]["plural"].as_str().unwrap()
        );
        assert_eq!(crd["spec"], documents(&read(&file))[0]["spec"], "{file}");
    }
    let gone = of(&bench.with(&["crds.keep=false"]));
    assert!(gone.iter().all(|crd| crd["metadata"]["annotations"].get("helm.sh/resource-policy").is_none()));
    assert!(of(&bench.with(&["crds.install=false"])).is_empty());
}

#[test]
fn an_image_with_a_digest_never_changes_by_itself() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let set = format!(
        r#"image={{"registry":"mirror.example.com/","repository":"gpu/slicewright","digest":"{digest}","tag":"9.9.9"}}"#
    );
    let objects = Bench::new().with(&[&set]);
    for kind in ["Deployment", "Job"] {
        let name = if kind == "Job" { "slicewright-release" } else { "slicewright" };
        let image = &the(&objects, kind, name)["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, format!("mirror.example.com/gpu/slicewright@{digest}"));
    }
}

/// It is privileged, so everything else about it is small: its rights, what it mounts, and who else uses its namespace.
#[test]
fn the_agent_is_off_and_where_it_is_on_it_is_apart_from_the_operator() {
    let bench = Bench::new();
    let is_agents = |object: &&Value| object["metadata"]["labels"]["app.kubernetes.io/component"] == "agent";
    let without = bench.with(&[]);
    assert_eq!(without.iter().filter(is_agents).count(), 0, "off by default");
    let objects = bench.with(&["agent.enabled=true", r#"openshift.adaptSecurityContext="force""#]);
    let (agents, others): (Vec<_>, Vec<_>) = objects.iter().partition(|object| is_agents(object));
    assert_eq!(others.len(), bench.with(&[r#"openshift.adaptSecurityContext="force""#]).len());
    let namespaces: BTreeSet<_> =
        agents.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    assert_eq!(namespaces, BTreeSet::from(["slicewright-agent"]));
    let role = the(&objects, "ClusterRole", "slicewright-agent");
    let expected = json!([
        {"apiGroups": ["slicewright.io"], "resources": ["gpunodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["slicewright.io"], "resources": ["gpunodes/status"], "verbs": ["patch"]},
    ]);
    assert_eq!(role["rules"], expected);
    let pod = &the(&objects, "DaemonSet", "slicewright-agent")["spec"]["template"]["spec"];
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(pod[host], false, "{host}");
    }
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    for term in terms["nodeSelectorTerms"].as_array().unwrap() {
        let expressions = term["matchExpressions"].as_array().unwrap();
        let processors = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]});
        assert!(expressions.contains(&processors), "its image is for these: {term}");
    }
    let writable: Vec<_> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["readOnly"] != true)
        .collect();
    assert_eq!(writable, [&json!({"name": "dev", "mountPath": "/dev"})]);
}

/// What the policy calls the agent is what the pods run as; else it would bind nobody.
#[test]
fn the_admission_policy_is_about_the_account_that_the_agents_have() {
    let bench = Bench::new();
    let set = ["agent.enabled=true", r#"agent.namespace="gpu-agents""#, r#"fullnameOverride="sw""#];
    let objects = bench.with(&set);
    let daemons = the(&objects, "DaemonSet", "sw-agent");
    let (namespace, account) = (
        daemons["metadata"]["namespace"].as_str().unwrap(),
        daemons["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap(),
    );
    // The operator looks for this name, whatever the release is called.
    let policy = the(&objects, "ValidatingAdmissionPolicy", "slicewright-agent");
    let who = policy["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
    assert_eq!(who, format!("request.userInfo.username == 'system:serviceaccount:{namespace}:{account}'"));
    let binding = the(&objects, "ValidatingAdmissionPolicyBinding", "slicewright-agent");
    assert_eq!(binding["spec"], json!({"policyName": "slicewright-agent", "validationActions": ["Deny"]}));
    let role = the(&objects, "ClusterRole", "sw");
    let may_look = json!({
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        "resourceNames": ["slicewright-agent"], "verbs": ["get"],
    });
    assert!(role["rules"].as_array().unwrap().contains(&may_look), "{role:#}");
}

/// Unproven on hardware, so that nobody gets it who does not ask for it.
#[test]
fn the_agent_is_privileged_unless_a_narrower_security_context_is_asked_for() {
    let bench = Bench::new();
    let pod = |set: &[&str]| {
        let objects = bench.with(set);
        the(&objects, "DaemonSet", "slicewright-agent")["spec"]["template"]["spec"].clone()
    };
    let plain = pod(&["agent.enabled=true"]);
    let privileged = json!({"privileged": true, "runAsUser": 0, "readOnlyRootFilesystem": true});
    assert_eq!(plain["containers"][0]["securityContext"], privileged);
    assert!(plain["runtimeClassName"].is_null());
    assert!(!plain["containers"][0]["env"].to_string().contains("NVIDIA_"), "{plain:#}");

    let context = r#"agent.securityContext={"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}"#;
    let narrow = pod(&["agent.enabled=true", context, r#"agent.runtimeClassName="nvidia""#]);
    let expected = json!({
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "runAsUser": 0, "readOnlyRootFilesystem": true,
    });
    assert_eq!(narrow["containers"][0]["securityContext"], expected);
    assert_eq!(narrow["runtimeClassName"], "nvidia");
    let env = narrow["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"})), "{env:#?}");
    for (mistake, said) in [
        (r#"agent.securityContext={"capabilites": {}}"#, "capabilites"),
        (r#"agent.runtimeClassName="Nvidia runtime""#, "runtimeClassName"),
    ] {
        let refusal = bench.refusal(&["agent.enabled=true", mistake]);
        assert!(refusal.contains(said), "{refusal}");
    }
}
