//! The library apart from the GPUs: initialisation, the order of errors, buffers, processes, events,
//! faults, and states that cannot be used.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::ffi::CStr;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use crate::support::Sim;
use crate::support::raw::*;
use gpu::{Activity, Behaviour, Client, Fault, NvmlError, Target, Times, Verb};
use nvml_wrapper_sys::bindings::*;
use store::FunctionFault;

fn fault(function: &str, behaviour: Behaviour, times: Times) -> FunctionFault {
    FunctionFault { function: function.to_owned(), gpu: None, behaviour, times, from: None }
}

fn client(pid: u32, target: Target) -> Client {
    Client { pid, name: format!("train-{pid}"), target, activity: Activity::Computes, memory_mib: 512 }
}

#[test]
fn initialisations_are_counted() {
    let sim = Sim::with(&["A30"]);
    assert_eq!(sim.shutdown(), Err(UNINITIALIZED));
    assert_eq!(sim.gpu(0), Err(UNINITIALIZED));
    sim.init().unwrap();
    done(unsafe { sim.lib.nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH) }).unwrap();
    assert_eq!(done(unsafe { sim.lib.nvmlInitWithFlags(1 << 20) }), Err(INVALID));
    let device = sim.gpu(0).unwrap();
    sim.shutdown().unwrap();
    assert_eq!(sim.gpu(0), Ok(device));
    sim.shutdown().unwrap();
    assert_eq!(sim.mode(device), Err(UNINITIALIZED));
    // A handle outlives a shutdown, as NVML's do.
    sim.init().unwrap();
    assert_eq!(sim.mode(device), Ok((0, 0)));
    sim.shutdown().unwrap();
}

#[test]
fn codes_have_nvmls_words() {
    let sim = Sim::with(&[]);
    let words = |code| unsafe { CStr::from_ptr(sim.lib.nvmlErrorString(code)) }.to_str().unwrap();
    assert_eq!(words(0), "Success");
    let engine = [NvmlError::Uninitialized, NvmlError::InUse, NvmlError::InsufficientResources];
    for error in engine.into_iter().chain([NvmlError::ResetTypeNotSupported, NvmlError::GpuIsLost]) {
        assert_eq!(words(error as u32), error.to_string());
    }
    assert_eq!((words(999), words(12345)), ("Unknown Error", "Unknown Error"));
}

