//! The pure crates stay pure: their permitted dependencies, and the names that their sources may not
//! contain. The rule is in `docs/architecture.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate of ours: its package, its folder, and the crates of ours that it
/// may depend on (tests apart).
pub(crate) struct Ours {
    package: &'static str,
    pub(crate) folder: &'static str,
    may_use: &'static [&'static str],
    /// Neither I/O nor a clock nor an environment: the core and the engine.
    pure: bool,
}

/// Shell -> pure core -> mig, and nothing the other way.
pub(crate) const OURS: &[Ours] = &[
    Ours { package: "slicewright-mig", folder: "crates/mig", may_use: &[], pure: true },
    Ours {
        package: "slicewright-planner",
        folder: "crates/planner",
        may_use: &["slicewright-mig"],
        pure: true,
    },
    Ours {
        package: "slicewright-rollout",
        folder: "crates/rollout",
        // The planner's names and words (NodeName, Drain, Hold): one type for one thing.
        may_use: &["slicewright-agent", "slicewright-mig", "slicewright-planner"],
        pure: true,
    },
    // What the node agent believes and does, and what the controller proves first: both halves.
    Ours { package: "slicewright-agent", folder: "crates/agent", may_use: &["slicewright-mig"], pure: true },
    Ours {
        package: "slicewright-replay",
        folder: "crates/replay",
        may_use: &["slicewright-mig", "slicewright-planner", "slicewright-rollout"],
        pure: true,
    },
    Ours {
        package: "slicewright-sim-gpu",
        folder: "simulator/gpu",
        may_use: &["slicewright-mig"],
        pure: true,
    },
    Ours {
        package: "slicewright-sim-operands",
        folder: "simulator/operands",
        may_use: &["slicewright-mig", "slicewright-sim-gpu"],
        pure: true,
    },
    Ours {
        package: "slicewright-api",
        folder: "crates/api",
        // What the operator and the agent of a node tell each other, as both write and read it.
        may_use: &["slicewright-agent", "slicewright-mig"],
        pure: true,
    },
    Ours {
        package: "slicewright-observe",
        folder: "crates/observe",
        may_use: &[
            "slicewright-agent",
            "slicewright-api",
            "slicewright-mig",
            "slicewright-planner",
            "slicewright-rollout",
        ],
        pure: true,
    },
    Ours {
        package: "slicewright-reconcile",
        folder: "crates/reconcile",
        may_use: &[
            "slicewright-agent",
            "slicewright-api",
            "slicewright-mig",
            "slicewright-observe",
            "slicewright-planner",
            "slicewright-rollout",
        ],
        pure: true,
    },
    Ours {
        package: "slicewright-sim-workbenches",
        folder: "simulator/workbenches",
        may_use: &["slicewright-api"],
        pure: true,
    },
    Ours {
        package: "slicewright-sim-story",
        folder: "simulator/story",
        may_use: &[
            "slicewright-agent",
            "slicewright-api",
            "slicewright-mig",
            "slicewright-observe",
            "slicewright-planner",
            "slicewright-reconcile",
            "slicewright-rollout",
            "slicewright-sim-gpu",
            "slicewright-sim-operands",
            "slicewright-sim-workbenches",
        ],
        pure: true,
    },
    Ours {
        package: "slicewright-cli",
        folder: "crates/cli",
        may_use: &[
            "slicewright-api",
            "slicewright-controller",
            "slicewright-mig",
            "slicewright-nvml",
            "slicewright-observe",
            "slicewright-planner",
            "slicewright-reconcile",
            "slicewright-replay",
            "slicewright-rollout",
            "slicewright-sim-gpu",
            "slicewright-sim-operands",
            "slicewright-sim-story",
        ],
        pure: false,
    },
    Ours {
        package: "slicewright-controller",
        folder: "crates/controller",
        may_use: &[
            "slicewright-api",
            "slicewright-mig",
            "slicewright-observe",
            "slicewright-planner",
            "slicewright-reconcile",
            "slicewright-rollout",
        ],
        pure: false,
    },
    Ours {
        package: "slicewright-node-agent",
        folder: "crates/node-agent",
        // The operator's client, calls, logs and probes: one way to do each.
        may_use: &[
            "slicewright-agent",
            "slicewright-api",
            "slicewright-controller",
            "slicewright-mig",
            "slicewright-nvml",
        ],
        pure: false,
    },
    // A stand-in for tests; it states kubelet's side by itself, so that it uses nothing of ours.
    Ours { package: "slicewright-sim-kubelet", folder: "simulator/kubelet", may_use: &[], pure: false },
    Ours { package: "slicewright-nvml", folder: "crates/nvml", may_use: &["slicewright-mig"], pure: false },
    Ours {
        package: "slicewright-sim-store",
        folder: "simulator/store",
        may_use: &["slicewright-mig", "slicewright-sim-gpu"],
        pure: false,
    },
    Ours {
        package: "slicewright-sim-libnvml",
        folder: "simulator/libnvml",
        may_use: &["slicewright-mig", "slicewright-sim-gpu", "slicewright-sim-store"],
        pure: false,
    },
    Ours {
        package: "slicewright-sim-nvidia-smi",
        folder: "simulator/nvidia-smi",
        // It goes through the shared library, with the product's safe calls; never through the store.
        may_use: &["slicewright-nvml"],
        pure: false,
    },
    Ours {
        package: "slicewright-sim-clients",
        folder: "simulator/clients",
        // It sets the stage and starts programs; what it tests is none of its dependencies.
        may_use: &["slicewright-sim-gpu", "slicewright-sim-store", "slicewright-tools"],
        pure: false,
    },
    Ours {
        package: "slicewright-sim-cluster",
        folder: "simulator/cluster",
        may_use: &[
            "slicewright-api",
            "slicewright-mig",
            "slicewright-sim-gpu",
            "slicewright-sim-operands",
            // The machine of a virtual node that an agent process opens, too.
            "slicewright-sim-store",
            "slicewright-sim-workbenches",
        ],
        pure: false,
    },
    Ours {
        package: "slicewright-sim-cli",
        folder: "simulator/cli",
        may_use: &[
            "slicewright-mig",
            "slicewright-sim-cluster",
            "slicewright-sim-gpu",
            "slicewright-sim-operands",
            "slicewright-sim-store",
        ],
        pure: false,
    },
    Ours {
        package: "slicewright-e2e",
        folder: "e2e",
        may_use: &[
            "slicewright-api",
            "slicewright-controller",
            "slicewright-gitops",
            "slicewright-mig",
            "slicewright-packaging",
            "slicewright-sim-cluster",
            "slicewright-sim-gpu",
            "slicewright-sim-kubelet",
            "slicewright-sim-operands",
            "slicewright-sim-store",
            "slicewright-tools",
        ],
        pure: false,
    },
    Ours {
        package: "slicewright-packaging",
        folder: "packaging",
        may_use: &["slicewright-tools"],
        pure: false,
    },
    Ours {
        package: "slicewright-kind",
        folder: "e2e/kind",
        may_use: &[
            "slicewright-mig",
            "slicewright-sim-gpu",
            "slicewright-sim-operands",
            "slicewright-sim-store",
            "slicewright-tools",
        ],
        pure: false,
    },
    // A leaf for tests: where the built programs are.
    Ours { package: "slicewright-tools", folder: "tools/find", may_use: &[], pure: false },
    Ours { package: "slicewright-gitops", folder: "gitops", may_use: &[], pure: false },
    Ours {
        package: "slicewright-multicall",
        folder: "crates/multicall",
        may_use: &["slicewright-cli", "slicewright-controller"],
        pure: false,
    },
    Ours {
        package: "slicewright-image",
        folder: "packaging/image",
        may_use: &["slicewright-tools"],
        pure: false,
    },
    // Both halves of a release: it needs what is packed and how images are made, and neither needs it.
    Ours {
        package: "slicewright-release",
        folder: "packaging/release",
        may_use: &["slicewright-image", "slicewright-packaging", "slicewright-tools"],
        pure: false,
    },
    Ours { package: "xtask", folder: "xtask", may_use: &[], pure: false },
];

