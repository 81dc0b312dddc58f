//! Every exported function with invalid arguments: null and unaligned pointers, pointers that are no
//! handles, stale handles, sizes from 0 to the largest, structs full of noise. No function may write beyond
//! the stated sizes, crash, or panic: a panic would be `NVML_ERROR_UNKNOWN`, which is never an answer here.
//!
//! The caller's part of the C contract is respected: a pointer that is not null points to memory, a text is
//! terminated, a length is not larger than its buffer.
#![allow(unsafe_code, reason = "C functions are called")]

use std::ffi::CString;

use crate::support::Sim;
use crate::support::functions::{Entry, entries, is_code};
use crate::support::raw::version;
use proptest::prelude::*;

/// Room behind every pointer; longer than any struct, array or text.
const ROOM: usize = 16 * 1024;

/// What stands where nothing may be written.
const UNTOUCHED: u8 = 0xA5;

type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> u32;

/// A node with something of everything, and its handles.
struct Target {
    sim: Sim,
    entries: Vec<Entry>,
    handles: Vec<usize>,
    memory: Vec<Vec<u8>>,
}

impl Target {
    fn new() -> Self {
        let sim = Sim::with(&["A100-80GB", "H100-80GB", "A30"]);
        let mut target = Self { sim, entries: entries(), handles: Vec::new(), memory: Vec::new() };
        target.set_up();
        target
    }

    fn set_up(&mut self) {
        let sim = &self.sim;
        sim.init().unwrap();
        let device = sim.gpu(0).unwrap();
        sim.set_mode(device, 1).unwrap();
        // What was there before may be there still, or be in the way.
        let whole = sim.create(device, 9);
        let gone = sim.create(device, 19);
        let mut handles = vec![device.addr(), sim.gpu(1).unwrap().addr()];
        if let Ok(gi) = whole {
            handles.push(gi.addr());
            if let Ok(ci) = sim.compute(gi, 0) {
                handles.push(ci.addr());
            }
        }
        if let Ok(mig) = sim.mig(device, 0) {
            handles.push(mig.addr());
        }
        if let Ok(gi) = gone {
            sim.destroy(gi).unwrap();
            handles.push(gi.addr());
        }
        self.handles = handles;
    }

    /// The value of an argument, made of a random word.
    fn argument(&mut self, name: &str, kind: &str, word: u64) -> usize {
        let (choice, rest) = ((word % 8) as usize, (word >> 8) as usize);
        if kind.starts_with('*') {
            if choice == 0 {
                return 0;
            }
            let mut memory = vec![UNTOUCHED; ROOM + 1];
            match choice {
                1 => memory.fill(0),
                2 => {
                    let numbers = [
                        rest as u32,
                        version::<[u8; 152]>(2 + rest as u32 % 2),
                        version::<[u8; 40]>(2),
                        version::<[u8; 136]>(2),
                        version::<[u8; 140]>(3),
                    ];
                    memory[..4].copy_from_slice(&numbers[rest % numbers.len()].to_ne_bytes());
                }
                3 => memory[..8].copy_from_slice(&rest.to_ne_bytes()),
                _ => {}
            }
            memory[ROOM] = 0;
            self.memory.push(memory);
            // Unaligned every other time.
            return self.memory.last().unwrap().as_ptr().expose_provenance() + rest % 2;
        }
        if kind.ends_with("Device_t") || kind.ends_with("Instance_t") || kind.ends_with("Set_t") {
            return match choice {
                0 => 0,
                1 => rest,
                2 => self.memory.first().map_or(1, |memory| memory.as_ptr().addr()),
                _ => self.handles[rest % self.handles.len()],
            };
        }
        let largest = match name {
            "length" | "size" => ROOM - 1,
            "timeoutms" => 1,
            "valuesCount" => ROOM / 64,
            _ => usize::MAX,
        };
        match choice {
            0 => 0,
            1 => largest,
            2 | 3 => rest % 24 % largest.saturating_add(1).max(1),
            _ => rest.min(largest),
        }
    }

    /// Calls a function; its answer.
    fn call(&mut self, entry: usize, words: &[u64]) -> u32 {
        let entry = &self.entries[entry];
        let (name, arguments) = (entry.name.clone(), entry.arguments.clone());
        if name == "nvmlShutdown" {
            // The count of initialisations is a test of its own.
            return 0;
        }
        self.memory.clear();
        let mut values = [0; 6];
        let mut length = None;
        for (((kind_name, kind), word), value) in arguments.iter().zip(words).zip(&mut values) {
            *value = self.argument(kind_name, kind, *word);
            if kind_name == "length" && kind == "c_uint" {
                length = Some(*value);
            }
        }
        let before = self.memory.clone();
        let symbol = CString::new(name.as_str()).unwrap();
        // SAFETY: on the machines that this library is for, arguments of these kinds are in registers
        // of the same size, and a function does not look at those that it does not have.
        let code = unsafe {
            let function = self.sim.lib.__library.get::<Function>(symbol.as_bytes_with_nul()).unwrap();
            function(values[0], values[1], values[2], values[3], values[4], values[5])
        };
        let text = arguments.iter().zip(values).find(|((_, kind), _)| kind == "*mut c_char");
        if let (Some(length), Some((_, at))) = (length, text) {
            let place = |memory: &Vec<u8>| at.wrapping_sub(memory.as_ptr().addr());
            if let Some(i) = self.memory.iter().position(|memory| place(memory) < 2) {
                let end = place(&self.memory[i]) + length;
                let clean = self.memory[i][end..] == before[i][end..];
                assert!(clean, "{name} wrote past the {length} bytes that it was given");
            }
        }
        if name == "nvmlErrorString" { 0 } else { code }
    }
}

/// A code of the header; not the one that a panic becomes, but where hardware answers it.
#[track_caller]
fn answered(name: &str, words: &[u64], code: u32) {
    assert!(is_code(name, code), "{name}{words:?} answers {code}");
}

#[test]
fn every_function_survives_every_argument_being_null_or_noise() {
    let mut target = Target::new();
    for entry in 0..target.entries.len() {
        for choice in 0..8 {
            for rest in [0, 1, 2, 3, 0x7fff_ffff, u64::MAX >> 8] {
                let words = [rest << 8 | choice; 6];
                let code = target.call(entry, &words);
                answered(&target.entries[entry].name, &words, code);
            }
        }
        target.set_up();
    }
}

#[test]
fn a_library_that_is_not_initialised_says_so_before_it_looks_at_anything() {
    let mut target = Target::new();
    while target.sim.shutdown().is_ok() {}
    // The version of the library itself is told at any time.
    let apart = ["nvmlInit", "nvmlErrorString", "nvmlShutdown", "nvmlSystemGetNVMLVersion"];
    for entry in 0..target.entries.len() {
        let name = target.entries[entry].name.clone();
        if !apart.iter().any(|apart| name.starts_with(apart)) {
            assert_eq!(target.call(entry, &[4; 6]), 1, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_is_answered(calls in prop::collection::vec((0usize..396, any::<[u64; 6]>()), 1..400)) {
        let mut target = Target::new();
        for (entry, words) in calls {
            let code = target.call(entry, &words);
            answered(&target.entries[entry].name, &words, code);
        }
        // Whatever happened, the machine is one that can be, and the library works.
        target.set_up();
        let state = target.sim.store.snapshot().unwrap();
        for gpu in state.machine.gpus() {
            let legal = gpu.geometry().is_none_or(|geometry| geometry.is_legal(gpu.layout()));
            prop_assert!(legal, "{:?}", gpu.instances);
        }
    }
}
