//! Simulated GPUs on the workers, and NVIDIA's own components over them: what
//! the GPU Operator would install.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::call::{call, call_with};
use crate::cluster::Cluster;
use crate::fleet::{Gpus, LABEL};
use crate::place::Place;
use crate::programs::{self, Contents, of_this_machine};
use crate::progress::Progress;

/// Where everything of NVIDIA's is.
pub const NAMESPACE: &str = "gpu-operator";

/// Where what stands in for OpenShift AI is.
const OPENSHIFT_AI: &str = "openshift-ai";

/// NFD's mark of a node with a device of NVIDIA's.
const FOUND: &str = "feature.node.kubernetes.io/pci-10de.present=true";

/// What is ours: programs that were built from this checkout.
#[derive(Clone, Debug)]
pub struct Ours {
    /// `slicewright-sim`.
    pub simulator: PathBuf,
    /// The folder with `libnvidia-ml.so.1` and our `nvidia-smi`.
    pub library: PathBuf,
}

/// Brings GPUs to every worker, and waits until their kubelets have them.
///
/// # Errors
/// When a part is missing, or does not come up.
pub fn bring<W: Write>(
    cluster: &Cluster<'_>,
    place: &Place,
    ours: &Ours,
    progress: &mut Progress<W>,
) -> anyhow::Result<()> {
    let tag = progress.step("loading the simulator and NVIDIA's components into the nodes", || {
        let scratch = place.scratch()?;
        let archive = scratch.join("programs.tar");
        let tag = programs::write(&images(ours)?, &scratch, &archive)?;
        let loaded = cluster.load(&archive);
        let cleaned = crate::place::remove(&scratch);
        loaded.and(cleaned).map(|()| tag)
    })?;
    let read = |file: &str| manifest(file, &tag);
    let workers = cluster.spec()?.context("the cluster does not say what it is made of")?.workers;
    progress.step("simulated drivers and NVIDIA's components", || {
        apply(cluster, include_str!("../../../simulator/cluster/crds/nvidia.com_clusterpolicies.yaml"))?;
        apply(cluster, &read("operands.yaml")?)?;
        apply(cluster, &read("operator.yaml")?)?;
        let crds = tools::find("nfd-crds")?;
        call(cluster.kubectl()?.args(["apply", "--server-side", "-k"]).arg(&crds))?;
        layouts(cluster)?;
        let mut kinds: Vec<&Gpus> = workers.iter().collect();
        kinds.sort_by_key(ToString::to_string);
        kinds.dedup();
        let template = read("driver.yaml")?;
        for gpus in kinds {
            apply(cluster, &driver(&template, gpus))?;
        }
        ready(cluster, NAMESPACE, "daemonset", "app=nvidia-driver-daemonset")
    })?;
    progress.step("OpenShift AI's part for workbenches", || {
        apply(cluster, include_str!("../../../simulator/cluster/crds/kubeflow.org_notebooks.yaml"))?;
        apply(
            cluster,
            include_str!(
                "../../../simulator/cluster/crds/infrastructure.opendatahub.io_hardwareprofiles.yaml"
            ),
        )?;
        apply(cluster, &read("openshift-ai.yaml")?)?;
        ready(cluster, OPENSHIFT_AI, "deployment", "app=notebook-controller")
    })?;
    progress.step("Node Feature Discovery finds the GPUs", || {
        let selector = format!("--selector={FOUND}");
        cluster.wait("NFD's label on every worker", 600, || {
            let listed = cluster
                .kubectl()
                .and_then(|mut kubectl| call(kubectl.args(["get", "nodes", &selector, "--output=name"])));
            listed.is_ok_and(|listed| listed.lines().count() == workers.len())
        })
    })?;
    progress.step("device plugin, feature discovery and MIG manager", || {
        // GFD runs where the Operator has seen what NFD found.
        let discovered = r"--for=jsonpath={.metadata.labels.nvidia\.com/mig\.capable}";
        cluster.waits(cluster.kubectl()?.args(["wait", "nodes", "--selector", LABEL, discovered]))?;
        for app in ["nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-mig-manager"] {
            ready(cluster, NAMESPACE, "daemonset", &format!("app={app}"))?;
        }
        Ok(())
    })?;
    progress.step("kubelets have their GPUs", || {
        cluster.wait("a GPU or a slice on every worker", 600, || {
            offering(cluster).is_ok_and(|found| found == workers.len())
        })
    })
}

/// How many workers have GPUs or slices for pods.
fn offering(cluster: &Cluster<'_>) -> anyhow::Result<usize> {
    offers(&call(cluster.kubectl()?.args(["get", "nodes", "--selector", LABEL, "--output=json"]))?)
}