/// Crates that bring what the core must not have, whoever asks for them.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("an async runtime", &["tokio", "async-std", "smol", "async-executor", "async-io", "mio"]),
    ("the network", &["hyper", "reqwest", "tower", "tonic", "socket2", "rustls", "openssl", "h2"]),
    ("a Kubernetes client", &["kube-client", "kube-runtime"]),
    ("NVML", &["nvml-wrapper", "nvml-wrapper-sys", "libloading"]),
    ("a clock", &["time", "chrono", "quanta", "coarsetime", "iana-time-zone"]),
    ("randomness", &["rand", "rand_core", "getrandom", "fastrand", "uuid", "ahash"]),
    (
        "the file system or the environment",
        &["tempfile", "notify", "walkdir", "dirs", "dotenvy", "clap", "home"],
    ),
    ("logging that is not a returned report", &["tracing-subscriber", "env_logger"]),
];

/// Words that a pure crate's sources must not contain, with the reason.
const UNSPOKEN: &[(&str, &str)] = &[
    ("std::fs", "input is handed in; a table is embedded with include_str!"),
    ("std::net", "the core talks to nobody"),
    ("std::env", "configuration is an argument"),
    ("std::process", "the core starts nothing"),
    ("std::thread", "the core is one pure function after another"),
    ("std::io", "the core reads and writes nothing"),
    ("Instant::now", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("Timestamp::now", "time is an argument"),
    ("Zoned::now", "time is an argument"),
    ("TimeZone::system", "the machine's zone decides nothing"),
    ("thread_rng", "randomness is an argument"),
    ("async fn", "the core does not wait"),
    ("println!", "what is found is returned"),
    ("option_env!", "a build says the same everywhere"),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn metadata() -> Value {
    serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--all-features", "--locked"]))
        .unwrap()
}

/// Everything below one package, each with the chain that leads to it, as
/// cargo resolves it for this package alone, tests apart: features that other
/// members of the workspace switch on do not count.
struct Tree {
    chains: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn read(package: &str) -> Self {
        let edges = "normal,build";
        let text =
            cargo(&["tree", "-p", package, "--all-features", "--locked", "-e", edges, "--prefix", "depth"]);
        let mut chain: Vec<String> = Vec::new();
        let mut chains = BTreeMap::new();
        for line in text.lines() {
            let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap();
            let depth: usize = line[..digits].parse().unwrap();
            chain.truncate(depth);
            chain.push(line[digits..].split(' ').next().unwrap().to_owned());
            if depth > 0 {
                chains.entry(chain[depth].clone()).or_insert_with(|| chain.clone());
            }
        }
        Self { chains }
    }

    fn direct(&self) -> BTreeSet<&str> {
        self.chains.iter().filter(|(_, chain)| chain.len() == 2).map(|(name, _)| name.as_str()).collect()
    }
}

#[test]
fn every_crate_is_in_the_table_of_dependency_directions() {
    let metadata = metadata();
    let members: BTreeSet<_> = metadata["workspace_members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| {
            let package = metadata["packages"].as_array().unwrap().iter().find(|p| p["id"] == *id).unwrap();
            package["name"].as_str().unwrap()
        })
        .collect();
    assert_eq!(members, OURS.iter().map(|ours| ours.package).collect());
}

#[test]
fn dependencies_point_from_the_shell_to_the_core() {
    for ours in OURS {
        let allowed: BTreeSet<_> = ours.may_use.iter().copied().collect();
        let tree = Tree::read(ours.package);
        let direct = tree.direct();
        let used: BTreeSet<_> = OURS.iter().map(|o| o.package).filter(|p| direct.contains(p)).collect();
        let extra: Vec<_> = used.difference(&allowed).collect();
        assert!(extra.is_empty(), "{} must not depend on {extra:?}; it may on {allowed:?}", ours.package);
    }
}

#[test]
fn pure_crates_bring_no_runtime_client_clock_or_randomness() {
    let mut wrong = Vec::new();
    for ours in OURS.iter().filter(|ours| ours.pure) {
        let below = Tree::read(ours.package).chains;
        for (what, crates) in FORBIDDEN {
            for name in *crates {
                if let Some(chain) = below.get(*name) {
                    wrong.push(format!("{} gains {what}: {}", ours.package, chain.join(" -> ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_kubernetes_types_come_without_a_client() {
    let below = Tree::read("slicewright-api").chains;
    assert!(below.contains_key("kube-derive"), "api derives its CRDs with kube");
    assert!(!below.contains_key("kube-client"), "{:?}", below.get("kube-client"));
}

#[test]
fn chrono_is_for_tests_of_the_rules_alone() {
    for ours in OURS {
        let below = Tree::read(ours.package).chains;
        assert!(!below.contains_key("chrono"), "{}: {:?}", ours.package, below.get("chrono"));
    }
}

/// What a build of the operator with these features consists of.
fn operator_with(features: &str) -> BTreeSet<String> {
    let package = ["tree", "-p", "slicewright-controller", "--locked", "-e", "normal,build"];
    let features = ["--no-default-features", "--features", features, "--prefix", "none", "--format", "{p}"];
    let text = cargo(&[package.as_slice(), features.as_slice()].concat());
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

/// One implementation of TLS in each build: that of the certified image is the
/// image's own OpenSSL, and nothing beside it.
#[test]
fn each_build_of_the_operator_has_one_implementation_of_tls() {
    let rustls = ["rustls", "aws-lc-rs", "aws-lc-sys", "hyper-rustls"];
    let openssl = ["openssl", "openssl-sys", "hyper-openssl"];
    for (features, with, without) in
        [("tls-rustls", &rustls[..], &openssl[..]), ("tls-openssl", &openssl[..], &rustls[..])]
    {
        let built = operator_with(features);
        assert!(with.iter().all(|name| built.contains(*name)), "{features} lacks one of {with:?}");
        let too_many: Vec<_> = without.iter().filter(|name| built.contains(**name)).collect();
        assert!(too_many.is_empty(), "{features} brings {too_many:?}");
        assert!(!built.contains("ring"), "{features} brings ring");
    }
}

/// The feature `testing` of the planner makes plans pass that nobody has checked: it is of tests alone.
#[test]
fn what_ships_can_make_no_plan_that_nobody_has_checked() {
    for package in ["slicewright-controller", "slicewright-cli", "slicewright-multicall"] {
        let tree = [
            "tree",
            "-p",
            package,
            "--all-features",
            "--locked",
            "-e",
            "normal,features",
            "--prefix",
            "none",
        ];
        let text = cargo(&tree);
        assert!(text.contains("slicewright-planner"), "{package} plans");
        assert!(
            !text.contains("slicewright-planner feature \"testing\""),
            "{package} has what is of tests alone"
        );
    }
}

/// A static program loads no shared library: what does so is no part of the
/// one that the image has.
#[test]
fn the_image_s_program_has_nothing_that_loads_a_library() {
    let tree = ["tree", "-p", "slicewright-multicall", "--locked", "-e", "normal", "--prefix", "none"];
    let text = cargo(&[tree.as_slice(), &["--format", "{p}"]].concat());
    let built: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(built.contains("slicewright-controller") && built.contains("slicewright-cli"));
    for loads in ["slicewright-nvml", "nvml-wrapper", "libloading"] {
        assert!(!built.contains(loads), "slicewright-multicall brings {loads}");
    }
}

/// The sources of a folder, test modules' files apart.
pub(crate) fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().unwrap() != "tests.rs" {
            into.push(path);
        }
    }
}

/// What of a source is code that ships: not comments, and nothing from the
/// test module on, which stands last.
pub(crate) fn shipped(source: &str) -> impl Iterator<Item = (usize, &str)> {
    source
        .lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or("")))
}

#[test]
fn pure_sources_name_no_clock_file_environment_or_thread() {
    let root = root();
    let mut wrong = Vec::new();
    for ours in OURS.iter().filter(|ours| ours.pure) {
        let mut files = Vec::new();
        sources(&root.join(ours.folder).join("src"), &mut files);
        assert!(!files.is_empty(), "no sources in {}", ours.folder);
        for file in files {
            let source = std::fs::read_to_string(&file).unwrap();
            for (line, code) in shipped(&source) {
                for (word, why) in UNSPOKEN {
                    if code.contains(word) {
                        let file = file.strip_prefix(&root).unwrap().display();
                        wrong.push(format!("{file}:{line}: {word}: {why}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scan_sees_code_and_neither_comments_nor_tests() {
    let source = "use std::fs; // reads\n/// std::env is not used\nlet x = 1;\n#[cfg(test)]\nmod tests { use std::env; }\n";
    let code: Vec<_> = shipped(source).map(|(_, code)| code.trim()).collect();
    assert_eq!(code, ["use std::fs;", "", "let x = 1;"]);
}

/// Where `unsafe` may be: the modules that speak C's interface or map memory.
/// Each file says `allow(unsafe_code)` itself; everywhere else it is denied.
const UNSAFE: &[&str] = &["crates/nvml/src", "simulator/libnvml/src", "simulator/store/src"];

#[test]
fn unsafe_code_is_allowed_in_few_places_by_name() {
    let root = root();
    let allowing = format!("allow({}", "unsafe_code");
    for ours in OURS {
        let mut files = Vec::new();
        sources(&root.join(ours.folder).join("src"), &mut files);
        for file in files {
            let path = file.strip_prefix(&root).unwrap().to_owned();
            let allows = std::fs::read_to_string(&file).unwrap().contains(&allowing);
            let may = UNSAFE.iter().any(|folder| path.starts_with(folder));
            assert!(may || !allows, "{} allows unsafe code: only {UNSAFE:?} may", path.display());
        }
    }
}
