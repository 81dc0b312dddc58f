//! `pmon`: one line for each process of each GPU and each sample.

use std::collections::BTreeMap;

use super::{corner, width};
use crate::arguments::{ProcessMetric, Stamp};
use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, Process, ProcessKind, ProcessLoad};

/// A column of `pmon`: its name, its unit, its value.
struct ProcessColumn {
    name: &'static str,
    unit: &'static str,
    value: fn(&Process, Option<&ProcessLoad>) -> Option<u64>,
}

const LOADS: &[ProcessColumn] = &[
    ProcessColumn { name: "sm", unit: "%", value: |_, load| Some(load?.multiprocessors.into()) },
    ProcessColumn { name: "mem", unit: "%", value: |_, load| Some(load?.memory.into()) },
    ProcessColumn { name: "enc", unit: "%", value: |_, load| used(load?.encoder) },
    ProcessColumn { name: "dec", unit: "%", value: |_, load| used(load?.decoder) },
];

/// Drivers before 545 have no columns for them, and nobody tells them by process.
const NEWER_LOADS: &[ProcessColumn] = &[
    ProcessColumn { name: "jpg", unit: "%", value: |_, _| None },
    ProcessColumn { name: "ofa", unit: "%", value: |_, _| None },
];

const HELD: &[ProcessColumn] =
    &[ProcessColumn { name: "fb", unit: "MB", value: |process, _| process.memory }];

/// Drivers before 530 have no column for protected memory; nothing here is confidential.
const PROTECTED: &[ProcessColumn] =
    &[ProcessColumn { name: "ccpm", unit: "MB", value: |process, _| process.memory.map(|_| 0) }];

/// An engine that a process does not use at all is marked like one that nobody counts.
fn used(percent: u32) -> Option<u64> {
    (percent > 0).then(|| percent.into())
}

fn process_columns(
    metrics: &[ProcessMetric],
    driver: Driver,
) -> impl Iterator<Item = &'static ProcessColumn> + '_ {
    let since = |form, columns: &'static [ProcessColumn]| if driver.has(form) { columns } else { &[] };
    let (loads, protected) = (since(Form::R545, NEWER_LOADS), since(Form::R530, PROTECTED));
    metrics
        .iter()
        .flat_map(move |metric| match metric {
            ProcessMetric::Utilization => [LOADS, loads],
            ProcessMetric::Memory => [HELD, protected],
        })
        .flatten()
}

/// The two lines above `pmon`'s.
pub(crate) fn process_heading(stamp: Stamp, metrics: &[ProcessMetric], driver: Driver) -> String {
    // How wide the process, its type and the first column are; the lines below are not always in line with them.
    let (pid, kind, first) = match (driver.has(Form::R545), driver.has(Form::R530)) {
        (true, _) => (12, 7, 7),
        (_, true) => (12, 6, 6),
        _ => (11, 6, 6),
    };
    let (gap, end) = if driver.has(Form::R530) { ("    ", " \n") } else { ("   ", "\n") };
    let (names, units) = corner(stamp, driver);
    let line = |corner: &str, [id, types, name]: [&str; 3], of: fn(&ProcessColumn) -> &'static str| {
        let cells: String = process_columns(metrics, driver)
            .enumerate()
            .map(|(nth, column)| {
                let width = if nth == 0 { first } else { width(driver) };
                format!("{:>width$}", of(column))
            })
            .collect();
        format!("{corner}{id:>pid$}{types:>kind$}{cells}{gap}{name}{end}")
    };
    line(&names, ["pid", "type", "command"], |column| column.name)
        + &line(&units, ["#", "C/G", "name"], |column| column.unit)
}

/// The lines of one GPU: one for each process, or one that says that there is
/// none.
pub(crate) fn process_lines(
    place: &str,
    gpu: &Gpu,
    loads: &BTreeMap<u32, ProcessLoad>,
    metrics: &[ProcessMetric],
    driver: Driver,
) -> String {
    let columns: Vec<_> = process_columns(metrics, driver).collect();
    let dash = || "-".to_owned();
    let line = |process: Option<&Process>| {
        let pid = process.map_or_else(dash, |process| process.pid.to_string());
        let kind = process.map_or("-", |process| match process.kind {
            ProcessKind::Compute => "C",
            ProcessKind::Graphics => "G",
            ProcessKind::Both => "C+G",
        });
        let name = process.map_or_else(dash, |process| short(&process.name));
        let load = process.and_then(|process| loads.get(&process.pid));
        let width = width(driver);
        let cells: String = columns
            .iter()
            .map(|column| process.and_then(|process| (column.value)(process, load)))
            .map(|value| format!("{:>width$}", value.map_or_else(dash, |value| value.to_string())))
            .collect();
        let gap = if driver.has(Form::R530) { "    " } else { "   " };
        format!("{place}{pid:>11}{kind:>6}{cells}{gap}{name:<15}\n")
    };
    if gpu.processes.is_empty() {
        return line(None);
    }
    gpu.processes.iter().map(|process| line(Some(process))).collect()
}

/// The last part of a path, as far as it fits.
fn short(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).chars().take(15).collect()
}