#[test]
fn a_buffer_that_is_too_small_is_left_alone() {
    let sim = Sim::with(&["A30"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    let name = sim.name(device).unwrap();
    assert_eq!(name, "NVIDIA A30");
    for (length, answer) in [(0, Err(TOO_SMALL)), (10, Err(TOO_SMALL)), (11, Ok(()))] {
        let mut buffer = [7; 16];
        let code = unsafe { sim.lib.nvmlDeviceGetName(device, buffer.as_mut_ptr(), length) };
        assert_eq!(done(code), answer, "{length}");
        assert_eq!(buffer[11..], [7; 5]);
        assert_eq!(buffer[0] == 7, answer.is_err());
    }
    assert_eq!(done(unsafe { sim.lib.nvmlDeviceGetName(device, null_mut(), 64) }), Err(INVALID));
    sim.shutdown().unwrap();
}

#[test]
fn pointers_that_are_no_handles_are_invalid_and_never_followed() {
    let sim = Sim::with(&["A30"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    for address in [0usize, 1, 8, device.addr() + 1, usize::MAX, 0xdead_beef_0000] {
        let hostile = std::ptr::without_provenance_mut(address);
        assert_eq!(sim.mode(hostile), Err(INVALID), "{address:x}");
        let hostile = std::ptr::without_provenance_mut(address);
        assert_eq!(sim.destroy(hostile), Err(INVALID), "{address:x}");
        let hostile = std::ptr::without_provenance_mut(address);
        assert_eq!(sim.destroy_compute(hostile), Err(INVALID), "{address:x}");
    }
    // A handle of another kind.
    assert_eq!(sim.destroy(device.cast()), Err(INVALID));
    sim.shutdown().unwrap();
}

#[test]
fn processes_are_listed_with_their_instances_once_there_is_room() {
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    sim.compute(sim.create(device, 9).unwrap(), 2).unwrap();
    let mig = sim.mig(device, 0).unwrap();
    let (one, two) =
        (client(41, Target::ComputeInstance(0, 2, 0)), client(42, Target::ComputeInstance(0, 2, 0)));
    sim.store.update(|state| (state.machine.open(one).unwrap(), state.machine.open(two).unwrap())).unwrap();
    for of in [device, mig] {
        let mut count = 0;
        let list = |count: &mut u32, into| unsafe {
            sim.lib.nvmlDeviceGetComputeRunningProcesses_v3(of, count, into)
        };
        assert_eq!((list(&mut count, null_mut()), count), (TOO_SMALL, 2));
        let mut all: [nvmlProcessInfo_v2_t; 2] = unsafe { zeroed() };
        assert_eq!(list(&mut count, all.as_mut_ptr()), 0);
        let seen = all.map(|p| (p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId, p.computeInstanceId));
        assert_eq!(seen, [(41, 512, 2, 0), (42, 512, 2, 0)]);
    }
    let memory = ask(|m| unsafe { sim.lib.nvmlDeviceGetMemoryInfo(mig, m) }).unwrap();
    assert_eq!(memory.used >> 20, 1024);
    let mut name = [0; 32];
    done(unsafe { sim.lib.nvmlSystemGetProcessName(42, name.as_mut_ptr(), 32) }).unwrap();
    assert_eq!(text(&name), "train-42");
    sim.shutdown().unwrap();
}

#[test]
fn events_are_delivered_from_registration_on_and_time_out() {
    let sim = Sim::with(&["A100-80GB", "A100-80GB"]);
    sim.init().unwrap();
    let (device, other) = (sim.gpu(0).unwrap(), sim.gpu(1).unwrap());
    sim.store.update(|state| state.machine.begin(Fault::Xid { gpu: 0, code: 31 })).unwrap();
    let set = ask(|set| unsafe { sim.lib.nvmlEventSetCreate(set) }).unwrap();
    let kinds = u64::from(nvmlEventTypeXidCriticalError | nvmlEventMigConfigChange);
    done(unsafe { sim.lib.nvmlDeviceRegisterEvents(device, kinds, set) }).unwrap();
    let clock = u64::from(nvmlEventTypeClock);
    assert_eq!(done(unsafe { sim.lib.nvmlDeviceRegisterEvents(device, clock, set) }), Err(NOT_SUPPORTED));
    let types = ask(|types| unsafe { sim.lib.nvmlDeviceGetSupportedEventTypes(device, types) }).unwrap();
    assert_eq!(types & kinds, kinds);
    let wait = |ms| {
        ask(|data| unsafe { sim.lib.nvmlEventSetWait_v2(set, data, ms) })
            .map(|data: nvmlEventData_t| (data.device, data.eventType, data.eventData))
    };
    assert_eq!(wait(0), Err(TIMEOUT));
    sim.set_mode(other, 1).unwrap();
    sim.set_mode(device, 1).unwrap();
    sim.store.update(|state| state.machine.begin(Fault::Xid { gpu: 0, code: 79 })).unwrap();
    assert_eq!(wait(1000), Ok((device, u64::from(nvmlEventMigConfigChange), 0)));
    assert_eq!(wait(1000), Ok((device, u64::from(nvmlEventTypeXidCriticalError), 79)));
    assert_eq!(wait(20), Err(TIMEOUT));
    // One that comes while somebody waits; others use the library meanwhile.
    let address = set.expose_provenance();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_in(&sim, address));
        sim.store.update(|state| state.machine.begin(Fault::Xid { gpu: 0, code: 48 })).unwrap();
        assert_eq!(sim.mode(device), Ok((1, 1)));
        assert_eq!(waiting.join().unwrap(), Ok(48));
    });
    sim.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu: 0 })).unwrap();
    assert_eq!(wait(1000), Err(nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST));
    done(unsafe { sim.lib.nvmlEventSetFree(set) }).unwrap();
    assert_eq!(wait(0), Err(INVALID));
    sim.shutdown().unwrap();
}

