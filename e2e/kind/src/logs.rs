//! Collects everything that helps to understand a failure of a cluster, in one folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::call::call;
use crate::cluster::Cluster;
use crate::place::Place;

/// Files, each with the kubectl command whose answer is in it.
const ASKED: &[(&str, &[&str])] = &[
    ("nodes.yaml", &["get", "nodes", "--output=yaml"]),
    ("pods.txt", &["get", "pods", "--all-namespaces", "--output=wide"]),
    ("pods.yaml", &["get", "pods", "--all-namespaces", "--output=yaml"]),
    ("events.txt", &["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"]),
    ("daemonsets.yaml", &["get", "daemonsets", "--all-namespaces", "--output=yaml"]),
    ("clusterpolicies.yaml", &["get", "clusterpolicies.nvidia.com", "--output=yaml"]),
    ("policies.yaml", &["get", "gpupartitionpolicies.slicewright.io", "--output=yaml"]),
    ("gpunodes.yaml", &["get", "gpunodes.slicewright.io", "--output=yaml"]),
    ("notebooks.yaml", &["get", "notebooks.kubeflow.org", "--all-namespaces", "--output=yaml"]),
    ("configmaps.yaml", &["get", "configmaps", "--namespace=gpu-operator", "--output=yaml"]),
];

/// Writes it all into a folder; what could not be had, for people.
///
/// # Errors
/// When the folder cannot be written.
pub fn collect(cluster: &Cluster<'_>, place: &Place, into: &Path) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let mut lacking = Vec::new();
    let mut keep = |file: &str, said: anyhow::Result<String>| -> anyhow::Result<()> {
        let text = said.unwrap_or_else(|error| {
            lacking.push(format!("{file}: {error:#}"));
            format!("{error:#}\n")
        });
        let path = into.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let asked = |args: &[&str]| cluster.kubectl().and_then(|mut kubectl| call(kubectl.args(args)));
    for (file, args) in ASKED {
        keep(file, asked(args))?;
    }
    let format = "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}";
    let pods = asked(&["get", "pods", "--all-namespaces", &format!("--output={format}")]).unwrap_or_default();
    for (namespace, name) in named(&pods) {
        let all = ["logs", "--namespace", namespace, name, "--all-containers", "--prefix", "--tail=5000"];
        keep(&format!("pods/{namespace}/{name}.txt"), asked(&all))?;
        let mut before = all.to_vec();
        before.push("--previous");
        // Most containers have no earlier life.
        if let Ok(said) = asked(&before) {
            keep(&format!("pods/{namespace}/{name}.previous.txt"), Ok(said))?;
        }
    }
    for node in cluster.containers()? {
        for (file, words) in [
            ("kubelet.txt", ["journalctl", "--no-pager", "--lines=5000", "--unit=kubelet"]),
            ("containerd.txt", ["journalctl", "--no-pager", "--lines=5000", "--unit=containerd"]),
        ] {
            let mut command: Command = cluster.engine().command();
            keep(&format!("nodes/{node}/{file}"), call(command.args(["exec", &node]).args(words)))?;
        }
    }
    let engine = place.folder().join("dockerd.log");
    if engine.exists() {
        keep("dockerd.txt", fs::read_to_string(&engine).context("the engine's log"))?;
    }
    Ok(lacking)
}

/// From the namespace and the name of each pod, a line each.
fn named(said: &str) -> impl Iterator<Item = (&str, &str)> {
    said.lines().filter_map(|line| line.split_once(' ')).filter(|(_, name)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_question_has_a_file_of_its_own_and_changes_nothing() {
        let files: BTreeSet<_> = ASKED.iter().map(|(file, _)| *file).collect();
        assert_eq!(files.len(), ASKED.len());
        assert!(files.iter().all(|file| !file.contains('/')), "{files:?}");
        assert!(ASKED.iter().all(|(_, args)| args[0] == "get"));
    }

    #[test]
    fn a_pod_is_its_namespace_and_its_name() {
        let pods: Vec<_> =
            named("gpu-operator nvidia-mig-manager-x\n\nstory \nteam-a notebook-0\n").collect();
        assert_eq!(pods, [("gpu-operator", "nvidia-mig-manager-x"), ("team-a", "notebook-0")]);
    }
}
