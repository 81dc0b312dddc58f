//! Every function is called with its structs, arrays and texts at the end of a page, followed by a
//! protected page: a function that reads or writes one byte more than a caller of that header has allocated
//! ends the test. The sizes follow from the headers' history for each function, its first versions
//! included; a function that is not simulated gets no memory at all.
#![allow(unsafe_code, reason = "C functions are called, and pages are protected")]
#![expect(clippy::print_stderr, reason = "a process that dies has told before what it was about to call")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Write as _;
use std::process::Command;
use std::ptr::{NonNull, null_mut};

use crate::support::Sim;
use crate::support::functions::{Entry, entries, is_code};
use crate::support::layouts::{Struct, length_of_array, type_of};
use crate::support::raw::version;
use gpu::{Caller, DriverBranch, Machine, Model, Reply, Topology};
use mig::sharing::Known;
use nvml_wrapper_sys::bindings::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The process that may die is another one: this variable says that it is it.
const CHILD: &str = "SLICEWRIGHT_GUARD_CHILD";

/// What stands in front of what the caller handed over.
const UNTOUCHED: u8 = 0xA5;

const PAGE: usize = 4096;

/// Room for the longest array of a caller's; a page that ends it comes behind.
const ROOM: usize = 4 * PAGE;

/// So many bytes in front of it are looked at.
const BEFORE: usize = 256;

type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> u32;

/// Memory that ends where nobody may go.
struct Guarded {
    start: NonNull<u8>,
}

impl Guarded {
    fn new() -> Self {
        let flags = MapFlags::PRIVATE;
        // SAFETY: new pages, at an address that the system chooses.
        let start = unsafe {
            mmap_anonymous(null_mut(), ROOM + PAGE, ProtFlags::READ | ProtFlags::WRITE, flags).unwrap()
        };
        // SAFETY: the last of these pages, of which nothing was made yet.
        unsafe { mprotect(start.byte_add(ROOM), PAGE, MprotectFlags::empty()).unwrap() }
        Self { start: NonNull::new(start.cast()).unwrap() }
    }

    /// The last `content.len()` bytes in front of the guard, with this in them.
    fn put(&self, content: &[u8]) -> usize {
        let from = ROOM - content.len();
        // SAFETY: the first `ROOM` bytes are ours, and no content leaves less than `BEFORE` of them.
        unsafe {
            self.start.as_ptr().add(from - BEFORE).write_bytes(UNTOUCHED, BEFORE);
            self.start.as_ptr().add(from).copy_from(content.as_ptr(), content.len());
            self.start.as_ptr().add(from).expose_provenance()
        }
    }

    /// Whether the bytes in front of the last `length` are as they were put.
    fn is_untouched_before(&self, length: usize) -> bool {
        // SAFETY: as above; nobody writes there now.
        let before =
            unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(ROOM - length - BEFORE), BEFORE) };
        before.iter().all(|byte| *byte == UNTOUCHED)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: they were mapped in one piece, and nothing refers to them any more.
        unsafe { munmap(self.start.as_ptr().cast(), ROOM + PAGE).unwrap() }
    }
}

/// How much room a caller has behind a pointer of a type, and the version that
/// What one call is made of.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Which of the handles.
    pub(crate) handle: usize,
    /// The number in place of every plain number.
    pub(crate) number: u32,
    /// How long texts and the caller's arrays are.
    pub(crate) length: usize,
    /// The first word of a struct: none of a version that its type has, or any.
    pub(crate) word: Option<u32>,
}

pub(crate) struct Target {
    pub(crate) sim: Sim,
    handles: BTreeMap<&'static str, Vec<usize>>,
    /// How the second GPU is found: its UUID, serial number and address on the bus.
    named: [String; 3],
    pages: Vec<Guarded>,
    /// The functions that succeeded at least once.
    succeeded: BTreeSet<String>,
}

