//! The output for people: a table of the GPUs, and for each partitioned GPU its picture and its slices.

use std::io::{self, Write};

use nvml::port::{Engines, Gpu, Layout, MigMode, Process, Profile, Slice, geometry};

use super::{Machine, Seen};
use crate::draw::{self, Colour, Mark};
use crate::exit::chain;
use crate::table::table;

pub(super) fn print(
    machine: &Machine,
    with_profiles: bool,
    colour: Colour,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Machine { found, gpus } = machine;
    if gpus.is_empty() && found.silent.is_empty() {
        return writeln!(out, "driver {}; there is no GPU on this machine", found.driver);
    }
    writeln!(out, "driver {}", found.driver)?;
    overview(gpus, out)?;
    for silent in &found.silent {
        writeln!(out, "GPU {} does not answer: {}", silent.index, chain(&silent.error))?;
    }
    for seen in gpus {
        cut(seen, colour, out)?;
        if with_profiles {
            profiles(seen, out)?;
        }
        differences(seen, with_profiles, out)?;
    }
    Ok(())
}

fn overview(gpus: &[Seen], out: &mut dyn Write) -> io::Result<()> {
    if gpus.is_empty() {
        return Ok(());
    }
    let header = ["GPU", "NAME", "MiB", "MIG", "SLICES", "BUS", "UUID"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Seen { gpu, layout, .. } in gpus {
        let Gpu { index, uuid, name, bus_id, memory_mib, mode } = gpu;
        let on = mode.is_some();
        let slices = match layout {
            Ok(layout) if on => layout.slices.len().to_string(),
            Ok(_) => String::new(),
            Err(_) => "?".to_owned(),
        };
        let mig = mode.map_or_else(|| "not possible".to_owned(), in_words);
        rows.push(vec![
            index.to_string(),
            name.clone(),
            memory_mib.to_string(),
            mig,
            slices,
            bus_id.clone(),
            uuid.to_string(),
        ]);
    }
    table(&rows, out)
}

fn in_words(mode: MigMode) -> String {
    let MigMode { current, pending } = mode;
    if current == pending { current.to_string() } else { format!("{current}, {pending} after a reset") }
}

/// One GPU with MIG on: its picture and its slices.
fn cut(seen: &Seen, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    let Seen { gpu, model: _, profiles, layout, differences: _ } = seen;
    let layout = match layout {
        Ok(layout) => layout,
        Err(error) => return writeln!(out, "\nGPU {}: {}", gpu.index, chain(error)),
    };
    if gpu.mode.is_none_or(|mode| mode.current == nvml::port::Mode::Disabled) {
        return Ok(());
    }
    writeln!(out, "\nGPU {}", gpu.index)?;
    let grid = profiles.as_ref().ok().and_then(|profiles| geometry(profiles)).map(|grid| grid.memory());
    let drawn: Option<Vec<_>> = layout.slices.iter().map(|slice| picture(slice, layout)).collect();
    if let (Some(memory), Some(slices)) = (grid, drawn) {
        writeln!(out, "  {}", draw::ruler(memory, colour))?;
        writeln!(out, "  {}", draw::gpu(memory, &slices, colour))?;
    }
    if !layout.slices.is_empty() {
        slices(layout, out)?;
    }
    if layout.slices.iter().any(|slice| slice.span.is_none()) {
        writeln!(out, "  only root can see the positions of slices")?;
    }
    Ok(())
}

/// A slice in a picture; `None` where its place or its kind of name is not known.
fn picture(slice: &Slice, layout: &Layout) -> Option<draw::Slice> {
    let span = slice.span?;
    let mark = match layout.processes {
        None => Mark::MaybeInUse,
        Some(_) if layout.on(slice).next().is_some() => Mark::InUse,
        Some(_) => Mark::Idle,
    };
    Some(draw::Slice { name: slice.profile.parse().ok()?, start: span.start, size: span.size, mark })
}

fn slices(layout: &Layout, out: &mut dyn Write) -> io::Result<()> {
    let header = ["SLICE", "INSTANCE", "DEVICE", "USED BY"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for slice in &layout.slices {
        let name = slice.place().map_or_else(|| slice.profile.clone(), |place| place.to_string());
        let used = |compute: Option<u32>| {
            let here = |p: &&Process| compute.is_none() || p.instance.map(|(_, ci)| ci) == compute;
            match layout.processes {
                None => "not told".to_owned(),
                Some(_) => layout.on(slice).filter(here).map(person).collect::<Vec<_>>().join(", "),
            }
        };
        if slice.devices.is_empty() {
            let device = "none: it has no compute instance, so nothing can use it".to_owned();
            rows.push(vec![name.clone(), slice.gpu_instance.to_string(), device, used(None)]);
        }
        for device in &slice.devices {
            let instance = match slice.is_whole() {
                true => slice.gpu_instance.to_string(),
                false => format!("{}/{}", slice.gpu_instance, device.compute_instance),
            };
            rows.push(vec![name.clone(), instance, device.uuid.clone(), used(Some(device.compute_instance))]);
        }
    }
    table(&rows, out)
}

fn person(process: &Process) -> String {
    let Process { pid, name, memory_mib, instance: _ } = process;
    let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let memory = memory_mib.map(|mib| format!(" ({mib} MiB)")).unwrap_or_default();
    format!("{pid}{name}{memory}")
}

fn profiles(seen: &Seen, out: &mut dyn Write) -> io::Result<()> {
    let index = seen.gpu.index;
    let profiles = match &seen.profiles {
        Ok(profiles) => profiles,
        Err(error) => return writeln!(out, "\nGPU {index}: {}", chain(error)),
    };
    if profiles.is_empty() {
        let why = match seen.gpu.mode {
            None => "it cannot be cut",
            Some(_) => "its driver names no profiles while MIG is off",
        };
        return writeln!(out, "\nGPU {index}: {why}");
    }
    let header = [
        "PROFILE", "ID", "MAX", "SLICES", "UNITS", "MiB", "SMs", "CE", "DEC", "ENC", "JPEG", "OFA", "STARTS",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(profiles.iter().map(row));
    writeln!(out, "\nProfiles of GPU {index}")?;
    table(&rows, out)
}

fn row(profile: &Profile) -> Vec<String> {
    let Profile { name, id, number: _, slices, max_instances, multiprocessors, memory_mib, engines, places } =
        profile;
    let Engines { copy, decoder, encoder, jpeg, ofa } = engines;
    let starts: Vec<String> = places.iter().map(|span| span.start.to_string()).collect();
    let mut row = vec![name.clone()];
    row.extend([id, max_instances].map(u32::to_string));
    row.push(slices.to_string());
    row.push(places.first().map_or_else(|| "?".to_owned(), |span| span.size.to_string()));
    row.push(memory_mib.to_string());
    row.extend([multiprocessors, copy, decoder, encoder, jpeg, ofa].map(u32::to_string));
    row.push(if starts.is_empty() { "?".to_owned() } else { starts.join(",") });
    row
}

/// Where our table is wrong, or this driver says what nobody has seen.
fn differences(seen: &Seen, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some(model) = seen.model.filter(|_| !seen.differences.is_empty()) else { return Ok(()) };
    let (index, count, id) = (seen.gpu.index, seen.differences.len(), &model.id);
    let values = if count == 1 { "value" } else { "values" };
    if !all {
        return writeln!(
            out,
            "\nGPU {index}: {count} {values} of Slicewright's table of {id} differ from the driver's: `slicewright gpus --profiles` shows them"
        );
    }
    writeln!(
        out,
        "\nGPU {index}: {count} {values} of Slicewright's table of {id} differ from the driver's; please report them"
    )?;
    for difference in &seen.differences {
        writeln!(out, "  {difference}")?;
    }
    Ok(())
}
