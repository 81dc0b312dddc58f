//! A container engine of our own: Debian's dockerd in a network namespace and
//! a mount namespace of its own, so that the machine's firewall, forwarding
//! and mounts stay as they are.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::machine::Machine;
use crate::call::{call, last_lines, succeeds};
use crate::place::{Place, remove};
use crate::waiting::{wait_until, wait_while_moving};

/// The network namespace. One for the machine: its addresses are in there.
pub(crate) const NAMESPACE: &str = "slicewright-kind";

/// The control group under which every container is, so that what is left of
/// them can be removed.
const CGROUP: &str = "slicewright-kind";

/// The capability that runc asks for and some machines' processes cannot have.
const SYS_RESOURCE: u32 = 24;

pub(crate) fn socket(place: &Place) -> PathBuf {
    place.engine().join("docker.sock")
}

fn pid_file(place: &Place) -> PathBuf {
    place.engine().join("dockerd.pid")
}

fn log(place: &Place) -> PathBuf {
    place.folder().join("dockerd.log")
}

/// The last lines of its log.
pub(crate) fn last(place: &Place) -> String {
    last_lines(&fs::read_to_string(log(place)).unwrap_or_default())
}

/// How far it has come, as a text that changes when it does something: it
/// writes into its log what it does.
fn said(place: &Place) -> String {
    fs::metadata(log(place)).map_or(0, |log| log.len()).to_string()
}

/// Starts it, after writing down what the machine is like.
pub(crate) fn start(place: &Place) -> anyhow::Result<()> {
    stop(place).context("an earlier engine of ours cannot be cleaned up")?;
    Machine::default().remember(&place.machine())?;
    let folder = place.engine();
    for part in ["data", "exec"] {
        fs::create_dir_all(folder.join(part)).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    if !Path::new("/run/netns").join(NAMESPACE).exists() {
        call(Command::new("ip").args(["netns", "add", NAMESPACE]))?;
    }
    let inside = |words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{NAMESPACE}")).arg("--").args(words);
        command
    };
    call(&mut inside(&["ip", "link", "set", "lo", "up"]))?;
    call(&mut inside(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]))?;
    let mut dockerd = inside(&["unshare", "--mount", "--propagation", "private", "dockerd"]);
    dockerd.arg("--data-root").arg(folder.join("data")).arg("--exec-root").arg(folder.join("exec"));
    dockerd.arg("--host").arg(format!("unix://{}", socket(place).display()));
    dockerd.arg("--pidfile").arg(pid_file(place));
    dockerd.args(["--storage-driver", "overlay2", "--cgroup-parent", CGROUP, "--oom-score-adjust", "0"]);
    // Addresses of its own, whatever this machine's network has: nothing leaves the namespace.
    dockerd.args(["--bip", "172.30.0.1/24", "--default-address-pool", "base=172.31.0.0/16,size=24"]);
    if !may_have(SYS_RESOURCE)? {
        let wrap = folder.join("runc-wrap");
        fs::write(&wrap, include_str!("runc-wrap.sh"))
            .and_then(|()| fs::set_permissions(&wrap, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", wrap.display()))?;
        dockerd.arg("--add-runtime").arg(format!("less={}", wrap.display()));
        dockerd.args(["--default-runtime", "less"]);
    }
    let log_file = File::create(log(place)).context("cannot write the engine's log")?;
    dockerd.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
    // A group of its own: Ctrl-C ends the task, and the engine is ended by `down`.
    let mut child = dockerd.process_group(0).spawn().context("cannot run nsenter")?;
    let answers = || {
        succeeds(
            Command::new("docker")
                .arg("info")
                .env("DOCKER_HOST", format!("unix://{}", socket(place).display())),
        )
    };
    let mut ended = false;
    let answers_or_ends = || {
        ended = child.try_wait().is_ok_and(|status| status.is_some());
        ended || answers()
    };
    let what = "an answer of the container engine";
    let waited = wait_while_moving(what, 600, answers_or_ends, || said(place));
    waited
        .and_then(|()| {
            anyhow::ensure!(!ended, "the container engine ended at once");
            Ok(())
        })
        .with_context(|| format!("its log is {} and ends with:\n{}", log(place).display(), last(place)))
}

/// Whether a process here may have a capability.
fn may_have(capability: u32) -> anyhow::Result<bool> {
    bounds(&fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?, capability)
}

/// Whether what the kernel says of a process lets it have a capability.
fn bounds(status: &str, capability: u32) -> anyhow::Result<bool> {
    let bounding = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let set = bounding.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    Ok(set.context("/proc/self/status has no CapBnd")? & (1 << capability) != 0)
}

/// The process of the engine, if the one in the file is it.
fn process(place: &Place) -> Option<String> {
    let pid = fs::read_to_string(pid_file(place)).ok()?.trim().to_owned();
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let ours = place.engine().join("data");
    words.split(|byte| *byte == 0).any(|word| word == ours.as_os_str().as_encoded_bytes()).then_some(pid)
}

/// Ends it with everything in it, also when it is half dead, and puts the
/// machine back. What was put back, for people.
pub(crate) fn stop(place: &Place) -> anyhow::Result<Vec<String>> {
    if let Some(pid) = process(place) {
        succeeds(Command::new("kill").args(["-TERM", &pid]));
        // It ends containers one after the other.
        let how_many = || said(place) + " " + &members().len().to_string();
        if wait_while_moving("its end", 300, || process(place).is_none(), how_many).is_err() {
            succeeds(Command::new("kill").args(["-KILL", &pid]));
        }
    }
    // What a killed engine left behind: containers, and the shims that hold them.
    for _ in 0..50 {
        let left = members();
        if left.is_empty() {
            break;
        }
        succeeds(Command::new("kill").arg("-KILL").args(&left));
        wait_until("the end of containers", 20, || members().is_empty()).ok();
    }
    let exec = place.engine().join("exec");
    succeeds(Command::new("pkill").arg("-KILL").arg("-f").arg(&exec));
    for folder in groups().into_iter().rev() {
        // One that is in use is said below, by what cannot be removed.
        let _ = fs::remove_dir(folder);
    }
    if Path::new("/run/netns").join(NAMESPACE).exists() {
        call(Command::new("ip").args(["netns", "del", NAMESPACE]))?;
    }
    remove(&place.engine())?;
    Machine::default().restore(&place.machine())
}

/// The folders of our control groups, parents before children: below the root
/// of each hierarchy, or below the group in which this process is.
fn groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), false)];
    while let Some((folder, ours)) = open.pop() {
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(below.map(|entry| {
            let ours = ours || entry.file_name() == CGROUP;
            (entry.path(), ours)
        }));
        if ours {
            found.push(folder);
        }
    }
    found.sort();
    found
}

