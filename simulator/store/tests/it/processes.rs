//! Real processes: sixteen that change one node at once, and one that is
//! killed at every step of what it does.
//!
//! The processes are this program again, controlled by an environment variable.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper of tests may panic, and a process reports so"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{a100s, create, fresh, instances, listing, mig_on};
use gpu::{Caller, NvmlError};
use store::{State, Store};

/// Says what this process is for, when it is not the test's.
const TASK: &str = "STORE_TEST_TASK";

/// Another process of this program, for a task.
fn worker(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::in_a_process_of_its_own", "--nocapture"]).env(TASK, task);
    command.stdout(Stdio::piped());
    command
}

/// Does a task, if this process was started for one. It is no test otherwise.
#[test]
fn in_a_process_of_its_own() {
    #[expect(clippy::disallowed_methods, reason = "how a test's process is told what to do")]
    let task = std::env::var(TASK);
    let Ok(task) = task else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let dir = Path::new(words[1]);
    match words[0] {
        "churn" => churn(dir, words[2].parse().unwrap()),
        "change" => {
            let store = Store::open(dir).unwrap();
            store::crash::at(words[2].parse().unwrap());
            store.update(change).unwrap();
            println!("\npoints left {}", store::crash::left());
        }
        "create" => {
            store::crash::at(words[2].parse().unwrap());
            Store::create(dir, after_create()).unwrap();
            println!("\npoints left {}", store::crash::left());
        }
        "read" => {
            let dir = dir.to_owned();
            // The kernel ends only the thread; joining one that ended so panics.
            let ended = std::thread::spawn(move || read_in_a_sandbox(&dir)).join();
            assert!(ended.is_err(), "the sandbox was not there");
        }
        other => panic!("no such task: {other}"),
    }
}

/// What the killed process does: one more instance, one less, a client gone.
fn change(state: &mut State) {
    create(state, 0, 19).unwrap();
    create(state, 0, 9).unwrap();
    let mut nvml = state.machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(0).unwrap();
    let first = nvml.gpu_instance_by_id(device, 13).unwrap();
    nvml.destroy_gpu_instance(first).unwrap();
}

fn before() -> State {
    let mut state = State::new(a100s(2));
    mig_on(&mut state, 0);
    create(&mut state, 0, 19).unwrap();
    state
}

fn after_create() -> State {
    State::new(a100s(5))
}

/// Creates and destroys at random, and says how many instances it leaves more.
fn churn(dir: &Path, seed: u64) {
    let store = Store::open(dir).unwrap();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % n).unwrap()
    };
    let mut balance = 0i64;
    for _ in 0..60 {
        let gpu = u16::try_from(next(2)).unwrap();
        if next(5) < 3 {
            let profile = [19, 19, 14, 9, 5, 15][next(6)];
            match store.update(|state| create(state, gpu, profile)).unwrap() {
                Ok(_) => balance += 1,
                Err(error) => assert_eq!(error, NvmlError::InsufficientResources),
            }
        } else {
            // What it saw may be gone by now: then the handle is stale, or was never got.
            let seen = store.read(|state| instances(state, gpu)).unwrap();
            if seen.is_empty() {
                continue;
            }
            let id = seen[next(seen.len() as u64)];
            let destroyed = store.update(|state| {
                let mut nvml = state.machine.nvml(Caller::Root);
                let device = nvml.device_handle_by_index(gpu)?;
                let handle = nvml.gpu_instance_by_id(device, id)?;
                nvml.destroy_gpu_instance(handle)
            });
            match destroyed.unwrap() {
                Ok(()) => balance -= 1,
                Err(error) => assert_eq!(error, NvmlError::NotFound),
            }
        }
        store.read(check_legal).unwrap();
    }
    println!("\nbalance {balance}");
}

/// The rules, stated anew: no memory twice, no more compute than there is.
fn check_legal(state: &State) {
    for gpu in state.machine.gpus() {
        let mut units = BTreeSet::new();
        let mut slices = 0;
        for gi in gpu.instances.values() {
            let (start, size) = gpu.span_of(gi);
            assert!((start..start + size).all(|unit| unit < 8 && units.insert(unit)), "memory overlaps");
            slices += gpu.profile_of(gi).slices;
        }
        assert!(slices <= 7, "{slices} slices");
    }
}

