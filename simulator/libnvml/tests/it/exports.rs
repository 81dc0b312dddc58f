//! The library exports exactly the functions of one driver generation's library: the list beside the
//! sources, the header from which `nvml-wrapper-sys` was made, the tables of the sources and the built
//! library must agree.
#![allow(unsafe_code, reason = "the support module loads the library")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// In no header, with how many arguments each has: one that NVIDIA's own tools look up, and the names of
/// before 2020 of two functions, which libraries export to this day.
const NOT_IN_THE_HEADER: [(&str, usize); 3] = [
    ("nvmlInternalGetExportTable", 2),
    ("nvmlGetBlacklistDeviceCount", 1),
    ("nvmlGetBlacklistDeviceInfoByIndex", 2),
];

/// What a real library exports and ours does not: they came after the header of NVML 13.0, in which no
/// program can find them.
const NEWER_THAN_THE_HEADER: [&str; 6] = [
    "nvmlDeviceGetHostname_v1",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceReadPRMCounters_v1",
    "nvmlDeviceSetHostname_v1",
    "nvmlDeviceSetRusdSettings_v1",
    "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1",
];

/// The captures of two machines, where somebody has them beside this folder.
const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures/nvidia-h100-mig__590.48.01.txt");

/// The list: names, and how many arguments each has.
fn list() -> BTreeMap<String, usize> {
    let text = include_str!("../../functions.txt");
    let row = |line: &str| {
        let (name, rest) = line.split_once('(').unwrap();
        let arguments = rest.split_once(')').unwrap().0;
        (name.to_owned(), arguments.split(", ").filter(|argument| !argument.is_empty()).count())
    };
    text.lines().map(row).collect()
}

/// The functions of the generation, from the bindings' source. A new machine has
/// fetched what it builds, and no crate of another platform.
fn bindings() -> BTreeSet<String> {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host];
    let output = Command::new(env!("CARGO")).args(args).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let sys = packages.iter().find(|package| package["name"] == "nvml-wrapper-sys").unwrap();
    let folder = PathBuf::from(sys["manifest_path"].as_str().unwrap());
    let source = std::fs::read_to_string(folder.parent().unwrap().join("src/bindings.rs")).unwrap();
    let fields = source.split_once("pub struct NvmlLib {").unwrap().1.split_once("\n}\n").unwrap().0;
    let name =
        |line: &str| line.trim().strip_prefix("pub nvml")?.split_once(':').map(|(name, _)| name.to_owned());
    fields.lines().filter_map(name).map(|name| format!("nvml{name}")).collect()
}

/// The tables of the sources: names, and how many arguments each has.
fn tables() -> Vec<(String, usize)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut rest = source.as_str();
        // A definition: `fn`, or a row of a table, then names joined by `|`, then arguments.
        while let Some(at) = rest.find("nvml") {
            let (before, from) = (rest[..at].trim_end(), &rest[at..]);
            rest = &from[4..];
            let names: String =
                from.chars().take_while(|c| c.is_alphanumeric() || " |_\n".contains(*c)).collect();
            let Some(arguments) = from[names.len()..].strip_prefix('(') else { continue };
            let (arguments, after) = arguments.split_once(')').unwrap();
            let begins = before.ends_with("fn") || before.ends_with(['{', ';']);
            if begins && after.trim_start().starts_with(['{', ';', '-', 't', 'f']) {
                let count = arguments.split([',', ';']).filter(|argument| argument.contains(':')).count();
                let wait = usize::from(arguments.contains("; timeout"));
                found.extend(names.split('|').map(|name| (name.trim().to_owned(), count + wait)));
                rest = after;
            }
        }
    }
    found
}

/// How a section of ELF says that it is the table of dynamic symbols.
const DYNAMIC_SYMBOLS: usize = 11;

/// The names that the built library defines for others: its dynamic symbols.
fn exported(library: &[u8]) -> BTreeSet<String> {
    let word = |at: usize, size: usize| {
        library[at..at + size].iter().rev().fold(0usize, |n, byte| n << 8 | usize::from(*byte))
    };
    assert_eq!(&library[..5], b"\x7fELF\x02", "a 64-bit ELF file");
    let (sections, size, count) = (word(0x28, 8), word(0x3A, 2), word(0x3C, 2));
    let header = |i: usize| sections + i * size;
    let table = (0..count).map(header).find(|at| word(at + 4, 4) == DYNAMIC_SYMBOLS).unwrap();
    let strings = word(header(word(table + 0x28, 4)) + 0x18, 8);
    let (start, length) = (word(table + 0x18, 8), word(table + 0x20, 8));
    let defined = (start..start + length).step_by(24).filter(|symbol| word(symbol + 6, 2) != 0);
    let name = |symbol: usize| {
        let bytes = &library[strings + word(symbol, 4)..];
        String::from_utf8(bytes.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
    };
    defined.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_list_is_that_of_the_header() {
    let list: BTreeSet<_> = list().into_keys().collect();
    assert_eq!(list.len(), 396);
    assert!(list == bindings(), "{:?}", list.symmetric_difference(&bindings()).collect::<Vec<_>>());
}

#[test]
fn the_library_exports_the_list_and_nothing_else() {
    let mut wanted: BTreeSet<_> = list().into_keys().collect();
    wanted.extend(NOT_IN_THE_HEADER.map(|(name, _)| name.to_owned()));
    let built = exported(&std::fs::read(crate::support::built()).unwrap());
    assert!(built == wanted, "{:?}", built.symmetric_difference(&wanted).collect::<Vec<_>>());
}

#[test]
fn every_function_is_written_once_with_the_arguments_of_the_header() {
    let mut wanted = list();
    wanted.extend(NOT_IN_THE_HEADER.map(|(name, arguments)| (name.to_owned(), arguments)));
    for (name, arguments) in tables() {
        assert_eq!(wanted.remove(&name), Some(arguments), "{name}: not in the list, or written twice");
    }
    assert!(wanted.is_empty(), "not written: {wanted:?}");
}

#[test]
fn whatever_a_real_library_exports_is_there_or_is_newer_than_the_header() {
    let Ok(capture) = std::fs::read_to_string(CAPTURE) else {
        return println!("left out: there is no {CAPTURE}");
    };
    let (_, rows) = capture.split_once("# capabilities :: nvml-symbols").unwrap();
    let names = rows.lines().skip_while(|line| !line.starts_with("nvml"));
    let real: BTreeSet<_> = names.take_while(|line| line.starts_with("nvml")).map(str::to_owned).collect();
    assert!(real.len() > 400, "{} names were read", real.len());
    let ours = exported(&std::fs::read(crate::support::built()).unwrap());
    let absent: Vec<_> = real.difference(&ours).map(String::as_str).collect();
    assert_eq!(absent, NEWER_THAN_THE_HEADER);
}

#[test]
fn the_library_is_known_by_nvidias_name() {
    let library = std::fs::read(crate::support::built()).unwrap();
    let name = b"libnvidia-ml.so.1\0";
    assert!(library.windows(name.len()).any(|window| window == name), "the soname is in its string table");
}
