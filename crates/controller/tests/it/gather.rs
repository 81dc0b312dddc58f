//! Reading the fleet once: all missing permissions are reported together, missing kinds are not an error,
//! long lists are read in pages, and a silent server leads to a timeout.

use std::time::Duration;

use controller::MapRef;
use controller::calls::{CallError, Calls};
use controller::client::tamed;
use controller::gather::{Ask, GatherError, Gathered, gather};
use observe::snapshot::Provenance;
use observe::snapshot::record::Recording;
use serde_json::{Value, json};
use wiremock::matchers::{body_partial_json, method, path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, ResponseTemplate};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/pods";
const MAPS: &str = "/api/v1/namespaces/nvidia-gpu-operator/configmaps";

/// More than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that is listed in a cluster with none of the kinds that come by CRDs.
const LISTS: [(&str, &str, &str); 7] = [
    (NODES, "v1", "NodeList"),
    (PODS, "v1", "PodList"),
    ("/api/v1/namespaces", "meta.k8s.io/v1", "PartialObjectMetadataList"),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClassList"),
    ("/api/v1/persistentvolumeclaims", "v1", "PersistentVolumeClaimList"),
    ("/api/v1/persistentvolumes", "v1", "PersistentVolumeList"),
    (MAPS, "v1", "ConfigMapList"),
];

async fn read(server: &MockServer) -> Result<Gathered, GatherError> {
    read_for(server, PATIENCE).await
}

async fn read_for(server: &MockServer, patience: Duration) -> Result<Gathered, GatherError> {
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), patience);
    let ask = Ask {
        gpu_operator_namespace: "nvidia-gpu-operator".to_owned(),
        map_name: "slicewright-mig-config".to_owned(),
        administrators_map: None,
        page_size: 2,
    };
    gather(&calls, &ask).await
}

fn status(code: u16, reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason,
    }))
}

fn list(api_version: &str, kind: &str, items: &[Value], go_on: Option<&str>) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "kind": kind, "apiVersion": api_version, "items": items,
        "metadata": {"resourceVersion": "7", "continue": go_on},
    }))
}

async fn answers(server: &MockServer, at: &str, answer: ResponseTemplate) {
    Mock::given(method("GET")).and(path(at)).respond_with(answer).mount(server).await;
}

/// A server that lists nothing, but for `except`. It is asked for no kind that
/// comes by a CRD: wiremock answers 404.
async fn plain_cluster(except: &[&str]) -> MockServer {
    let server = MockServer::start().await;
    answers(&server, "/version", ResponseTemplate::new(200).set_body_json(json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.5", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    }))).await;
    for (group, version) in [
        ("slicewright.io", "v1alpha1"),
        ("nvidia.com", "v1"),
        ("nvidia.com", "v1alpha1"),
        ("kubeflow.org", "v1"),
        ("kubeflow.org", "v1beta1"),
        ("infrastructure.opendatahub.io", "v1"),
        ("infrastructure.opendatahub.io", "v1alpha1"),
        ("kueue.x-k8s.io", "v1beta2"),
        ("kueue.x-k8s.io", "v1beta1"),
    ] {
        answers(&server, &format!("/apis/{group}/{version}"), status(404, "NotFound")).await;
    }
    for (at, api_version, kind) in LISTS.iter().filter(|(at, ..)| !except.contains(at)) {
        answers(&server, at, list(api_version, kind, &[], None)).await;
    }
    server
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}}})
}

#[tokio::test]
async fn a_cluster_without_our_kinds_and_openshift_ai_is_recorded_and_says_what_it_lacks() {
    let server = plain_cluster(&[NODES]).await;
    answers(&server, NODES, list("v1", "NodeList", &[node("a1")], None)).await;
    let gathered = read(&server).await.unwrap();
    assert_eq!(gathered.server_version.as_deref(), Some("v1.33.5"));
    assert!(gathered.objects.nodes.contains_key("a1"));
    assert_eq!(
        gathered.absent,
        [
            "admissionchecks.kueue.x-k8s.io",
            "clusterpolicies.nvidia.com",
            "clusterqueues.kueue.x-k8s.io",
            "gpuclusters.nvidia.com",
            "gpunodes.slicewright.io",
            "gpupartitionpolicies.slicewright.io",
            "hardwareprofiles.infrastructure.opendatahub.io",
            "inferenceservices.serving.kserve.io",
            "llminferenceservices.serving.kserve.io",
            "localqueues.kueue.x-k8s.io",
            "notebooks.kubeflow.org",
            "resourceflavors.kueue.x-k8s.io",
            "workloads.kueue.x-k8s.io",
        ]
    );
    let asked = server.received_requests().await.unwrap();
    assert!(asked.iter().all(|request| request.method.as_str() == "GET"), "it only reads");
}