/// The number after a word in what a process said.
fn said(output: &[u8], word: &str) -> Option<i64> {
    let text = String::from_utf8_lossy(output);
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

#[test]
fn sixteen_processes_at_once_never_produce_an_illegal_state_and_lose_nothing() {
    let dir = fresh();
    let mut state = State::new(a100s(2));
    mig_on(&mut state, 0);
    mig_on(&mut state, 1);
    let store = Store::create(dir.path(), state).unwrap();
    let started: Vec<_> = (1..=16)
        .map(|seed| worker(&format!("churn {} {seed}", dir.path().display())).spawn().unwrap())
        .collect();
    let mut balance = 0;
    for process in started {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        balance += said(&output.stdout, "balance").expect("it says how it ended");
    }
    let state = store.snapshot().unwrap();
    check_legal(&state);
    let there: usize = state.machine.gpus().iter().map(|gpu| gpu.instances.len()).sum();
    assert_eq!(i64::try_from(there).unwrap(), balance, "each creation and destruction counts once");
    assert_eq!(*state, *Store::open(dir.path()).unwrap().snapshot().unwrap());
}

/// Runs a task that dies at its nth point; `false` once it comes to its end.
fn dies(task: &str, n: u32) -> bool {
    let output = worker(&format!("{task} {n}")).output().unwrap();
    if output.status.success() {
        assert!(said(&output.stdout, "points left").unwrap() > 0, "at point {n} it lived");
        return false;
    }
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&output.stdout));
    true
}

#[test]
fn a_process_killed_at_any_step_of_an_update_leaves_one_state_or_the_other() {
    let root = fresh();
    let (mut old, mut new) = (0, 0);
    for n in 1.. {
        let dir = fresh();
        // Had it open all the time, and remembers the state before.
        let witness = Store::create(dir.path(), before()).unwrap();
        let files = root.path().join(n.to_string());
        witness.keep_files(&files).unwrap();
        let gone = dies(&format!("change {}", dir.path().display()), n);
        let seen = witness.read(|state| instances(state, 0)).unwrap();
        match seen.as_slice() {
            [13] => old += 1,
            [1, 11] => new += 1,
            other => panic!("killed at point {n}: {other:?}"),
        }
        let opened = Store::open(dir.path()).unwrap();
        assert_eq!(*opened.snapshot().unwrap(), *witness.snapshot().unwrap(), "killed at point {n}");
        assert!(witness.generation().is_multiple_of(2), "whoever looked put it right");
        // And it goes on from there, with the files in step, whatever was left lying about.
        witness.update(|state| mig_on(state, 1)).unwrap();
        witness.update(|state| create(state, 1, 0).unwrap()).unwrap();
        assert!(opened.read(|state| instances(state, 1)).unwrap() == [0], "killed at point {n}");
        assert_eq!(witness.files_are_current().unwrap(), Some(true), "killed at point {n}");
        let afresh = root.path().join("afresh");
        opened.keep_files(&afresh).unwrap();
        let expected = listing(&afresh);
        opened.keep_files(&files).unwrap();
        assert_eq!(listing(&files), expected, "killed at point {n}");
        if !gone {
            assert!(n > 20 && old >= 5 && new >= 5, "{n} points: {old} before, {new} after");
            return;
        }
    }
}

#[test]
fn a_process_killed_while_it_sets_a_node_up_leaves_the_old_one_or_the_new_one() {
    for n in 1.. {
        let dir = fresh();
        let witness = Store::create(dir.path(), before()).unwrap();
        let gone = dies(&format!("create {}", dir.path().display()), n);
        let count = witness.read(|state| state.machine.gpus().len()).unwrap();
        assert!(count == 2 || count == 5, "killed at point {n}: {count} GPUs");
        assert_eq!(Store::open(dir.path()).unwrap().read(|state| state.machine.gpus().len()).unwrap(), count);
        if !gone {
            assert!(n > 6 && count == 5);
            break;
        }
    }
    // In an empty directory there is no old one: it says so, and setting it up again works.
    for n in 1..=6 {
        let dir = fresh();
        assert!(dies(&format!("create {}", dir.path().display()), n), "point {n}");
        if let Err(error) = Store::open(dir.path()) {
            assert!(error.to_string().contains("slicewright-sim node setup"), "point {n}: {error}");
        }
        Store::create(dir.path(), before()).unwrap();
        Store::open(dir.path()).unwrap();
    }
}

/// Reads in a sandbox in which a system call other than `write` is death.
fn read_in_a_sandbox(dir: &Path) {
    let store = Store::open(dir).unwrap();
    let mut gpus = store.read(|state| state.machine.gpus().len()).unwrap();
    rustix::thread::set_secure_computing_mode(rustix::thread::SecureComputingMode::Strict).unwrap();
    for _ in 0..1000 {
        gpus += store.read(|state| state.machine.gpus().len()).unwrap();
        gpus += usize::try_from(store.generation() % 2).unwrap();
    }
    let done: &[u8] = if gpus == 2002 { b"\nread 2002\n" } else { b"\nread something else\n" };
    rustix::io::write(rustix::stdio::stdout(), done).unwrap();
    // Ending is a system call, too: here it dies.
}

#[test]
fn reading_an_unchanged_state_makes_no_system_call() {
    let dir = fresh();
    // Without what needs a clock: the sandbox takes the counter away by which one is read.
    Store::create(dir.path(), State::new(a100s(2))).unwrap();
    let output = worker(&format!("read {}", dir.path().display())).output().unwrap();
    assert_eq!(said(&output.stdout, "read"), Some(2002), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "the sandbox was there");
}