impl Target {
    /// A node with a GPU that is cut, one that is whole, and events to come.
    pub(crate) fn new() -> Self {
        // With links beside PCIe, and with a card that has no MIG and older counters.
        let machine = Machine::new("node-a", DriverBranch::default(), store::now());
        let machine = machine.built_as(Topology::find("dgx-h100").unwrap());
        let Some(Known::Card(card)) = mig::sharing::find("T4") else { panic!("the catalogue has a T4") };
        let models = [
            Model::find("A100-80GB").unwrap(),
            Model::find("H100-80GB").unwrap(),
            Model::of_card(card).into(),
        ];
        let mut machine = models.iter().fold(machine, Machine::with_gpu);
        let (name, target) = ("python3".to_owned(), gpu::Target::Gpu(2));
        let activity = gpu::Activity::Computes;
        machine.open(gpu::Client { pid: A_PID, name, target, activity, memory_mib: 1 }).unwrap();
        let sim = Sim::new(machine);
        let pages = (0..6).map(|_| Guarded::new()).collect();
        let (handles, named) = (BTreeMap::new(), Default::default());
        let mut target = Self { sim, handles, named, pages, succeeded: BTreeSet::new() };
        target.set_up();
        target
    }

    fn set_up(&mut self) {
        let sim = &self.sim;
        sim.init().unwrap();
        let (device, whole, other) = (sim.gpu(0).unwrap(), sim.gpu(1).unwrap(), sim.gpu(2).unwrap());
        sim.set_mode(device, 1).unwrap();
        // Whatever calls have made goes, so that there is room: for a 1g, and in a slice without compute instances.
        sim.store.update(|state| clear(&mut state.machine)).unwrap().unwrap();
        let gi = sim.create_at(device, 9, 4, 4).unwrap();
        let compute = sim.compute(gi, 2).unwrap();
        let empty = sim.create_at(device, 14, 0, 2).unwrap();
        let mig = sim.mig(device, 0).unwrap();
        let mut set: nvmlEventSet_t = null_mut();
        // SAFETY: as the header says.
        unsafe {
            assert_eq!(sim.lib.nvmlEventSetCreate(&raw mut set), 0);
            assert_eq!(
                sim.lib.nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError.into(), set),
                0
            );
        }
        let mut system = nvmlSystemEventSetCreateRequest_v1_t {
            version: version::<nvmlSystemEventSetCreateRequest_v1_t>(1),
            set: null_mut(),
        };
        // SAFETY: as the header says.
        assert_eq!(unsafe { sim.lib.nvmlSystemEventSetCreate(&raw mut system) }, 0);
        let samples = [0, 1].map(|_| {
            // SAFETY: as the header says.
            let sample =
                crate::support::raw::ask(|sample| unsafe { sim.lib.nvmlGpmSampleAlloc(sample) }).unwrap();
            // SAFETY: as the header says.
            assert_eq!(unsafe { sim.lib.nvmlGpmSampleGet(whole, sample) }, 0);
            let taken = store::now();
            while store::now().as_microsecond() == taken.as_microsecond() {}
            sample
        });
        // More of them than there are calls: some of these wait for one.
        sim.store
            .update(|state| (0..64).for_each(|_| state.machine.begin(gpu::Fault::Xid { gpu: 0, code: 79 })))
            .unwrap();
        let of = |pointer: *mut u8| pointer.addr();
        self.handles = BTreeMap::from([
            ("nvmlDevice_t", vec![of(device.cast()), of(mig.cast()), of(whole.cast()), of(other.cast())]),
            ("nvmlGpuInstance_t", vec![of(gi.cast()), of(empty.cast())]),
            ("nvmlComputeInstance_t", vec![of(compute.cast())]),
            ("nvmlEventSet_t", vec![of(set.cast())]),
            ("nvmlSystemEventSet_t", vec![of(system.set.cast())]),
            ("nvmlGpmSample_t", samples.map(|sample| of(sample.cast())).to_vec()),
        ]);
        self.named = names(sim, whole);
    }

    /// What the system's events are about: the driver goes and comes back after somebody has registered for it.
    fn reload(&mut self) {
        let request = self.request(version::<nvmlSystemRegisterEventRequest_v1_t>(1), &[0, 3, 0], &[]);
        // SAFETY: as the header says.
        assert_eq!(unsafe { self.sim.lib.nvmlSystemRegisterEvents(request.as_ptr().cast_mut().cast()) }, 0);
        let reloaded = self.sim.store.update(|state| {
            let machine = &mut state.machine;
            let all: Vec<_> = machine.clients().map(|(id, client)| (id, client.clone())).collect();
            for (id, _) in &all {
                machine.close(*id);
            }
            machine.reload_driver()?;
            all.into_iter().try_for_each(|(_, client)| machine.open(client).map(drop))
        });
        reloaded.unwrap().unwrap();
    }

    pub(crate) fn call(&mut self, entry: &Entry, choice: &Choice) -> u32 {
        let Entry { name, arguments } = entry;
        let mut values = [0; 6];
        let mut rooms = Vec::new();
        for (i, (argument, kind)) in arguments.iter().enumerate() {
            let Some(pointee) = kind.strip_prefix("*mut ").or_else(|| kind.strip_prefix("*const ")) else {
                values[i] = self.number(argument, kind, choice);
                continue;
            };
            let content = match pointee {
                "nvmlGpmMetricsGet_t" => self.metrics(choice),
                "nvmlProcessesUtilizationInfo_t" if choice.word.is_none() => self.loads(choice),
                "nvmlGpmSupport_t" => words(&[NVML_GPM_SUPPORT_VERSION, 0]),
                "nvmlSystemEventSetFreeRequest_t" if choice.word.is_none() => {
                    self.request(version::<nvmlSystemEventSetFreeRequest_v1_t>(1), &[], &[])
                }
                "nvmlSystemRegisterEventRequest_t" if choice.word.is_none() => {
                    self.request(version::<nvmlSystemRegisterEventRequest_v1_t>(1), &[0, 3, 0], &[])
                }
                "nvmlSystemEventSetWaitRequest_t" if choice.word.is_none() => {
                    let room = vec![0; choice.length * size_of::<nvmlSystemEventData_v1_t>()];
                    let data = self.pages.last().unwrap().put(&room) as u64;
                    let data = [data as u32, (data >> 32) as u32, choice.length as u32, 0];
                    self.request(version::<nvmlSystemEventSetWaitRequest_v1_t>(1), &[0], &data)
                }
                "nvmlUUID_t" if choice.word.is_none() => {
                    let mut content =
                        words(&[version::<nvmlUUID_v1_t>(1), nvmlUUIDType_t_NVML_UUID_TYPE_ASCII]);
                    content.extend(self.named[0].as_bytes());
                    content.resize(size_of::<nvmlUUID_v1_t>(), 0);
                    content
                }
                "c_char" if kind.starts_with("*const") => self.text(name, choice),
                "nvmlPciInfo_t" if name == "nvmlDeviceQueryDrainState" => self.address(),
                // A place that is free, for a slice of this size.
                "nvmlGpuInstancePlacement_t" if kind.starts_with("*const") => words(&[2, 1]),
                "nvmlComputeInstancePlacement_t" if kind.starts_with("*const") => words(&[0, 1]),
                // A limit that every card here takes.
                "nvmlPowerValue_v2_t" if choice.word.is_none() => {
                    words(&[version::<nvmlPowerValue_v2_t>(2), NVML_POWER_SCOPE_GPU, A_LIMIT_MW])
                }
                _ => content(name, argument, pointee, choice),
            };
            values[i] = self.pages[i].put(&content);
            rooms.push((i, content.len()));
        }
        let symbol = CString::new(name.as_str()).unwrap();
        // SAFETY: on the machines that this library is for, arguments of these kinds are in registers
        // of the same size, and a function does not look at those that it does not have. Behind each
        // pointer is as much as the header of that function promises.
        let code = unsafe {
            let function = self.sim.lib.__library.get::<Function>(symbol.as_bytes_with_nul()).unwrap();
            function(values[0], values[1], values[2], values[3], values[4], values[5])
        };
        for (i, length) in rooms {
            let clean = self.pages[i].is_untouched_before(length);
            assert!(clean, "{name} wrote in front of its argument {i} with {choice:?}");
        }
        if code == 0 {
            self.succeeded.insert(name.clone());
        }
        code
    }

    /// A text that finds the second GPU, or nothing.
    fn text(&self, function: &str, choice: &Choice) -> Vec<u8> {
        let [uuid, serial, bus] = &self.named;
        let text: &str = match function {
            _ if choice.length == 0 => "GPU-none",
            "nvmlDeviceGetHandleBySerial" => serial,
            "nvmlDeviceGetHandleByPciBusId" | "nvmlDeviceGetHandleByPciBusId_v2" => bus,
            _ => uuid,
        };
        CString::new(text).unwrap().into_bytes_with_nul()
    }

    /// As much of the second GPU's address as the first headers had.
    fn address(&self) -> Vec<u8> {
        let part = |from: usize| u32::from_str_radix(&self.named[2][from..from + 2], 16).unwrap();
        [vec![0; 16], words(&[0, part(9), part(12), 0])].concat()
    }

    /// A request about a set of the system's events: the version, words, the set, words.
    fn request(&self, version: u32, before: &[u32], behind: &[u32]) -> Vec<u8> {
        let mut content = words(&[version]);
        content.extend(words(if before.is_empty() { &[0] } else { before }));
        content.extend(self.handles["nvmlSystemEventSet_t"][0].to_ne_bytes());
        content.extend(words(behind));
        content
    }

    /// As many metrics as the caller says, and not one more: headers differ in how many there are.
    fn metrics(&self, choice: &Choice) -> Vec<u8> {
        let head = std::mem::offset_of!(nvmlGpmMetricsGet_t, metrics);
        let mut content = vec![0; head + choice.length * size_of::<nvmlGpmMetric_t>()];
        content[..4].copy_from_slice(&NVML_GPM_METRICS_GET_VERSION.to_ne_bytes());
        content[4..8].copy_from_slice(&(choice.length as u32).to_ne_bytes());
        for (i, sample) in self.handles["nvmlGpmSample_t"].iter().enumerate() {
            content[8 * (i + 1)..][..8].copy_from_slice(&sample.to_ne_bytes());
        }
        content
    }

    /// A struct that points to as many samples as it says.
    fn loads(&self, choice: &Choice) -> Vec<u8> {
        let samples = vec![0; choice.length * size_of::<nvmlProcessUtilizationInfo_v1_t>()];
        let samples = self.pages.last().unwrap().put(&samples);
        let mut content = words(&[version::<nvmlProcessesUtilizationInfo_v1_t>(1), choice.length as u32]);
        content.extend(0u64.to_ne_bytes());
        content.extend(samples.to_ne_bytes());
        content
    }

    fn number(&self, argument: &str, kind: &str, choice: &Choice) -> usize {
        if let Some(handles) = self.handles.get(kind) {
            // The other one of two: each of them, in turn.
            let further = if argument == "device2" { choice.length } else { 0 };
            return handles[(choice.handle + further) % handles.len()];
        }
        match argument {
            "pid" if choice.number == 0 => A_PID as usize,
            "length" | "valuesCount" | "cpuSetSize" | "nodeSetSize" | "size" => choice.length,
            "timeoutms" => 0,
            _ => choice.number as usize,
        }
    }
}