#[tokio::test]
async fn all_rights_that_are_missing_are_told_at_once() {
    let server = plain_cluster(&[PODS, MAPS]).await;
    answers(&server, PODS, status(403, "Forbidden")).await;
    answers(&server, MAPS, status(403, "Forbidden")).await;
    let review = |allowed: bool| {
        ResponseTemplate::new(201).set_body_json(json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {}, "status": {"allowed": allowed},
        }))
    };
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    // Nobody knows yet that a pod of a Job is there: the right is asked about.
    let of_jobs =
        json!({"spec": {"resourceAttributes": {"resource": "jobs", "verb": "get", "group": "batch"}}});
    Mock::given(method("POST"))
        .and(path(reviews))
        .and(body_partial_json(of_jobs))
        .respond_with(review(false))
        .with_priority(1)
        .mount(&server)
        .await;
    Mock::given(method("POST")).and(path(reviews)).respond_with(review(true)).mount(&server).await;
    let Err(GatherError::Forbidden(rights)) = read(&server).await else { panic!("it was allowed") };
    assert_eq!(rights, ["get jobs.batch", "list configmaps in namespace nvidia-gpu-operator", "list pods"]);
    let asked = server.received_requests().await.unwrap();
    let about_absent =
        asked.iter().any(|request| String::from_utf8_lossy(&request.body).contains("notebooks"));
    assert!(!about_absent, "a kind that is not there needs no right");
}

#[tokio::test]
async fn a_right_that_only_an_owner_needs_is_missed_too() {
    let server = plain_cluster(&[PODS]).await;
    let pod = json!({
        "metadata": {"namespace": "ns", "name": "w-1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": true}]},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]},
    });
    answers(&server, PODS, list("v1", "PodList", &[pod], None)).await;
    answers(&server, "/apis/apps/v1/namespaces/ns/replicasets/w", status(403, "Forbidden")).await;
    let Err(GatherError::Forbidden(rights)) = read(&server).await else { panic!("it was allowed") };
    assert_eq!(rights, ["get replicasets.apps"]);
}

#[tokio::test]
async fn a_list_comes_in_pages_and_is_begun_again_when_its_pages_are_forgotten() {
    let server = plain_cluster(&[NODES]).await;
    let first = list("v1", "NodeList", &[node("a1"), node("a2")], Some("more"));
    Mock::given(method("GET"))
        .and(path(NODES))
        .and(query_param("limit", "2"))
        .and(query_param_is_missing("continue"))
        .respond_with(first)
        .expect(2)
        .mount(&server)
        .await;
    the_next_page_is_forgotten().up_to_n_times(1).mount(&server).await;
    let more = query_param("continue", "more");
    Mock::given(method("GET"))
        .and(path(NODES))
        .and(more)
        .respond_with(list("v1", "NodeList", &[node("a3")], None))
        .mount(&server)
        .await;
    let gathered = read(&server).await.unwrap();
    assert_eq!(gathered.objects.nodes.keys().collect::<Vec<_>>(), ["a1", "a2", "a3"]);
}

/// The API server no longer knows where the second page of nodes begins.
fn the_next_page_is_forgotten() -> Mock {
    let more = query_param("continue", "more");
    Mock::given(method("GET"))
        .and(path(NODES))
        .and(more)
        .respond_with(status(410, "Expired"))
        .with_priority(1)
}

#[tokio::test]
async fn pages_that_are_forgotten_again_and_again_end_in_an_error() {
    let server = plain_cluster(&[NODES]).await;
    the_next_page_is_forgotten().expect(3).mount(&server).await;
    answers(&server, NODES, list("v1", "NodeList", &[node("a1")], Some("more"))).await;
    let error = read(&server).await.unwrap_err();
    assert!(matches!(error, GatherError::Call(CallError::Refused { .. })), "{error:?}");
}

#[tokio::test]
async fn an_api_server_that_says_nothing_is_not_waited_for_without_end() {
    let server = plain_cluster(&[PODS]).await;
    answers(&server, PODS, list("v1", "PodList", &[], None).set_delay(Duration::from_secs(60))).await;
    let error = read_for(&server, Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, GatherError::Call(CallError::NoAnswer { .. })), "{error:?}");
}

