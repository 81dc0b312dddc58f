//! The preview as text: the verdict, the risks, and then the rest.

use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};
use planner::names::PolicyName;
use planner::report::{Offered, Supply};

use crate::draw::{self, Colour};
use crate::expectations::{Failed, Judged};

use super::compare::{Change, Compared};
use super::{NotRead, NotReviewed, Preview, Verdict, WavePreview, tone, words};

/// How many of what is of little account are named.
const SHOWN: usize = 10;

/// Prints it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn print(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", colour.paint(tone::for_status(preview.status()), &verdict_line(preview)))?;
    reviewed(preview, colour, out)?;
    expectations(preview, colour, out)?;
    risks(preview, colour, out)?;
    nodes(preview, colour, out)?;
    supply(preview, out)?;
    seats(preview, out)?;
    requests(preview, out)?;
    compared(preview, colour, out)?;
    rollout(preview, out)?;
    not_read(preview, out)?;
    provenance(preview, out)
}

/// The first line: which cluster, what it costs people, and what changes, in
/// counts.
pub(crate) fn verdict_line(preview: &Preview) -> String {
    let Verdict { gpus, nodes, previewed, drains, evictions, requests, served, violations, lose, wait } =
        preview.verdict;
    let mut parts = Vec::new();
    if preview.gave_up.is_some() {
        parts.push("NO PLAN, the planner gave up".to_owned());
    }
    if !preview.not_reviewed.is_empty() {
        parts.push("REFUSED, another plan was reviewed".to_owned());
    }
    parts.push(match lose {
        0 => "nobody loses a slice".to_owned(),
        1 => "1 person loses their slice".to_owned(),
        n => format!("{n} people lose their slice"),
    });
    if wait > 0 {
        parts.push(format!("{} for a change", many(wait, "person has to wait", "people have to wait")));
    }
    if gpus == 0 {
        parts.push("no GPU changes".to_owned());
    } else {
        parts.push(format!(
            "{} on {}",
            many(gpus, "GPU changes", "GPUs change"),
            many(nodes, "node", "nodes")
        ));
        match previewed {
            0 => {}
            all if all == nodes => parts.push("NOT APPLIED, mode: Preview".to_owned()),
            some => parts.push(format!("{some} of these nodes only previewed (mode: Preview)")),
        }
        parts.push(format!(
            "{}, {} evicted{}",
            many(drains, "drain", "drains"),
            many(evictions, "pod", "pods"),
            also_before(preview)
        ));
    }
    // Each profile once, whichever policies have it.
    let mut totals: Vec<(Offered, u32, u32)> = Vec::new();
    for (profile, supply) in preview.supply.values().flatten() {
        match totals.iter_mut().find(|(known, ..)| known == profile) {
            Some((_, present, planned)) => {
                *present = present.saturating_add(supply.present);
                *planned = planned.saturating_add(supply.planned);
            }
            None => totals.push((*profile, supply.present, supply.planned)),
        }
    }
    let changed = totals.iter().filter(|(_, present, planned)| present != planned);
    let capacity: Vec<String> =
        changed.map(|(profile, present, planned)| format!("{profile} {present}->{planned}")).collect();
    if !capacity.is_empty() {
        parts.push(format!("capacity {}", capacity.join(", ")));
    }
    if requests > 0 {
        parts.push(format!("{served} of {} served", many(requests, "request", "requests")));
    }
    parts.push(many(violations, "violation", "violations"));
    let expected = preview.expectations.len();
    match preview.expectations.iter().filter(|expectation| !expectation.holds).count() {
        _ if expected == 0 => {}
        0 => parts.push(many(expected, "expectation holds", "expectations hold")),
        failed => parts.push(format!("{failed} of {} FAILED", many(expected, "expectation", "expectations"))),
    }
    parts.extend(super::may_be_better(&preview.certificate).map(|open| format!("a {open}")));
    format!("{}: {}", preview.provenance.cluster.as_deref().unwrap_or("plan"), parts.join("; "))
}

/// How many of the evicted pods the policies before would evict as well: they are not among those who lose.
fn also_before(preview: &Preview) -> String {
    let news = preview.compared.as_ref().map(|compared| compared.evicts.len());
    match news.map(|news| preview.verdict.evictions.saturating_sub(news)) {
        None | Some(0) => String::new(),
        Some(all) if all == preview.verdict.evictions => " (also before this change)".to_owned(),
        Some(some) => format!(" ({some} of them also before this change)"),
    }
}

/// What was reviewed, and is not what is planned.
fn reviewed(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    if preview.not_reviewed.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nThe plan differs from the reviewed plan")?;
    for NotReviewed { policy, message } in &preview.not_reviewed {
        writeln!(out, "  {} {message}", colour.paint(tone::kind("violation"), &format!("policy {policy}:")))?;
    }
    writeln!(out, "  next: review this plan, and commit its annotations, which are at the end")
}

