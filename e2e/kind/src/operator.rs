//! Slicewright on the cluster: its image from this checkout, its chart.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::call::call;
use crate::cluster::Cluster;
use crate::gpus;
use crate::place::Place;

/// Where it is installed.
pub const NAMESPACE: &str = "slicewright";
/// The name of the release, and of its Deployment.
pub const RELEASE: &str = "slicewright";

/// Its map of the device plugin's configurations.
pub const PLUGIN_MAP: &str = "slicewright-plugin-config";

/// Where its agents are, and the name of their DaemonSet.
pub const AGENT_NAMESPACE: &str = "slicewright-agent";
/// The DaemonSet of agents.
pub const AGENT: &str = "slicewright-agent";

/// Loads the images of operator and agent into the nodes, as `cargo xtask
/// image` made them.
///
/// # Errors
/// When one is not built, or cannot be loaded.
pub fn load(cluster: &Cluster<'_>, place: &Place, images: &Path) -> anyhow::Result<()> {
    let digest = |image: &str| {
        let file = images.join(format!("{image}.digest"));
        fs::read_to_string(&file)
            .with_context(|| format!("{} is missing: `cargo xtask kind story` builds it", file.display()))
    };
    let digests = format!("{}\n{}\n", digest("operator")?.trim(), digest("agent")?.trim());
    if fs::read_to_string(place.loaded()).unwrap_or_default() == digests {
        return Ok(());
    }
    cluster.load(&images.join("operator.tar"))?;
    cluster.load(&images.join("agent.tar"))?;
    fs::write(place.loaded(), digests).context("cannot write which images were loaded")
}

/// Installs it by its chart, as a person does, or brings an installation to
/// this image. Agents of an earlier installation go.
///
/// # Errors
/// When it does not become ready.
pub fn install(cluster: &Cluster<'_>, place: &Place) -> anyhow::Result<()> {
    install_with(cluster, place, &["agent.enabled=false".to_owned()])
}

/// The same, as the admission check of Kueue's queues.
///
/// # Errors
/// When it does not become ready.
pub fn install_for_queues(cluster: &Cluster<'_>, place: &Place) -> anyhow::Result<()> {
    install_with(cluster, place, &["agent.enabled=false".to_owned(), "kueue=admission-check".to_owned()])
}

fn install_with(cluster: &Cluster<'_>, place: &Place, more: &[String]) -> anyhow::Result<()> {
    let mut helm = upgrade(cluster, place, more)?;
    cluster.waits(helm.arg("--wait"))?;
    // Nothing can be put into a namespace that goes: who wants agents next has to find it gone.
    let gone = ["wait", "--for=delete", "namespace", AGENT_NAMESPACE];
    cluster.waits(cluster.kubectl()?.args(gone)).map(drop)
}

/// The same with the agent of GPU nodes, which may do what this mode says. It
/// does not wait for agents: they start when they find the driver.
///
/// # Errors
/// When Helm does not install it.
pub fn install_with_agents(cluster: &Cluster<'_>, place: &Place, mode: &str) -> anyhow::Result<()> {
    let agents = [
        "agent.enabled=true".to_owned(),
        "agent.driverRoot=/var/lib/slicewright-driver".to_owned(),
        format!("agent.extraArgs={{--mode={mode}}}"),
    ];
    call(&mut upgrade(cluster, place, &agents)?).map(drop)
}

/// Helm as it installs it, or brings an installation to this.
fn upgrade(cluster: &Cluster<'_>, place: &Place, more: &[String]) -> anyhow::Result<Command> {
    let digests = fs::read_to_string(place.loaded()).context("the operator's image is not loaded")?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/slicewright");
    let mut helm = cluster.inside(tools::find("helm")?);
    helm.args(["upgrade", "--install", RELEASE]).arg(chart);
    helm.args(["--namespace", NAMESPACE, "--create-namespace"]);
    for value in values(digests.lines().next().unwrap_or_default()).iter().chain(more) {
        helm.arg("--set").arg(value);
    }
    Ok(helm)
}