/// The processes in our control groups.
fn members() -> Vec<String> {
    let mut found: Vec<String> = groups()
        .iter()
        .filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_let_a_process_have_is_known_before_containers_ask_for_it() {
        let status = |set| format!("Name:\tsh\nCapEff:\t000001ffffffffff\nCapBnd:\t{set}\nSeccomp:\t0\n");
        assert!(bounds(&status("000001ffffffffff"), SYS_RESOURCE).unwrap());
        // All but that one; then that one alone.
        assert!(!bounds(&status("000001fffeffffff"), SYS_RESOURCE).unwrap());
        assert!(bounds(&status("0000000001000000"), SYS_RESOURCE).unwrap());
        for wrong in ["Name:\tsh\n", &status("none")] {
            let error = bounds(wrong, SYS_RESOURCE).unwrap_err().to_string();
            assert_eq!(error, "/proc/self/status has no CapBnd");
        }
    }

    #[test]
    fn the_last_lines_of_its_log_are_told_and_none_where_it_has_not_begun() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        assert_eq!(last(&place), "");
        fs::write(log(&place), "starting\n\nlistening\n").unwrap();
        assert_eq!(last(&place), "starting\n  listening");
    }

    #[test]
    fn an_engine_moves_when_it_writes_into_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        let mut readings = vec![said(&place)];
        for text in ["starting\n", "starting\nlistening\n"] {
            fs::write(log(&place), text).unwrap();
            readings.push(said(&place));
        }
        assert_eq!(said(&place), readings[2], "it says nothing more");
        readings.dedup();
        assert_eq!(readings.len(), 3, "{readings:?}");
    }

    #[test]
    fn a_file_that_names_somebody_elses_process_ends_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        fs::create_dir(place.engine()).unwrap();
        fs::write(pid_file(&place), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(process(&place), None);
        fs::write(pid_file(&place), "nonsense").unwrap();
        assert_eq!(process(&place), None);
    }
}