fn expectations(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    if preview.expectations.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nExpectations")?;
    for judged in &preview.expectations {
        let verdict = if judged.holds { "holds" } else { "FAILED" };
        let shown = colour.paint(tone::kind(verdict), &format!("{verdict:<10}"));
        writeln!(out, "  {shown} {}{}", judged.name, before(judged))?;
        for Failed { field: _, message, next } in &judged.failures {
            writeln!(out, "    {message}")?;
            writeln!(out, "    next: {next}")?;
        }
        if let Some(why) = judged.why.as_ref().filter(|_| !judged.holds) {
            writeln!(out, "    why it is expected: {why} ({})", judged.place)?;
        }
    }
    Ok(())
}

/// What the policies before have to do with it.
pub(crate) fn before(judged: &Judged) -> &'static str {
    match (judged.holds, judged.held_before) {
        (false, Some(true)) => " (it held before this change)",
        (false, Some(false)) => " (it did not hold before this change either)",
        (true, Some(false)) => " (it did not hold before this change)",
        (true, Some(true)) | (_, None) => "",
    }
}

fn risks(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    if preview.risks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat can go wrong")?;
    for risk in &preview.risks {
        let kind = colour.paint(tone::kind(risk.kind), &format!("{:<10}", risk.kind));
        writeln!(out, "  {kind} {}", risk.message)?;
    }
    Ok(())
}

fn nodes(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    if preview.nodes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNodes, in the order in which they change")?;
    for node in &preview.nodes {
        write!(out, "  {} (policy {})", node.node, node.policy)?;
        if node.preview_only {
            write!(out, ", preview only")?;
        }
        if node.enables_mig {
            write!(out, ", MIG is switched on: all its GPUs are reset")?;
        }
        if node.disables_mig {
            write!(out, ", MIG is switched off: all its GPUs are cleared")?;
        }
        writeln!(out)?;
        for gpu in &node.gpus {
            writeln!(out, "    gpu{} {:<12} {} -> {}", gpu.gpu, gpu.model, gpu.before, gpu.after)?;
            if let Some(bars) = &gpu.bars {
                let [now, then] = bars.lines(colour);
                writeln!(out, "      now  {now}\n      then {then}")?;
            }
        }
        for pod in &node.evicts {
            writeln!(out, "    evicts {pod}")?;
        }
        for request in &node.serves {
            writeln!(out, "    serves {request}")?;
        }
    }
    writeln!(out, "  {}", draw::legend(colour))
}

fn supply(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    for (policy, supply) in &preview.supply {
        let rows: Vec<_> = supply.iter().filter(|(_, s)| s.present + s.planned + s.requested > 0).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\nSupply and demand, policy {policy}")?;
        writeln!(
            out,
            "  {:<14} {:>7} {:>7} {:>9} {:>9} {:>8} {:>10}",
            "profile", "present", "planned", "allocated", "requested", "unserved", "attainable"
        )?;
        for (profile, s) in rows {
            writeln!(
                out,
                "  {profile:<14} {:>7} {:>7} {:>9} {:>9} {:>8} {:>10}",
                s.present, s.planned, s.allocated, s.requested, s.unserved, s.attainable
            )?;
        }
    }
    Ok(())
}

/// Supply and demand in seats: a device has as many as pods share it.
fn seats(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    for (policy, seats) in &preview.seats {
        writeln!(out, "\nSeats, policy {policy}")?;
        writeln!(
            out,
            "  {:<34} {:>7} {:>6} {:>5} {:>5} {:>8} {:>9} {:>8}",
            "resource", "devices", "seats", "held", "free", "planned", "requested", "unserved"
        )?;
        for (offered, s) in seats {
            writeln!(
                out,
                "  {:<34} {:>7} {:>6} {:>5} {:>5} {:>8} {:>9} {:>8}",
                offered.resource_name(),
                s.devices,
                s.total,
                s.held,
                s.free(),
                s.planned,
                s.requested,
                s.unserved
            )?;
        }
    }
    Ok(())
}

fn requests(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    if preview.requests.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nRequests that wait")?;
    for answer in &preview.requests {
        writeln!(out, "  {}: {}", answer.request, answer.answer)?;
    }
    Ok(())
}

