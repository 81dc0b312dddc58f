//! The answers of NVML on two real machines (an H100 80GB HBM3 and an H200, driver 580.159.04, MIG off, passed
//! through to a virtual machine), compared with those of the simulated library, call by call. The same program
//! asked both (`tests/sweep.py`).
//!
//! A line of a capture is a call, the numbers that it was given, and the answer: `Clock(0-1,1-3 2,0) = 1980` is
//! seven calls. `"*"` stands for what names one card, one machine or one process. The captures that end with
//! `-open` and `-work` have what was different while a CUDA program had a context and memory (1 GiB allocated), and
//! while it computed. Readings of the moment are compared by
//! their kind, everything else must be equal, except for what is listed here: each line of the list has a
//! reason, and a line that is not needed any more fails the test like a new difference does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clients::{Node, find};
use gpu::{Activity, Caller, Client, DriverBranch, Machine, Mode, Model, Target};
use serde_json::Value;

const DRIVER: &str = "580.159.04";

/// What is another a moment later: its numbers are not compared, but that they are numbers, and all words.
const OF_THE_MOMENT: &[&str] = &[
    "Field(78,0-1 80-83,0-1)",
    "Field(94,0-1 169,0-1 173-183,0-1)",
    "Field(185-186,0 191,0 197-198,0-1)",
    "Gpm(10 20-21)",
    "PcieThroughput(0-1)",
    "Temperature(0)",
    "ViolationStatus(0-5 10-11)",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
];

/// What still differs, and why.
const DIFFERS: &[(&str, &str)] = &[
    ("CpuAffinityWithinScope(0-1)", "the simulated host has 32 CPUs, the virtual machine had 16"),
    ("ProcessName1", "only simulated clients have names"),
    ("nvmlDeviceGetHostname_v1", "NVML 13.0, whose functions the library exports, does not have it"),
    ("nvmlDeviceGetUnrepairableMemoryFlag_v1", "the same"),
    ("nvmlDeviceGetVbiosVersion", "a simulated card has nobody's BIOS, and says so"),
];

/// What differs on the H100 only.
const DIFFERS_ON_THE_H100: &[(&str, &str)] = &[
    ("nvmlDeviceGetBoardPartNumber", "another card's part number was captured first (driver 590)"),
    ("nvmlDeviceGetModuleId", "it sat in another place of its board (the same capture)"),
    ("PlatformInfo(1-2)", "the module's number, again"),
];

/// What differs while a program is there.
const DIFFERS_WITH_A_PROGRAM: &[(&str, &str)] = &[
    ("MemoryInfo_v2", "a context takes 8.8 MiB that are not its process's, and of a simulated one nothing"),
    ("nvmlDeviceGetMemoryInfo", "the same"),
    ("nvmlDeviceGetBAR1MemoryInfo", "the same"),
];

/// What another program would do in other proportions.
const OF_THE_PROGRAM: &str = "Gpm(1-5 7 12)";

/// What a program does on the card while it is asked.
#[derive(Clone, Copy, Debug)]
enum Program {
    None,
    /// Its differences from a card without one are in this file.
    Some(Activity, &'static str),
}

/// The calls of a line's head: `Name(1-2,0 7)`.
fn calls(head: &str) -> Vec<String> {
    let Some((name, numbers)) = head.strip_suffix(')').and_then(|head| head.split_once('(')) else {
        return vec![head.to_owned()];
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    let all = numbers.split(' ').flat_map(|product| {
        product.split(',').map(range).fold(vec![String::new()], |before, numbers| {
            let each = |before: &String| {
                let comma = if before.is_empty() { "" } else { "," };
                numbers.clone().map(|number| format!("{before}{comma}{number}")).collect::<Vec<_>>()
            };
            before.iter().flat_map(each).collect()
        })
    });
    all.map(|numbers| format!("{name}({numbers})")).collect()
}

/// A capture: answers by call.
fn capture(name: &str) -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (head, answer) = line.split_once(" = ").unwrap();
        let answer: Value = serde_json::from_str(answer).unwrap();
        calls(head).into_iter().map(move |call| (call, answer.clone())).collect::<Vec<_>>()
    };
    text.lines().flat_map(line).collect()
}

