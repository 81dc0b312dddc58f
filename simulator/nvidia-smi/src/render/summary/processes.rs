//! The table of processes.

use super::headings::Headings;
use super::{line, row};
use crate::snapshot::{Gpu, Process, ProcessKind};

pub(super) fn table(gpus: &[Gpu], headings: &Headings) -> String {
    let whole = line(&[headings.inner]);
    let mut text = whole.clone();
    text.push_str(&row(&[format!("{:<w$}", " Processes:", w = headings.inner)]));
    for heading in headings.processes {
        text.push_str(heading);
        text.push('\n');
    }
    text.push_str(&format!("|{}|\n", "=".repeat(headings.inner)));
    let mut none = true;
    for gpu in gpus {
        for process in &gpu.processes {
            none = false;
            text.push_str(&row(&[cells(gpu.index, process, headings)]));
        }
    }
    if none {
        text.push_str(&row(&[format!("{:<w$}", "  No running processes found", w = headings.inner)]));
    }
    text.push_str(&whole);
    text
}

fn cells(gpu: u32, process: &Process, headings: &Headings) -> String {
    let Process { pid, kind, name, memory, instance } = process;
    let place = match instance {
        Some((gi, ci)) => format!("{gi:>5} {ci:>4} "),
        None => "   N/A  N/A".to_owned(),
    };
    let kind = match kind {
        ProcessKind::Compute => "C",
        ProcessKind::Graphics => "G",
        ProcessKind::Both => "C+G",
    };
    let memory = memory.map_or_else(|| "N/A     ".to_owned(), |mib| format!("{mib}MiB"));
    let name = tail(name, headings.process_name);
    let width = headings.inner - 16 - headings.pid - 7 - 3 - 11;
    format!("{gpu:>5}{place}{pid:>p$}{kind:>7}   {name:<width$}{memory:>10} ", p = headings.pid)
}

/// The end of a name that is too long, after three dots.
fn tail(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length + 3 - width).collect();
    format!("...{kept}")
}
