//! The programs in the images: their requirements, the information that they contain, and that they run.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use image::elf;
use image::labels::Product;

use crate::promises::images;
use crate::support::Read;

#[test]
fn the_operator_s_image_has_one_static_program_under_both_names() {
    for (_, image) in images().into_iter().filter(|(product, _)| *product == Product::Operator) {
        let programs: Vec<_> =
            image.things.iter().filter(|(_, thing)| thing.content.starts_with(b"\x7fELF")).collect();
        let [(path, program)] = programs.as_slice() else { panic!("one program") };
        assert_eq!(*path, "usr/bin/slicewright");
        let needs = elf::needs(&program.content).unwrap();
        assert_eq!((needs.loader, needs.libraries), (None, vec![]), "it is static");
        // The linker takes of an archive only what somebody calls, with the words in it.
        let has = |words: &[u8]| program.content.windows(words.len()).any(|window| window == words);
        assert!(
            has(b"mimalloc: warning: "),
            "it has musl's allocator, with which a round takes half as long again"
        );
        let link = image.file("usr/bin/slicewright-operator").target.clone().unwrap();
        assert_eq!(link, Path::new("slicewright"));
    }
}

/// Every library that a program asks for is in the image, where the loader
/// looks without a cache.
#[test]
fn an_image_with_a_c_library_has_every_library_that_it_asks_for() {
    for (_, image) in images().into_iter().filter(|(product, _)| *product != Product::Operator) {
        for (path, thing) in image.things.iter().filter(|(_, thing)| thing.content.starts_with(b"\x7fELF")) {
            let needs = elf::needs(&thing.content).unwrap();
            for asked in needs.libraries.iter().chain(needs.loader.as_ref()) {
                let name = asked.rsplit('/').next().unwrap();
                let there = image.things.keys().any(|path| path.rsplit('/').next() == Some(name));
                assert!(there, "{path} asks for {asked}");
            }
        }
    }
}

/// A path of the machine that built would make another image in another
/// folder, and tells what nobody asked for.
#[test]
fn no_program_has_a_path_of_the_machine_that_built_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let root = root.to_str().unwrap();
    for (_, image) in images() {
        for (path, thing) in image.things.iter().filter(|(_, thing)| thing.content.starts_with(b"\x7fELF")) {
            let found = thing.content.windows(root.len()).position(|window| window == root.as_bytes());
            if let Some(at) = found {
                let end = thing.content.len().min(at + 120);
                panic!("{path} has {}", String::from_utf8_lossy(&thing.content[at..end]));
            }
        }
    }
}

/// In a root that has nothing but the image, without a variable: with
/// `chroot`, as root or in a user namespace.
fn inside(root: &Path, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--root"]).arg(root).arg("--wd=/").arg(program).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").output().unwrap()
}

fn of_this_machine(image: &Read) -> bool {
    let here = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    image.architecture == here
}

#[track_caller]
fn prints(output: Output, expected: &str) {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(expected), "{text:?} has no {expected:?}; {told}");
}

#[test]
fn the_operator_runs_in_a_root_that_has_nothing_else() {
    for (_, image) in images().into_iter().filter(|(p, i)| *p == Product::Operator && of_this_machine(i)) {
        let root = tempfile::tempdir().unwrap();
        image.unpack(root.path());
        let version = env!("CARGO_PKG_VERSION");
        let operator = "/usr/bin/slicewright-operator";
        prints(inside(root.path(), operator, &["--version"]), &format!("slicewright-operator {version}\n"));
        let command = "/usr/bin/slicewright";
        prints(inside(root.path(), command, &["--version"]), &format!("slicewright {version}\n"));
        prints(inside(root.path(), command, &["layouts", "A100-80GB"]), "1g.10gb");
        // What the chart's hook calls is there; what loads a library is not.
        prints(inside(root.path(), command, &["release", "--help"]), "--stop-operator");
        let gpus = inside(root.path(), command, &["gpus"]);
        assert!(!gpus.status.success(), "a static program cannot load NVML");
        // Outside of a cluster it says what it lacks, and does not crash: TLS and all are there.
        let lost = inside(root.path(), operator, &[]);
        assert_eq!(lost.status.code(), Some(1), "{}", String::from_utf8_lossy(&lost.stderr));
    }
}

