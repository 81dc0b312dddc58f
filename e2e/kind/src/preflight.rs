//! The requirements for a machine: for each missing one there is a sentence with advice.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::call::{call, succeeds};
use crate::engine::Engine;
use crate::place::Place;

/// Programs of an engine of our own, and the Debian packages that have them.
const OWN_ENGINE: &[(&str, &str)] = &[
    ("dockerd", "docker.io"),
    ("docker", "docker.io"),
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("pkill", "procps"),
    ("jq", "jq"),
];

/// Programs that make a node image.
const OWN_IMAGE: &[(&str, &str)] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("tar", "tar"),
    ("zstd", "zstd"),
    ("cc", "gcc"),
    ("chroot", "coreutils"),
    ("systemctl", "systemd"),
    ("jq", "jq"),
];

/// What an image and the parts it is made of take, and some room to work in.
const GIGABYTES_FOR_AN_IMAGE: u64 = 8;

/// What three nodes of a running cluster write.
const GIGABYTES_TO_RUN: u64 = 4;

/// The oldest kernel on which this was seen to work is newer; this is what
/// Kubernetes 1.36's kubelet asks for.
const OLDEST_KERNEL: (u32, u32) = (4, 19);

/// That an engine of our own can be started here.
///
/// # Errors
/// One sentence for everything that lacks.
pub fn own_engine() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "no container engine answers (neither Docker nor Podman), and one of our own needs root: start Docker or \
             Podman, or run this as root"
        );
    }
    programs("no container engine answers, and one of our own", OWN_ENGINE)?;
    if !succeeds(Command::new("unshare").args(["--mount", "--net", "true"])) {
        bail!(
            "no container engine answers, and one of our own cannot be started: this machine allows no namespaces \
             (CAP_SYS_ADMIN)"
        );
    }
    Ok(())
}

/// That a node image can be made here.
///
/// # Errors
/// One sentence for everything that lacks.
pub fn own_image(place: &Place) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "a node image of our own needs root to be made (it is a root file system): run this once as root"
        );
    }
    programs("kind's node image cannot be fetched, and one of our own", OWN_IMAGE)?;
    room(place, GIGABYTES_FOR_AN_IMAGE)
}

/// That a cluster has room on the disk, and a kernel that will do.
///
/// # Errors
/// One sentence for what lacks.
pub fn cluster(place: &Place) -> anyhow::Result<()> {
    room(place, GIGABYTES_TO_RUN)?;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    old_kernel(&release)
}

fn old_kernel(release: &str) -> anyhow::Result<()> {
    let mut parts = release.split(['.', '-']).map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next())
        && (major, minor) < OLDEST_KERNEL
    {
        let (wants_major, wants_minor) = OLDEST_KERNEL;
        bail!(
            "this kernel is {release}, and Kubernetes' nodes need {wants_major}.{wants_minor} or newer: use a newer one"
        );
    }
    Ok(())
}

fn room(place: &Place, gigabytes: u64) -> anyhow::Result<()> {
    let folder = place.folder();
    let stat = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot ask for the room in {}", folder.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize) / 1_000_000_000;
    if free < gigabytes {
        bail!(
            "{} has room for {free} GB, and {gigabytes} GB are needed: make room, or use another folder (--folder)",
            folder.display()
        );
    }
    Ok(())
}

fn programs(what: &str, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
    let missing: Vec<_> = wanted.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    bail!(
        "{what} needs {}, which this machine lacks: apt-get install --no-install-recommends {} (Debian, Ubuntu)",
        names.join(", "),
        packages.join(" ")
    )
}

fn is_there(program: &str) -> bool {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders.iter().any(|folder| Path::new(folder).join(program).is_file())
        || succeeds(Command::new("sh").args(["-c", &format!("command -v {program}")]))
}

/// That the engine has room for its part: the version that it says, for people.
///
/// # Errors
/// When it does not answer.
pub fn version(engine: &Engine) -> anyhow::Result<String> {
    Ok(call(engine.command().args(["version", "--format", "{{.Server.Version}}"]))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_lacks_is_one_sentence_with_the_command_that_gets_it() {
        let wanted =
            [("sh", "dash"), ("no-such-b", "b-tools"), ("no-such-a", "a-tools"), ("no-such-c", "b-tools")];
        let error = programs("a cluster", &wanted).unwrap_err().to_string();
        assert_eq!(
            error,
            "a cluster needs no-such-b, no-such-a, no-such-c, which this machine lacks: apt-get install \
             --no-install-recommends a-tools b-tools (Debian, Ubuntu)"
        );
    }

    #[test]
    fn a_machine_that_has_everything_is_told_nothing() {
        programs("a cluster", &[("sh", "dash"), ("tar", "tar")]).unwrap();
        programs("a cluster", &[]).unwrap();
    }

    #[test]
    fn every_program_is_looked_for_once_and_has_a_package() {
        for wanted in [OWN_ENGINE, OWN_IMAGE] {
            let mut names: Vec<_> = wanted.iter().map(|(program, _)| *program).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all);
            let is_name = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || ".-0123456789".contains(c))
            };
            assert!(
                wanted.iter().all(|(program, package)| is_name(program) && is_name(package)),
                "{wanted:?}"
            );
        }
    }

    #[test]
    fn an_old_kernel_is_said() {
        for will_do in ["6.18.44-fc-v657", "4.19.0-27-amd64", "5.0", "10.1"] {
            old_kernel(will_do).unwrap();
        }
        for too_old in ["4.18.0-553.el8_10.x86_64", "3.99"] {
            assert!(
                old_kernel(too_old)
                    .unwrap_err()
                    .to_string()
                    .starts_with(&format!("this kernel is {too_old}, "))
            );
        }
        old_kernel("something else").unwrap();
        let error = old_kernel("3.10.0-1160.el7").unwrap_err().to_string();
        assert!(
            error.starts_with("this kernel is 3.10.0-1160.el7, and Kubernetes' nodes need 4.19"),
            "{error}"
        );
    }

    #[test]
    fn a_full_disk_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        let error = room(&place, u64::MAX).unwrap_err().to_string();
        assert!(error.ends_with("make room, or use another folder (--folder)"), "{error}");
    }
}