/// A clock of an H100's memory.
const A_MEMORY_CLOCK_MHZ: u32 = 2619;

/// What a card may be limited to, in mW.
const A_LIMIT_MW: u32 = 300_000;

/// A process on the third card.
const A_PID: u32 = 7;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Destroys all slices of the first GPU.
fn clear(machine: &mut Machine) -> Reply<()> {
    let ids: Vec<u8> = machine.gpu(0).into_iter().flat_map(|gpu| gpu.instances.keys().copied()).collect();
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(0)?;
    for id in ids {
        let gi = nvml.gpu_instance_by_id(device, id)?;
        for ci in nvml.compute_instances(gi)? {
            nvml.destroy_compute_instance(ci)?;
        }
        nvml.destroy_gpu_instance(gi)?;
    }
    Ok(())
}

/// A GPU's UUID, serial number and address on the bus.
fn names(sim: &Sim, device: nvmlDevice_t) -> [String; 3] {
    let mut serial = [0; 32];
    // SAFETY: as the header says.
    assert_eq!(unsafe { sim.lib.nvmlDeviceGetSerial(device, serial.as_mut_ptr(), 32) }, 0);
    // SAFETY: as the header says.
    let pci: nvmlPciInfo_t =
        crate::support::raw::ask(|pci| unsafe { sim.lib.nvmlDeviceGetPciInfo_v3(device, pci) }).unwrap();
    let text = crate::support::raw::text;
    [sim.uuid(device).unwrap(), text(&serial), text(&pci.busId)]
}

