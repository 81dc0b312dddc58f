//! Kueue on the cluster, as its own manifests install it: with its webhooks, and the certificates that it makes itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::call::call;
use crate::cluster::Cluster;
use crate::gpus::manifest;
use crate::place::Place;
use crate::programs::{self, Contents};

/// Where it is installed.
const NAMESPACE: &str = "kueue-system";

/// Its kinds that people make. Each waits for those before it, so this is the order in which they go.
const MADE: [&str; 5] = [
    "workloads.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "admissionchecks.kueue.x-k8s.io",
];

/// Brings it to the cluster, and waits until it is ready.
///
/// # Errors
/// When it is not built, or does not come up.
pub(crate) fn bring(cluster: &Cluster<'_>, place: &Place) -> anyhow::Result<()> {
    let scratch = place.scratch()?;
    let archive = scratch.join("kueue.tar");
    let image = Contents {
        name: "slicewright.local/kueue",
        programs: vec![(fs::canonicalize(tools::find("kueue")?)?, "manager")],
        files: Vec::new(),
        entrypoint: vec!["/manager"],
    };
    let tag = programs::write(&[image], &scratch, &archive)?;
    cluster.load(&archive)?;
    let folder = installation(&scratch, &tag)?;
    call(cluster.kubectl()?.args(["apply", "--server-side", "--force-conflicts", "-k"]).arg(&folder))?;
    let rollout = ["rollout", "status", "deployment", "--namespace", NAMESPACE, "kueue-controller-manager"];
    cluster.waits(cluster.kubectl()?.args(rollout)).map(drop)
}

/// Takes it away with everything that it was told; does nothing where it is not.
///
/// # Errors
/// When something of it stays.
pub(crate) fn remove(cluster: &Cluster<'_>, place: &Place) -> anyhow::Result<()> {
    let crds = call(cluster.kubectl()?.args(["get", "crds", "--output=name"]))?;
    for kind in MADE.iter().filter(|kind| crds.lines().any(|name| name.ends_with(*kind))) {
        // It lets go itself of what it holds: it goes last.
        cluster.waits(cluster.kubectl()?.args(["delete", kind, "--all", "--all-namespaces"]))?;
    }
    let folder = installation(&place.scratch()?, "none")?;
    cluster.waits(cluster.kubectl()?.args(["delete", "--ignore-not-found", "-k"]).arg(&folder)).map(drop)
}

/// The folder from which kubectl installs it with the image of this tag.
fn installation(scratch: &Path, tag: &str) -> anyhow::Result<PathBuf> {
    let folder = scratch.join("kueue");
    fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut copy = Command::new("cp");
    call(copy.args(["-rL"]).arg(tools::find("kueue-components")?).arg(folder.join("components")))?;
    fs::write(folder.join("kustomization.yaml"), manifest("kueue.yaml", tag)?)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(folder)
}