/// What is different from the chart's defaults.
fn values(digest: &str) -> [String; 7] {
    [
        // As `cargo xtask image` names what is loaded and never pulled.
        "image.registry=localhost".to_owned(),
        // A release writes another into the chart's values.
        "image.repository=slicewright/slicewright".to_owned(),
        // Another image goes by the same tag: pods of an earlier one are replaced.
        format!("podAnnotations.image={}", digest.trim()),
        format!("gpuOperator.namespace={}", gpus::NAMESPACE),
        "gpuOperator.patchClusterPolicy=true".to_owned(),
        // The kubelets here look every ten seconds, and not every minute.
        "rollout.mapSettle=25s".to_owned(),
        "rollout.stableFor=5s".to_owned(),
    ]
}

/// Uninstalls its release, as a person does; does nothing where it is not
/// installed. Policies stay, by the chart's default.
///
/// # Errors
/// When Helm does not bring it to its end.
pub fn uninstall(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let mut helm = cluster.inside(tools::find("helm")?);
    helm.args(["uninstall", RELEASE, "--namespace", NAMESPACE]);
    cluster.waits(helm.args(["--ignore-not-found", "--wait"])).map(drop)
}

/// Takes it away with everything that its chart left to stay, so that the
/// cluster is as it came up; does nothing where it is not installed.
///
/// # Errors
/// When something of it stays.
pub fn remove(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    uninstall(cluster)?;
    let kubectl = |args: &[&str]| cluster.kubectl().and_then(|mut kubectl| call(kubectl.args(args)));
    let crds = ["gpupartitionpolicies.slicewright.io", "gpunodes.slicewright.io"];
    for [kind, names] in [["crd", &crds.join(" ")], ["namespace", NAMESPACE]] {
        let delete = ["delete", kind, "--ignore-not-found"];
        cluster.waits(cluster.kubectl()?.args(delete).args(names.split(' ')))?;
    }
    // MIG manager and the device plugin read the shipped maps again.
    let patch = r#"{"spec":{"migManager":{"config":{"name":""}},"devicePlugin":{"config":null}}}"#;
    kubectl(&["patch", "clusterpolicy", "cluster-policy", "--type=merge", "--patch", patch])?;
    for map in ["slicewright-mig-config", PLUGIN_MAP] {
        kubectl(&["delete", "configmap", map, "--namespace", gpus::NAMESPACE, "--ignore-not-found"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the values of the chart have a path: keys are told apart by how far they are indented.
    fn has(chart: &str, path: &str) -> bool {
        let mut lines = chart.lines().filter(|line| !line.trim_start().starts_with('#'));
        path.split('.').enumerate().all(|(depth, key)| {
            let begin = format!("{}{key}:", "  ".repeat(depth));
            let found = lines.by_ref().take_while(|line| {
                // Out of the block of the key before: it is not in there.
                depth == 0 || line.trim().is_empty() || line.starts_with(&"  ".repeat(depth))
            });
            found.into_iter().any(|line| line.starts_with(&begin))
        })
    }

    #[test]
    fn every_value_that_is_set_is_one_of_the_chart() {
        let chart = include_str!("../../../charts/slicewright/values.yaml");
        for value in values("sha256:1234\n") {
            let (path, value) = value.split_once('=').unwrap();
            // Annotations are free.
            let path = if path.starts_with("podAnnotations.") { "podAnnotations" } else { path };
            assert!(has(chart, path), "the chart has no value {path}");
            assert!(!value.is_empty() && value.trim() == value, "{path}={value:?}");
        }
        assert!(
            !has(chart, "rollout.registry") && !has(chart, "image.mapSettle"),
            "a path is not only its end"
        );
    }

    #[test]
    fn another_image_under_the_same_tag_is_another_pod() {
        let annotation =
            |digest| values(digest).into_iter().find(|value| value.starts_with("podAnnotations."));
        assert_eq!(annotation("sha256:1\n").unwrap(), "podAnnotations.image=sha256:1");
        assert_ne!(annotation("sha256:1"), annotation("sha256:2"));
    }
}