fn wait_in(sim: &Sim, set: usize) -> Result<u64, Code> {
    let set = std::ptr::with_exposed_provenance_mut(set);
    ask(|data: &mut nvmlEventData_t| unsafe { sim.lib.nvmlEventSetWait_v2(set, data, 60_000) })
        .map(|data| data.eventData)
}

#[test]
fn a_driver_that_is_loaded_again_leaves_every_gpu_and_comes_back_to_it() {
    let sim = Sim::with(&["A100-80GB", "H100-80GB"]);
    sim.init().unwrap();
    let mut created = nvmlSystemEventSetCreateRequest_v1_t {
        version: version::<nvmlSystemEventSetCreateRequest_v1_t>(1),
        set: std::ptr::null_mut(),
    };
    done(unsafe { sim.lib.nvmlSystemEventSetCreate(&mut created) }).unwrap();
    let set = created.set;
    let reload = || sim.store.update(|state| state.machine.reload_driver()).unwrap().unwrap();
    let register = |types| {
        let version = version::<nvmlSystemRegisterEventRequest_v1_t>(1);
        let mut request = nvmlSystemRegisterEventRequest_v1_t { version, eventTypes: types, set };
        done(unsafe { sim.lib.nvmlSystemRegisterEvents(&mut request) })
    };
    // So many at most; the set keeps the others for the next one who waits.
    let wait = |room: usize, timeoutms| {
        let mut data = vec![nvmlSystemEventData_v1_t { eventType: 0, gpuId: 0 }; 4];
        let mut request = nvmlSystemEventSetWaitRequest_v1_t {
            version: version::<nvmlSystemEventSetWaitRequest_v1_t>(1),
            timeoutms,
            set,
            data: data.as_mut_ptr(),
            dataSize: room as u32,
            numEvent: 9,
        };
        done(unsafe { sim.lib.nvmlSystemEventSetWait(&mut request) })?;
        let told = data.iter().take(request.numEvent as usize);
        Ok(told.map(|event| (event.eventType, event.gpuId)).collect::<Vec<_>>())
    };
    reload();
    let (unbind, bind) =
        (u64::from(nvmlSystemEventTypeGpuDriverUnbind), u64::from(nvmlSystemEventTypeGpuDriverBind));
    assert_eq!((register(4), register(0)), (Err(INVALID), Err(INVALID)));
    register(unbind).unwrap();
    assert_eq!(wait(4, 0), Err(TIMEOUT), "what was before is not recorded");
    reload();
    assert_eq!(wait(4, 1000), Ok(vec![(unbind, 0x100), (unbind, 0x200)]));
    register(bind).unwrap();
    reload();
    assert_eq!(wait(3, 1000), Ok(vec![(unbind, 0x100), (unbind, 0x200), (bind, 0x100)]));
    assert_eq!(wait(3, 1000), Ok(vec![(bind, 0x200)]));
    assert_eq!(wait(0, 0), Err(INVALID));
    // Another kind of set is none of these.
    let other = ask(|set| unsafe { sim.lib.nvmlEventSetCreate(set) }).unwrap();
    let version = version::<nvmlSystemEventSetFreeRequest_v1_t>(1);
    let mut free = nvmlSystemEventSetFreeRequest_v1_t { version, set: other.cast() };
    assert_eq!(done(unsafe { sim.lib.nvmlSystemEventSetFree(&mut free) }), Err(INVALID));
    free.set = set;
    done(unsafe { sim.lib.nvmlSystemEventSetFree(&mut free) }).unwrap();
    assert_eq!(wait(4, 0), Err(INVALID));
    sim.shutdown().unwrap();
}

