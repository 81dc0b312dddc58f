//! Slicewright on the cluster: its image from this checkout, its chart.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::call::call;
use crate::cluster::Cluster;
use crate::gpus;
use crate::place::{Place, remove};
use crate::programs::{self, Contents};

/// Where it is installed.
pub const NAMESPACE: &str = "slicewright";
/// The name of the release, and of its Deployment.
pub const RELEASE: &str = "slicewright";

/// Loads the operator's image into the nodes, from a built program.
///
/// # Errors
/// When it is not built, or cannot be loaded.
pub fn load(cluster: &Cluster<'_>, place: &Place, program: &Path) -> anyhow::Result<()> {
    ensure!(program.is_file(), "{} is missing: `cargo xtask kind story` builds it", program.display());
    let scratch = place.scratch()?;
    let stripped = scratch.join("slicewright-operator");
    // A debug build is mostly what debuggers read.
    call(std::process::Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
    let contents = Contents {
        name: "slicewright.local/slicewright",
        programs: vec![(stripped, "usr/bin/slicewright-operator")],
        files: Vec::new(),
        entrypoint: vec!["/usr/bin/slicewright-operator"],
    };
    let archive = scratch.join("operator.tar");
    let tag = programs::write(&[contents], &scratch, &archive)?;
    let now = fs::read_to_string(place.loaded()).unwrap_or_default();
    let done = if now == tag { Ok(()) } else { cluster.load(&archive) };
    done.and(remove(&scratch))?;
    fs::write(place.loaded(), tag).context("cannot write which image was loaded")
}

/// Installs it by its chart, or brings an installation to this image.
///
/// # Errors
/// When it does not become ready.
pub fn install(cluster: &Cluster<'_>, place: &Place) -> anyhow::Result<()> {
    let tag = fs::read_to_string(place.loaded()).context("the operator's image is not loaded")?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/slicewright");
    let mut helm = cluster.inside(tools::find("helm")?);
    helm.args(["upgrade", "--install", RELEASE]).arg(chart);
    helm.args(["--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout=180s"]);
    for value in [
        "image.repository=slicewright.local/slicewright".to_owned(),
        format!("image.tag={tag}"),
        "image.pullPolicy=Never".to_owned(),
        "replicas=1".to_owned(),
        format!("gpuOperator.namespace={}", gpus::NAMESPACE),
        "gpuOperator.patchClusterPolicy=true".to_owned(),
        // The kubelets here look every ten seconds, and not every minute.
        "rollout.mapSettle=25s".to_owned(),
        "rollout.stableFor=5s".to_owned(),
        // The image has the operator alone.
        "uninstall.release=false".to_owned(),
    ] {
        helm.arg("--set").arg(value);
    }
    call(&mut helm).map(drop)
}

/// Takes it away with everything that its chart left to stay, so that the
/// cluster is as it came up; does nothing where it is not installed.
///
/// # Errors
/// When something of it stays.
pub fn uninstall(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let mut helm = cluster.inside(tools::find("helm")?);
    helm.args(["uninstall", RELEASE, "--namespace", NAMESPACE]);
    call(helm.args(["--ignore-not-found", "--wait", "--timeout=180s"]))?;
    let kubectl = |args: &[&str]| cluster.kubectl().and_then(|mut kubectl| call(kubectl.args(args)));
    let gone = ["--ignore-not-found", "--timeout=120s"];
    kubectl(
        &[&["delete", "crd", "gpupartitionpolicies.slicewright.io", "gpunodes.slicewright.io"], &gone[..]]
            .concat(),
    )?;
    kubectl(&[&["delete", "namespace", NAMESPACE], &gone[..]].concat())?;
    // MIG manager reads the shipped map again.
    let patch = r#"{"spec":{"migManager":{"config":{"name":""}}}}"#;
    kubectl(&["patch", "clusterpolicy", "cluster-policy", "--type=merge", "--patch", patch])?;
    kubectl(&[
        "delete",
        "configmap",
        "slicewright-mig-config",
        "--namespace",
        gpus::NAMESPACE,
        "--ignore-not-found",
    ])?;
    Ok(())
}
