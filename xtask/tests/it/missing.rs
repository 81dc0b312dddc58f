//! On a machine that lacks what a task needs, the task says so before its first build: all of it, and what installs it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A machine with Rust and nothing else, on which nothing was built: its cargo writes down what it is asked for.
struct Bare {
    folder: tempfile::TempDir,
}

impl Bare {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cargo = folder.path().join("cargo");
        let asked = folder.path().join("asked");
        std::fs::write(&cargo, format!("#!/bin/sh\necho \"$*\" >>{}\nexit 1\n", asked.display())).unwrap();
        std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// A task that is started on it.
    fn xtask(&self, words: &[&str]) -> Command {
        let cache = self.folder.path().join("cache");
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.args(words).env_clear().env("PATH", self.folder.path()).env("SLICEWRIGHT_TOOLS", cache);
        xtask
    }

    /// What a task says on it, and what cargo was asked for meanwhile.
    fn types(&self, words: &[&str]) -> (String, String) {
        let asked = self.folder.path().join("asked");
        std::fs::write(&asked, "").unwrap();
        let output = self.xtask(words).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        (said, std::fs::read_to_string(asked).unwrap())
    }
}

#[test]
fn a_task_says_what_is_missing_before_it_builds_anything() {
    let bare = Bare::new();
    let tasks: [(&[&str], &[&str]); 19] = [
        (&["e2e"], &["Go"]),
        (&["e2e", "--release", "rehearsal"], &["Go", "Python 3 with venv", "a C compiler"]),
        (&["e2e", "--release", "workloads"], &["Go", "a mount namespace for a program (unshare)"]),
        (
            &["e2e", "--release", "must_gather"],
            &["the programs in the image for must-gather", "a mount namespace for a program (unshare)"],
        ),
        (&["tools"], &["Go", "a C compiler"]),
        (&["chart"], &["Go"]),
        (&["bundle"], &["Go"]),
        (&["alerts"], &["Go"]),
        (&["clients", "go"], &["Go", "a C compiler", "a mount namespace for a program (unshare)"]),
        (&["clients", "python"], &["Python 3 with venv"]),
        (&["kind", "up"], &["Go", "dockerd", "mmdebstrap"]),
        (&["kind", "story"], &["Go", "Python 3 with venv", "Rust's standard library for musl"]),
        (
            &["kind", "check"],
            &[
                "Go",
                "dockerd",
                "mmdebstrap",
                "Python 3 with venv",
                "Rust's standard library for musl",
                "a C compiler",
            ],
        ),
        (&["image", "operator"], &["Python 3 with venv", "a C compiler", "Rust's standard library for musl"]),
        (&["archives"], &["Python 3 with venv"]),
        (&["fuzz"], &["a nightly Rust", "g++"]),
        (&["sanitize"], &["a nightly Rust"]),
        (&["mutants"], &["cargo-mutants"]),
        (&["mutants", "--since", "main"], &["cargo-mutants", "git (and a checkout made with it)"]),
    ];
    for (words, lacks) in tasks {
        let (said, asked) = bare.types(words);
        let begins = format!(
            "error: cargo xtask {} needs what this machine lacks, so nothing is built yet:\n",
            words[0]
        );
        assert!(said.starts_with(&begins), "{words:?}: {said}");
        for tool in lacks {
            assert!(said.contains(&format!("\n  {tool}: ")), "{words:?} needs {tool}: {said}");
        }
        // Whether a program of cargo's is there is asked of cargo.
        let built: Vec<_> = asked.lines().filter(|line| !line.ends_with(" --version")).collect();
        assert!(built.is_empty(), "{words:?} ran cargo {built:?}");
    }
}