/// How many of these nodes have GPUs or slices for pods.
fn offers(said: &str) -> anyhow::Result<usize> {
    let nodes: serde_json::Value = serde_json::from_str(said).context("kubectl does not answer in JSON")?;
    let offers = |node: &serde_json::Value| {
        let all = node["status"]["allocatable"].as_object().into_iter().flatten();
        let mut ours = all.filter(|(name, _)| name.starts_with("nvidia.com/"));
        ours.any(|(_, many)| many.as_str().is_some_and(|many| many != "0"))
    };
    Ok(nodes["items"].as_array().into_iter().flatten().filter(|node| offers(node)).count())
}

fn manifests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(file)
}

/// One of the manifests, with the images of this tag.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn manifest(file: &str, tag: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(manifests(file)).with_context(|| format!("cannot read {file}"))?;
    // Another tag is another image: what runs an older one is replaced.
    Ok(text.replace(":TAG", &format!(":{tag}")))
}

pub(crate) fn apply(cluster: &Cluster<'_>, text: &str) -> anyhow::Result<()> {
    call_with(
        cluster.kubectl()?.args(["apply", "--server-side", "--force-conflicts", "-f", "-"]),
        text.as_bytes(),
    )
    .map(drop)
}

/// The layouts that NVIDIA's own MIG manager comes with.
fn layouts(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let mut from = std::ffi::OsString::from("--from-file=config.yaml=");
    from.push(tools::find("mig-parted-config.yaml")?);
    let mut create = cluster.kubectl()?;
    create.args(["create", "configmap", "default-mig-parted-config", "--namespace", NAMESPACE]).arg(from);
    let text = call(create.args(["--dry-run=client", "--output=json"]))?;
    apply(cluster, &text)
}

fn driver(template: &str, gpus: &Gpus) -> String {
    let name = gpus.to_string().to_ascii_lowercase().replace(['.', '_'], "-");
    template
        .replace("GPUSOFNODE", &format!("{}={}", gpus.model, gpus.count))
        .replace("LABEL", &gpus.to_string())
        .replace("nvidia-driver-NAME", &format!("nvidia-driver-{name}"))
        .replace("sim: NAME", &format!("sim: {name}"))
}

fn ready(cluster: &Cluster<'_>, namespace: &str, kind: &str, selector: &str) -> anyhow::Result<()> {
    let here = ["--namespace", namespace, "--selector", selector];
    let mut rollout = cluster.kubectl()?;
    rollout.args(["rollout", "status", kind]).args(here);
    let waited = cluster.waits(&mut rollout).map(drop);
    waited.with_context(|| {
        let pods = cluster
            .kubectl()
            .and_then(|mut kubectl| call(kubectl.args(["get", "pods", "--output=wide"]).args(here)));
        format!("{selector} does not come up:\n{}", pods.unwrap_or_default())
    })
}

