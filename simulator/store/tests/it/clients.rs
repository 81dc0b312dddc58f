//! Clients that are processes: they exist as long as the process does, without any notification of its end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{a100s, create, fresh, mig_on};
use gpu::{Activity, Caller, Client, NvmlError, Target};
use store::{State, Store};

/// Held by each test: what one of them starts has, until it runs its program,
/// the files of all others open, and their clients are there as long.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn python(target: Target) -> Client {
    Client { pid: 4711, name: "python".to_owned(), target, activity: Activity::Computes, memory_mib: 512 }
}

fn count(store: &Store) -> usize {
    store.snapshot().unwrap().machine.clients().count()
}

#[test]
fn a_client_is_there_while_its_process_holds_its_file() {
    let _alone = alone();
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    store.update(|state| mig_on(state, 0)).unwrap();
    let gi = store.update(|state| create(state, 0, 19)).unwrap().unwrap();
    let live = store.enter(python(Target::GpuInstance(0, 13))).unwrap().unwrap();
    let destroy = |store: &Store| {
        store.update(|state| state.machine.nvml(Caller::Root).destroy_gpu_instance(gi)).unwrap()
    };
    assert_eq!(destroy(&store), Err(NvmlError::InUse));
    let other = Store::open(dir.path()).unwrap();
    assert_eq!(
        other.read(|state| state.machine.clients().next().map(|(id, _)| id)).unwrap(),
        Some(live.id())
    );
    drop(live);
    // Closed for the one who changes something, before he does.
    assert_eq!(destroy(&other), Ok(()));
    assert_eq!(count(&store), 0);
    assert_eq!(std::fs::read_dir(dir.path().join("clients")).unwrap().count(), 0, "no files are left");
}

#[test]
fn readers_notice_that_a_client_died_without_anybody_changing_anything() {
    let _alone = alone();
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let live = store.enter(python(Target::Gpu(0))).unwrap().unwrap();
    // One that has not looked at the locks yet looks at its first read.
    assert_eq!(count(&Store::open(dir.path()).unwrap()), 1);
    drop(live);
    assert_eq!(count(&Store::open(dir.path()).unwrap()), 0);
    assert_eq!(count(&store), 0);
}

#[test]
fn a_killed_process_is_gone_and_what_it_started_keeps_its_place() {
    let _alone = alone();
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let live = store.enter(python(Target::Gpu(0))).unwrap().unwrap();
    live.pass_on().unwrap();
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    drop(live);
    assert_eq!(count(&Store::open(dir.path()).unwrap()), 1, "its child has inherited the file");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(count(&Store::open(dir.path()).unwrap()), 0);
}

#[test]
fn what_is_not_there_is_not_opened_and_leaves_nothing() {
    let _alone = alone();
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let before = store.snapshot().unwrap();
    assert_eq!(store.enter(python(Target::GpuInstance(0, 13))).unwrap().unwrap_err(), NvmlError::NotFound);
    assert_eq!(store.snapshot().unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path().join("clients")).unwrap().count(), 0);
}

#[test]
fn a_reboot_closes_what_processes_had_open() {
    let _alone = alone();
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let live = store.enter(python(Target::Gpu(0))).unwrap().unwrap();
    store.update(|state| state.machine.reboot()).unwrap();
    assert_eq!(count(&store), 0);
    store.update(|_| ()).unwrap();
    assert!(store.snapshot().unwrap().processes.is_empty());
    drop(live);
}
