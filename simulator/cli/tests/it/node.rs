//! `slicewright-sim node` as users see it: transcripts, each in a directory of its own. `TRYCMD=overwrite`
//! rewrites them.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use gpu::Caller;
use store::Store;

/// Runs a transcript on the node in a directory.
fn transcript(name: &str, dir: &Path) {
    let cases = trycmd::TestCases::new();
    cases.env(store::DIRECTORY_VARIABLE, dir.to_str().unwrap());
    cases.insert_var("[DIR]", dir.to_str().unwrap().to_owned()).unwrap();
    cases.case(format!("tests/node/{name}.md"));
    // Dropped, it runs.
}

/// `nvidia-smi mig -i GPU -cgi PROFILE,... -C`.
fn cut(dir: &Path, gpu: u16, profiles: &[u32]) {
    let store = Store::open(dir).unwrap();
    let made = store.update(|state| {
        let mut nvml = state.machine.nvml(Caller::Root);
        let device = nvml.device_handle_by_index(gpu)?;
        for profile in profiles {
            let instance = nvml.create_gpu_instance(device, *profile)?;
            let default = nvml.compute_instance_profiles(instance)?.into_iter().find(|(p, _)| p.default);
            nvml.create_compute_instance(instance, default.unwrap().0.id)?;
        }
        Ok::<_, gpu::NvmlError>(())
    });
    made.unwrap().unwrap();
}

#[test]
fn the_help_teaches() {
    let dir = tempfile::tempdir().unwrap();
    transcript("help", dir.path());
}

#[test]
fn a_node_is_set_up_used_broken_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node");
    transcript("setup", &node);
    cut(&node, 0, &[19, 14, 9]);
    cut(&node, 1, &[0]);
    transcript("use", &node);
    transcript("faults", &node);
}

#[test]
fn bad_input_is_told_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node");
    transcript("not-set-up", &node);
    transcript("mistakes", &node);
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slicewright-sim"));
    command.arg("node").env(store::DIRECTORY_VARIABLE, dir);
    command
}

fn says(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A node with one slice, GPU instance 13.
fn with_a_slice(dir: &Path) {
    says(command(dir).args(["setup", "--gpus", "a100-80gb", "--mig"]));
    cut(dir, 0, &[19]);
}

#[test]
fn a_program_has_a_slice_open_as_long_as_it_runs_and_ends_as_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    with_a_slice(dir.path());
    let mut run = command(dir.path());
    run.args(["run", "--on", "0:13", "--memory", "9000", "--name", "trainer", "--", "sh", "-c"]);
    run.arg("\"$0\" node show --output json; exit 7").arg(env!("CARGO_BIN_EXE_slicewright-sim"));
    let child = run.stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the program's own status");
    let node: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let client = &node["clients"][0];
    assert_eq!(client["pid"], pid, "the program has the place of the command");
    assert_eq!((&client["name"], &client["on"]), (&"trainer".into(), &"0:13:0".into()));
    assert_eq!((&client["memoryMib"], &client["process"]), (&9000.into(), &true.into()));
    let after: serde_json::Value =
        serde_json::from_str(&says(command(dir.path()).args(["show", "-o", "json"]))).unwrap();
    assert_eq!(after["clients"], serde_json::json!([]));
}

#[test]
fn a_program_that_is_killed_leaves_its_slice() {
    let dir = tempfile::tempdir().unwrap();
    with_a_slice(dir.path());
    let mut run = command(dir.path());
    // It says that it runs, and waits for an input that never comes.
    run.args(["run", "--on", "0:13:0", "--", "sh", "-c", "echo runs; read line"]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.snapshot().unwrap().machine.clients().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.update(|state| state.machine.clients().count()).unwrap(), 0);
}

#[test]
fn files_are_kept_where_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node");
    with_a_slice(&node);
    assert_eq!(says(command(&node).arg("files")), "no files are kept\n");
    let root = dir.path().join("root");
    let said = says(command(&node).arg("files").arg("--root").arg(&root));
    assert_eq!(said, format!("the files are under {}, up to date\n", root.canonicalize().unwrap().display()));
    assert!(root.join("proc/driver/nvidia/capabilities/gpu0/mig/gi13/ci0/access").exists());
    says(command(&node).arg("reboot"));
    assert!(!root.join("proc/driver/nvidia/capabilities/gpu0/mig/gi13").exists());
    assert!(says(command(&node).arg("show")).ends_with("(up to date)\n"));
    assert_eq!(says(command(&node).args(["files", "--remove"])), "no files are kept\n");
    assert!(!root.join("proc").exists());
}

