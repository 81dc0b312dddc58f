//! nvidia-smi without arguments: the GPUs, their MIG devices, the processes.

mod gpus;
mod headings;
mod mig_devices;
mod processes;
#[cfg(test)]
mod tests;

use crate::generation::Driver;
use crate::snapshot::{Gpu, System};

use headings::Headings;

/// The tables, under a time such as `Thu Nov 21 07:12:15 2024`.
pub(crate) fn summary(time: &str, system: &System, gpus: &[Gpu]) -> String {
    let headings = Headings::for_driver(Driver::from_version(&system.driver));
    let mut text = format!("{time:<31}\n");
    text.push_str(&gpus::table(system, gpus, &headings));
    if gpus.iter().any(Gpu::mig_is_on) {
        text.push('\n');
        text.push_str(&mig_devices::table(gpus, &headings));
    }
    text.push_str(&" ".repeat(headings.gap));
    text.push('\n');
    text.push_str(&processes::table(gpus, &headings));
    text
}

/// `|` and a cell for each column.
fn row(cells: &[String]) -> String {
    format!("|{}|\n", cells.join("|"))
}

/// A line under columns of these widths.
fn line(widths: &[usize]) -> String {
    let dashes: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
    format!("+{}+\n", dashes.join("+"))
}
