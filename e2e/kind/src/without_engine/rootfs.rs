//! The root file system of a node: Debian, kind's own files, and the programs
//! of a node.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::parts::{KUBERNETES, Parts};
use crate::call::{call, call_with, last_lines, succeeds};
use crate::place::remove;
use crate::waiting::wait_while_moving;

/// The Debian of the nodes: the last whose systemd runs on cgroup v1 too.
const DEBIAN: &str = "bookworm";

/// What a node needs of it.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,conntrack,iptables,nftables,iproute2,ethtool,socat,util-linux,mount,kmod,\
                        libseccomp2,bash,ca-certificates,jq,procps,runc,containernetworking-plugins";

/// The plugins of the network on one node: what kind's own daemon would
/// write, filled in by containerd from the node's range.
const NETWORK: &str = r#"{"cniVersion":"0.3.1","name":"kindnet","plugins":[
 {"type":"ptp","ipMasq":true,"mtu":1500,"ipam":{"type":"host-local","dataDir":"/run/cni-ipam-state",
  "routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"{{.PodCIDR}}"}]]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
"#;

/// kind applies a manifest for its network daemon; ours has none, and says so.
const DEFAULT_CNI: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: node-cni, namespace: kube-system}
data: {cni: containerd writes ptp and host-local from the range of the node}
";

const DEFAULT_STORAGE: &str = "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
";

/// A program that does nothing and reaps what ended: the first of every pod.
const PAUSE: &str = "#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void down(int s) { (void)s; exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) {
  signal(SIGINT, down);
  signal(SIGTERM, down);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
";

/// Debian, unpacked.
pub(crate) fn debian(root: &Path) -> anyhow::Result<()> {
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io"]);
    mmdebstrap.arg(format!("--include={PACKAGES}"));
    for part in ["man", "doc", "locale"] {
        mmdebstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{part}/*"));
    }
    call(mmdebstrap.arg(DEBIAN).arg(root)).map(drop)
}

/// Builds the first program of every pod.
pub(crate) fn pause(scratch: &Path, into: &Path) -> anyhow::Result<()> {
    let source = scratch.join("pause.c");
    fs::write(&source, PAUSE)?;
    call(Command::new("cc").args(["-Os", "-static", "-s", "-o"]).arg(into).arg(&source)).map(drop)
}

/// What kube-proxy calls: nft, and iptables to clean up after older modes.
pub(crate) fn packet_filter(root: &Path, image: &Path) -> anyhow::Result<()> {
    let into = image.join("usr/sbin");
    fs::create_dir_all(&into)?;
    for program in ["nft", "conntrack", "xtables-nft-multi"] {
        copy(&root.join("usr/sbin").join(program), &into.join(program))?;
        let linked = call(Command::new("chroot").arg(root).arg("ldd").arg(format!("/usr/sbin/{program}")))?;
        for library in linked.split_whitespace().filter(|word| word.starts_with('/') && word.contains(".so"))
        {
            let library = library.trim_start_matches('/');
            let at = image.join(library);
            fs::create_dir_all(at.parent().context("a library is in a folder")?)?;
            copy(&fs::canonicalize(root.join(library)).unwrap_or_else(|_| root.join(library)), &at)?;
        }
    }
    for name in ["iptables", "ip6tables"]
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}-save"), format!("{name}-restore")])
    {
        symlink("xtables-nft-multi", into.join(name))?;
    }
    let plugins = call(Command::new("chroot").arg(root).args(["sh", "-c", "ls -d /usr/lib/*/xtables"]))?;
    let plugins = plugins.trim().trim_start_matches('/');
    let at = image.join(plugins);
    fs::create_dir_all(at.parent().context("the plugins are in a folder")?)?;
    call(Command::new("cp").arg("-r").arg(root.join(plugins)).arg(at)).map(drop)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// A program of the node.
fn program(from: &Path, to: &Path) -> anyhow::Result<()> {
    copy(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).with_context(|| format!("{}", to.display()))
}

/// Makes a node of it: programs, kind's files, services.
pub(crate) fn node(parts: &Parts, root: &Path) -> anyhow::Result<()> {
    for name in ["containerd", "containerd-shim-runc-v2", "ctr", "crictl"] {
        program(parts.path(name)?, &root.join("usr/local/bin").join(name))?;
    }
    for name in ["kubelet", "kubeadm", "kubectl"] {
        program(parts.path(name)?, &root.join("usr/bin").join(name))?;
    }
    let files = parts.path("kind-node-files")?;
    program(&files.join("usr/local/bin/entrypoint"), &root.join("usr/local/bin/entrypoint"))?;
    for folder in ["etc", "kind"] {
        call(
            Command::new("cp").args(["-r", "--no-preserve=mode,ownership"]).arg(files.join(folder)).arg(root),
        )?;
    }
    for entry in fs::read_dir(root.join("kind/bin"))? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o755))?;
    }
    for folder in ["etc/kubernetes/manifests", "opt/cni", "kind/manifests", "etc/cni/net.d"] {
        fs::create_dir_all(root.join(folder))?;
    }
    remove(&root.join("opt/cni/bin"))?;
    symlink("/usr/lib/cni", root.join("opt/cni/bin"))?;
    let write = |path: &str, text: &str| {
        fs::write(root.join(path), text).with_context(|| format!("cannot write {path} of the node"))
    };
    write("kind/version", KUBERNETES)?;
    write("etc/cni/slicewright.conflist.tmpl", NETWORK)?;
    write("kind/manifests/default-cni.yaml", DEFAULT_CNI)?;
    write("kind/manifests/default-storage.yaml", DEFAULT_STORAGE)?;
    let config = root.join("etc/containerd/config.toml");
    let text = fs::read_to_string(&config).context("cannot read kind's configuration of containerd")?;
    // A node in a container may not lower what it was given.
    let text = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true");
    fs::write(
        &config,
        format!(
            "{text}\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\n  conf_template = \"/etc/cni/slicewright.conflist.tmpl\"\n"
        ),
    )?;
    services(root)?;
    runtime(root)
}

