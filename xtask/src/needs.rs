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

/// A mount namespace, in which a program sees other files than this machine has: the PCI devices of a simulated node, its
/// certificate under a fixed path, an image and nothing around it.
pub(crate) const NAMESPACES: Tool = Tool {
    name: "a mount namespace for a program (unshare)",
    probe: &["sh", "-c", "unshare --mount true || unshare --map-root-user --mount true"],
    install: Install::ByHand("install util-linux, and run as root or where user namespaces are allowed"),
};

/// The compiler whose sanitizers have no stable name yet.
pub(crate) const NIGHTLY: Tool = Tool {
    name: "a nightly Rust",
    probe: &["rustc", "+nightly", "--version"],
    install: Install::Command("rustup toolchain install nightly --profile minimal"),
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

/// Succeeds where an engine of the machine has kind's node image, or one that was made here, or can fetch it.
macro_rules! a_node_image {
    () => {
        "for engine in docker podman; do $engine info && { $engine image inspect kindest/node:v1.36.3 \
         || $engine images --quiet localhost/slicewright-kind-node | grep . \
         || timeout 1800 $engine pull --quiet kindest/node:v1.36.3; } && exit; done; exit 1"
    };
}

/// A program that is needed where kind's node image cannot be had. It is looked for first: only where it lacks, an image is
/// fetched to know whether it is needed.
macro_rules! without_a_node_image {
    ($program:literal, $packages:literal) => {
        Tool {
            name: $program,
            probe: &[
                "sh",
                "-c",
                concat!(
                    "(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v ",
                    $program,
                    ") && exit; ",
                    a_node_image!()
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
    Tool {
        name: "kind's node image in the engine, or root to make one",
        probe: &["sh", "-c", concat!("test \"$(id -u)\" = 0 && exit; ", a_node_image!())],
        install: Install::ByHand("let the engine reach Docker Hub, or run this once as root"),
    },
    without_a_node_image!("mmdebstrap", "mmdebstrap"),
    without_a_node_image!("tar", "tar"),
    without_a_node_image!("zstd", "zstd"),
    without_a_node_image!("cc", "gcc"),
    without_a_node_image!("chroot", "coreutils"),
    without_a_node_image!("systemctl", "systemd"),
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
        needed.extend(components(sources, Use::CLUSTER));
        needed.extend_from_slice(ENGINE);
    }
    if story {
        needed.extend(components(sources, Use::STORY));
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
        let image =
            std::fs::read_to_string(crate::root().join("e2e/kind/src/without_engine/node_image.rs")).unwrap();
        let name = |constant: &str| {
            let (_, rest) = image.split_once(constant).unwrap();
            rest.split('"').nth(1).unwrap().to_owned()
        };
        for name in [name("const STOCK: "), name("const OURS: ")] {
            assert!(a_node_image!().contains(&format!(" {name} ")), "{name} is not looked for");
        }
    }

    /// How the page for contributors names a tool.
    fn word(tool: &Tool) -> &'static str {
        match tool.name {
            "Go" => "Go",
            "a C compiler" => "C compiler",
            "git (and a checkout made with it)" => "git",
            "Python 3 with venv" => "Python 3 with venv",
            "a nightly Rust" => "nightly toolchain",
            "g++" => "C++ compiler",
            "cargo-mutants" => "`cargo-mutants`",
            "cargo-deny" => "`cargo-deny`",
            "rustfmt" => "`rustfmt`",
            "clippy" => "`clippy`",
            "Chromium or Chrome" => "Chromium or Chrome",
            "the programs in the image for must-gather" => "must-gather",
            "a mount namespace for a program (unshare)" => "`unshare`",
            name if name.contains("for musl") => "musl target",
            name if name.contains("standard library") => "standard library",
            _ => "the packages that it names",
        }
    }

    #[test]
    fn the_page_for_contributors_names_what_each_task_looks_for() {
        let text = std::fs::read_to_string(crate::root().join("CONTRIBUTING.md")).unwrap();
        let nothing = tempfile::tempdir().unwrap();
        let sources = Sources::kept_in(nothing.path());
        let on_a_bare_machine = |uses: &[Use]| components(&sources, uses);
        let everything_of_the_release =
            [crate::image::RELEASED, crate::image::MUST_GATHER, &[tools::GIT, GO]].concat();
        let tasks: [(&str, Vec<Tool>); 16] = [
            ("demo", on_a_bare_machine(Use::DEMO)),
            ("codegen", on_a_bare_machine(crate::bundle::USES)),
            ("tools", on_a_bare_machine(Use::GATE)),
            ("e2e", on_a_bare_machine(Use::SCENARIOS)),
            ("chart", on_a_bare_machine(crate::chart::USES)),
            ("bundle", on_a_bare_machine(crate::bundle::USES)),
            ("alerts", on_a_bare_machine(crate::alerts::USES)),
            ("e2e --release", everything_of_the_release),
            ("test", crate::gate::needed(&sources)),
            ("kind up", kind(&sources, true, false)),
            ("kind story", kind(&sources, false, true)),
            ("image", crate::image::needed(&sources, ["--load"])),
            ("archives", crate::archives::needed(&crate::archives::System::ALL)),
            ("mutants", vec![crate::mutants::TOOL, tools::GIT]),
            ("fuzz", crate::fuzz::NEEDED.to_vec()),
            ("sanitize", vec![NIGHTLY]),
        ];
        for (task, needed) in tasks {
            let command = format!("`cargo xtask {task}`");
            let row = text.lines().find(|line| line.starts_with("| `") && line.contains(&command));
            let row = row.unwrap_or_else(|| panic!("CONTRIBUTING.md does not say what {command} needs"));
            let (_, says) = row.trim_matches('|').split_once('|').expect("a row has two cells");
            assert!(!needed.is_empty(), "{task}");
            // A C compiler is said above the table, for all of them.
            for tool in needed.iter().filter(|tool| **tool != CC) {
                assert!(says.contains(word(tool)), "{command} needs {}, and its row says:{says}", tool.name);
            }
        }
        assert!(text.contains(CC.probe[0]) && text.contains("apt-get install gcc libc6-dev"));
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
