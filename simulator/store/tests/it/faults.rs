//! Functions that misbehave, and scheduled events.

use crate::support::{a100s, fresh};
use gpu::{Behaviour, Fault, NvmlError, Scheduled, Times};
use jiff::SignedDuration;
use store::{FunctionFault, State, Store};

fn fault(function: &str, gpu: Option<u16>, times: Times) -> FunctionFault {
    let behaviour = Behaviour::Fail(NvmlError::InUse);
    FunctionFault { function: function.to_owned(), gpu, behaviour, times, from: None }
}

const STRUCK: Option<Behaviour> = Some(Behaviour::Fail(NvmlError::InUse));

#[test]
fn a_fault_strikes_its_function_on_its_gpu_so_often_as_it_was_told() {
    let mut state = State::new(a100s(2));
    assert!(!state.has_function_faults());
    state.functions.push(fault("nvmlDeviceGetName", Some(1), Times::Count(2)));
    assert!(state.has_function_faults());
    assert_eq!(state.strike("nvmlDeviceGetUUID", Some(1)), None);
    assert_eq!(state.strike("nvmlDeviceGetName", Some(0)), None);
    assert_eq!(state.strike("nvmlDeviceGetName", None), None, "it names no GPU");
    assert_eq!(state.strike("nvmlDeviceGetName", Some(1)), STRUCK);
    assert_eq!(state.strike("nvmlDeviceGetName", Some(1)), STRUCK);
    assert_eq!(state.strike("nvmlDeviceGetName", Some(1)), None);
    assert!(!state.has_function_faults(), "it is used up");
}

#[test]
fn a_star_is_every_function_and_the_first_armed_strikes_first() {
    let mut state = State::new(a100s(1));
    state
        .functions
        .push(FunctionFault { behaviour: Behaviour::Hang, ..fault("nvmlInit_v2", None, Times::Count(1)) });
    state.functions.push(fault("*", None, Times::UntilCleared));
    assert_eq!(state.strike("nvmlInit_v2", None), Some(Behaviour::Hang));
    for _ in 0..3 {
        assert_eq!(state.strike("nvmlInit_v2", None), STRUCK);
        assert_eq!(state.strike("nvmlDeviceGetName", Some(0)), STRUCK);
    }
}

#[test]
fn a_fault_of_the_future_waits_for_its_moment() {
    let mut state = State::new(a100s(1));
    let soon = store::now() + SignedDuration::from_hours(1);
    state.functions.push(FunctionFault { from: Some(soon), ..fault("*", None, Times::Count(1)) });
    assert_eq!(state.strike("nvmlInit_v2", None), None);
    assert!(state.has_function_faults());
    state.machine.advance(soon);
    assert_eq!(state.strike("nvmlInit_v2", None), STRUCK);

    // The real time counts, too, where nobody told the machine.
    let mut state = State::new(a100s(1));
    let past = store::now() - SignedDuration::from_secs(1);
    state.functions.push(FunctionFault { from: Some(past), ..fault("*", None, Times::Count(1)) });
    assert!(state.machine.now() < past);
    assert_eq!(state.strike("nvmlInit_v2", None), STRUCK);
}

#[test]
fn a_fault_is_used_up_by_whoever_is_struck() {
    let dir = fresh();
    let mut state = State::new(a100s(1));
    state.functions.push(fault("nvmlDeviceGetName", None, Times::Count(1)));
    let a = Store::create(dir.path(), state).unwrap();
    let b = Store::open(dir.path()).unwrap();
    assert_eq!(a.update(|state| state.strike("nvmlDeviceGetName", Some(0))).unwrap(), STRUCK);
    assert_eq!(b.update(|state| state.strike("nvmlDeviceGetName", Some(0))).unwrap(), None);
}

#[test]
fn what_is_due_has_happened_for_whoever_only_looks_and_for_everybody_else() {
    let dir = fresh();
    let a = Store::create(dir.path(), State::new(a100s(2))).unwrap();
    a.update(|state| {
        let at = state.machine.now();
        state.machine.schedule(Scheduled { at, fault: Fault::FallsOffTheBus { gpu: 1 } });
        let later = at + SignedDuration::from_hours(1);
        state.machine.schedule(Scheduled { at: later, fault: Fault::FallsOffTheBus { gpu: 0 } });
    })
    .unwrap();
    let before = a.generation();
    let lost = |store: &Store| store.read(|s| [0, 1].map(|gpu| s.machine.gpus()[gpu].lost)).unwrap();
    assert_eq!(lost(&a), [false, true]);
    assert!(a.generation() > before, "it is written for all");
    assert_eq!(lost(&Store::open(dir.path()).unwrap()), [false, true]);
}