#[tokio::test]
async fn the_environment_of_a_workbench_and_what_is_noted_on_it_are_not_recorded() {
    let server = plain_cluster(&[]).await;
    let kinds = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "kubeflow.org/v1", "resources": [
        {"name": "notebooks", "singularName": "notebook", "namespaced": true, "kind": "Notebook", "verbs": ["list"]}]});
    Mock::given(method("GET"))
        .and(path("/apis/kubeflow.org/v1"))
        .respond_with(ResponseTemplate::new(200).set_body_json(kinds))
        .with_priority(1)
        .mount(&server)
        .await;
    let notebook = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": "ns", "name": "w", "annotations": {"opendatahub.io/username": "alice", "opendatahub.io/hardware-profile-name": "small"}},
        "spec": {"template": {"spec": {"serviceAccountName": "alice", "containers": [
            {"name": "w", "image": "x", "env": [{"name": "TOKEN", "value": "hunter2"}], "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}},
    });
    answers(
        &server,
        "/apis/kubeflow.org/v1/notebooks",
        list("kubeflow.org/v1", "NotebookList", &[notebook], None),
    )
    .await;
    let gathered = read(&server).await.unwrap();
    let read =
        serde_json::to_string(&*gathered.objects.notebooks[&("ns".to_owned(), "w".to_owned())]).unwrap();
    assert!(read.contains("mig-1g.10gb") && read.contains("small"), "{read}");
    for secret in ["hunter2", "TOKEN", "alice"] {
        assert!(!read.contains(secret), "{read}");
    }
}

/// Of each disk of the cluster nothing is recorded that nobody waits for.
#[tokio::test]
async fn the_volumes_that_a_pod_waits_for_are_recorded_and_no_others() {
    let (claims, volumes) = ("/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes");
    let server = plain_cluster(&[NODES, PODS, claims, volumes]).await;
    answers(&server, NODES, list("v1", "NodeList", &[node("a1")], None)).await;
    let pod = |name: &str, on: Option<&str>| {
        json!({"metadata": {"namespace": "ns", "name": name},
            "spec": {"nodeName": on, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": format!("{name}-disk")}}],
                "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]}})
    };
    let pods = [pod("waits", None), pod("runs", Some("a1"))];
    answers(&server, PODS, list("v1", "PodList", &pods, None)).await;
    let claim = |of: &str| {
        json!({"metadata": {"namespace": "ns", "name": format!("{of}-disk"), "annotations": {"a": "secret"}},
            "spec": {"volumeName": format!("pv-{of}")}})
    };
    let of = ["waits", "runs"];
    answers(&server, claims, list("v1", "PersistentVolumeClaimList", &of.map(claim), None)).await;
    let volume = |of: &str| {
        json!({"metadata": {"name": format!("pv-{of}")}, "spec": {
            "csi": {"driver": "d", "volumeHandle": "secret"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}})
    };
    answers(&server, volumes, list("v1", "PersistentVolumeList", &of.map(volume), None)).await;
    let recording = Recording {
        taken_at: "2026-11-20T08:00:00Z".parse().unwrap(),
        cluster: None,
        provenance: Provenance::default(),
    };
    let text = observe::snapshot::record::text(&recording, &read(&server).await.unwrap().objects);
    assert!(!text.contains("secret") && !text.contains("runs-disk") && !text.contains("pv-runs"), "{text}");
    for part in [r#""name":"waits-disk""#, r#""volumeName":"pv-waits""#, r#""values":["a"]"#] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn the_maps_that_anybody_names_are_read() {
    let server = plain_cluster(&[]).await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), PATIENCE);
    let theirs = MapRef { namespace: "platform".to_owned(), name: "theirs".to_owned() };
    let ask = Ask {
        gpu_operator_namespace: "nvidia-gpu-operator".to_owned(),
        map_name: "slicewright-mig-config".to_owned(),
        administrators_map: Some(theirs),
        page_size: 2,
    };
    let map = json!({"metadata": {"namespace": "platform", "name": "theirs"}, "data": {"config.yaml": "version: v1\nmig-configs: {}", "secret": "x"}});
    Mock::given(method("GET"))
        .and(path("/api/v1/namespaces/platform/configmaps"))
        .and(query_param("fieldSelector", "metadata.name=theirs"))
        .respond_with(list("v1", "ConfigMapList", &[map], None))
        .mount(&server)
        .await;
    let gathered = gather(&calls, &ask).await.unwrap();
    let map = &gathered.objects.config_maps[&("platform".to_owned(), "theirs".to_owned())];
    assert_eq!(map.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["config.yaml"]);
}
