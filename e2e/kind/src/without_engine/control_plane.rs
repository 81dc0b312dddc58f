//! The images of the control plane, each from one static program.

use super::parts::{COREDNS, ETCD, KUBERNETES, PAUSE, Parts};
use super::rootfs;
use crate::archive;
use crate::call::call;
use crate::place::remove;
use anyhow::Context;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) fn save(parts: &Parts, root: &Path, scratch: &Path, into: &Path) -> anyhow::Result<()> {
    let pause = scratch.join("pause");
    rootfs::pause(scratch, &pause)?;
    let kubernetes = |name: &str| format!("registry.k8s.io/{name}:{KUBERNETES}");
    let names: Vec<(Vec<String>, &str, &Path)> = vec![
        (PAUSE.iter().map(|name| (*name).to_owned()).collect(), "pause", &pause),
        (vec![kubernetes("kube-apiserver")], "kube-apiserver", parts.path("kube-apiserver")?),
        (
            vec![kubernetes("kube-controller-manager")],
            "kube-controller-manager",
            parts.path("kube-controller-manager")?,
        ),
        (vec![kubernetes("kube-scheduler")], "kube-scheduler", parts.path("kube-scheduler")?),
        (vec![kubernetes("kube-proxy")], "kube-proxy", parts.path("kube-proxy")?),
        (vec![ETCD.to_owned()], "etcd", parts.path("etcd")?),
        (vec![COREDNS.to_owned()], "coredns", parts.path("coredns")?),
    ];
    let mut layers = Vec::new();
    for (_, program, path) in &names {
        let folder = scratch.join(format!("image-{program}"));
        for part in ["usr/local/bin", "tmp", "etc"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::copy(path, folder.join("usr/local/bin").join(program))
            .with_context(|| format!("cannot copy {}", path.display()))?;
        fs::write(folder.join("etc/passwd"), "root:x:0:0:root:/root:/sbin/nologin\n")?;
        call(Command::new("chmod").arg("755").arg(folder.join("usr/local/bin").join(program)))?;
        call(Command::new("chmod").arg("1777").arg(folder.join("tmp")))?;
        if *program == "kube-proxy" {
            rootfs::packet_filter(root, &folder)?;
        }
        let layer = scratch.join(format!("image-{program}.tar"));
        call(
            Command::new("tar").arg("-C").arg(&folder).args(["--numeric-owner", "-cf"]).arg(&layer).arg("."),
        )?;
        remove(&folder)?;
        layers.push(layer);
    }
    let images: Vec<_> = names
        .iter()
        .zip(&layers)
        .map(|((names, program, _), layer)| {
            let config = serde_json::json!({
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": [format!("/usr/local/bin/{program}")],
            });
            (names.iter().map(String::as_str).collect::<Vec<_>>(), layer, config)
        })
        .collect();
    let images: Vec<_> = images
        .iter()
        .map(|(names, layer, config)| archive::Image { names, layer, config: config.clone() })
        .collect();
    archive::write(into, scratch, &images)
}
