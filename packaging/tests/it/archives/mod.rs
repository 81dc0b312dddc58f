//! The archives and krew's manifest, validated and installed by real krew. The program in them is a script
//! here: `cargo xtask archives` builds the published ones.

mod macos;

use std::path::Path;
use std::process::{Command, Output};

use clap::ValueEnum;
use packaging::archives::{File, INSTALLER, NoVariable, Release, System, digest, packed};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = "https://example.com/slicewright";

fn archive(system: System) -> Vec<u8> {
    let file = |path: &str, content: &str, is_program| File {
        path: path.to_owned(),
        content: content.as_bytes().to_owned(),
        is_program,
    };
    let script = "#!/bin/sh\necho \"called as ${0##*/} with $*\"\n";
    packed(&[file(system.program(), script, true), file("LICENSE", "Apache\n", false)]).unwrap()
}

fn release(archives: Vec<(System, String)>) -> Release<'static> {
    Release { version: VERSION, repository: REPOSITORY, archives }
}

fn all() -> Vec<(System, String)> {
    System::value_variants().iter().map(|system| (*system, digest(&archive(*system)))).collect()
}

/// Krew's own judge of manifests, the one that its index runs.
fn judged(folder: &Path, manifest: &str) -> Output {
    let file = folder.join("slicewright.yaml");
    std::fs::write(&file, manifest).unwrap();
    let judge = tools::find("validate-krew-manifest").unwrap_or_else(|error| panic!("{error}"));
    Command::new(judge).arg("-skip-install").arg("-manifest").arg(&file).output().unwrap()
}

#[test]
fn krew_takes_the_manifest_and_refuses_one_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = release(all()).manifest();
    let output = judged(folder.path(), &manifest);
    assert!(output.status.success(), "{manifest}\n{}", String::from_utf8_lossy(&output.stderr));
    for (right, wrong) in [
        ("matchLabels: {os: linux,", "matchLabels: {system: linux,"),
        (concat!("  version: v", env!("CARGO_PKG_VERSION")), "  version: newest"),
        ("      bin: slicewright\n", ""),
    ] {
        let broken = manifest.replacen(right, wrong, 1);
        assert_ne!(broken, manifest);
        assert!(!judged(folder.path(), &broken).status.success(), "krew takes {wrong:?}");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn krew_installs_the_archive_and_kubectl_runs_it_under_the_plugin_s_name() {
    let folder = tempfile::tempdir().unwrap();
    let (file, manifest) = (folder.path().join("archive.tar.gz"), folder.path().join("slicewright.yaml"));
    std::fs::write(&file, archive(System::LinuxAmd64)).unwrap();
    std::fs::write(&manifest, release(all()).manifest()).unwrap();
    let root = folder.path().join("krew");
    let krew = tools::find("krew").unwrap_or_else(|error| panic!("{error}"));
    let installed = Command::new(krew)
        .args(["install", "--no-update-index"])
        .arg(format!("--manifest={}", manifest.display()))
        .arg(format!("--archive={}", file.display()))
        .env("KREW_ROOT", &root)
        .env("HOME", folder.path())
        .env("KREW_NO_UPGRADE_CHECK", "1")
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    // As kubectl does: the file of this name in PATH.
    let called =
        Command::new(root.join("bin/kubectl-slicewright")).args(["plan", "--help"]).output().unwrap();
    assert_eq!(String::from_utf8(called.stdout).unwrap(), "called as kubectl-slicewright with plan --help\n");
}

#[test]
fn the_same_files_give_the_same_archive_whose_sum_is_the_usual_one() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = archive(System::LinuxArm64);
    assert_eq!(digest(&bytes), digest(&archive(System::LinuxArm64)));
    std::fs::write(folder.path().join(System::LinuxArm64.archive(VERSION)), &bytes).unwrap();
    let sums = release(vec![(System::LinuxArm64, digest(&bytes))]).sums();
    std::fs::write(folder.path().join("SHA256SUMS"), sums).unwrap();
    let check = Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()).output();
    let check = check.unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// Whoever sets up a job copies no digest: the script of a release installs its archive as it is, and no other.
#[test]
fn the_script_of_a_release_installs_its_archive_and_refuses_another() {
    let example = std::fs::read_to_string(packaging::root().join(INSTALLER)).unwrap();
    let system = match std::env::consts::ARCH {
        "aarch64" => System::LinuxArm64,
        _ => System::LinuxAmd64,
    };
    let folder = tempfile::tempdir().unwrap();
    let releases = folder.path().join("v7.6.5");
    std::fs::create_dir(&releases).unwrap();
    let place = releases.join(system.archive("7.6.5"));
    let installed = folder.path().join("bin");
    let run = |archives: Vec<(System, String)>| {
        let release = Release { version: "7.6.5", repository: REPOSITORY, archives };
        let script = folder.path().join("install.sh");
        std::fs::write(&script, release.installer(&example).unwrap()).unwrap();
        let mut sh = Command::new("sh");
        sh.arg(script).arg(&installed);
        sh.env("SLICEWRIGHT_RELEASES", format!("file://{}", folder.path().display()));
        sh.output().unwrap()
    };
    std::fs::write(&place, archive(system)).unwrap();
    let good = run(all());
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    let called = Command::new(installed.join("slicewright")).arg("plan").output().unwrap();
    assert_eq!(String::from_utf8(called.stdout).unwrap(), "called as slicewright with plan\n");

    // Another archive, and a release that has none for this system.
    std::fs::write(&place, b"another").unwrap();
    assert_eq!(run(all()).status.code(), Some(65));
    std::fs::write(&place, archive(system)).unwrap();
    assert_eq!(run(Vec::new()).status.code(), Some(65));

    let of_others = example.replace("\nVERSION=", "\nRELEASE=");
    assert_eq!(release(all()).installer(&of_others), Err(NoVariable("VERSION")));
}

/// What `examples/policy-repo` downloads is what a release publishes, under the same name.
#[test]
fn the_example_of_a_policy_repository_asks_for_an_archive_that_is_published() {
    let script = std::fs::read_to_string(packaging::root().join("examples/policy-repo/install.sh")).unwrap();
    for system in [System::LinuxAmd64, System::LinuxArm64] {
        let (os, arch) = system.names();
        let name = format!("{os}-{arch}");
        assert!(script.contains(&format!("system={name} digest=$SHA256_{}", arch.to_uppercase())), "{name}");
        let archive = system.archive("$VERSION").replace(&name, "$system");
        assert!(script.contains(&format!("archive={archive}\n")), "{archive}");
        let release = Release {
            version: "$VERSION",
            repository: "$REPOSITORY",
            archives: vec![(system, String::new())],
        };
        let place = release.manifest();
        let (_, uri) = place.split_once("uri: ").unwrap();
        let (place, _) = uri.split_once("/v$VERSION").unwrap();
        assert!(script.contains(&format!("{place}}}/v$VERSION/$archive\n")), "{place}");
        assert!(script.contains(&format!(" {}\n", system.program())));
    }
}
