//! All requirements of a task on the machine, checked before its first build: if three tools are missing,
//! the user is told once, and not after every ten minutes of building.

use anyhow::bail;

use crate::installing::{Install, one_command};
use crate::python::PYTHON;
use crate::steps::Tool;
use crate::tools::{self, CC, GO, Sources, Use};

/// The standard library for static programs.
pub(crate) const MUSL: Tool = Tool {
    name: "Rust's standard library for musl",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/$(uname -m)-unknown-linux-musl\""],
    install: Install::Command("rustup target add \"$(uname -m)-unknown-linux-musl\""),
};

/// A program that is needed where no container engine of the machine answers.
macro_rules! without_an_engine {
    ($program:literal, $packages:literal) => {
        Tool {
            name: $program,
            probe: &[
                "sh",
                "-c",
                concat!(
                    "docker info || podman info || PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v ",
                    $program
                ),
            ],
            install: Install::Debian($packages),
        }
    };
}

/// An engine of our own, and a node image of our own: what `slicewright-kind`
/// looks for in `e2e/kind/src/preflight.rs`.
const ENGINE: &[Tool] = &[
    Tool {
        name: "Docker or Podman that answers, or root for an engine of our own",
        probe: &["sh", "-c", "docker info || podman info || test \"$(id -u)\" = 0"],
        install: Install::ByHand("start Docker or Podman, or run this as root"),
    },
    without_an_engine!("dockerd", "docker.io"),
    without_an_engine!("docker", "docker.io"),
    without_an_engine!("containerd", "containerd"),
    without_an_engine!("runc", "runc"),
    without_an_engine!("iptables", "iptables"),
    without_an_engine!("ip", "iproute2"),
    without_an_engine!("nsenter", "util-linux"),
    without_an_engine!("unshare", "util-linux"),
    without_an_engine!("pkill", "procps"),
    without_an_engine!("jq", "jq"),
    without_an_engine!("mmdebstrap", "mmdebstrap"),
    without_an_engine!("tar", "tar"),
    without_an_engine!("zstd", "zstd"),
    without_an_engine!("cc", "gcc"),
    without_an_engine!("chroot", "coreutils"),
    without_an_engine!("systemctl", "systemd"),
];

/// What makes an image for this machine's processor.
pub(crate) const IMAGE: &[Tool] = &[PYTHON, MUSL, CC];

/// All that a kind cluster with stories on it needs, as the release check
/// lists it.
pub(crate) fn kind_check() -> Vec<Tool> {
    [ENGINE, IMAGE].concat()
}

/// What has to be there to build the real components of these uses.
pub(crate) fn components(sources: &Sources, uses: &[Use]) -> Vec<Tool> {
    if !sources.need_go(uses) {
        return Vec::new();
    }
    let mut needed = vec![GO];
    needed.extend(tools::compile_c(uses).then_some(CC));
    needed
}

/// What a kind cluster needs.
pub(crate) fn kind(sources: &Sources, up: bool, story: bool) -> Vec<Tool> {
    let mut needed = Vec::new();
    if up {
        needed.extend(components(sources, &[Use::ControlPlane, Use::Clients, Use::Kind]));
        needed.extend_from_slice(ENGINE);
    }
    if story {
        needed.extend(components(sources, &[Use::ControlPlane, Use::Kind, Use::Packaging]));
        needed.extend_from_slice(IMAGE);
    }
    needed
}

/// Refuses to begin while something lacks: all of it, each with how to get it,
/// and the one command that installs what a command can install.
///
/// # Errors
/// When something lacks.
pub(crate) fn require(task: &str, needed: &[Tool]) -> anyhow::Result<()> {
    let mut missing: Vec<Tool> = Vec::new();
    for tool in needed {
        if !missing.contains(tool) && !tool.is_present() {
            missing.push(*tool);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(said(task, &missing))
}

fn said(task: &str, missing: &[Tool]) -> String {
    let mut said = format!("{task} needs what this machine lacks, so nothing is built yet:");
    for tool in missing {
        said.push_str(&format!("\n  {}: {}", tool.name, tool.install));
    }
    if let Some(command) = one_command(missing.iter().map(|tool| &tool.install)) {
        said.push_str(&format!("\nTo install what a command can install:\n  {command}"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOONBEAM: Tool = Tool {
        name: "moonbeam",
        probe: &["no-such-program-as-moonbeam"],
        install: Install::Debian("moon-tools"),
    };
    const SUNBEAM: Tool = Tool {
        name: "sunbeam",
        probe: &["no-such-program-as-sunbeam"],
        install: Install::ByHand("wait for the morning"),
    };
    const CARGO: Tool =
        Tool { name: "cargo", probe: &["cargo", "--version"], install: Install::Command("rustup") };

    #[test]
    fn all_that_lacks_is_said_at_once_before_anything_is_built() {
        let error = require("cargo xtask fly", &[MOONBEAM, CARGO, SUNBEAM, MOONBEAM]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cargo xtask fly needs what this machine lacks, so nothing is built yet:\n  \
             moonbeam: apt-get install -y moon-tools (on Debian and Ubuntu; other systems name it alike)\n  \
             sunbeam: wait for the morning\nTo install what a command can install:\n  apt-get install -y moon-tools"
        );
        require("cargo xtask fly", &[CARGO]).unwrap();
    }

    /// The program that starts the cluster looks for the same, after it was built.
    #[test]
    fn what_the_cluster_looks_for_itself_is_looked_for_before_it_is_built() {
        let file = crate::root().join("e2e/kind/src/preflight.rs");
        let text = std::fs::read_to_string(file).unwrap();
        let (_, lists) = text.split_once("const OWN_ENGINE").unwrap();
        let (lists, _) = lists.split_once("/// What an image and the parts").unwrap();
        let rows = lists.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.strip_suffix("\"),"));
        let mut many = 0;
        for (program, package) in rows.filter_map(|row| row.split_once("\", \"")) {
            let tool = ENGINE.iter().find(|tool| tool.name == program);
            let tool = tool.unwrap_or_else(|| panic!("{program} is not looked for"));
            assert!(matches!(tool.install, Install::Debian(found) if found == package), "{program}");
            many += 1;
        }
        assert!(many > 15, "{many}");
    }

    #[test]
    fn a_story_needs_what_makes_the_operators_image() {
        let nowhere = tempfile::tempdir().unwrap();
        let sources = Sources::kept_in(nowhere.path());
        let needed = kind(&sources, true, true);
        for tool in [GO, CC, PYTHON, MUSL] {
            assert!(needed.contains(&tool), "{}", tool.name);
        }
        assert!(kind(&sources, true, false).iter().all(|tool| *tool != MUSL));
    }
}
