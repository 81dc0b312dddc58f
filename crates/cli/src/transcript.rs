//! The transcript of a story, as a log for people: in plain characters, and
//! with colours where there is a terminal.

use anstyle::{AnsiColor, Style};
use story::{Entry, GpuPicture, Picture, Who, clock};

use crate::draw::{self, Colour, Mark, Slice};

/// One entry as lines, each with its end.
#[must_use]
pub fn text(entry: &Entry, colour: Colour) -> String {
    match entry {
        Entry::Remark { text, paragraph } => {
            let gap = if *paragraph { "\n" } else { "" };
            let line = format!("# {text}");
            format!("{gap}{}\n", colour.paint(Style::new().italic(), line.trim_end()))
        }
        // Expectations follow what they speak of without a gap.
        Entry::Command { text, at: _ } if text.starts_with("expect ") => {
            format!("{}\n", colour.paint(Style::new().dimmed(), &format!("> {text}")))
        }
        Entry::Command { text, at: _ } => {
            format!("\n{}\n", colour.paint(Style::new().bold(), &format!("> {text}")))
        }
        Entry::Happened { at, who, text } => {
            let name = format!("{:<18}", who_of(who));
            let clock = colour.paint(Style::new().dimmed(), &clock(*at));
            format!("{clock}  {}  {text}\n", colour.paint(style(who), &name))
        }
        Entry::Answer { lines } => lines.iter().map(|line| format!("{line}\n")).collect(),
        Entry::Fleet { picture } => fleet(picture, colour),
        Entry::Missed { place, text } => {
            let place = place.map(|p| format!(" ({p})")).unwrap_or_default();
            let red = AnsiColor::Red.on_default().bold();
            format!("{}\n", colour.paint(red, &format!("NOT AS EXPECTED{place}: {text}")))
        }
        Entry::End { text } => {
            format!("{}\n", colour.paint(AnsiColor::Green.on_default(), &format!("= {text}")))
        }
    }
}

fn who_of(who: &Who) -> String {
    match who {
        Who::Person(who) | Who::Node(who) => who.clone(),
        Who::Cluster => "cluster".to_owned(),
        Who::Plan => "PLAN".to_owned(),
        Who::Does(node) => format!("ROLLOUT {node}"),
        Who::Tells(who) => format!("-> {who}"),
    }
}

const fn style(who: &Who) -> Style {
    match who {
        Who::Person(_) => AnsiColor::Cyan.on_default(),
        Who::Cluster | Who::Node(_) => Style::new().dimmed(),
        Who::Plan => AnsiColor::Yellow.on_default(),
        Who::Does(_) => AnsiColor::Magenta.on_default(),
        Who::Tells(_) => AnsiColor::Green.on_default(),
    }
}

/// A picture of the fleet: under each GPU who holds its slices.
#[must_use]
pub fn fleet(picture: &Picture, colour: Colour) -> String {
    let mut text = String::new();
    for node in &picture.nodes {
        let state = if node.state.is_empty() { String::new() } else { format!("  ({})", node.state) };
        text += &format!("  {}{state}\n", node.name);
        for gpu in &node.gpus {
            let head = format!("    gpu{} {}", gpu.index, gpu.model);
            let (strip, holders) = strip(gpu, colour);
            text += &format!("{head:<22} {strip}\n");
            if !holders.trim().is_empty() {
                text += &format!("{:<22} {}\n", "", holders.trim_end());
            }
        }
    }
    text
}

/// The picture of one GPU, and the line of holders below it.
fn strip(gpu: &GpuPicture, colour: Colour) -> (String, String) {
    let Some(slices) = &gpu.slices else {
        let what = if gpu.units == 0 { "knows no MIG" } else { "MIG off" };
        let holder = gpu.holder.as_ref().map(|h| format!(", held by {h}")).unwrap_or_default();
        return (format!("{what}{holder}"), String::new());
    };
    let marked: Vec<Slice> = slices
        .iter()
        .map(|s| Slice {
            name: s.profile,
            start: s.start,
            size: s.size,
            mark: if s.holder.is_some() { Mark::InUse } else { Mark::Idle },
        })
        .collect();
    let unit = draw::WIDTH / usize::from(gpu.units.max(1));
    let mut holders = String::new();
    for slice in slices {
        let Some(holder) = &slice.holder else { continue };
        let at = usize::from(slice.start) * unit + 1;
        let short = holder.split_once('/').map_or(holder.as_str(), |(_, name)| name);
        let room = usize::from(slice.size) * unit - 1;
        let open = if slice.open { "*" } else { "" };
        let label: String = format!("{short}{open}").chars().take(room).collect();
        holders = format!("{holders:<at$}{label}");
    }
    (draw::gpu(gpu.units, &marked, colour), holders)
}
