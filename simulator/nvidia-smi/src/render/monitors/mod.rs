//! `dmon`: one line for each GPU and sample; `pmon`: one for each process.

mod processes;
#[cfg(test)]
mod tests;

use jiff::Zoned;

use crate::arguments::{Metric, Stamp};
use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, Location};

pub(crate) use processes::{process_heading, process_lines};

/// A column of `dmon`: its name, its unit, its value.
struct Column {
    name: &'static str,
    unit: &'static str,
    value: fn(&Gpu) -> Option<u64>,
}

const POWER: &[Column] = &[
    Column { name: "pwr", unit: "W", value: |gpu| gpu.power.draw.map(|mw| u64::from(mw / 1000)) },
    Column { name: "gtemp", unit: "C", value: |gpu| gpu.temperature.map(u64::from) },
    Column { name: "mtemp", unit: "C", value: |gpu| gpu.memory_temperature.map(u64::from) },
];

const UTILIZATION: &[Column] = &[
    Column { name: "sm", unit: "%", value: |gpu| busy(gpu, gpu.utilization.map(|busy| busy.gpu)) },
    Column { name: "mem", unit: "%", value: |gpu| busy(gpu, gpu.utilization.map(|busy| busy.memory)) },
    Column { name: "enc", unit: "%", value: |gpu| busy(gpu, gpu.readings.engines.encoder) },
    Column { name: "dec", unit: "%", value: |gpu| busy(gpu, gpu.readings.engines.decoder) },
];

/// Drivers before 530 have no columns for them.
const NEWER_ENGINES: &[Column] = &[
    Column { name: "jpg", unit: "%", value: |gpu| busy(gpu, gpu.readings.engines.jpeg) },
    Column { name: "ofa", unit: "%", value: |gpu| busy(gpu, gpu.readings.engines.ofa) },
];

const CLOCKS: &[Column] = &[
    Column { name: "mclk", unit: "MHz", value: |gpu| gpu.clocks.memory.map(u64::from) },
    Column { name: "pclk", unit: "MHz", value: |gpu| gpu.clocks.sm.map(u64::from) },
];

const VIOLATIONS: &[Column] = &[
    Column { name: "pviol", unit: "%", value: |gpu| violates(gpu, 0x4, 100) },
    Column { name: "tviol", unit: "bool", value: |gpu| violates(gpu, 0x60, 1) },
];

const MEMORY: &[Column] = &[
    Column { name: "fb", unit: "MB", value: |gpu| gpu.memory.map(|memory| memory.used) },
    Column { name: "bar1", unit: "MB", value: |gpu| gpu.bar1.map(|memory| memory.used) },
    Column { name: "ccpm", unit: "MB", value: |gpu| gpu.readings.protected.map(|memory| memory.used) },
];

const ERRORS: &[Column] = &[
    Column {
        name: "sbecc",
        unit: "errs",
        value: |gpu| gpu.readings.errors.corrected.volatile.at(Location::Total),
    },
    Column {
        name: "dbecc",
        unit: "errs",
        value: |gpu| gpu.readings.errors.uncorrected.volatile.at(Location::Total),
    },
    Column { name: "pci", unit: "errs", value: |gpu| gpu.readings.link.replays.map(u64::from) },
];

const THROUGHPUT: &[Column] = &[
    Column {
        name: "rxpci",
        unit: "MB/s",
        value: |gpu| gpu.readings.link.received.map(|kb| u64::from(kb / 1000)),
    },
    Column {
        name: "txpci",
        unit: "MB/s",
        value: |gpu| gpu.readings.link.sent.map(|kb| u64::from(kb / 1000)),
    },
];

/// How busy something of the whole GPU is: with MIG on nobody knows.
fn busy(gpu: &Gpu, percent: Option<u32>) -> Option<u64> {
    percent.filter(|_| !gpu.mig_is_on()).map(u64::from)
}

/// Whether one of these reasons holds the clocks down now.
fn violates(gpu: &Gpu, reasons: u64, as_much_as: u64) -> Option<u64> {
    gpu.readings.events.active.map(|mask| if mask & reasons == 0 { 0 } else { as_much_as })
}

fn columns(metrics: &[Metric], driver: Driver) -> impl Iterator<Item = &'static Column> + '_ {
    let newer: &[Column] = if driver.has(Form::R530) { NEWER_ENGINES } else { &[] };
    metrics
        .iter()
        .copied()
        .flat_map(move |metric| match metric {
            Metric::Power => [POWER, &[]],
            Metric::Utilization => [UTILIZATION, newer],
            Metric::Clocks => [CLOCKS, &[]],
            Metric::Violations => [VIOLATIONS, &[]],
            Metric::Memory => [MEMORY, &[]],
            Metric::Errors => [ERRORS, &[]],
            Metric::Throughput => [THROUGHPUT, &[]],
        })
        .flatten()
}

/// How wide a column is.
fn width(driver: Driver) -> usize {
    if driver.has(Form::R530) { 7 } else { 6 }
}

/// What the two lines above a monitor's begin with.
fn corner(stamp: Stamp) -> (String, String) {
    if stamp == Stamp::default() {
        return ("# gpu".to_owned(), "# Idx".to_owned());
    }
    let (mut names, mut units) = ("#".to_owned(), "#".to_owned());
    for (asked, name, unit) in [(stamp.date, "Date", "YYYYMMDD"), (stamp.time, "Time", "HH:MM:SS")] {
        if asked {
            names.push_str(&format!("{name:<11}"));
            units.push_str(&format!("{unit:<11}"));
        }
    }
    (names + " gpu", units + " Idx")
}

/// What a GPU's line begins with: when, where that is asked for, and which GPU.
pub(crate) fn place(stamp: Stamp, now: &Zoned, gpu: u32) -> String {
    let moment: String = [(stamp.date, "%Y%m%d"), (stamp.time, "%H:%M:%S")]
        .iter()
        .filter(|(asked, _)| *asked)
        .map(|(_, format)| format!("{:<11}", now.strftime(format).to_string()))
        .collect();
    format!(" {moment}{gpu:>4}")
}

/// The two lines above `dmon`'s.
pub(crate) fn device_heading(stamp: Stamp, metrics: &[Metric], driver: Driver) -> String {
    let width = width(driver);
    let line = |first: &str, of: fn(&Column) -> &'static str| {
        let cells: String =
            columns(metrics, driver).map(|column| format!("{:>width$}", of(column))).collect();
        format!("{first}{cells} \n")
    };
    let (names, units) = corner(stamp);
    line(&names, |column| column.name) + &line(&units, |column| column.unit)
}

/// One GPU's line.
pub(crate) fn device_line(place: &str, gpu: &Gpu, metrics: &[Metric], driver: Driver) -> String {
    let width = width(driver);
    let cell = |column: &Column| match (column.value)(gpu) {
        Some(value) => format!("{value:>width$}"),
        None => format!("{:>width$}", "-"),
    };
    let cells: String = columns(metrics, driver).map(cell).collect();
    format!("{place}{cells} \n")
}
