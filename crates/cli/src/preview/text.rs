//! The preview for people: the verdict, what can go wrong, and then the rest.

use std::io::{self, Write};

use jiff::Timestamp;

use super::{Preview, Verdict};

/// Prints it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn print(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    verdict(preview, out)?;
    risks(preview, out)?;
    nodes(preview, out)?;
    supply(preview, out)?;
    requests(preview, out)?;
    compared(preview, out)?;
    rollout(preview, out)?;
    provenance(preview, out)
}

fn verdict(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    let Verdict { gpus, nodes, drains, evictions, requests, served, violations } = preview.verdict;
    if gpus == 0 {
        write!(out, "Plan: no changes")?;
    } else {
        write!(
            out,
            "Plan: {} on {}",
            many(gpus, "GPU changes", "GPUs change"),
            many(nodes, "node", "nodes")
        )?;
        write!(out, "; {}, {} evicted", many(drains, "drain", "drains"), many(evictions, "pod", "pods"))?;
    }
    let mut capacity = Vec::new();
    for supply in preview.supply.values() {
        for (profile, supply) in supply.iter().filter(|(_, s)| s.present != s.planned) {
            capacity.push(format!("{profile} {}->{}", supply.present, supply.planned));
        }
    }
    if !capacity.is_empty() {
        write!(out, "; capacity {}", capacity.join(", "))?;
    }
    if requests > 0 {
        write!(out, "; {served} of {} served", many(requests, "request", "requests"))?;
    }
    writeln!(out, "; {}", many(violations, "violation", "violations"))
}

fn risks(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    if preview.risks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat can go wrong")?;
    for risk in &preview.risks {
        writeln!(out, "  {:<10} {}", risk.kind, risk.message)?;
    }
    Ok(())
}

fn nodes(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
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
        writeln!(out)?;
        for gpu in &node.gpus {
            writeln!(out, "    gpu{} {:<12} {} -> {}", gpu.gpu, gpu.model, gpu.before, gpu.after)?;
        }
        for pod in &node.evicts {
            writeln!(out, "    evicts {pod}")?;
        }
        for request in &node.serves {
            writeln!(out, "    serves {request}")?;
        }
    }
    Ok(())
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

fn compared(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    let Some(compared) = &preview.compared else { return Ok(()) };
    writeln!(out, "\nAgainst the policies before")?;
    if !compared.policies_differ {
        return writeln!(out, "  the policies are the same");
    }
    if compared.gpus_differ.is_empty() && compared.gain.is_empty() && compared.lose.is_empty() {
        return writeln!(out, "  the policies differ, the plan does not");
    }
    for gpu in &compared.gpus_differ {
        writeln!(out, "  {gpu} is planned differently")?;
    }
    for request in &compared.gain {
        writeln!(out, "  {request} gains: it is served now")?;
    }
    for request in &compared.lose {
        writeln!(out, "  {request} loses: it was served before")?;
    }
    Ok(())
}

fn rollout(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    for (policy, waves) in &preview.rollout {
        writeln!(out, "\nRollout of policy {policy} (estimated at the slow end of what is seen)")?;
        for (number, wave) in (1..).zip(waves) {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            let when = match (wave.starts, wave.ends) {
                (Some(starts), Some(ends)) => format!("{} to {}", minute(starts), minute(ends)),
                _ => "does not start: no window opens, the budget is 0, or the policy is not enforced"
                    .to_owned(),
            };
            writeln!(out, "  {number}. {when}: {}", nodes.join(", "))?;
        }
    }
    Ok(())
}

fn provenance(preview: &Preview, out: &mut dyn Write) -> io::Result<()> {
    let from = &preview.provenance;
    let proven = preview.certificate.iter().filter(|level| level.is_proven()).count();
    let cluster = from.cluster.as_deref().map_or(String::new(), |cluster| format!(" of {cluster}"));
    writeln!(
        out,
        "\nMade from a snapshot{cluster} taken at {} by slicewright {}.",
        from.snapshot_taken_at, from.version
    )?;
    writeln!(out, "Policies {}, plan {}.", from.policy_digest, from.plan_digest)?;
    writeln!(out, "No plan is better: proved on {proven} of {} levels.", preview.certificate.len())?;
    for level in preview.certificate.iter().filter(|level| !level.is_proven()) {
        writeln!(
            out,
            "  not proved: {} is {}, and cannot be below {}",
            level.level, level.value, level.bound
        )?;
    }
    Ok(())
}

/// A moment to the minute.
fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%MZ").to_string()
}

/// `1 node`, `2 nodes`.
fn many(n: usize, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}
