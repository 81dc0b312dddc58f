//! The image of a node: kind's own where its registry can be reached, else
//! one that is made here from Debian packages and the Go modules under
//! `tools/`, and kept outside of the checkout under a key of what went in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::call::call;
use crate::engine::Engine;
use crate::place::{Place, remove};
use crate::progress::Progress;
use crate::{preflight, rootfs};

/// The Kubernetes of the nodes: what `tools/kube` pins.
pub const KUBERNETES: &str = "v1.36.3";

/// kind's own image for it.
const STOCK: &str = "kindest/node:v1.36.3";

/// What kubeadm asks for, beside Kubernetes itself: names and tags as it
/// expects them.
const PAUSE: &[&str] = &["registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10.2"];
const ETCD: &str = "registry.k8s.io/etcd:3.6.8-0";
const COREDNS: &str = "registry.k8s.io/coredns/coredns:v1.14.2";

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

/// The one that the engine has afterwards: its name.
///
/// # Errors
/// When it can neither be fetched nor made.
pub fn ensure<W: std::io::Write>(
    place: &Place,
    engine: &Engine,
    own: bool,
    progress: &mut Progress<W>,
) -> anyhow::Result<String> {
    if !own && !engine.is_ours() {
        if engine.has_image(STOCK)
            || progress.step(&format!("fetching {STOCK}"), || Ok(engine.pull(STOCK)))?
        {
            return Ok(STOCK.to_owned());
        }
        progress.say(&format!("{STOCK} cannot be fetched: a node image of our own instead"))?;
    }
    let parts = Parts::find()?;
    let key = parts.key()?;
    let image = format!("slicewright-kind-node:{key}");
    if engine.has_image(&image) {
        return Ok(image);
    }
    let kept = place.image(&key);
    if !kept.is_file() {
        preflight::own_image(place)?;
        let scratch = place.scratch()?;
        let made =
            progress.step("making a node image (some minutes, once)", || parts.make(&scratch, &image, &kept));
        // A root file system with what a container store needs: nothing of it is of use to anybody.
        let cleaned = remove(&scratch);
        made.and(cleaned)?;
    }
    progress.step("loading the node image", || {
        let zstd = Command::new("zstd")
            .args(["-dc"])
            .arg(&kept)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run zstd")?;
        let from = zstd.stdout.context("zstd has no output")?;
        let status = engine
            .command()
            .arg("load")
            .stdin(from)
            .stdout(Stdio::null())
            .status()
            .context("cannot load it")?;
        ensure!(
            status.success() && engine.has_image(&image),
            "the engine does not take {}: remove it and try again",
            kept.display()
        );
        Ok(())
    })?;
    Ok(image)
}

/// The programs that go into a node image.
#[derive(Debug)]
pub(crate) struct Parts {
    found: Vec<(&'static str, PathBuf)>,
}

impl Parts {
    fn find() -> anyhow::Result<Self> {
        let found = PARTS.iter().map(|name| Ok((*name, fs::canonicalize(tools::find(name)?)?)));
        Ok(Self { found: found.collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn path(&self, name: &str) -> anyhow::Result<&Path> {
        let found = self.found.iter().find(|(part, _)| *part == name);
        Ok(&found.with_context(|| format!("{name} is no part of a node image"))?.1)
    }

    /// Of everything that goes in: the recipe, and the programs by the names
    /// of their folders, which are keys themselves.
    fn key(&self) -> anyhow::Result<String> {
        let mut hash = Sha256::new();
        for recipe in [include_str!("node_image.rs"), include_str!("rootfs.rs"), std::env::consts::ARCH] {
            hash.update(recipe);
            hash.update([0]);
        }
        for (name, path) in &self.found {
            hash.update(name);
            let folder = path.parent().and_then(Path::file_name).unwrap_or_default().as_encoded_bytes();
            hash.update(folder);
            hash.update([0]);
        }
        Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Makes it in a scratch folder and keeps it.
    fn make(&self, scratch: &Path, image: &str, kept: &Path) -> anyhow::Result<()> {
        let root = scratch.join("rootfs");
        rootfs::debian(&root)?;
        let archive = scratch.join("images.tar");
        control_plane::save(self, &root, scratch, &archive)?;
        rootfs::node(self, &root)?;
        rootfs::preload(self, &root, scratch, &archive)?;
        let layer = scratch.join("layer.tar");
        call(Command::new("tar").arg("-C").arg(&root).args(["--numeric-owner", "-cf"]).arg(&layer).arg("."))?;
        let config = serde_json::json!({
            "Env": ["container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
        });
        let whole = scratch.join("node.tar");
        archive::write(&whole, scratch, &[archive::Image { names: &[image], layer: &layer, config }])?;
        let folder = kept.parent().context("an image is kept in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let partial = kept.with_extension("partial");
        call(Command::new("zstd").args(["-q", "-f", "-T0", "-3"]).arg(&whole).arg("-o").arg(&partial))?;
        fs::rename(&partial, kept).with_context(|| format!("cannot write {}", kept.display()))
    }
}

/// The images of the control plane, each from one static program.
mod control_plane {
    use super::{COREDNS, ETCD, KUBERNETES, PAUSE, Parts, archive};
    use crate::call::call;
    use crate::place::remove;
    use crate::rootfs;
    use anyhow::Context;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    pub(super) fn save(parts: &Parts, root: &Path, scratch: &Path, into: &Path) -> anyhow::Result<()> {
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
                Command::new("tar")
                    .arg("-C")
                    .arg(&folder)
                    .args(["--numeric-owner", "-cf"])
                    .arg(&layer)
                    .arg("."),
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
}

/// Archives of images as `docker load` and `ctr images import` take them,
/// written without an engine.
mod archive {
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::path::Path;
    use std::process::Command;

    use anyhow::Context;
    use serde_json::{Value, json};
    use sha2::{Digest, Sha256};

    use crate::call::call;

    /// One image of one layer.
    pub(super) struct Image<'a> {
        pub(super) names: &'a [&'a str],
        pub(super) layer: &'a Path,
        pub(super) config: Value,
    }

    /// One archive of all of them.
    pub(super) fn write(into: &Path, scratch: &Path, images: &[Image<'_>]) -> anyhow::Result<()> {
        let folder = scratch.join("archive");
        crate::place::remove(&folder)?;
        fs::create_dir(&folder)?;
        let mut manifest = Vec::new();
        for image in images {
            let digest = sha256(image.layer)?;
            let layer = format!("{digest}.tar");
            fs::hard_link(image.layer, folder.join(&layer))
                .or_else(|_| fs::copy(image.layer, folder.join(&layer)).map(drop))
                .with_context(|| format!("cannot take {}", image.layer.display()))?;
            let config = serde_json::to_vec(&json!({
                "architecture": architecture(),
                "os": "linux",
                "created": "1970-01-01T00:00:00Z",
                "config": image.config,
                "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
                "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "slicewright-kind"}],
            }))?;
            let name = format!("{}.json", hex(&Sha256::digest(&config)));
            fs::write(folder.join(&name), config)?;
            manifest.push(json!({"Config": name, "RepoTags": image.names, "Layers": [layer]}));
        }
        File::create(folder.join("manifest.json"))?.write_all(&serde_json::to_vec(&manifest)?)?;
        call(Command::new("tar").arg("-C").arg(&folder).arg("-cf").arg(into).arg("."))?;
        crate::place::remove(&folder)
    }

    /// What Go calls this machine's architecture.
    fn architecture() -> &'static str {
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    fn sha256(path: &Path) -> anyhow::Result<String> {
        let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(hex(&hash.finalize()));
            }
            hash.update(&buffer[..read]);
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