/// The images: the simulator, and one for each of NVIDIA's programs that runs
/// in a container of its own.
fn images(ours: &Ours) -> anyhow::Result<Vec<Contents>> {
    let tool = |name: &'static str, at: &'static str| -> anyhow::Result<(PathBuf, &'static str)> {
        Ok((fs::canonicalize(tools::find(name)?)?, at))
    };
    let shell = || -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
        let wanted = [
            ("sh", "usr/bin/sh"),
            ("sleep", "usr/bin/sleep"),
            ("mkdir", "usr/bin/mkdir"),
            ("ln", "usr/bin/ln"),
            ("rm", "usr/bin/rm"),
            ("cat", "usr/bin/cat"),
            ("ls", "usr/bin/ls"),
            ("test", "usr/bin/test"),
            ("mount", "usr/bin/mount"),
        ];
        wanted.iter().map(|(name, at)| Ok((of_this_machine(name)?, *at))).collect()
    };
    let smi = ours.library.join("nvidia-smi");
    let library = ours.library.join("libnvidia-ml.so.1");
    for path in [&smi, &library, &ours.simulator] {
        ensure!(path.is_file(), "{} is missing: `cargo xtask kind up` builds it", path.display());
    }
    let with = |mut programs: Vec<(PathBuf, &'static str)>, more: Vec<(PathBuf, &'static str)>| {
        programs.extend(more);
        programs
    };
    let enter = ("opt/enter.sh", include_str!("../manifests/enter.sh"), true);
    Ok(vec![
        Contents {
            name: "slicewright.local/simulator",
            programs: with(
                shell()?,
                vec![
                    (ours.simulator.clone(), "usr/bin/slicewright-sim"),
                    (fs::canonicalize(&library)?, "usr/lib64/libnvidia-ml.so.1"),
                    (smi.clone(), "usr/bin/nvidia-smi"),
                    // Into the driver root, where hooks of CDI specifications find it on the node.
                    tool("nvidia-ctk", "usr/bin/nvidia-ctk")?,
                ],
            ),
            files: Vec::new(),
            entrypoint: vec!["/usr/bin/slicewright-sim"],
        },
        Contents {
            name: "slicewright.local/device-plugin",
            programs: with(
                shell()?,
                vec![
                    tool("nvidia-device-plugin", "usr/bin/nvidia-device-plugin")?,
                    tool("config-manager", "usr/bin/config-manager")?,
                    tool("gpu-feature-discovery", "usr/bin/gpu-feature-discovery")?,
                    // As NVIDIA's container toolkit puts it there, with what the library loads.
                    (smi.clone(), "usr/bin/nvidia-smi"),
                ],
            ),
            files: vec![enter],
            entrypoint: vec!["/usr/bin/nvidia-device-plugin"],
        },
        Contents {
            name: "slicewright.local/mig-manager",
            programs: with(
                shell()?,
                vec![
                    tool("nvidia-mig-manager", "usr/bin/nvidia-mig-manager")?,
                    tool("nvidia-mig-parted", "usr/bin/nvidia-mig-parted")?,
                    (smi.clone(), "usr/bin/nvidia-smi"),
                ],
            ),
            files: vec![enter],
            entrypoint: vec!["/usr/bin/nvidia-mig-manager"],
        },
        Contents {
            name: "slicewright.local/dra-driver",
            programs: with(
                shell()?,
                vec![
                    tool("gpu-kubelet-plugin", "usr/bin/gpu-kubelet-plugin")?,
                    // With what the library loads.
                    (smi.clone(), "usr/bin/nvidia-smi"),
                ],
            ),
            files: vec![enter],
            entrypoint: vec!["/usr/bin/gpu-kubelet-plugin"],
        },
        Contents {
            name: "slicewright.local/nfd",
            programs: vec![
                tool("nfd-master", "usr/bin/nfd-master")?,
                tool("nfd-worker", "usr/bin/nfd-worker")?,
            ],
            files: Vec::new(),
            entrypoint: vec!["/usr/bin/nfd-worker"],
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_worker_has_a_driver_of_its_own() {
        let template = fs::read_to_string(manifests("driver.yaml")).unwrap();
        let text = driver(&template, &"2xA100-80GB".parse().unwrap());
        assert!(text.contains("name: nvidia-driver-2xa100-80gb\n"), "{text}");
        assert!(text.contains("sim.slicewright.io/gpus: 2xA100-80GB"), "{text}");
        assert!(text.contains("args: [--gpus, A100-80GB=2, --host, "), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || !line.contains("NAME}")), "{text}");
    }

    #[test]
    fn only_a_node_that_offers_something_of_nvidias_counts() {
        let node =
            |allocatable: serde_json::Value| serde_json::json!({"status": {"allocatable": allocatable}});
        let nodes = |all: &[serde_json::Value]| serde_json::json!({"items": all}).to_string();
        let whole = node(serde_json::json!({"cpu": "8", "nvidia.com/gpu": "8"}));
        let cut = node(serde_json::json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}));
        let paused = node(serde_json::json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "0"}));
        let bare = node(serde_json::json!({"cpu": "8"}));
        let young = serde_json::json!({"metadata": {"name": "young"}});
        assert_eq!(offers(&nodes(&[whole, cut, paused, bare, young])).unwrap(), 2);
        assert_eq!(offers(&nodes(&[])).unwrap(), 0);
        assert_eq!(offers("Unable to connect").unwrap_err().to_string(), "kubectl does not answer in JSON");
    }

    #[test]
    fn every_image_of_ours_in_a_manifest_has_the_tag_of_this_build() {
        let mut found = 0;
        for entry in fs::read_dir(manifests("")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if !file.ends_with(".yaml") {
                continue;
            }
            for line in
                manifest(&file, "0a1b2c").unwrap().lines().filter(|line| line.contains("slicewright.local/"))
            {
                assert!(line.contains(":0a1b2c"), "{file}: {line}");
                found += 1;
            }
        }
        assert!(found >= 6, "{found}");
        assert!(
            manifest("nothing.yaml", "t").unwrap_err().to_string().starts_with("cannot read nothing.yaml")
        );
    }

    #[test]
    fn what_is_not_built_is_named_before_anything_is_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let ours = Ours { simulator: dir.path().join("slicewright-sim"), library: dir.path().to_owned() };
        for file in ["nvidia-smi", "libnvidia-ml.so.1", "slicewright-sim"] {
            let error = images(&ours).unwrap_err().to_string();
            let path = dir.path().join(file);
            assert_eq!(error, format!("{} is missing: `cargo xtask kind up` builds it", path.display()));
            fs::write(path, "").unwrap();
        }
    }
}
