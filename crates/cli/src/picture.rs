//! A fleet as pictures: each node, each GPU, each slice.

use std::fmt::Write;

use planner::inventory::{Gpu, Inventory, Node, Slices, Use};
use planner::names::NodeName;

use crate::draw::{self, Colour, Mark, Slice};

/// Draws all nodes. GPUs of which only numbers are known are drawn with their
/// slices in a row, and say so.
#[must_use]
pub fn fleet(inventory: &Inventory, colour: Colour) -> String {
    let mut text = String::new();
    for (name, node) in &inventory.nodes {
        text.push_str(&heading(name, node));
        for (index, gpu) in &node.gpus {
            let _ = writeln!(text, "  gpu{index:<3} {:<12} {}", gpu.model, picture(gpu, colour));
        }
    }
    if inventory.nodes.is_empty() {
        text.push_str("there is no node with GPUs that can be cut\n");
    }
    text
}

fn heading(name: &NodeName, node: &Node) -> String {
    let mut text = format!("{name}");
    if !node.schedulable {
        text.push_str("  not schedulable");
    }
    if let Some(hold) = &node.hold {
        let _ = write!(text, "  held: {hold}");
    }
    text.push('\n');
    text
}

fn mark(used: &Use) -> Mark {
    match used {
        Use::Idle => Mark::Idle,
        Use::InUse { .. } => Mark::InUse,
        Use::MaybeInUse { .. } => Mark::MaybeInUse,
    }
}

/// One GPU, and what is not seen in its picture.
#[must_use]
pub fn picture(gpu: &Gpu, colour: Colour) -> String {
    let size = |profile| gpu.geometry.profile_named(profile).map_or(1, |p| gpu.geometry.profile(p).size);
    let memory = gpu.geometry.memory();
    match &gpu.slices {
        Slices::MigOff { used } => {
            let state = if used.is_idle() { "idle" } else { "in use" };
            format!("MIG is off ({state})")
        }
        Slices::Placed(slices) => {
            let slices: Vec<Slice> = slices
                .iter()
                .map(|s| Slice {
                    name: s.profile,
                    start: s.start,
                    size: size(s.profile),
                    mark: mark(&s.used),
                })
                .collect();
            draw::gpu(memory, &slices, colour)
        }
        Slices::Counted(slices) => {
            let counts =
                slices.iter().filter_map(|s| gpu.geometry.profile_named(s.profile)).map(|p| (p, 1)).collect();
            // One of the layouts that it may have: which one is not known.
            let Ok(fit) = mig::fit(&gpu.geometry, &counts) else {
                return format!("{} (where is not known)", gpu.slices);
            };
            let mut left: Vec<_> = slices.iter().collect();
            let drawn: Vec<Slice> = fit
                .layout
                .iter()
                .map(|placement| {
                    let (name, _) = gpu.geometry.describe(placement);
                    let position = left.iter().position(|s| s.profile == name);
                    let used = position.map(|position| mark(&left.remove(position).used));
                    draw::slice(&gpu.geometry, placement, used.unwrap_or_default())
                })
                .collect();
            format!("{} where is not known", draw::gpu(memory, &drawn, colour))
        }
    }
}