/// What this machine cannot run itself, an emulator runs, where there is one: the release check asks for it.
#[test]
fn the_operator_s_image_for_another_processor_runs_in_an_emulator() {
    for (_, image) in images().into_iter().filter(|(p, i)| *p == Product::Operator && !of_this_machine(i)) {
        let emulator = match image.architecture.as_str() {
            "arm64" => "qemu-aarch64-static",
            _ => "qemu-x86_64-static",
        };
        if Command::new(emulator).arg("--version").output().is_err() {
            println!("left out: there is no {emulator} to run the image for {}", image.architecture);
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("slicewright");
        std::fs::write(&program, &image.file("usr/bin/slicewright").content).unwrap();
        // The emulator runs what may be executed, and says nothing where it may not.
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let run =
            |args: &[&str]| Command::new(emulator).arg(&program).args(args).env_clear().output().unwrap();
        prints(run(&["--version"]), &format!("slicewright {}\n", env!("CARGO_PKG_VERSION")));
        prints(run(&["layouts", "A100-80GB"]), "1g.10gb");
    }
}

#[test]
fn the_simulator_runs_in_a_root_that_has_nothing_else() {
    for (_, image) in images().into_iter().filter(|(p, i)| *p == Product::Simulator && of_this_machine(i)) {
        let root = tempfile::tempdir().unwrap();
        image.unpack(root.path());
        let version = env!("CARGO_PKG_VERSION");
        let sim = "/usr/bin/slicewright-sim";
        prints(inside(root.path(), sim, &["--version"]), &format!("slicewright-sim {version}\n"));
        let setup = inside(root.path(), sim, &["node", "setup", "--gpus", "a100-80gb"]);
        assert!(setup.status.success(), "{}", String::from_utf8_lossy(&setup.stderr));
        // nvidia-smi finds the library where the loader looks, and the library the node.
        prints(inside(root.path(), "/usr/bin/nvidia-smi", &["-L"]), "GPU 0: NVIDIA A100");
    }
}

/// The driver is the node's and not the image's, but the C library that it asks for has to be here. Without a cluster the
/// agent says what it lacks.
#[test]
fn the_agent_starts_in_a_root_that_has_nothing_else_and_has_what_a_driver_asks_for() {
    for (_, image) in images().into_iter().filter(|(p, i)| *p == Product::Agent && of_this_machine(i)) {
        let root = tempfile::tempdir().unwrap();
        image.unpack(root.path());
        let agent = "/usr/bin/slicewright-agent";
        let version = env!("CARGO_PKG_VERSION");
        prints(inside(root.path(), agent, &["--version"]), &format!("slicewright-agent {version}\n"));
        prints(inside(root.path(), agent, &["--help"]), "--pod-resources-socket");
        let lost = inside(root.path(), agent, &["--node-name=gpu-7", "--pod-uid=u", "--kubeconfig=/none"]);
        let told = String::from_utf8_lossy(&lost.stderr).into_owned();
        assert_eq!(lost.status.code(), Some(1), "{told}");
        assert!(told.contains("failed to read the kubeconfig"), "{told}");
        let libraries = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];
        for name in libraries {
            let there = image.things.keys().any(|path| path.rsplit('/').next() == Some(name));
            assert!(there, "NVIDIA's library asks for {name}");
        }
        let programs: Vec<_> =
            image.things.keys().filter(|path| path.starts_with("usr/bin/")).map(String::as_str).collect();
        assert_eq!(programs, ["usr/bin/slicewright-agent"], "no shell and no other program");
    }
}

/// `oc adm must-gather` starts a shell with the collection in a session of its own, ends that session when the disk fills
/// up, waits in a second container until all is collected, and copies with tar. Where there is no cluster, our command says
/// so, and the rest works.
#[test]
fn the_image_for_must_gather_has_what_oc_starts_in_it() {
    for (_, image) in images().into_iter().filter(|(p, i)| *p == Product::MustGather && of_this_machine(i)) {
        let root = tempfile::tempdir().unwrap();
        image.unpack(root.path());
        std::fs::create_dir(root.path().join("must-gather")).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let bash = |script: &str| inside(root.path(), "/bin/bash", &["-c", script]);
        let nowhere = bash(
            "setsid --wait bash <<END\n/usr/bin/env A=b /usr/bin/gather\nEND\nstatus=$?; sync; exit $status",
        );
        assert!(!nowhere.status.success(), "there is no cluster here");
        let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
        assert!(said.contains("failed to find the API server"), "{said}");
        prints(bash("cat /must-gather/version"), &format!("slicewright\nslicewright {version}\n"));
        prints(bash("tar --create --directory /must-gather . | tar --list"), "./version");
        prints(bash("df -P / 2>&1; du -s /must-gather | awk '{print \"used\", $1}'"), "used ");
        prints(
            bash(
                "echo one 2 | sed 's/one/two/' | sort | tail -n 1 | wc -l; sleep 0; date +%s; ls /must-gather",
            ),
            "version",
        );
        prints(bash("ps --version; pkill --version"), "pkill");
        prints(
            bash(
                "sh -c 'echo in sh' | grep in | head -n 1; mkdir /must-gather/a; cp /must-gather/version /must-gather/a; rm /must-gather/a/version",
            ),
            "in sh",
        );
    }
}