/// What the caller has behind a pointer.
fn content(function: &str, argument: &str, pointee: &str, choice: &Choice) -> Vec<u8> {
    if pointee == "c_char" {
        // The one text whose length is no argument but a constant of the header.
        return vec![0; if function == "nvmlDeviceGetGspFirmwareVersion" { 64 } else { choice.length }];
    }
    let Some(Struct { size, versions }) = type_of(pointee) else {
        // Nobody looks behind it: not even one byte is there. What has a version may read that.
        return Vec::new();
    };
    let mut content = vec![0; size * length_of_array(function, argument, choice.length)];
    let first = match (versions, choice.word) {
        ([], _) => choice.length as u32,
        (_, Some(word)) => {
            // As much room as the caller says that it has, and at least the word.
            content = vec![0; ((word & 0x00ff_ffff) as usize).clamp(4, ROOM / 2)];
            word
        }
        (versions, None) => (size as u32) | versions[choice.length % versions.len()] << 24,
    };
    let counts = versions.is_empty() && (pointee != "c_uint" || !argument.to_lowercase().contains("count"));
    if !counts && content.len() >= 4 {
        content[..4].copy_from_slice(&first.to_ne_bytes());
    }
    content
}

/// Functions that act on the library itself, and not on what they are given.
const APART: [&str; 3] = ["nvmlShutdown", "nvmlErrorString", "nvmlInitWithFlags"];