#[test]
fn what_is_shown_for_programs_has_everything() {
    let dir = tempfile::tempdir().unwrap();
    with_a_slice(dir.path());
    says(command(dir.path()).args(["fault", "function", "nvmlDeviceGetName", "--hangs", "--gpu", "0"]));
    says(command(dir.path()).args(["fault", "failed-reset", "--gpu", "0"]));
    says(command(dir.path()).args(["fault", "lost", "--gpu", "0", "--in", "1h"]));
    let node: serde_json::Value =
        serde_json::from_str(&says(command(dir.path()).args(["show", "-o", "json"]))).unwrap();
    let gpu = &node["gpus"][0];
    assert_eq!(gpu["mig"], serde_json::json!({"current": true, "pending": true}));
    let instance = &gpu["instances"][0];
    assert_eq!(
        (&instance["id"], &instance["profile"], &instance["start"], &instance["size"]),
        (&13.into(), &"1g.10gb".into(), &6.into(), &1.into())
    );
    let uuid = instance["compute"][0]["uuid"].as_str().unwrap();
    // By its UUID it is found, too.
    let opened = says(command(dir.path()).args(["client", "start", "--on", uuid]));
    assert_eq!(opened, "client 1: python has 0:13:0 open\n");
    assert_eq!(node["functionFaults"][0]["function"], "nvmlDeviceGetName");
    assert_eq!(node["faults"].as_array().unwrap().len(), 1);
    assert_eq!(node["scheduled"].as_array().unwrap().len(), 1);
}

#[test]
fn who_computes_in_a_slice_needs_a_compute_instance_and_who_watches_does_not() {
    let dir = tempfile::tempdir().unwrap();
    with_a_slice(dir.path());
    let store = Store::open(dir.path()).unwrap();
    let destroy = |state: &mut store::State| {
        let mut nvml = state.machine.nvml(Caller::Root);
        let device = nvml.device_handle_by_index(0)?;
        let instance = nvml.gpu_instance_by_id(device, 13)?;
        let compute = nvml.compute_instance_by_id(instance, 0)?;
        nvml.destroy_compute_instance(compute)
    };
    says(command(dir.path()).args(["client", "start", "--on", "0:13"]));
    assert_eq!(store.update(destroy).unwrap(), Err(gpu::NvmlError::InUse));
    says(command(dir.path()).args(["client", "end", "--all"]));
    assert_eq!(store.update(destroy).unwrap(), Ok(()));
    let refused = command(dir.path()).args(["client", "start", "--on", "0:13"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("has no compute instance") && said.contains("give --watches"), "{said}");
    let watches = says(command(dir.path()).args(["client", "start", "--on", "0:13", "--watches"]));
    assert_eq!(watches, "client 2: python has 0:13 open\n");
}

/// Lays the programs out in a folder, and says where the program is.
fn laid_out(folder: &Path, library: &str) -> std::path::PathBuf {
    let programs = folder.join("bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(folder.join("libnvidia-ml.so.1"), library).unwrap();
    let program = programs.join("slicewright-sim");
    std::fs::copy(env!("CARGO_BIN_EXE_slicewright-sim"), &program).unwrap();
    program
}

/// Runs a program that was written a moment ago. A test beside this one may have
/// forked in that moment: until its child is another program, the file is open
/// for writing there, and the kernel does not run it.
fn ran(command: &mut Command) -> std::process::Output {
    loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            done => return done.unwrap(),
        }
    }
}

#[test]
fn a_shell_enters_the_node_with_one_line() {
    let place = tempfile::tempdir().unwrap();
    // What a shell would take apart.
    let folder = place.path().join("it's $HOME; \"here\"");
    let program = laid_out(&folder, "…SLICEWRIGHT_SIM_DIR…");
    let enter = |path: &str, libraries: Option<&str>| {
        let mut shell = Command::new("/bin/sh");
        shell.args([
            "-euc",
            "eval \"$(\"$0\" node env --dir node)\"; printf '%s\\n' \"$PATH\" \
            \"$LD_LIBRARY_PATH\" \"$SLICEWRIGHT_SIM_DIR\"",
        ]);
        shell.arg(&program).current_dir(&folder).env("PATH", path).env_remove("LD_LIBRARY_PATH");
        shell.envs(libraries.map(|folders| ("LD_LIBRARY_PATH", folders)));
        let done = ran(&mut shell);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let here = folder.canonicalize().unwrap();
    let here = here.to_str().unwrap();
    assert_eq!(enter("/usr/bin:/bin", None), format!("{here}/bin:/usr/bin:/bin\n{here}\n{here}/node\n"));
    assert_eq!(enter("/bin", Some("/lib")), format!("{here}/bin:/bin\n{here}:/lib\n{here}/node\n"));
}

#[test]
fn nobody_is_led_to_a_library_that_is_not_simulated() {
    let refusal = |program: &Path, more: &[&str]| {
        let done = ran(Command::new(program).args(["node", "env"]).args(more));
        assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(1), &b""[..]));
        String::from_utf8(done.stderr).unwrap()
    };
    let place = tempfile::tempdir().unwrap();
    let program = laid_out(place.path(), "NVIDIA's own");
    assert!(refusal(&program, &[]).contains("libnvidia-ml.so.1 is not the simulated library"));
    assert!(
        refusal(&program, &["--libraries", "/nowhere"]).contains("cannot read /nowhere/libnvidia-ml.so.1")
    );
    std::fs::remove_file(place.path().join("libnvidia-ml.so.1")).unwrap();
    assert!(refusal(&program, &[]).contains("`cargo xtask sim-lib` makes a folder with it"));
    let colon = place.path().join("a:b");
    let program = laid_out(&colon, "SLICEWRIGHT_SIM_DIR");
    assert!(refusal(&program, &[]).contains("a:b/bin cannot be in PATH: a colon ends a folder there"));
}
