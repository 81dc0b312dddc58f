//! A node as lines of columns.

use std::io::Write;

use gpu::{Activity, EccErrors, Gpu};
use store::State;

use super::mode;
use crate::node::fault_words::{behaviour, describe, times};
use crate::node::place;

pub(super) fn write(state: &State, files: Option<bool>, out: &mut dyn Write) -> std::io::Result<()> {
    let machine = &state.machine;
    writeln!(out, "{}: driver {}, boot {}", machine.host(), state.driver_version, machine.boots())?;
    writeln!(out)?;
    let mut rows = vec![["GPU", "MODEL", "MIG", "SLICES", "STATE"].map(str::to_owned)];
    for (index, gpu) in machine.gpus().iter().enumerate() {
        rows.push([
            index.to_string(),
            gpu.model.name.clone(),
            mode(gpu).to_owned(),
            slices(gpu),
            health(gpu),
        ]);
    }
    columns(&rows, out)?;
    clients(state, out)?;
    faults(state, out)?;
    if let Some(root) = &state.files {
        let how = match files {
            Some(true) => "up to date",
            Some(false) => "behind",
            None => "not to be seen from here",
        };
        writeln!(out, "\nfiles: {} ({how})", root.display())?;
    }
    Ok(())
}

/// `7:3g.40gb@0, 13:1g.10gb@6`; one without a compute instance says so.
fn slices(gpu: &Gpu) -> String {
    let slice = |gi: &gpu::GpuInstance| {
        let compute = match gi.compute.len() {
            0 => " (no compute instance)".to_owned(),
            1 => String::new(),
            n => format!(" ({n} compute instances)"),
        };
        format!("{}:{}@{}{compute}", gi.id, gpu.profile_of(gi).name, gpu.span_of(gi).0)
    };
    let slices: Vec<String> = gpu.instances.values().map(slice).collect();
    if slices.is_empty() { "-".to_owned() } else { slices.join(", ") }
}

fn health(gpu: &Gpu) -> String {
    let EccErrors { corrected, uncorrected, corrected_ever: _, uncorrected_ever: _ } = gpu.ecc;
    let mut words = Vec::new();
    if gpu.lost {
        words.push("fell off the bus".to_owned());
    }
    if let Some(xid) = gpu.last_xid {
        words.push(format!("Xid {xid}"));
    }
    if (corrected, uncorrected) != (0, 0) {
        words.push(format!("{corrected} corrected and {uncorrected} uncorrected ECC errors"));
    }
    if words.is_empty() { "ok".to_owned() } else { words.join(", ") }
}

fn clients(state: &State, out: &mut dyn Write) -> std::io::Result<()> {
    let mut rows = vec![["CLIENT", "PID", "NAME", "ON", "MEMORY", "DOES", "UNTIL"].map(str::to_owned)];
    for (id, client) in state.machine.clients() {
        let does = match client.activity {
            Activity::Computes => "computes",
            Activity::Idles => "idles",
            Activity::Watches => "watches",
        };
        let until = if state.processes.contains_key(&id) { "its process ends" } else { "it is ended" };
        rows.push([
            id.0.to_string(),
            client.pid.to_string(),
            client.name.clone(),
            place::name(client.target),
            format!("{} MiB", client.memory_mib),
            does.to_owned(),
            until.to_owned(),
        ]);
    }
    if rows.len() > 1 {
        writeln!(out)?;
        columns(&rows, out)?;
    }
    Ok(())
}

fn faults(state: &State, out: &mut dyn Write) -> std::io::Result<()> {
    let mut rows = vec![["FAULT", "GPU", "HOW", "HOW OFTEN", "FROM"].map(str::to_owned)];
    let on = |gpu: Option<u16>| gpu.map_or_else(|| "any".to_owned(), |gpu| gpu.to_string());
    let now = || "now".to_owned();
    for fault in &state.functions {
        let from =
            fault.from.filter(|from| *from > store::now()).map_or_else(now, |from| format!("{from:.0}"));
        rows.push([
            fault.function.clone(),
            on(fault.gpu),
            behaviour(fault.behaviour),
            times(fault.times),
            from,
        ]);
    }
    let armed = state.machine.armed().map(|fault| (fault, now()));
    let later = state.machine.scheduled().iter().map(|s| (s.fault.clone(), format!("{:.0}", s.at)));
    for (fault, from) in armed.chain(later) {
        let (what, gpu, how, often) = describe(&fault);
        rows.push([what, on(gpu), how, often, from]);
    }
    if rows.len() > 1 {
        writeln!(out)?;
        columns(&rows, out)?;
    }
    Ok(())
}

/// Columns as wide as their widest cell, two blanks apart.
fn columns<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> std::io::Result<()> {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        writeln!(out, "{}", cells.collect::<String>().trim_end())?;
    }
    Ok(())
}
