//! `dmon`: one line for each GPU and sample; `pmon`: one for each process.

mod processes;
#[cfg(test)]
mod tests;

use jiff::Zoned;

use crate::arguments::{Form as Layout, Metric, Stamp};
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

/// How `dmon` prints.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) stamp: Stamp,
    pub(crate) form: Layout,
    pub(crate) driver: Driver,
}

/// How wide a column is.
fn width(driver: Driver) -> usize {
    if driver.has(Form::R530) { 7 } else { 6 }
}

/// How wide date and time are: seen is one with 535, and the other with 580.159.04.
fn width_of_moment(driver: Driver) -> usize {
    if driver.has(Form::R580) { 12 } else { 11 }
}

/// What the two lines above a monitor's begin with.
fn corner(stamp: Stamp, driver: Driver) -> (String, String) {
    let width = width_of_moment(driver);
    if stamp == Stamp::default() {
        return ("# gpu".to_owned(), "# Idx".to_owned());
    }
    let (mut names, mut units) = ("#".to_owned(), "#".to_owned());
    for (asked, name, unit) in [(stamp.date, "Date", "YYYYMMDD"), (stamp.time, "Time", "HH:MM:SS")] {
        if asked {
            names.push_str(&format!("{name:<width$}"));
            units.push_str(&format!("{unit:<width$}"));
        }
    }
    (names + " gpu", units + " Idx")
}

/// What a GPU's line begins with: when, where that is asked for, and which GPU.
pub(crate) fn place(stamp: Stamp, driver: Driver, now: &Zoned, gpu: u32) -> String {
    let width = width_of_moment(driver);
    let moment: String = [(stamp.date, "%Y%m%d"), (stamp.time, "%H:%M:%S")]
        .iter()
        .filter(|(asked, _)| *asked)
        .map(|(_, format)| format!("{:<width$}", now.strftime(format).to_string()))
        .collect();
    format!(" {moment}{gpu:>4}")
}

/// What stands before the columns: names, units, or the values of a GPU at a moment.
type Leading<'a> = Vec<(bool, &'a str)>;

/// The lines above `dmon`'s: two, unless somebody wants fewer.
pub(crate) fn device_heading(shape: Shape, metrics: &[Metric]) -> String {
    let Shape { stamp, form, driver } = shape;
    let width = width(driver);
    let line = |first: &str, leading: Leading<'_>, of: fn(&Column) -> &'static str| {
        let cells = columns(metrics, driver).map(of);
        if form.csv {
            let leading = leading.into_iter().filter(|(asked, _)| *asked).map(|(_, word)| word);
            return format!("#{}\n", leading.chain(cells).collect::<Vec<_>>().join(", "));
        }
        let cells: String = cells.map(|cell| format!("{cell:>width$}")).collect();
        format!("{first}{cells} \n")
    };
    let (names, units) = corner(stamp, driver);
    let mut text = String::new();
    if form.names {
        let leading = vec![(stamp.date, "Date"), (stamp.time, "Time"), (true, "gpu")];
        text += &line(&names, leading, |column| column.name);
    }
    if form.units {
        let leading = vec![(stamp.date, "YYYYMMDD"), (stamp.time, "HH:MM:SS"), (true, "Idx")];
        text += &line(&units, leading, |column| column.unit);
    }
    text
}

/// One GPU's line.
pub(crate) fn device_line(shape: Shape, now: &Zoned, gpu: &Gpu, metrics: &[Metric]) -> String {
    let Shape { stamp, form, driver } = shape;
    let value =
        |column: &Column| (column.value)(gpu).map_or_else(|| "-".to_owned(), |value| value.to_string());
    let cells = columns(metrics, driver).map(value);
    if form.csv {
        let moment = [(stamp.date, "%Y%m%d"), (stamp.time, "%H:%M:%S")];
        let moment = moment.iter().filter(|(asked, _)| *asked);
        let moment = moment.map(|(_, format)| now.strftime(format).to_string());
        let cells: Vec<_> = moment.chain([gpu.index.to_string()]).chain(cells).collect();
        return format!(" {}\n", cells.join(", "));
    }
    let width = width(driver);
    let cells: String = cells.map(|cell| format!("{cell:>width$}")).collect();
    format!("{}{cells} \n", place(stamp, driver, now, gpu.index))
}
