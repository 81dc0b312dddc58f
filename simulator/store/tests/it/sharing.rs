//! One state shared by several processes: each sees the changes of the others at once, handles go stale as
//! the driver's do, and nothing is written that changes nothing.

use crate::support::{a100s, create, fresh, instances, mig_on};
use gpu::{Caller, Mode, NvmlError};
use store::{State, Store};

#[test]
fn two_who_have_it_open_see_the_same() {
    let dir = fresh();
    let a = Store::create(dir.path(), State::new(a100s(2))).unwrap();
    let b = Store::open(dir.path()).unwrap();
    assert_eq!(a.snapshot().unwrap(), b.snapshot().unwrap());
    a.update(|state| mig_on(state, 0)).unwrap();
    assert!(b.read(|state| state.machine.gpus()[0].mig_is_on()).unwrap());
    b.update(|state| create(state, 0, 19)).unwrap().unwrap();
    assert_eq!(a.read(|state| instances(state, 0)).unwrap(), [13]);
    assert_eq!(a.generation(), b.generation());
    let later = Store::open(dir.path()).unwrap();
    assert_eq!(later.snapshot().unwrap(), a.snapshot().unwrap());
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let (before, file) = (store.generation(), std::fs::metadata(dir.path().join("state")).unwrap());
    store.update(|state| state.machine.nvml(Caller::Root).device_count()).unwrap().unwrap();
    let refused = store.update(|state| create(state, 0, 19)).unwrap();
    assert_eq!(refused, Err(NvmlError::NotSupported), "MIG is off");
    assert_eq!(store.generation(), before);
    let now = std::fs::metadata(dir.path().join("state")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&now), std::os::unix::fs::MetadataExt::ino(&file));
}

#[test]
fn handles_go_stale_in_every_process() {
    let dir = fresh();
    let a = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let b = Store::open(dir.path()).unwrap();
    a.update(|state| mig_on(state, 0)).unwrap();
    let handle = a.update(|state| create(state, 0, 19)).unwrap().unwrap();
    let destroy = |state: &mut State| state.machine.nvml(Caller::Root).destroy_gpu_instance(handle);
    assert_eq!(b.update(destroy).unwrap(), Ok(()));
    assert_eq!(a.update(destroy).unwrap(), Err(NvmlError::InvalidArgument));
    let again = b.update(|state| create(state, 0, 19)).unwrap().unwrap();
    assert_ne!(again, handle, "the same id, and another instance");
    assert_eq!(a.update(destroy).unwrap(), Err(NvmlError::InvalidArgument));
}

#[test]
fn setting_up_again_goes_on_with_the_new_node_and_makes_every_handle_stale() {
    let dir = fresh();
    let a = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let device =
        a.update(|state| state.machine.nvml(Caller::Root).device_handle_by_index(0)).unwrap().unwrap();
    let before = a.generation();
    Store::create(dir.path(), State::new(a100s(3))).unwrap();
    assert!(a.generation() > before);
    assert_eq!(a.read(|state| state.machine.gpus().len()).unwrap(), 3);
    let mode =
        a.update(|state| state.machine.nvml(Caller::Root).set_mig_mode(device, Mode::Enabled)).unwrap();
    assert_eq!(mode, Err(NvmlError::InvalidArgument));
}

#[test]
fn an_update_that_panics_changes_nothing_and_keeps_nobody_out() {
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    let before = store.snapshot().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.update(|state| {
            state.machine.reboot();
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(store.snapshot().unwrap(), before);
    assert_eq!(store.update(|state| state.machine.boots()).unwrap(), 1);
}

#[test]
fn events_are_numbered_on_when_old_ones_are_forgotten() {
    let dir = fresh();
    let store = Store::create(dir.path(), State::new(a100s(1))).unwrap();
    store.update(|state| mig_on(state, 0)).unwrap();
    for _ in 0..100 {
        store
            .update(|state| {
                let handle = create(state, 0, 19).unwrap();
                state.machine.nvml(Caller::Root).destroy_gpu_instance(handle).unwrap();
            })
            .unwrap();
    }
    let state = store.snapshot().unwrap();
    let machine = &state.machine;
    // The mode's reset and change, and each time made and gone.
    assert_eq!(machine.event_count(), 202);
    assert_eq!(machine.events().len(), 202);
    store
        .update(|state| {
            for _ in 0..100 {
                state.machine.reboot();
            }
        })
        .unwrap();
    let state = store.snapshot().unwrap();
    assert_eq!(state.machine.event_count(), 302);
    assert_eq!(state.machine.events().len(), store::EVENTS_KEPT);
    assert_eq!(state.machine.events_from(300).len(), 2);
    assert_eq!(state.machine.events_from(302), []);
    assert_eq!(state.machine.events_from(0).len(), store::EVENTS_KEPT);
}
