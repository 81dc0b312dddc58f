//! The provider `kubeconfig`: scenarios on a cluster that others use. Here it is a control plane that has
//! none of our objects.

use std::collections::BTreeMap;
use std::process::Command;

use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, OPERATOR_USER};
use e2e::provider::{Kind, VARIABLE};
use kube::api::{DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// What runs there.
const SCENARIOS: [&str; 3] = [
    "demand::a_workbench_asks_for_a_slice_that_no_node_has_and_gets_it",
    "release::",
    // It needs what only a control plane of ours has.
    "modes::",
];

/// What a cluster has before: kind and name to uid and version.
type Inventory = BTreeMap<String, String>;

/// Kinds that the control plane itself writes all the time.
const ITS_OWN: &[&str] = &["endpointslices", "endpoints", "events", "apiservices", "componentstatuses"];

/// Kinds that controllers of the cluster write by themselves: silent nodes are
/// tainted, roles that are made of others follow those, leases are renewed.
const BY_LABELS: &[&str] = &["nodes", "clusterroles", "leases"];

async fn inventory(client: &Client) -> anyhow::Result<Inventory> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut all = Inventory::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            if !capabilities.supports_operation(verbs::LIST) || ITS_OWN.contains(&resource.plural.as_str()) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let listed = match api.list_metadata(&ListParams::default()).await {
                Ok(listed) => listed,
                // Its CRD went a moment ago.
                Err(kube::Error::Api(status)) if [404, 405].contains(&status.code) => continue,
                Err(error) => return Err(error.into()),
            };
            for one in listed {
                let name = title(&resource.plural, &one);
                let state = if BY_LABELS.contains(&resource.plural.as_str()) {
                    format!("{:?}", one.metadata.labels)
                } else {
                    one.metadata.resource_version.unwrap_or_default()
                };
                all.insert(name, format!("{} {state}", one.metadata.uid.unwrap_or_default()));
            }
        }
    }
    Ok(all)
}

fn title(plural: &str, object: &PartialObjectMeta<DynamicObject>) -> String {
    format!("{plural} {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// What somebody else has there: CRDs of OpenShift AI of his own making, a
/// node that is cordoned, and an application.
async fn somebody_lives_there(client: &Client) -> anyhow::Result<()> {
    let notebooks: Vec<Value> = objects::minimal_crds()?
        .into_iter()
        .filter(|crd| crd["spec"]["names"]["kind"] == "Notebook")
        .map(|mut crd| {
            crd["metadata"]["annotations"]["example.com/installed-by"] = json!("somebody");
            crd
        })
        .collect();
    for crd in &notebooks {
        objects::apply(client, crd).await?;
    }
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"},
            "data": {"tea": "3"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"},
            "spec": {"unschedulable": true}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "shop"},
            "value": 7}),
    ] {
        objects::apply(client, &object).await?;
    }
    // A node that never says a word is tainted by its controller; wait for that, and for what comes with
    // namespaces.
    e2e::wait::asking("the cluster is at rest", e2e::wait::PATIENCE, {
        let mut last = Inventory::new();
        let mut quiet = 0;
        async move || {
            let now = inventory(client).await?;
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
            Ok(if quiet >= 20 { Ok(()) } else { Err("it is not".to_owned()) })
        }
    })
    .await
}

#[test]
fn scenarios_run_on_the_cluster_of_somebody_else_and_leave_it_as_it_was() {
    if Kind::asked_for().is_ok_and(|kind| kind == Kind::Kubeconfig) {
        // It would be about itself.
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = runtime.block_on(ControlPlane::start(OPERATOR_USER)).unwrap();
    let client = runtime.block_on(client_of(plane.administrator())).unwrap();
    runtime.block_on(somebody_lives_there(&client)).unwrap();
    let before = runtime.block_on(inventory(&client)).unwrap();

    let noted = tempfile::NamedTempFile::new().unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(SCENARIOS)
        // A test has a name in a thread of its own only.
        .arg("--test-threads=2")
        .env(VARIABLE, "kubeconfig")
        .env("SLICEWRIGHT_E2E_TIMES", noted.path())
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
    assert!(
        said.contains("demand::a_workbench_asks_for_a_slice_that_no_node_has_and_gets_it ... ok"),
        "{said}"
    );
    let noted = std::fs::read_to_string(noted.path()).unwrap();
    let left_out: Vec<_> = noted.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(
        left_out,
        [
            "modes::a_preview_says_what_it_would_do_and_writes_nothing_but_status_and_events: this provider has \
             no audit log to look into"
        ]
    );
    assert!(noted.lines().count() >= 7, "the others run: {noted}");

    let after = runtime.block_on(inventory(&client)).unwrap();
    let changed: Vec<_> = before.iter().filter(|(name, at)| after.get(*name) != Some(at)).collect();
    assert!(changed.is_empty(), "these were not left alone: {changed:#?}");
    let left: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert!(left.is_empty(), "these were left behind: {left:#?}");
}

#[test]
fn a_cluster_that_has_what_scenarios_need_for_themselves_is_left_alone() {
    if Kind::asked_for().is_ok_and(|kind| kind == Kind::Kubeconfig) {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = runtime.block_on(ControlPlane::start(OPERATOR_USER)).unwrap();
    let client = runtime.block_on(client_of(plane.administrator())).unwrap();
    let theirs =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-gpu-operator"}});
    runtime.block_on(objects::apply(&client, &theirs)).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", SCENARIOS[0]])
        .env(VARIABLE, "kubeconfig")
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(!run.status.success(), "{said}");
    assert!(said.contains("the cluster has a namespace nvidia-gpu-operator of its own"), "{said}");
}
