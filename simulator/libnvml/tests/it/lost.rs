//! A GPU with slices falls off the bus while a program holds handles of it: whatever the program asks then, with the
//! handle of the GPU, of a MIG device or of an instance, it is told that the GPU is lost. Nothing is answered from what
//! was known before, and the other GPUs of the node answer as always.
#![allow(unsafe_code, reason = "C functions are called")]

use crate::guard::{Choice, Target};
use crate::support::functions::{Entry, entries};
use gpu::Fault;
use nvml_wrapper_sys::bindings::*;

/// The GPU that falls off the bus: the first, which is cut.
const LOST: u16 = 0;

/// Which handles of the target are of that GPU: of devices the GPU itself and the MIG device on it, and all instances.
const ITS_HANDLES: [usize; 2] = [0, 1];

/// A handle of the second GPU, which is whole.
const OF_ANOTHER: usize = 2;

/// Functions that are asked with a handle of one of these kinds.
fn asked_with(kinds: &[&str]) -> Vec<Entry> {
    let has = |entry: &Entry| entry.arguments.iter().any(|(_, kind)| kinds.contains(&kind.as_str()));
    entries().into_iter().filter(has).collect()
}

fn choice(handle: usize) -> Choice {
    Choice { handle, number: 0, length: 8, word: None }
}

#[test]
fn every_function_says_of_each_handle_on_a_lost_gpu_that_it_is_lost() {
    let mut target = Target::new();
    target.sim.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu: LOST })).unwrap();
    let mut wrong = Vec::new();
    for entry in asked_with(&["nvmlDevice_t", "nvmlGpuInstance_t", "nvmlComputeInstance_t"]) {
        for handle in ITS_HANDLES {
            let code = target.call(&entry, &choice(handle));
            if code != nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST {
                wrong.push(format!("{} of handle {handle}: {code}", entry.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_neighbour_of_a_lost_gpu_answers_as_before() {
    let mut target = Target::new();
    let reads = |entry: &Entry| entry.name.starts_with("nvmlDeviceGet") && entry.arguments.len() == 2;
    let asked: Vec<_> = asked_with(&["nvmlDevice_t"]).into_iter().filter(reads).collect();
    let answers = |target: &mut Target| -> Vec<_> {
        asked.iter().map(|entry| (entry.name.clone(), target.call(entry, &choice(OF_ANOTHER)))).collect()
    };
    let before = answers(&mut target);
    target.sim.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu: LOST })).unwrap();
    assert_eq!(answers(&mut target), before);
    assert!(before.iter().any(|(_, code)| *code == nvmlReturn_enum_NVML_SUCCESS));
}

#[test]
fn a_handle_on_a_lost_gpu_cannot_be_had_again_and_a_boot_brings_the_gpu_back() {
    let target = Target::new();
    let sim = &target.sim;
    let uuids = [sim.gpu(0), sim.gpu(1)].map(|device| sim.uuid(device.unwrap()).unwrap());
    let slice = sim.uuid(sim.mig(sim.gpu(0).unwrap(), 0).unwrap()).unwrap();
    sim.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu: LOST })).unwrap();
    let by_uuid = |uuid: &str| {
        let uuid = std::ffi::CString::new(uuid).unwrap();
        // SAFETY: as the header says.
        crate::support::raw::ask(|device| unsafe { sim.lib.nvmlDeviceGetHandleByUUID(uuid.as_ptr(), device) })
            .map(|device: nvmlDevice_t| device.is_null())
    };
    let lost = Err(nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST);
    assert_eq!((by_uuid(&uuids[0]), by_uuid(&slice)), (lost, lost));
    assert_eq!(by_uuid(&uuids[1]), Ok(false));
    sim.store.update(|state| state.machine.reboot()).unwrap();
    assert_eq!(by_uuid(&uuids[0]), Ok(false));
}