/// Its steps are left out where their tools are missing, and not all of it is refused: which, is said before the first.
#[test]
fn the_release_check_says_what_is_missing_before_its_first_step() {
    let bare = Bare::new();
    let output = bare.xtask(&["release-check"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (before, steps) = said.split_once("\n=== 1/").unwrap_or_else(|| panic!("no step begins: {said}"));
    for (tool, of) in [
        ("Go", "tools"),
        ("git (and a checkout made with it)", "flux, rehearsal"),
        ("a mount namespace for a program (unshare)", "workloads, must-gather"),
        ("the programs in the image for must-gather", "rehearsal, must-gather"),
        ("dockerd", "kind"),
        ("mmdebstrap", "kind"),
        ("Rust's standard library for x86_64-pc-windows-gnu", "archives"),
    ] {
        assert!(before.contains(&format!("\n  {tool} (for {of}")), "{tool} (for {of}): {before}");
    }
    assert!(before.contains("\nTo install what a command can install:\n"), "{before}");
    for left_out in ["workloads", "must-gather", "kind"] {
        assert!(steps.contains(&format!("\n--- {left_out}: skipped")), "{left_out}: {steps}");
    }
}

/// A control plane takes ten minutes to build, and the other demo a few: who waits sees that one meanwhile.
#[test]
fn the_demo_without_a_control_plane_is_shown_before_go_builds_one() {
    let types = |words: &[&str]| {
        let bare = Bare::new();
        let asked = bare.folder.path().join("asked");
        put(bare.folder.path(), "cargo", &format!("echo \"cargo $*\" >>{}", asked.display()));
        let go = format!("echo \"go $*\" >>{}; test \"$1\" != build", asked.display());
        put(bare.folder.path(), "go", &go);
        put(bare.folder.path(), "cc", "exit 0");
        let output = bare.xtask(words).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (said, std::fs::read_to_string(asked).unwrap_or_default())
    };
    let (said, asked) = types(&["demo"]);
    let at = |begins: &str| {
        let found = asked.lines().position(|line| line.starts_with(begins));
        found.unwrap_or_else(|| panic!("nobody ran {begins}: {asked}"))
    };
    let shown = at("cargo run --package slicewright-cli --bin slicewright -- demo");
    assert!(shown < at("go build"), "{asked}");
    assert!(!asked.contains("slicewright-demo"), "a control plane that was not built runs nothing: {asked}");
    let (first, then) = said.split_once("A control plane has to be built first").expect("it is announced");
    assert!(first.is_empty() && then.contains("\nNow the control plane: "), "{said}");
    let (_, asked) = types(&["demo", "--in-process"]);
    assert!(!asked.contains("go build"), "{asked}");
}

/// A program of the machine, as a script.
fn put(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The ten minutes in which the parts of a node image are built are for nothing where it cannot be put together.
/// Whoever waits sees what is built: the first thing that cargo is asked for is no quiet one.
#[test]
fn a_task_shows_what_it_builds() {
    let bare = Bare::new();
    for words in
        [&["codegen"][..], &["codegen", "--check"], &["demo", "--in-process"], &["sim-lib"], &["bench"]]
    {
        let (_, asked) = bare.types(words);
        let first = asked.lines().next().unwrap_or_default();
        assert!(!first.is_empty() && !first.contains("--quiet"), "{words:?}: cargo {first}");
    }
}

#[test]
fn a_docker_that_cannot_fetch_the_node_image_is_known_before_the_first_build() {
    let says = |fetches: bool| {
        let bare = Bare::new();
        for program in ["sh", "grep", "timeout"] {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
            let found = found.iter().find(|path| path.exists()).unwrap();
            std::os::unix::fs::symlink(found, bare.folder.path().join(program)).unwrap();
        }
        put(bare.folder.path(), "id", "echo 1000");
        let status = i32::from(!fetches);
        put(
            bare.folder.path(),
            "docker",
            &format!("case $1 in info) ;; pull) exit {status} ;; images) ;; *) exit 1 ;; esac"),
        );
        let (said, asked) = bare.types(&["kind", "up"]);
        assert_eq!(asked, "", "nothing is built");
        said
    };
    let said = says(false);
    let image = "\n  kind's node image in the engine, or root to make one: ";
    for needed in [image, "\n  mmdebstrap: ", "\n  zstd: "] {
        assert!(said.contains(needed), "{needed}: {said}");
    }
    assert!(!said.contains("dockerd") && !said.contains("containerd"), "an engine is there: {said}");
    // Go is missing all the same.
    let said = says(true);
    assert!(!said.contains("mmdebstrap") && !said.contains(image) && said.contains("\n  Go: "), "{said}");
}

/// The newest `go` line of the modules that are built.
fn go() -> String {
    let mut newest = (0, 0);
    for entry in std::fs::read_dir(root().join("tools")).unwrap() {
        let Ok(text) = std::fs::read_to_string(entry.unwrap().path().join("go.mod")) else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix("go ")).expect("a module says its Go");
        let mut parts = line.split('.').map(|part| part.parse::<u32>().unwrap());
        newest = newest.max((parts.next().unwrap(), parts.next().unwrap()));
    }
    format!("{}.{}", newest.0, newest.1)
}

#[test]
fn whoever_contributes_reads_the_versions_that_the_code_asks_for() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let cargo = read("Cargo.toml");
    let rust = cargo.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    let go = go();
    for page in ["README.md", "docs/ko/README.md", "CONTRIBUTING.md"] {
        let text = read(page);
        for (link, version) in [("https://rustup.rs", rust), ("https://go.dev/dl", go.as_str())] {
            let (_, after) = text.split_once(link).unwrap_or_else(|| panic!("{page} has no link to {link}"));
            let named = after.trim_start_matches(')').trim_start();
            assert!(named.starts_with(&format!("{version} ")), "{page}: {link} {version}, not {named:.20}");
        }
    }
    assert!(read("xtask/src/tools.rs").contains(&format!("install Go {go} or newer")));
}