fn compared(preview: &Preview, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    let Some(compared) = &preview.compared else { return Ok(()) };
    writeln!(out, "\nCompared with the previous policies")?;
    if !compared.policies_differ {
        return writeln!(out, "  the policies are the same");
    }
    for diff in &compared.policies {
        match diff.change {
            Change::Added => writeln!(out, "  policy {} is added", diff.policy)?,
            Change::Removed => writeln!(out, "  policy {} is removed", diff.policy)?,
            Change::Changed => writeln!(out, "  policy {} changes", diff.policy)?,
        }
        for line in &diff.yaml {
            writeln!(out, "    {}", colour.paint(tone::line(line), line))?;
        }
    }
    for change in &compared.modes {
        writeln!(out, "  {}", change.message())?;
    }
    for moved in &compared.nodes {
        let name = |policy: &Option<PolicyName>| {
            policy.as_ref().map_or("no policy".to_owned(), |policy| format!("policy {policy}"))
        };
        writeln!(out, "  node {}: {} -> {}", moved.node, name(&moved.before), name(&moved.after))?;
    }
    supply_before(compared, out)?;
    if compared.gpus.is_empty()
        && compared.gain.is_empty()
        && compared.lose.is_empty()
        && compared.wait.is_empty()
        && compared.modes.is_empty()
    {
        return writeln!(out, "  the policies differ, the plan does not");
    }
    for diff in &compared.gpus {
        writeln!(out, "  {} has {}: before {}, now {}", diff.gpu, diff.now, diff.before, diff.after)?;
    }
    for pod in &compared.evicts {
        writeln!(out, "  {pod} is evicted, and was not before")?;
    }
    for pod in &compared.spares {
        writeln!(out, "  {pod} is not evicted any more")?;
    }
    for request in &compared.gain {
        writeln!(out, "  {request} gains: it is served now")?;
    }
    for request in &compared.lose {
        writeln!(out, "  {request} loses: it was served before")?;
    }
    for request in &compared.wait {
        writeln!(out, "  {request} waits for a change: before, it was served with existing slices")?;
    }
    Ok(())
}

/// Profiles of which another number is planned, or goes unserved, than before.
fn supply_before(compared: &Compared, out: &mut dyn Write) -> io::Result<()> {
    for (policy, profiles) in &compared.supply {
        for (profile, diff) in profiles {
            let of = |supply: Option<Supply>| supply.map_or((0, 0), |s| (s.planned, s.unserved));
            let (before, after) = (of(diff.before), of(diff.after));
            if before != after {
                writeln!(
                    out,
                    "  {profile} under {policy}: planned {} -> {}, unserved {} -> {}",
                    before.0, after.0, before.1, after.1
                )?;
            }
        }
    }
    Ok(())
}

/// What stands beside the policies and was not read: the first few.
fn not_read(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    if preview.not_read.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nOther documents, which were not read")?;
    for NotRead { what, place, why } in preview.not_read.iter().take(SHOWN) {
        writeln!(out, "  {place}: {what}: {why}")?;
    }
    match preview.not_read.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

fn rollout(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    for (policy, waves) in &preview.rollout {
        writeln!(out, "\nRollout of policy {policy} (conservative estimates)")?;
        for (number, wave) in (1..).zip(waves) {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            let when = when(wave);
            writeln!(out, "  {number}. {when}: {}", nodes.join(", "))?;
        }
    }
    Ok(())
}

fn provenance(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    let from = &preview.provenance;
    let cluster = from.cluster.as_deref().map_or(String::new(), |cluster| format!(" of {cluster}"));
    writeln!(
        out,
        "\nMade from a snapshot{cluster} taken at {}{} by slicewright {}.",
        from.snapshot_taken_at,
        age(preview),
        from.version
    )?;
    writeln!(out, "Policies {}, plan {}.", from.policy_digest, from.plan_digest)?;
    writeln!(out, "{}", super::how_good(preview))?;
    for level in preview.certificate.iter().filter(|level| !level.is_proven()) {
        writeln!(
            out,
            "  not proved: {} is {}, and cannot be below {}",
            level.level, level.value, level.bound
        )?;
    }
    writeln!(
        out,
        "After the review, commit these annotations with the policies; their status then says whether the reviewed plan is the one that runs:"
    )?;
    for (key, value) in &from.annotations {
        writeln!(out, "  {key}: {value}")?;
    }
    Ok(())
}

/// When a wave changes.
pub(crate) fn when(wave: &WavePreview) -> String {
    match (wave.starts, wave.ends) {
        (Some(starts), Some(ends)) => {
            let seconds = ends.duration_since(starts).as_secs();
            format!("{} to {} ({seconds} s)", second(starts), second(ends))
        }
        _ if wave.preview_only => "does not start: the policy only previews (mode: Preview)".to_owned(),
        _ => "does not start: no window opens, the budget is 0, or the policy is paused".to_owned(),
    }
}

/// `a, b and 3 more`: the first few.
pub(super) fn some<T: ToString>(items: &[T]) -> String {
    let shown: Vec<_> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    match items.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A moment to the second.
fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// How old the recording is, where that is known.
pub(crate) fn age(preview: &Preview) -> String {
    let age = preview.provenance.age_seconds.map(SignedDuration::from_secs);
    age.map_or(String::new(), |age| format!(", {} old,", words(age)))
}

/// `1 node`, `2 nodes`.
fn many(n: usize, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}
