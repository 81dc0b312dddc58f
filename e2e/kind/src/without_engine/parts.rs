//! What goes into a node image: the versions, the names that kubeadm expects, and the programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The Kubernetes of the nodes: what `tools/kube` pins.
pub(crate) const KUBERNETES: &str = "v1.36.3";

/// What kubeadm asks for, beside Kubernetes itself: names and tags as it
/// expects them.
pub(crate) const PAUSE: &[&str] = &["registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10.2"];
pub(crate) const ETCD: &str = "registry.k8s.io/etcd:3.6.8-0";
pub(crate) const COREDNS: &str = "registry.k8s.io/coredns/coredns:v1.14.2";

/// The programs of a node image, as `cargo xtask tools` names them.
const PARTS: &[&str] = &[
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "kubeadm",
    "kube-proxy",
    "etcd",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "crictl",
    "coredns",
    "kind-node-files",
];

/// The programs that go into a node image.
#[derive(Debug)]
pub(crate) struct Parts {
    found: Vec<(&'static str, PathBuf)>,
}

impl Parts {
    /// Those that `cargo xtask tools` made.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let found = PARTS.iter().map(|name| Ok((*name, fs::canonicalize(tools::find(name)?)?)));
        Ok(Self { found: found.collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn path(&self, name: &str) -> anyhow::Result<&Path> {
        let found = self.found.iter().find(|(part, _)| *part == name);
        Ok(&found.with_context(|| format!("{name} is no part of a node image"))?.1)
    }

    /// Each with the file that it is.
    pub(crate) fn found(&self) -> &[(&'static str, PathBuf)] {
        &self.found
    }
}