#[test]
fn any_function_can_be_made_to_fail_once_after_its_effect_or_without_any() {
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    let arm = |fault| sim.store.update(|state| state.functions.push(fault)).unwrap();

    arm(fault("nvmlDeviceGetName", Behaviour::Fail(NvmlError::Unknown), Times::Count(2)));
    assert_eq!((sim.name(device), sim.name(device)), (Err(999), Err(999)));
    // Arguments are looked at before a fault strikes.
    assert_eq!(sim.name(device), Ok("NVIDIA A100-SXM4-80GB".to_owned()));

    arm(fault(
        "nvmlDeviceCreateGpuInstance",
        Behaviour::FailAfterEffect(NvmlError::Unknown),
        Times::Count(1),
    ));
    assert_eq!(sim.create(device, 0), Err(999));
    assert_eq!(sim.instances(device, 0), Ok(vec![0]));

    let gi = ask(|gi| unsafe { sim.lib.nvmlDeviceGetGpuInstanceById(device, 0, gi) }).unwrap();
    arm(fault("nvmlGpuInstanceDestroy", Behaviour::Ignore, Times::Count(1)));
    assert_eq!(sim.destroy(gi), Ok(()));
    assert_eq!(sim.instances(device, 0), Ok(vec![0]));
    assert_eq!(sim.destroy(gi), Ok(()));

    // On another GPU; and functions that do nothing can fail, too.
    arm(FunctionFault {
        gpu: Some(1),
        ..fault("*", Behaviour::Fail(NvmlError::Unknown), Times::UntilCleared)
    });
    assert_eq!(sim.mode(device), Ok((1, 1)));
    arm(fault("nvmlDeviceGetFanSpeed", Behaviour::Fail(NvmlError::GpuIsLost), Times::Count(1)));
    let fan = || ask(|speed| unsafe { sim.lib.nvmlDeviceGetFanSpeed(device, speed) });
    assert_eq!((fan(), fan()), (Err(15), Err(NOT_SUPPORTED)));
    sim.shutdown().unwrap();
}

#[test]
fn a_fault_of_the_engine_is_used_up_by_a_query() {
    let sim = Sim::with(&["A30"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    let behaviour = Behaviour::Fail(NvmlError::Unknown);
    let query = Fault::Call { verb: Verb::Query, gpu: Some(0), behaviour, times: Times::Count(1) };
    sim.store.update(|state| state.machine.begin(query)).unwrap();
    assert_eq!(sim.mode(device), Err(999));
    assert_eq!(sim.mode(device), Ok((0, 0)));
    sim.shutdown().unwrap();
}

#[test]
fn an_initialisation_that_is_made_to_fail_leaves_nothing_behind() {
    let sim = Sim::with(&["A30"]);
    let fails = fault("nvmlInit_v2", Behaviour::Fail(NvmlError::LibRmVersionMismatch), Times::Count(1));
    sim.store.update(|state| state.functions.push(fails)).unwrap();
    assert_eq!(sim.init(), Err(18));
    assert_eq!(sim.shutdown(), Err(UNINITIALIZED));
    sim.init().unwrap();
    sim.shutdown().unwrap();
}

#[test]
fn an_initialisation_that_fails_after_its_effect_is_one() {
    let sim = Sim::with(&["A30"]);
    let fails = fault("nvmlInit_v2", Behaviour::FailAfterEffect(NvmlError::Unknown), Times::Count(1));
    sim.store.update(|state| state.functions.push(fails)).unwrap();
    assert_eq!(sim.init(), Err(999));
    assert_eq!(sim.shutdown(), Ok(()));
}

#[test]
fn threads_initialise_and_shut_down_as_they_like() {
    let sim = Sim::with(&["A30"]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    sim.init().unwrap();
                    sim.gpu(0).unwrap();
                    sim.shutdown().unwrap();
                }
            });
        }
    });
    assert_eq!(sim.shutdown(), Err(UNINITIALIZED));
}

