//! The table of MIG devices. Up to driver 575 those of one GPU instance share a
//! cell for their memory.

use super::headings::Headings;
use super::{line, row};
use crate::snapshot::{Attributes, Gpu, Memory, MigDevice};

pub(super) fn table(gpus: &[Gpu], headings: &Headings) -> String {
    let under = line(&headings.mig_columns);
    let whole = line(&[headings.inner]);
    let mut text = whole.clone();
    text.push_str(&row(&[format!("{:<w$}", " MIG devices:", w = headings.inner)]));
    text.push_str(&under);
    for heading in headings.mig {
        text.push_str(heading);
        text.push('\n');
    }
    text.push_str(&under.replace('-', "=").replacen('+', "|", 1).replace("+\n", "|\n"));
    let devices: Vec<_> =
        gpus.iter().flat_map(|gpu| gpu.devices.iter().map(move |device| (gpu.index, device))).collect();
    if devices.is_empty() {
        text.push_str(&row(&[format!("{:<w$}", "  No MIG devices found", w = headings.inner)]));
        text.push_str(&whole);
        return text;
    }
    let place = |at: usize| devices.get(at).map(|(gpu, device)| (*gpu, device.gpu_instance));
    let shares = |at: usize| headings.shares_cells && place(at + 1) == place(at);
    for (at, (gpu, device)) in devices.iter().enumerate() {
        let first = at == 0 || !shares(at - 1);
        text.push_str(&rows(*gpu, device, first, headings));
        text.push_str(&if shares(at) { open_line(&headings.mig_columns) } else { under.clone() });
    }
    text
}

fn rows(gpu: u32, device: &MigDevice, first: bool, headings: &Headings) -> String {
    let [place, memory, errors, engines] = headings.mig_columns;
    let MigDevice {
        index,
        gpu_instance,
        compute_instance,
        profile: _,
        uuid: _,
        memory: own,
        bar1,
        attributes,
        uncorrected,
    } = device;
    let (own, bar1) = if first { (*own, *bar1) } else { (None, None) };
    let (after_memory, after_bar1) = headings.after_memory;
    let Attributes { multiprocessors, engines: has } = attributes.unwrap_or_default();
    let uncorrected = uncorrected.map_or_else(|| "N/A".to_owned(), |count| count.to_string());
    let mut text = row(&[
        format!("{gpu:>3} {gpu_instance:>4} {compute_instance:>3} {index:>3}  "),
        usage(own, memory, after_memory),
        format!("{multiprocessors:>3}{uncorrected:>7} "),
        format!("{:>3}{:>4}{:>5}{:>5}{:>5} ", has.copy, has.encoder, has.decoder, has.ofa, has.jpeg),
    ]);
    text.push_str(&row(&[
        " ".repeat(place),
        usage(bar1, memory, after_bar1),
        " ".repeat(errors),
        " ".repeat(engines),
    ]));
    text
}

fn usage(memory: Option<Memory>, width: usize, after: usize) -> String {
    let Some(Memory { total, used, free: _, reserved: _ }) = memory else { return " ".repeat(width) };
    format!("{:>w$}{}", format!("{used}MiB / {total:>5}MiB"), " ".repeat(after), w = width - after)
}

/// The line between devices of one GPU instance, which leaves the memory open.
fn open_line(widths: &[usize; 4]) -> String {
    let [place, memory, errors, engines] = widths.map(|width| "-".repeat(width));
    format!("+{place}+{}+{errors}+{engines}+\n", " ".repeat(memory.len()))
}
