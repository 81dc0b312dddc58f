//! A fleet as pictures: each node, each GPU, each slice.

use std::collections::BTreeMap;
use std::fmt::Write;

use mig::ProfileName;
use planner::inventory::{Gpu, Hold, Inventory, Node, Slices, Use};
use planner::names::NodeName;
use serde::Serialize;

use crate::draw::{self, Colour, Mark, Slice};
use crate::shared;

/// Draws all nodes. GPUs of which only numbers are known are drawn with their
/// slices in a row, and say so.
#[must_use]
pub fn fleet(inventory: &Inventory, colour: Colour) -> String {
    let mut text = String::new();
    let nodes = nodes(inventory);
    for (name, node) in &nodes {
        text.push_str(&heading(name, node));
        for (index, gpu) in &node.gpus {
            let _ = writeln!(text, "  gpu{index:<3} {:<12} {}", gpu.model, on_node(node, gpu, colour));
        }
        for seats in seats(inventory, name) {
            let _ = writeln!(text, "  seats  {seats}");
        }
    }
    if nodes.is_empty() {
        text.push_str("there is no node with GPUs that can be partitioned\n");
    }
    text
}

/// The seats of a node, a line each: of its GPUs, if they are not cut, and of slices that several pods share.
#[must_use]
pub fn seats(inventory: &Inventory, name: &NodeName) -> Vec<String> {
    let gpus = inventory.seating.get(name).map(ToString::to_string);
    let slices = inventory.nodes.get(name).map(shared::of_node).unwrap_or_default();
    gpus.into_iter().chain(slices.iter().map(ToString::to_string)).collect()
}

/// All nodes, those too of which no GPU is cut.
#[must_use]
pub fn nodes(inventory: &Inventory) -> BTreeMap<&NodeName, &Node> {
    let uncut = inventory.seating.iter().map(|(name, seating)| (name, &seating.node));
    uncut.chain(&inventory.nodes).collect()
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

/// The slices of a GPU as they are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The slices, by where they start.
    pub slices: Vec<Slice>,
    /// Whether they are there, or might be anywhere and are only known in number.
    pub placed: bool,
}

/// The slices of a GPU; none where there is nothing that could be drawn.
#[must_use]
pub fn drawn(gpu: &Gpu) -> Option<Drawn> {
    let size = |profile| gpu.geometry.profile_named(profile).map_or(1, |p| gpu.geometry.profile(p).size);
    match &gpu.slices {
        Slices::MigOff { .. } => None,
        Slices::Placed(slices) => {
            let mut slices: Vec<Slice> = slices
                .iter()
                .map(|s| Slice {
                    name: s.profile,
                    start: s.start,
                    size: size(s.profile),
                    mark: mark(&s.used),
                })
                .collect();
            slices.sort_by_key(|slice| slice.start);
            Some(Drawn { slices, placed: true })
        }
        Slices::Counted(slices) => {
            let counts =
                slices.iter().filter_map(|s| gpu.geometry.profile_named(s.profile)).map(|p| (p, 1)).collect();
            // One of the layouts that it may have: which one is not known.
            let fit = mig::fit(&gpu.geometry, &counts).ok()?;
            let mut left: Vec<_> = slices.iter().collect();
            let slices: Vec<Slice> = fit
                .layout
                .iter()
                .map(|placement| {
                    let (name, _) = gpu.geometry.describe(placement);
                    let position = left.iter().position(|s| s.profile == name);
                    let used = position.map(|position| mark(&left.remove(position).used));
                    draw::slice(&gpu.geometry, placement, used.unwrap_or_default())
                })
                .collect();
            Some(Drawn { slices, placed: false })
        }
    }
}

/// One GPU of a node. Without any slice on a node whose layout is not known, free units would say that nothing is
/// there.
#[must_use]
pub fn on_node(node: &Node, gpu: &Gpu, colour: Colour) -> String {
    let nothing = matches!(&gpu.slices, Slices::Counted(slices) if slices.is_empty());
    match &node.hold {
        Some(Hold::NotEstablished { .. }) if nothing => "its slices are not known".to_owned(),
        _ => picture(gpu, colour),
    }
}

/// One GPU, and what is not seen in its picture.
#[must_use]
pub fn picture(gpu: &Gpu, colour: Colour) -> String {
    let memory = gpu.geometry.memory();
    match (&gpu.slices, drawn(gpu)) {
        (Slices::MigOff { used }, _) => {
            let state = if used.is_idle() { "idle" } else { "in use" };
            format!("MIG is off ({state})")
        }
        (_, None) => format!("{} (positions unknown)", gpu.slices),
        (_, Some(Drawn { slices, placed: true })) => draw::gpu(memory, &slices, colour),
        (_, Some(Drawn { slices, placed: false })) => {
            format!("{} positions unknown", draw::gpu(memory, &slices, colour))
        }
    }
}