fn sweep() {
    let mut target = Target::new();
    for entry in entries() {
        if APART.contains(&entry.name.as_str()) {
            continue;
        }
        eprintln!("calling {}", entry.name);
        let numbers = [0, 1, 2, 3, 9, 19, A_MEMORY_CLOCK_MHZ, A_LIMIT_MW, u32::MAX];
        let numbered = ["c_uint", "c_int", "nvmlRestrictedAPI_t"];
        let has_number = entry.arguments.iter().any(|(_, kind)| numbered.contains(&kind.as_str()));
        let numbers = if has_number { &numbers[..] } else { &numbers[..1] };
        for handle in 0..4 {
            if entry.name == "nvmlSystemEventSetWait" {
                target.reload();
            }
            let only_asks = ["nvmlDeviceGet", "nvmlSystemGet"].iter().any(|get| entry.name.starts_with(get));
            for number in numbers.iter().copied() {
                for length in [0, 1, 2, 7, 8, 128] {
                    let code = target.call(&entry, &Choice { handle, number, length, word: None });
                    assert!(is_code(&entry.name, code), "{} answers {code}", entry.name);
                }
            }
            if !only_asks {
                target.set_up();
            }
        }
    }
    let mut told = String::new();
    for name in &target.succeeded {
        writeln!(told, "succeeded {name}").unwrap();
    }
    eprintln!("{told}");
}

fn noise() {
    let target = RefCell::new(Target::new());
    let entries = entries();
    let word = prop_oneof![
        Just(None),
        any::<u32>().prop_map(Some),
        (0u32..300, 0u32..5).prop_map(|(size, version)| Some(size | version << 24)),
        Just(Some(version::<nvmlMemory_v2_t>(2))),
    ];
    let number = prop_oneof![0u32..24, any::<u32>()];
    let one = (0..entries.len(), 0usize..4, number, 0usize..200, word);
    let calls = prop::collection::vec(one, 1..200);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() });
    let done = runner.run(&calls, |calls| {
        // What a call changed, the next case finds as it should be.
        let mut sim = target.borrow_mut();
        sim.set_up();
        for (entry, handle, number, length, word) in calls {
            if APART.contains(&entries[entry].name.as_str()) {
                continue;
            }
            eprintln!("calling {}", entries[entry].name);
            let code = sim.call(&entries[entry], &Choice { handle, number, length, word });
            prop_assert!(is_code(&entries[entry].name, code), "{} answers {code}", entries[entry].name);
        }
        Ok(())
    });
    done.unwrap();
}