/// Only what a node runs starts, as in kind's own image.
fn services(root: &Path) -> anyhow::Result<()> {
    let script = "
        find lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete
        rm -f lib/systemd/system/multi-user.target.wants/* etc/systemd/system/*.wants/* \
              lib/systemd/system/local-fs.target.wants/* lib/systemd/system/sockets.target.wants/*udev* \
              lib/systemd/system/sockets.target.wants/*initctl* lib/systemd/system/basic.target.wants/*
        echo ReadKMsg=no >> etc/systemd/journald.conf
        ln -sf /usr/lib/systemd/systemd sbin/init
        rm -rf var/cache/apt/* var/lib/apt/lists/*
    ";
    call(Command::new("sh").args(["-ec", script]).current_dir(root))?;
    let of_the_node = format!("--root={}", root.display());
    for unit in ["kubelet", "containerd", "undo-mount-hacks"] {
        call(Command::new("systemctl").args([of_the_node.as_str(), "enable", &format!("{unit}.service")]))?;
    }
    call(Command::new("systemctl").args([of_the_node.as_str(), "mask", "systemd-binfmt.service"])).map(drop)
}

/// The base of every container: kind's hook, and no limits that a node in a
/// container may not set.
fn runtime(root: &Path) -> anyhow::Result<()> {
    let spec = call(Command::new("chroot").arg(root).args(["/usr/local/bin/ctr", "oci", "spec"]))?;
    let filter = r#".hooks.createContainer[.hooks.createContainer | length] |= . + {"path": "/kind/bin/mount-product-files.sh"} | del(.process.rlimits)"#;
    let base = call_with(Command::new("jq").arg(filter), spec.as_bytes())?;
    fs::write(root.join("etc/containerd/cri-base.json"), base).context("cannot write the base of containers")
}

/// Puts images into the store of the node's containerd, without unpacking
/// them: a containerd of this machine with the node's store does it.
pub(crate) fn preload(parts: &Parts, root: &Path, scratch: &Path, images: &Path) -> anyhow::Result<()> {
    let (config, socket) = (scratch.join("containerd.toml"), scratch.join("containerd.sock"));
    let text = format!(
        "version = 3
root = \"{root}\"
state = \"{state}\"
disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.runtime\", \"io.containerd.cri.v1.images\"]
[grpc]
  address = \"{socket}\"
[ttrpc]
  address = \"{socket}.ttrpc\"
",
        root = root.join("var/lib/containerd").display(),
        state = scratch.join("state").display(),
        socket = socket.display(),
    );
    fs::write(&config, text)?;
    let log_at = scratch.join("containerd.log");
    let log = fs::File::create(&log_at)?;
    let mut containerd = Command::new(parts.path("containerd")?)
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot run containerd")?;
    let ctr: PathBuf = parts.path("ctr")?.to_owned();
    let ctr = || {
        let mut command = Command::new(&ctr);
        command.arg("--address").arg(&socket).args(["--namespace", "k8s.io"]);
        command
    };
    let mut ended = false;
    let answers_or_ends = || {
        ended = containerd.try_wait().is_ok_and(|status| status.is_some());
        ended || succeeds(ctr().arg("version"))
    };
    let said = || fs::read_to_string(&log_at).unwrap_or_default();
    let imported = wait_while_moving("an answer of containerd", 200, answers_or_ends, said).and_then(|()| {
        ensure!(!ended, "containerd ended at once");
        call(ctr().args(["images", "import", "--all-platforms", "--no-unpack", "--digests"]).arg(images))
    });
    let imported = imported.with_context(|| format!("it said last:\n  {}", last_lines(&said())));
    if !ended {
        succeeds(Command::new("kill").args(["-TERM", &containerd.id().to_string()]));
    }
    containerd.wait().context("cannot wait for containerd")?;
    imported.map(drop)
}
