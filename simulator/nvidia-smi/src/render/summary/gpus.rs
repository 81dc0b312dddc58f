//! The table of GPUs.

use super::headings::Headings;
use super::{line, row};
use crate::snapshot::{ComputeMode, Gpu, Memory, System};

pub(super) fn table(system: &System, gpus: &[Gpu], headings: &Headings) -> String {
    let System { driver, nvml: _, cuda } = system;
    let (smi, version) = headings.versions;
    let cuda = cuda.as_deref().unwrap_or("N/A");
    let under = line(&headings.columns);
    let mut text = line(&[headings.inner]);
    text.push_str(&row(&[format!(
        " NVIDIA-SMI {driver:<smi$}Driver Version: {driver:<version$}CUDA Version: {cuda:<9}"
    )]));
    text.push_str(&under.replacen('+', headings.joint, 1));
    for heading in headings.gpus {
        text.push_str(heading);
        text.push('\n');
    }
    text.push_str(&under.replace('-', "=").replacen('+', "|", 1).replace("+\n", "|\n"));
    for gpu in gpus {
        text.push_str(&rows(gpu, headings));
        text.push_str(&under);
    }
    text
}

fn rows(gpu: &Gpu, headings: &Headings) -> String {
    let [first, second, _] = headings.columns;
    let (name_width, after) = (headings.name, headings.after_persistence);
    let between = first - 6 - name_width - 3 - after;
    let name = shortened(&gpu.name, name_width);
    let persistence = on_off(gpu.persistence);
    let display = on_off(gpu.display_active);
    let mut text = row(&[
        format!(
            "{:>4}  {name:<name_width$}{}{persistence:<3}{}",
            gpu.index,
            " ".repeat(between),
            " ".repeat(after)
        ),
        format!("{:>w$} {display:<3} ", gpu.pci.id, w = second - 5),
        format!("{:>21} ", errors(gpu)),
    ]);
    let fan = gpu.fan.map_or_else(|| "N/A".to_owned(), |percent| format!("{percent}%"));
    let temperature = gpu.temperature.map_or_else(|| "N/A".to_owned(), |celsius| format!("{celsius}C"));
    let performance = gpu.performance.map_or_else(|| "N/A".to_owned(), |state| format!("P{state}"));
    let wide = second > 22;
    let power = power(gpu, if wide { 4 } else { 3 });
    text.push_str(&row(&[
        format!(" {fan:>3}  {temperature:>4}    {performance:<4}{power:>w$} ", w = first - 19),
        memory(gpu.memory, if wide { (8, 6) } else { (7, 5) }),
        format!("{:>8}{:>13} ", utilization(gpu), compute_mode(gpu.compute_mode)),
    ]));
    text.push_str(&row(&[" ".repeat(first), " ".repeat(second), format!("{:>21} ", mig_mode(gpu))]));
    text
}

/// A name that fits, the rest of it as dots.
fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width - 3).collect();
    format!("{kept}...")
}

fn on_off(state: Option<bool>) -> &'static str {
    match state {
        Some(true) => "On",
        Some(false) => "Off",
        None => "N/A",
    }
}

/// Uncorrected errors; with MIG on only whether they are counted, since each
/// MIG device has its own.
fn errors(gpu: &Gpu) -> String {
    match gpu.ecc {
        None => "N/A".to_owned(),
        Some(ecc) if !ecc.current => "Off".to_owned(),
        Some(_) if gpu.mig_is_on() => "On".to_owned(),
        Some(ecc) => ecc.uncorrected.map_or_else(|| "N/A".to_owned(), |count| count.to_string()),
    }
}

fn power(gpu: &Gpu, cap: usize) -> String {
    let watts = |milliwatts: Option<u32>| {
        milliwatts.map_or_else(|| "N/A ".to_owned(), |milliwatts| format!("{}W", milliwatts / 1000))
    };
    format!("{} / {:>w$}", watts(gpu.power.draw), watts(gpu.power.limit), w = cap + 1)
}

fn memory(memory: Option<Memory>, (used_width, total_width): (usize, usize)) -> String {
    match memory {
        Some(Memory { total, used, free: _, reserved: _ }) => {
            format!("{used:>used_width$}MiB / {total:>total_width$}MiB ")
        }
        None => format!("{:>w$}   ", "N/A", w = used_width + total_width + 7),
    }
}

fn utilization(gpu: &Gpu) -> String {
    match gpu.utilization.filter(|_| !gpu.mig_is_on()) {
        Some(utilization) => format!("{}%", utilization.gpu),
        None => "N/A".to_owned(),
    }
}

fn compute_mode(mode: Option<ComputeMode>) -> &'static str {
    match mode {
        Some(ComputeMode::Default) => "Default",
        Some(ComputeMode::Prohibited) => "Prohibited",
        Some(ComputeMode::ExclusiveProcess) => "E. Process",
        None => "N/A",
    }
}

/// The mode that is set; a star says that it is not in force yet.
fn mig_mode(gpu: &Gpu) -> &'static str {
    match gpu.mig.map(|mode| (mode.pending, mode.pending == mode.current)) {
        Some((true, true)) => "Enabled",
        Some((true, false)) => "Enabled*",
        Some((false, true)) => "Disabled",
        Some((false, false)) => "Disabled*",
        None => "N/A",
    }
}