/// Runs a part of this file in a process of its own; what it told.
#[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
fn survives(test: &str, part: fn()) -> Option<String> {
    if std::env::var_os(CHILD).is_some() {
        part();
        return None;
    }
    let test_binary = std::env::current_exe().unwrap();
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let child =
        Command::new(test_binary).args([&test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let told = String::from_utf8_lossy(&child.stderr).into_owned();
    let last = told.lines().rev().find(|line| line.starts_with("calling ")).unwrap_or("nothing");
    assert!(child.status.success(), "{}, while {last}:\n{}", child.status, tail(&told));
    let ran = String::from_utf8_lossy(&child.stdout).contains("1 passed");
    assert!(ran, "the program that was started has no test {test}");
    Some(told)
}

fn tail(told: &str) -> String {
    let lines: Vec<_> = told.lines().filter(|line| !line.starts_with("calling ")).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Whoever says INVALID_ARGUMENT to everything writes past nothing either, so what is simulated must have
/// succeeded: all but what succeeds on no simulated card, since the real ones that were asked say no, too. None
/// of these writes anything.
const NEVER_SUCCEED_HERE: [&str; 8] = [
    "nvmlDeviceGetLastBBXFlushTime",
    "nvmlDeviceGetFanSpeed_v2",
    "nvmlDeviceGetFanSpeedRPM",
    "nvmlDeviceGetMinMaxFanSpeed",
    "nvmlDeviceGetCoolerInfo",
    "nvmlDeviceGetConfComputeGpuCertificate",
    "nvmlDeviceGetNvLinkInfo",
    "nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts",
];

#[test]
fn no_function_reaches_past_what_a_caller_of_its_header_has() {
    let Some(told) = survives("no_function_reaches_past_what_a_caller_of_its_header_has", sweep) else {
        return;
    };
    let succeeded: BTreeSet<_> = told.lines().filter_map(|line| line.strip_prefix("succeeded ")).collect();
    let unsupported = include_str!("../../src/api/unsupported.rs");
    let simulated = entries()
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| !unsupported.contains(&format!(" {name}(")) && !APART.contains(&name.as_str()));
    let missing: Vec<_> = simulated.filter(|name| !succeeded.contains(name.as_str())).collect();
    assert_eq!(missing, NEVER_SUCCEED_HERE, "these never succeeded, so nothing was seen of what they write");
}

#[test]
fn whatever_size_a_caller_claims_no_more_than_that_is_touched() {
    survives("whatever_size_a_caller_claims_no_more_than_that_is_touched", noise);
}

/// What a function of a handle and a struct answers, whichever version of the struct it writes: the last
/// one has room for each, and begins with the same fields.
fn asked<T>(sim: &Sim, function: &str, handle: usize) -> T {
    let symbol = CString::new(function).unwrap();
    // SAFETY: as the header says; the arguments behind the second are not looked at.
    crate::support::raw::ask(|to: &mut T| unsafe {
        let function = sim.lib.__library.get::<Function>(symbol.as_bytes_with_nul()).unwrap();
        function(handle, (&raw mut *to).expose_provenance(), 0, 0, 0, 0)
    })
    .unwrap()
}

#[test]
fn earlier_versions_tell_what_the_last_one_tells() {
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    let compute = sim.compute(sim.create(device, 9).unwrap(), 1).unwrap();
    let mig = sim.mig(device, 0).unwrap();

    let pci = ["nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo_v3"]
        .map(|function| asked::<nvmlPciInfo_t>(&sim, function, device.addr()));
    let told = |pci: &nvmlPciInfo_t| (crate::support::raw::text(&pci.busIdLegacy), pci.bus, pci.pciDeviceId);
    assert_eq!(told(&pci[0]), ("0000:01:00.0".to_owned(), 1, 0x20b2_10de));
    assert!(pci.iter().all(|one| told(one) == told(&pci[2])));

    let attributes = ["nvmlDeviceGetAttributes", "nvmlDeviceGetAttributes_v2"]
        .map(|function| asked::<nvmlDeviceAttributes_t>(&sim, function, mig.addr()));
    let told =
        |a: &nvmlDeviceAttributes_t| (a.multiprocessorCount, a.sharedCopyEngineCount, a.sharedDecoderCount);
    assert_eq!(told(&attributes[0]), told(&attributes[1]));
    assert_eq!(attributes.map(|attributes| attributes.gpuInstanceSliceCount), [0, 3]);

    let info = ["nvmlComputeInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2"]
        .map(|function| asked::<nvmlComputeInstanceInfo_t>(&sim, function, compute.addr()));
    let told = |i: &nvmlComputeInstanceInfo_t| (i.device, i.gpuInstance, i.id, i.profileId);
    assert_eq!(told(&info[0]), told(&info[1]));
    assert_eq!(info.map(|info| info.placement.size), [0, 2]);
    sim.shutdown().unwrap();
}