/// Whether a call is about texts, codes and the versions of structs, which are the library's whatever the card
/// is: the H100's was asked.
fn belongs_apart(call: &str) -> bool {
    ["Early ", "ErrorString(", "Length ", "Null ", "Versions "].iter().any(|part| call.starts_with(part))
}

/// The calls that patterns mean.
fn meant<'p>(patterns: impl IntoIterator<Item = &'p str>) -> BTreeSet<String> {
    patterns.into_iter().flat_map(calls).collect()
}

/// Whether an answer is as it was seen; of the moment, numbers are as good as others under names that do not
/// say what kind of number it is.
fn is_as_seen(seen: &Value, said: &Value, of_the_moment: bool) -> bool {
    match (seen, said) {
        (Value::String(masked), said) if masked == "*" => said.is_string() || said.is_number(),
        (Value::Object(seen), Value::Object(said)) => {
            let same = |(name, seen): (&String, &Value)| {
                let number = !["type", "return", "unit"].contains(&name.as_str());
                said.get(name).is_some_and(|said| is_as_seen(seen, said, of_the_moment && number))
            };
            seen.len() == said.len() && seen.iter().all(same)
        }
        (Value::Array(seen), Value::Array(said)) => {
            seen.len() == said.len()
                && seen.iter().zip(said).all(|(seen, said)| is_as_seen(seen, said, of_the_moment))
        }
        (Value::Number(_), Value::Number(_)) if of_the_moment => true,
        // A double that is whole is written with and without a fraction.
        (Value::Number(seen), Value::Number(said)) => seen == said || seen.as_f64() == said.as_f64(),
        _ => seen == said,
    }
}

/// A machine with one such card, set up as the real one was.
fn machine(model: &str) -> Machine {
    let machine = Machine::new("n1", DriverBranch(580), store::now()).passed_through();
    let mut machine = machine.with_gpu(&Model::find(model).unwrap());
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(0).unwrap();
    nvml.set_persistence_mode(device, Mode::Enabled).unwrap();
    machine
}