/// What a GPU is on which MIG is switched off.
pub(crate) const WHOLE: &str = "MIG is off: the GPU is whole";

/// A GPU before and after a change, each slice with what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bars {
    /// How many memory units it has.
    pub memory: u8,
    /// What it has; absent where MIG is off, or nobody knows what it has.
    pub before: Option<Vec<Slice>>,
    /// What it gets; nothing where MIG is switched off.
    pub after: Vec<Slice>,
    /// Whether it is known where the slices that it has are.
    pub placed: bool,
}

/// The bars of a GPU that gets these slices, at these starts. What it has
/// already stays; where only numbers are known, as many of a profile as there
/// are before and after.
#[must_use]
pub fn bars(gpu: &Gpu, after: &[(ProfileName, u8)]) -> Bars {
    let size = |profile| gpu.geometry.profile_named(profile).map_or(1, |p| gpu.geometry.profile(p).size);
    let now = drawn(gpu);
    let placed = now.as_ref().is_some_and(|now| now.placed);
    let mut before = now.map(|now| now.slices);
    let mut stays: Vec<Option<Mark>> = vec![None; before.as_ref().map_or(0, Vec::len)];
    let mut then: Vec<Slice> = after
        .iter()
        .map(|(name, start)| Slice { name: *name, start: *start, size: size(*name), mark: Mark::Created })
        .collect();
    then.sort_by_key(|slice| slice.start);
    for slice in &mut then {
        let slices = before.iter().flatten().enumerate();
        let same = slices
            .filter(|(at, _)| stays[*at].is_none())
            .find(|(_, had)| had.name == slice.name && (!placed || had.start == slice.start))
            .map(|(at, had)| (at, had.mark));
        if let Some((at, mark)) = same {
            stays[at] = Some(mark);
            slice.mark = mark;
        }
    }
    for (slice, stays) in before.iter_mut().flatten().zip(&stays) {
        slice.mark = stays.unwrap_or(Mark::Destroyed);
    }
    Bars { memory: gpu.geometry.memory(), before, after: then, placed }
}

impl Bars {
    /// As lines of a terminal: what it has, what it gets.
    #[must_use]
    pub fn lines(&self, colour: Colour) -> [String; 2] {
        let before = match &self.before {
            None => WHOLE.to_owned(),
            Some(slices) => {
                let unknown = if self.placed { "" } else { " positions unknown" };
                format!("{}{unknown}", draw::gpu(self.memory, slices, colour))
            }
        };
        let after = match self.after.as_slice() {
            [] => WHOLE.to_owned(),
            slices => draw::gpu(self.memory, slices, colour),
        };
        [before, after]
    }
}

#[cfg(test)]
mod tests {
    use planner::testing::{GpuBuilder, a100, profile};

    use super::*;

    #[track_caller]
    fn check(gpu: GpuBuilder, after: &[(&str, u8)], expect: [&str; 2]) {
        let after: Vec<_> = after.iter().map(|(name, start)| (profile(name), *start)).collect();
        assert_eq!(bars(&gpu.build(), &after).lines(Colour::Never), expect.map(str::to_owned));
    }

    #[test]
    fn what_stays_is_told_from_what_goes_and_what_comes() {
        check(
            a100().used("1g.10gb", 0, "alice").idle("2g.20gb", 2).idle("3g.40gb", 4),
            &[("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("2g.20gb", 4)],
            [
                "│1g.10gb▓│········│2g.20gb          │-3g.40gb                           │",
                "│1g.10gb▓│+1g.10gb│2g.20gb          │+2g.20gb         │········│········│",
            ],
        );
    }

    #[test]
    fn a_gpu_that_becomes_whole_is_not_drawn_as_an_empty_one() {
        let now = "│-3g.40gb                           │-3g.40gb                           │";
        check(a100().idle("3g.40gb", 0).idle("3g.40gb", 4), &[], [now, "MIG is off: the GPU is whole"]);
    }

    #[test]
    fn of_slices_that_are_only_counted_as_many_stay_as_there_are_on_both_sides() {
        check(
            a100().counted("3g.40gb", 2),
            &[("3g.40gb", 4), ("2g.20gb", 0)],
            [
                "│3g.40gb                            │-3g.40gb                           │ positions unknown",
                "│+2g.20gb         │········│········│3g.40gb                            │",
            ],
        );
    }
}
