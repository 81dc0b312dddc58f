//! A fleet as a picture: each node, each GPU as a bar of its memory, each slice with its name; a GPU that
//! changes has a bar for its present and one for its future layout.

use std::collections::BTreeMap;
use std::fmt::Write;

use planner::inventory::{Gpu, Inventory, Node, Slices};
use planner::names::{GpuIndex, NodeName};

use super::escape;
use crate::draw::{Mark, Slice};
use crate::picture::{Bars, WHOLE, drawn, nodes, seats};

/// What becomes of GPUs, by node and index.
pub type Changes<'a> = BTreeMap<(&'a NodeName, GpuIndex), &'a Bars>;

/// How wide the picture is.
const WIDTH: u32 = 960;
/// Where bars begin, and how long they are.
const LEFT: u32 = 210;
const LENGTH: u32 = 730;
/// The height of a bar, and of the row that it is in.
const BAR: u32 = 24;
const ROW: u32 = 32;
/// The height of a node's heading, and of what is between nodes.
const HEAD: u32 = 30;
const GAP: u32 = 14;

/// Colours of their own for dark screens: the picture is shown on its own, too.
const STYLE: &str = "
.p { fill: #ffffff } .t { fill: #1c2430; font: 600 14px system-ui, sans-serif } .d { fill: #5b6675; font: 12px system-ui, sans-serif }
.n { fill: #1c2430; font: 12px ui-monospace, monospace } .w { fill: #ffffff }
.free { fill: #f3f5f8; stroke: #b7c0cc; stroke-dasharray: 2 3 } .idle { fill: #ffffff; stroke: #4a5563 }
.inUse { fill: #1f5fbf; stroke: #17488f } .maybeInUse { fill: #a9c8f5; stroke: #1f5fbf }
.created { fill: #c9f0d3; stroke: #1a7f37; stroke-width: 2 } .destroyed { fill: #fbdcd9; stroke: #b3261e; stroke-dasharray: 4 2 }
@media (prefers-color-scheme: dark) {
.p { fill: #14181f } .t { fill: #e7ebf0 } .d { fill: #a0abb8 } .n { fill: #e7ebf0 }
.free { fill: #1d232c; stroke: #4a5563 } .idle { fill: #14181f; stroke: #a0abb8 }
.inUse { fill: #3b82e6; stroke: #8cbaf7 } .maybeInUse { fill: #27466f; stroke: #6ea5ee }
.created { fill: #143d22; stroke: #5bd47f } .destroyed { fill: #4a1d1a; stroke: #ff8a80 } }
";

/// The whole fleet.
#[must_use]
pub fn fleet(inventory: &Inventory, changes: &Changes<'_>, title: &str) -> String {
    let mut body = String::new();
    let mut y = GAP;
    let nodes = nodes(inventory);
    for (name, node) in &nodes {
        y = draw_node(&mut body, y, name, node, changes);
        for seats in seats(inventory, name) {
            text(&mut body, "n", GAP, y + 16, "seats");
            text(&mut body, "d", LEFT, y + 16, &shortened(&seats, 120));
            y += ROW;
        }
        y += GAP;
    }
    if nodes.is_empty() {
        text(&mut body, "d", GAP, y + BAR, "There is no node with GPUs that can be partitioned.");
        y += ROW;
    }
    y = legend(&mut body, y, !changes.is_empty());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" viewBox=\"0 0 {WIDTH} {y}\" \
         role=\"img\" aria-label=\"{0}\"><title>{0}</title><style>{STYLE}</style>\
         <rect class=\"p\" width=\"{WIDTH}\" height=\"{y}\"/>\n{body}</svg>\n",
        escape(title)
    )
}

fn text(body: &mut String, class: &str, x: u32, y: u32, text: &str) {
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
}

/// One node; where the next one begins.
fn draw_node(body: &mut String, top: u32, name: &NodeName, node: &Node, changes: &Changes<'_>) -> u32 {
    text(body, "t", GAP, top + 18, &shortened(&name.to_string(), 60));
    let mut state = Vec::new();
    if !node.schedulable {
        state.push("not schedulable".to_owned());
    }
    state.extend(node.hold.as_ref().map(|hold| format!("held: {hold}")));
    if !state.is_empty() {
        let _ = writeln!(
            body,
            "<text class=\"d\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT + LENGTH,
            top + 18,
            escape(&shortened(&state.join(", "), 90))
        );
    }
    let mut y = top + HEAD;
    for (index, gpu) in &node.gpus {
        text(body, "n", GAP, y + 16, &shortened(&format!("gpu{index} {}", gpu.model), 20));
        match changes.get(&(name, *index)) {
            None => now(body, y, gpu),
            Some(bars) => {
                text(body, "d", LEFT - 36, y + 16, "now");
                match &bars.before {
                    None => text(body, "d", LEFT, y + 16, WHOLE),
                    Some(slices) => bar(body, y, bars.memory, slices),
                }
                y += ROW - 4;
                text(body, "d", LEFT - 36, y + 16, "then");
                match bars.after.as_slice() {
                    [] => text(body, "d", LEFT, y + 16, WHOLE),
                    slices => bar(body, y, bars.memory, slices),
                }
            }
        }
        y += ROW;
    }
    y
}

fn now(body: &mut String, y: u32, gpu: &Gpu) {
    match (&gpu.slices, drawn(gpu)) {
        (Slices::MigOff { used }, _) => {
            let state = if used.is_idle() { "idle" } else { "in use" };
            text(body, "d", LEFT, y + 16, &format!("MIG is off ({state})"));
        }
        (_, None) => text(body, "d", LEFT, y + 16, &format!("{} (positions unknown)", gpu.slices)),
        (_, Some(drawn)) => bar(body, y, gpu.geometry.memory(), &drawn.slices),
    }
}

/// The name of a mark in the styles.
const fn class(mark: Mark) -> &'static str {
    match mark {
        Mark::Idle => "idle",
        Mark::InUse => "inUse",
        Mark::MaybeInUse => "maybeInUse",
        Mark::Created => "created",
        Mark::Destroyed => "destroyed",
    }
}

fn bar(body: &mut String, y: u32, memory: u8, slices: &[Slice]) {
    let unit = LENGTH / u32::from(memory.max(1));
    let _ = writeln!(
        body,
        "<rect class=\"free\" x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{BAR}\" rx=\"3\"/>",
        unit * u32::from(memory)
    );
    for slice in slices.iter().filter(|slice| slice.start < memory) {
        let size = slice.size.max(1).min(memory - slice.start);
        let (x, width) = (LEFT + unit * u32::from(slice.start) + 1, unit * u32::from(size) - 2);
        let (name, class) = (slice.name.to_string(), class(slice.mark));
        let sign = match slice.mark {
            Mark::Created => "+",
            Mark::Destroyed => "\u{2212}",
            Mark::Idle | Mark::InUse | Mark::MaybeInUse => "",
        };
        // Some eight points a letter; a name without room loses its memory.
        let room = usize::try_from(width / 8).unwrap_or(0);
        let short = name.split('.').next().unwrap_or_default().to_owned();
        let label = if name.len() + sign.len() <= room { &name } else { &short };
        let ink = if slice.mark == Mark::InUse { "n w" } else { "n" };
        let _ = writeln!(
            body,
            "<g><title>{name}, {}</title><rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" \
             rx=\"3\"/><text class=\"{ink}\" x=\"{}\" y=\"{}\">{sign}{label}</text></g>",
            slice.mark.word(),
            y + 1,
            BAR - 2,
            x + 5,
            y + 16
        );
    }
}

/// What the colours mean; where the picture ends.
fn legend(body: &mut String, top: u32, something_changes: bool) -> u32 {
    let mut x = GAP;
    let shown = |mark: &&Mark| something_changes || !matches!(mark, Mark::Created | Mark::Destroyed);
    let marks = Mark::ALL.iter().filter(shown).map(|mark| (class(*mark), mark.word()));
    for (class, word) in marks.chain([("free", "no slice")]) {
        let _ = writeln!(
            body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{top}\" width=\"26\" height=\"14\" rx=\"3\"/>"
        );
        text(body, "d", x + 33, top + 12, word);
        x += 60 + 8 * u32::try_from(word.len()).unwrap_or(0);
    }
    top + 28
}

/// So that no name runs into what stands beside it.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
