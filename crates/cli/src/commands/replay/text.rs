//! A replay as tables that a platform engineer understands quickly.

use std::io::{self, Write};

use replay::{Actuator, Figures, Replay};

use super::{Findings, Row, Size};

pub(super) fn print(told: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Findings { args, trace, fleet, bound, rows, sizes, too_large } = told;
    let (from, until) = trace.span();
    let (peak, at) = trace.peak();
    writeln!(
        out,
        "{} requests in {}, for {} slice-hours; {peak} compute slices at once at most, at {}",
        trace.requests.len(),
        time(until - from),
        hours(trace.slice_seconds()),
        time(at)
    )?;
    writeln!(out, "{} with {}: {} compute slices", nodes(fleet.nodes.len()), fleet.words(), fleet.compute())?;
    if trace.momentary > 0 {
        writeln!(out, "left out, since they came and went in the same second: {}", trace.momentary)?;
    }
    if *too_large > 0 {
        writeln!(out, "of more slices than any node can have, so never served: {too_large}")?;
    }
    writeln!(out)?;
    let header = ["", "DELIVERED", "SERVED", "NEVER", "P50", "P99", "LONGEST", "GPUS CUT", "IDLE", "CLOSED"];
    let mut table = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let name = match row.actuator {
            None => row.player.clone(),
            Some(actuator) => format!("{}, {}", row.player, words(actuator)),
        };
        table.push(line(name, &row.played));
    }
    table.push(vec![
        "nobody delivers more than".to_owned(),
        share(bound.slice_seconds, trace.slice_seconds()),
    ]);
    aligned(&table, out)?;
    writeln!(out)?;
    writeln!(
        out,
        "DELIVERED: slice-hours held, of those asked for. P50, P99, LONGEST: waited; who is never"
    )?;
    writeln!(
        out,
        "served waits as long as it is there. GPUS CUT: how often. IDLE: free slices, CLOSED: not held"
    )?;
    writeln!(out, "on nodes that were changing; both of what the fleet has.")?;
    times(rows, args.map_settle.as_secs(), out)?;
    if let Some(gpus) = bound.gpus {
        writeln!(out, "With fewer than {gpus} GPUs somebody waits, whatever anybody does.")?;
    }
    if !sizes.is_empty() {
        writeln!(out)?;
        enough(told, out)?;
    }
    Ok(())
}

fn line(name: String, played: &Replay) -> Vec<String> {
    let Figures { served, never, waited, asked_slice_seconds, held_slice_seconds, fleet, .. } =
        &played.figures;
    vec![
        name,
        share(*held_slice_seconds, *asked_slice_seconds),
        served.to_string(),
        never.to_string(),
        time(waited.p50),
        time(waited.p99),
        time(waited.max),
        played.figures.gpus_changed.to_string(),
        share(fleet.idle, fleet.capacity()),
        share(fleet.away, fleet.capacity()),
    ]
}

/// How long a change takes.
fn times(rows: &[Row], map_settle: i64, out: &mut dyn Write) -> io::Result<()> {
    let mut told: Vec<Actuator> = Vec::new();
    for row in rows {
        let Some(actuator) = row.actuator.filter(|actuator| !told.contains(actuator)) else { continue };
        told.push(actuator);
        let away = time(row.away.as_secs());
        let map = match actuator {
            Actuator::ProvablyIdle | Actuator::IdleGpus => {
                format!(", a layout that is new to all nodes after {}", time(map_settle))
            }
            Actuator::SingleSlices => String::new(),
        };
        writeln!(out, "{}: a change closes a node for {away}{map}.", words(actuator))?;
    }
    Ok(())
}

/// How many GPUs are enough.
fn enough(told: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let header =
        ["NODES", "GPUS", "", "DELIVERED", "NOBODY MORE THAN", "NEVER", "P50", "P99", "LONGEST", "IDLE"];
    let mut table = vec![header.map(str::to_owned).to_vec()];
    for size in &told.sizes {
        let Figures { never, waited, asked_slice_seconds, held_slice_seconds, fleet, .. } =
            &size.played.figures;
        table.push(vec![
            size.nodes.to_string(),
            size.fleet.gpus().count().to_string(),
            words(size.actuator).to_owned(),
            share(*held_slice_seconds, *asked_slice_seconds),
            share(size.bound.slice_seconds, *asked_slice_seconds),
            never.to_string(),
            time(waited.p50),
            time(waited.p99),
            time(waited.max),
            share(fleet.idle, fleet.capacity()),
        ]);
    }
    aligned(&table, out)?;
    writeln!(out)?;
    let mut actuators: Vec<Actuator> = told.sizes.iter().map(|size| size.actuator).collect();
    actuators.sort_unstable();
    actuators.dedup();
    let goal = told.args.goal.as_secs();
    for actuator in actuators {
        let of = |meets: &dyn Fn(&&Size) -> bool| {
            let size = told.sizes.iter().filter(|size| size.actuator == actuator).find(meets);
            size.map_or_else(
                || "none of these sizes".to_owned(),
                |size| format!("{} GPUs ({})", size.fleet.gpus().count(), nodes(size.nodes)),
            )
        };
        let everybody = of(&|size| size.played.figures.never == 0);
        let quickly = of(&|size| size.played.figures.waited.p99 <= goal);
        writeln!(
            out,
            "{}: everybody is served with {everybody}; 99 of 100 wait at most {} with {quickly}",
            words(actuator),
            time(goal)
        )?;
    }
    Ok(())
}

fn nodes(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Who changes nodes, for people.
pub(super) const fn words(actuator: Actuator) -> &'static str {
    match actuator {
        Actuator::ProvablyIdle => "provably idle GPUs",
        Actuator::IdleGpus => "idle GPUs",
        Actuator::SingleSlices => "single slices",
    }
}

/// The first column set left, the others right; a column without a name set left too.
fn aligned(rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let left = |column: usize| rows.first().and_then(|row| row.get(column)).is_some_and(String::is_empty);
    for row in rows {
        let mut line = String::new();
        for (column, (text, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            line.push_str(&if left(column) {
                format!("{gap}{text:<width$}")
            } else {
                format!("{gap}{text:>width$}")
            });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A share in per cent, rounded down to a hundredth, so that 100.00 % is all of it.
pub(super) fn share(part: u128, of: u128) -> String {
    let hundredths = part.saturating_mul(10_000).checked_div(of).unwrap_or(0);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Slice-hours, rounded.
fn hours(seconds: u128) -> u128 {
    (seconds + 1800) / 3600
}

/// A length of time in its two largest units: `3m20s`, `2d4h`.
pub(super) fn time(seconds: i64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let first = units.iter().position(|(_, length)| seconds >= *length).unwrap_or(3);
    let mut left = seconds;
    let mut text = String::new();
    for (unit, length) in units.iter().skip(first).take(2) {
        let n = left / length;
        left %= length;
        if n > 0 || text.is_empty() {
            text.push_str(&format!("{n}{unit}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units_and_shares_are_rounded_down() {
        let times = [0, 59, 60, 200, 3600, 3659, 90_000, 977_324].map(time);
        assert_eq!(times, ["0s", "59s", "1m", "3m20s", "1h", "1h", "1d1h", "11d7h"]);
        assert_eq!(share(9999, 10_000), "99.99 %");
        assert_eq!((share(1, 1), share(0, 0)), ("100.00 %".to_owned(), "0.00 %".to_owned()));
    }
}
