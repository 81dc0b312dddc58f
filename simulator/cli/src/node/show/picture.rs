//! A node as a picture: each GPU's memory units, and the slices on them.

use std::io::Write;

use gpu::{Gpu, Target};
use store::State;

use super::mode;

/// How wide a memory unit is, so that the name of the smallest slice fits.
const UNIT: usize = 10;

pub(super) fn write(state: &State, out: &mut dyn Write) -> std::io::Result<()> {
    for (index, gpu) in (0u16..).zip(state.machine.gpus()) {
        let lost = if gpu.lost { ", fell off the bus" } else { "" };
        writeln!(out, "gpu {index}  {}  MIG {}{lost}", gpu.model.name, mode(gpu))?;
        if gpu.mig_is_on() {
            writeln!(out, "  {}", units(index, gpu, state))?;
        }
    }
    writeln!(out, "\n. free   # open by a client")?;
    Ok(())
}

fn units(index: u16, gpu: &Gpu, state: &State) -> String {
    let memory = gpu.geometry().map_or(0, |geometry| geometry.memory());
    let mut text = "|".to_owned();
    let mut unit = 0;
    while unit < memory {
        let Some(gi) = gpu.instances.values().find(|gi| gpu.span_of(gi).0 == unit) else {
            text.push_str(&format!("{:.<1$}|", "", UNIT - 1));
            unit += 1;
            continue;
        };
        let open = state.machine.clients().any(|(_, client)| match client.target {
            Target::Gpu(_) => false,
            Target::GpuInstance(g, i) | Target::ComputeInstance(g, i, _) => (g, i) == (index, gi.id),
        });
        let size = gpu.span_of(gi).1;
        let width = UNIT * usize::from(size) - 1;
        let name = format!("{}{}", gpu.profile_of(gi).name, if open { "#" } else { "" });
        text.push_str(&format!("{name:<width$.width$}|"));
        unit += size;
    }
    text
}
