//! The fleet over time as a picture: for each method the slices that are held, idle, closed and uncut, and
//! the demand beyond them.

use std::fmt::Write;

use replay::{Level, Timeline};

use super::text::{share, time, words};
use super::{Findings, Row};
use crate::page::escape;

/// How wide the picture is, where the panels begin, and how long they are.
const WIDTH: u32 = 960;
const LEFT: u32 = 60;
const LENGTH: u32 = 880;
/// The height of a panel, of what stands over it, and of the axis below.
const PANEL: u32 = 150;
const HEAD: u32 = 44;
const AXIS: u32 = 22;

/// Colours of their own for dark screens: the picture is shown on its own, too.
const STYLE: &str = "
.p { fill: #ffffff } .t { fill: #1c2430; font: 600 14px system-ui, sans-serif } .d { fill: #5b6675; font: 12px system-ui, sans-serif }
.f { fill: #f3f5f8; stroke: #b7c0cc } .held { fill: #1f5fbf } .idle { fill: #a9c8f5 } .away { fill: #e6b450 }
.asked { fill: none; stroke: #b3261e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.p { fill: #14181f } .t { fill: #e7ebf0 } .d { fill: #a0abb8 } .f { fill: #1d232c; stroke: #4a5563 }
.held { fill: #3b82e6 } .idle { fill: #27466f } .away { fill: #8a6a1f } .asked { stroke: #ff8a80 } }
";

pub(super) fn picture(told: &Findings<'_>) -> String {
    let mut body = String::new();
    let capacity = told.fleet.compute();
    // What is asked for may be more than there is: all panels have one scale.
    let most = told.rows.iter().flat_map(|row| levels(&row.played.timeline)).map(|(_, asked)| asked).max();
    let most = most.unwrap_or(0).max(u128::from(capacity) * MILLI).max(1);
    let mut y = 8;
    for row in &told.rows {
        panel(&mut body, y, row, u128::from(capacity) * MILLI, most);
        y += HEAD + PANEL + AXIS;
    }
    y = legend(&mut body, y + 8);
    let title = format!("{} over {}", told.fleet.words(), time(told.trace.span().1 - told.trace.span().0));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" viewBox=\"0 0 {WIDTH} {y}\" \
         role=\"img\" aria-label=\"{0}\"><title>{0}</title><style>{STYLE}</style>\
         <rect class=\"p\" width=\"{WIDTH}\" height=\"{y}\"/>\n{body}</svg>\n",
        escape(&title)
    )
}

/// Levels are drawn in thousandths of a compute slice.
const MILLI: u128 = 1000;

/// The average of every span: the fleet's parts stacked (held; and idle; and
/// away), and what is asked for.
fn levels(timeline: &Timeline) -> Vec<([u128; 3], u128)> {
    let of = |(at, level): (usize, &Level)| {
        let length = u128::try_from(timeline.begins(at + 1) - timeline.begins(at)).unwrap_or(0).max(1);
        let average = |slice_seconds: u128| slice_seconds * MILLI / length;
        let (held, idle) = (average(level.held), average(level.idle));
        ([held, held + idle, held + idle + average(level.away)], held + average(level.waiting))
    };
    timeline.spans.iter().enumerate().map(of).collect()
}

fn panel(body: &mut String, top: u32, row: &Row, capacity: u128, most: u128) {
    let figures = &row.played.figures;
    let name = match row.actuator {
        None => row.player.clone(),
        Some(actuator) => format!("{}, {}", row.player, words(actuator)),
    };
    text(body, "t", LEFT, top + 18, &name);
    let said = format!(
        "delivered {}; {} served, {} never; waited p50 {}, p99 {}; GPUs cut {} times",
        share(figures.held_slice_seconds, figures.asked_slice_seconds),
        figures.served,
        figures.never,
        time(figures.waited.p50),
        time(figures.waited.p99),
        figures.gpus_changed
    );
    text(body, "d", LEFT, top + 36, &said);
    let base = top + HEAD + PANEL;
    let height = |level: u128| u32::try_from(level * u128::from(PANEL) / most).unwrap_or(PANEL);
    let fleet = height(capacity);
    let _ = writeln!(
        body,
        "<rect class=\"f\" x=\"{LEFT}\" y=\"{}\" width=\"{LENGTH}\" height=\"{fleet}\"/>",
        base - fleet
    );
    let levels = levels(&row.played.timeline);
    let count = u32::try_from(levels.len()).unwrap_or(1).max(1);
    let x = |at: usize| LEFT + u32::try_from(at).unwrap_or(0) * LENGTH / count;
    for (part, class) in [(2, "away"), (1, "idle"), (0, "held")] {
        let mut path = format!("M{LEFT} {base}");
        for (at, (stacked, _)) in levels.iter().enumerate() {
            let y = base - height(stacked[part]);
            let _ = write!(path, "L{} {y}L{} {y}", x(at), x(at + 1));
        }
        let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}L{} {base}Z\"/>", LEFT + LENGTH);
    }
    let mut path = String::new();
    for (at, (_, asked)) in levels.iter().enumerate() {
        let (pen, y) = (if at == 0 { 'M' } else { 'L' }, base - height(*asked));
        let _ = write!(path, "{pen}{} {y}L{} {y}", x(at), x(at + 1));
    }
    let _ = writeln!(body, "<path class=\"asked\" d=\"{path}\"/>");
    text(body, "d", 8, base - fleet + 12, &(capacity / MILLI).to_string());
    let timeline = &row.played.timeline;
    for fifth in 0..=4u32 {
        let at = timeline.from + (timeline.until - timeline.from) * i64::from(fifth) / 4;
        let anchor = ["start", "middle", "middle", "middle", "end"][usize::try_from(fifth).unwrap_or(0)];
        let _ = writeln!(
            body,
            "<text class=\"d\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            LEFT + LENGTH * fifth / 4,
            base + 16,
            time(at)
        );
    }
}

fn legend(body: &mut String, y: u32) -> u32 {
    let entries =
        [("held", "held"), ("idle", "cut, and free"), ("away", "on nodes that change"), ("f", "in no slice")];
    let mut x = LEFT;
    for (class, words) in entries {
        let _ = writeln!(body, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"14\" height=\"14\"/>");
        text(body, "d", x + 20, y + 12, words);
        x += 170;
    }
    let _ = writeln!(body, "<path class=\"asked\" d=\"M{x} {0}L{1} {0}\"/>", y + 7, x + 14);
    text(body, "d", x + 20, y + 12, "asked for");
    y + 28
}

fn text(body: &mut String, class: &str, x: u32, y: u32, text: &str) {
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
}