#[test]
fn a_call_that_hangs_keeps_its_caller_and_nobody_else() {
    let sim = Sim::with(&["A30"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    sim.store
        .update(|state| state.functions.push(fault("nvmlDeviceGetName", Behaviour::Hang, Times::Count(1))))
        .unwrap();
    let (name, library) = (device.expose_provenance(), crate::support::built());
    // This thread never comes back; it ends with the process.
    std::thread::spawn(move || {
        let library = unsafe { NvmlLib::new(library) }.unwrap();
        let mut buffer = [0; 96];
        let device = std::ptr::with_exposed_provenance_mut(name);
        unsafe { library.nvmlDeviceGetName(device, buffer.as_mut_ptr(), 96) };
        unreachable!("the call hangs");
    });
    // It hangs once the fault is used up.
    while !sim.store.read(|state| state.functions.is_empty()).unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(sim.name(device), Ok("NVIDIA A30".to_owned()));
    sim.shutdown().unwrap();
}

#[test]
fn without_a_node_there_is_no_driver_and_a_damaged_one_is_refused() {
    let sim = Sim::with(&["A30"]);
    for file in std::fs::read_dir(sim.store.dir()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::write(path, b"{\"not\": \"ours\"}").unwrap();
        }
    }
    assert_eq!(sim.init(), Err(999));
    std::fs::remove_dir_all(sim.store.dir()).unwrap();
    assert_eq!(sim.init(), Err(nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED));
    assert_eq!(sim.shutdown(), Err(UNINITIALIZED));
}

#[test]
fn field_values_carry_their_own_codes() {
    let sim = Sim::with(&["H100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    let ids = [field_id::NVML_FI_DEV_ECC_CURRENT, field_id::NVML_FI_DEV_POWER_INSTANT, 160, 99_999];
    let mut values: [nvmlFieldValue_t; 4] = unsafe { zeroed() };
    for (value, id) in values.iter_mut().zip(ids) {
        value.fieldId = id;
    }
    done(unsafe { sim.lib.nvmlDeviceGetFieldValues(device, 4, values.as_mut_ptr()) }).unwrap();
    assert_eq!(values.map(|value| value.nvmlReturn), [0, 0, NOT_SUPPORTED, INVALID]);
    assert_eq!(unsafe { values[0].value.uiVal }, 1);
    assert!(values[0].timestamp > 0);
    for count in [0, -1, i32::MIN] {
        let code = unsafe { sim.lib.nvmlDeviceGetFieldValues(device, count, values.as_mut_ptr()) };
        assert_eq!(done(code), Err(INVALID));
    }
    sim.shutdown().unwrap();
}

#[test]
fn nvidias_internal_tables_are_not_there_and_ours_resets_a_gpu() {
    type Get = unsafe extern "C" fn(*mut *const Table, *const [u8; 16]) -> Code;
    #[repr(C)]
    struct Table {
        size: usize,
        reset: unsafe extern "C" fn(nvmlDevice_t) -> Code,
    }
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    let get = unsafe { sim.lib.__library.get::<Get>(b"nvmlInternalGetExportTable\0") }.unwrap();
    let mut table = null();
    let theirs = [0x6c; 16];
    assert_eq!(unsafe { get(&mut table, &theirs) }, NOT_FOUND);
    assert!(table.is_null());
    assert_eq!(unsafe { get(null_mut(), null()) }, INVALID);
    assert_eq!(unsafe { get(&mut table, b"slicewright-sim1") }, 0);
    let table = unsafe { &*table };
    assert_eq!(table.size, 16);
    sim.set_mode(device, 1).unwrap();
    sim.create(device, 0).unwrap();
    assert_eq!(unsafe { (table.reset)(device) }, 0);
    assert_eq!(sim.instances(device, 0), Ok(vec![]));
    assert_eq!(unsafe { (table.reset)(null_mut()) }, INVALID);
    sim.shutdown().unwrap();
}