#[track_caller]
fn check(model: &str, name: &str, program: Program, differs: &[&[(&str, &str)]]) {
    let Some(found) = find(&["python"]) else { return };
    let mut machine = machine(model);
    let mut seen = capture(name);
    let mut moment = meant(OF_THE_MOMENT.iter().copied());
    if let Program::Some(activity, differences) = program {
        let (name, target) = ("python3".to_owned(), Target::Gpu(0));
        machine.open(Client { pid: 4242, name, target, activity, memory_mib: 1542 }).unwrap();
        seen.extend(capture(differences));
        moment.extend(calls(OF_THE_PROGRAM));
    }
    let node = Node::new(machine, found.library).unwrap().with_driver(DRIVER).unwrap();
    let python = found.programs[0].to_str().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sweep.py");
    let said = node.run(python, &[script, "0.01"], "").unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    let mut said: BTreeMap<String, Value> = serde_json::from_str(&said.out).unwrap();
    if !seen.keys().any(|call| belongs_apart(call)) {
        said.retain(|call, _| !belongs_apart(call));
    }
    let listed = meant(differs.iter().copied().flatten().map(|(pattern, _)| *pattern));
    let mut wrong = Vec::new();
    for call in seen.keys().chain(said.keys()).collect::<BTreeSet<_>>() {
        let (there, here) = (seen.get(call), said.get(call));
        let same = match (there, here) {
            (Some(there), Some(here)) => is_as_seen(there, here, moment.contains(call)),
            _ => false,
        };
        if same == listed.contains(call) {
            let what = if same { "is listed and does not differ" } else { "differs" };
            let [there, here] = [there, here].map(|one| one.map_or("nothing".to_owned(), Value::to_string));
            wrong.push(format!("{call} {what}: hardware {there:.160}, here {here:.160}"));
        }
    }
    let unknown: Vec<_> = listed.union(&moment).filter(|call| !seen.contains_key(*call)).collect();
    assert!(unknown.is_empty(), "in no capture: {unknown:?}");
    assert!(wrong.is_empty(), "{} of {} calls:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
}

const H100: (&str, &str) = ("NVIDIA H100 80GB HBM3", "h100-80gb-580.159.04.txt");
const H200: (&str, &str) = ("NVIDIA H200", "h200-580.159.04.txt");

#[test]
fn an_h100_answers_as_a_real_one() {
    check(H100.0, H100.1, Program::None, &[DIFFERS, DIFFERS_ON_THE_H100]);
}

#[test]
fn an_h100_on_which_a_program_idles_answers_as_a_real_one() {
    let program = Program::Some(Activity::Idles, "h100-80gb-580.159.04-open.txt");
    check(H100.0, H100.1, program, &[DIFFERS, DIFFERS_ON_THE_H100, DIFFERS_WITH_A_PROGRAM]);
}

#[test]
fn an_h100_on_which_a_program_computes_answers_as_a_real_one() {
    let program = Program::Some(Activity::Computes, "h100-80gb-580.159.04-work.txt");
    check(H100.0, H100.1, program, &[DIFFERS, DIFFERS_ON_THE_H100, DIFFERS_WITH_A_PROGRAM]);
}

#[test]
fn an_h200_answers_as_a_real_one() {
    check(H200.0, H200.1, Program::None, &[DIFFERS]);
}

#[test]
fn an_h200_on_which_a_program_idles_answers_as_a_real_one() {
    let program = Program::Some(Activity::Idles, "h200-580.159.04-open.txt");
    check(H200.0, H200.1, program, &[DIFFERS, DIFFERS_WITH_A_PROGRAM]);
}

#[test]
fn an_h200_on_which_a_program_computes_answers_as_a_real_one() {
    let program = Program::Some(Activity::Computes, "h200-580.159.04-work.txt");
    check(H200.0, H200.1, program, &[DIFFERS, DIFFERS_WITH_A_PROGRAM]);
}

#[test]
fn a_line_of_a_capture_is_every_call_that_it_names() {
    assert_eq!(calls("P2P"), ["P2P"]);
    assert_eq!(calls("Nearest(0 10-11)"), ["Nearest(0)", "Nearest(10)", "Nearest(11)"]);
    assert_eq!(calls("Clock(0-1,3 2,0-1)"), ["Clock(0,3)", "Clock(1,3)", "Clock(2,0)", "Clock(2,1)"]);
}

#[test]
fn only_numbers_of_the_moment_may_be_others() {
    let is = |seen: &str, said: &str, of_the_moment| {
        is_as_seen(&serde_json::from_str(seen).unwrap(), &serde_json::from_str(said).unwrap(), of_the_moment)
    };
    let seen = r#"{"type": 1, "value": 35}"#;
    assert!(is(seen, r#"{"type": 1, "value": 37}"#, true));
    assert!(!is(seen, r#"{"type": 1, "value": 37}"#, false));
    assert!(!is(seen, r#"{"type": 3, "value": 35}"#, true), "another kind of number");
    assert!(!is(seen, r#"{"return": 3}"#, true));
    assert!(!is("34", r#"{"error": "NotSupported"}"#, true));
    assert!(is(r#"[{"pid": "*", "kib": 2}]"#, r#"[{"pid": 7, "kib": 2}]"#, false));
    assert!(!is(r#"[{"pid": "*", "kib": 2}]"#, r#"[{"pid": 7, "kib": 3}]"#, false));
    assert!(!is("[1]", "[1, 1]", false));
    assert!(is(r#""*""#, r#""GPU-1""#, false) && !is(r#""*""#, r#"{"error": "NotFound"}"#, false));
}
