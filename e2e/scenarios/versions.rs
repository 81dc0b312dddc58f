//! The next version of the API, rehearsed (docs/adr/0015-the-next-version.md): v1beta1 is added beside v1alpha1, an
//! operator that knows v1alpha1 alone works on, everything is stored anew, and v1alpha1 can go. No object is lost or
//! changed on the way.

use anyhow::{Context, ensure};
use api::GpuPartitionPolicy;
use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_USER};
use e2e::operator::{self, Operator};
use e2e::{policy, wait};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const OLD: &str = "v1alpha1";
const NEW: &str = "v1beta1";

/// The policies of a version.
async fn policies(client: &Client, version: &str) -> anyhow::Result<Api<DynamicObject>> {
    let like = json!({"apiVersion": format!("slicewright.io/{version}"), "kind": "GpuPartitionPolicy", "metadata": {}});
    Ok(objects::api_of(client, &like).await?.0)
}

/// The CRD with these versions, of which the last is stored. All have one schema, so that nothing has to convert.
fn with_versions(crd: &Value, versions: &[&str]) -> Value {
    let mut crd = crd.clone();
    let first = crd["spec"]["versions"][0].clone();
    let last = versions.last().copied();
    let made: Vec<Value> = versions
        .iter()
        .map(|name| {
            let mut version = first.clone();
            version["name"] = json!(name);
            version["storage"] = json!(Some(*name) == last);
            version
        })
        .collect();
    crd["spec"]["versions"] = json!(made);
    crd
}

/// Waits until the operator has answered what a policy says since this generation.
async fn answered(client: &Client, generation: i64) -> anyhow::Result<()> {
    let api: Api<GpuPartitionPolicy> = Api::all(client.clone());
    wait::until_one(api, "research", "the operator has answered the policy", wait::PATIENCE, |policy| {
        let seen = policy.and_then(|policy| policy.status.as_ref()?.observed_generation);
        if seen >= Some(generation) { Ok(()) } else { Err(format!("it has answered {seen:?}")) }
    })
    .await
}

/// What people wrote, and what the operator said.
fn content(object: &DynamicObject) -> (Value, Value) {
    (object.data["spec"].clone(), object.data["status"]["policyDigest"].clone())
}

#[test]
fn a_version_is_added_and_the_one_before_it_retired_while_the_operator_works_and_no_policy_changes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = runtime.block_on(the_next_version());
    runtime.shutdown_background();
    told.unwrap_or_else(|error| panic!("{error:?}"));
}

async fn the_next_version() -> anyhow::Result<()> {
    let plane = ControlPlane::start(OPERATOR_USER).await?;
    let client = client_of(plane.administrator()).await?;
    let ours = objects::our_crds();
    objects::install_crds(&client, &ours).await?;
    objects::ensure_namespace(&client, GPU_OPERATOR_NAMESPACE, &json!({})).await?;
    objects::install_operator(&client).await?;
    let operator = operator::account(plane.administrator()).await?;
    let operator = Operator::start(operator, operator::settings("alpha"))?;
    objects::apply(&client, &policy("research", "research").always(&[("3g.40gb", 2)]).into()).await?;
    answered(&client, 1).await?;
    let before = content(&policies(&client, OLD).await?.get("research").await?);
    ensure!(before.0["layout"]["static"]["gpus"][0]["slices"][0]["profile"] == "3g.40gb", "{}", before.0);

    // The release after this one brings both; what is stored is the new one from then on.
    let crd = ours.iter().find(|crd| crd["spec"]["names"]["kind"] == "GpuPartitionPolicy");
    let crd = crd.context("there is a CRD of policies")?;
    let name = crd["metadata"]["name"].as_str().context("it has a name")?.to_owned();
    objects::install_crds(&client, &[with_versions(crd, &[OLD, NEW])]).await?;
    let new = policies(&client, NEW).await?;
    assert_eq!(content(&new.get("research").await?), before, "as it was, under the new version");
    // Whoever writes the new version is answered by an operator that knows the old one alone.
    let more = json!({"spec": {"priority": 7}});
    let written = new.patch("research", &PatchParams::default(), &Patch::Merge(&more)).await?;
    let generation = written.metadata.generation.context("a policy has a generation")?;
    ensure!(generation == 2, "{generation}");
    answered(&client, generation).await?;
    let before = content(&policies(&client, OLD).await?.get("research").await?);
    ensure!(before.0["priority"] == 7, "{}", before.0);

    // The old one cannot go while something may be stored in it.
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let too_early = objects::install_crds(&client, &[with_versions(crd, &[NEW])]).await;
    let refused = format!("{:?}", too_early.err().context("the API server forgot what is stored")?);
    ensure!(refused.contains("storedVersions"), "{refused}");
    // Everything is written once more, as it is.
    for object in new.list(&ListParams::default()).await? {
        let name = object.metadata.name.clone().unwrap_or_default();
        new.replace(&name, &PostParams::default(), &object).await?;
    }
    let stored = json!({"status": {"storedVersions": [NEW]}});
    crds.patch_status(&name, &PatchParams::default(), &Patch::Merge(&stored)).await?;
    assert_eq!(content(&new.get("research").await?), before);

    // Then it goes, with the last operator that needs it.
    operator.stop().await?;
    objects::install_crds(&client, &[with_versions(crd, &[NEW])]).await?;
    assert_eq!(content(&new.get("research").await?), before, "no policy was lost with the old version");
    Ok(())
}
