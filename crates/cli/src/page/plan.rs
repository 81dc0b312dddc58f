//! The page of a plan: the content of the pull-request comment, with the fleet as a picture.

use std::fmt::Write;

use planner::names::GpuIndex;
use planner::report::Supply;

use super::svg::{self, Changes};
use super::{escape, page};
use crate::exit::Status;
use crate::preview::{Preview, verdict_line};
use crate::question::Question;

/// The page of a preview.
#[must_use]
pub fn plan(question: &Question, preview: &Preview) -> String {
    let verdict = verdict_line(preview);
    let tone = match preview.status() {
        Status::Unmet | Status::Loss | Status::NotReviewed | Status::GaveUp => "red",
        Status::Blocked => "yellow",
        Status::Success | Status::Changes | Status::Negative | Status::Usage | Status::Data => "green",
    };
    let mut body =
        format!("<header class=\"tone {tone}\"><h1>{}</h1>\n{}</header>\n", escape(&verdict), made(preview));
    warnings(preview, &mut body);
    let _ =
        writeln!(body, "<h2>The fleet, now and then</h2>\n<figure>{}</figure>", picture(question, preview));
    compared(preview, &mut body);
    nodes(preview, &mut body);
    supply(preview, &mut body);
    requests(preview, &mut body);
    rollout(preview, &mut body);
    annotations(preview, &mut body);
    page(&verdict, &body)
}

/// The fleet with what becomes of it.
#[must_use]
pub fn picture(question: &Question, preview: &Preview) -> String {
    let changes: Changes<'_> = preview
        .nodes
        .iter()
        .flat_map(|node| node.gpus.iter().map(move |gpu| (&node.node, gpu)))
        .filter_map(|(node, gpu)| Some(((node, GpuIndex(gpu.gpu)), gpu.bars.as_ref()?)))
        .collect();
    svg::fleet(&question.seen.inventory, &changes, &verdict_line(preview))
}

fn made(preview: &Preview) -> String {
    let from = &preview.provenance;
    let age = crate::preview::age(preview);
    format!(
        "<p class=\"made\">Made from a snapshot taken at {}{age} by slicewright {}. Policies <code>{}</code>, plan \
         <code>{}</code>.</p>\n",
        from.snapshot_taken_at, from.version, from.policy_digest, from.plan_digest
    )
}

/// A heading with a list, where there is something in it.
fn list(body: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(body, "<h2>{title}</h2>\n<ul>");
    for item in items {
        let _ = writeln!(body, "<li>{item}</li>");
    }
    body.push_str("</ul>\n");
}

fn kind(word: &str) -> String {
    let tone = match word {
        "violation" | "eviction" | "loss" | "FAILED" => " red",
        "blocked" | "wait" | "warning" => " yellow",
        "holds" => " green",
        _ => "",
    };
    format!("<span class=\"kind{tone}\">{}</span>", escape(word))
}

fn warnings(preview: &Preview, body: &mut String) {
    let refused: Vec<String> = preview
        .not_reviewed
        .iter()
        .map(|n| format!("<code>{}</code>: {}", escape(&n.policy), escape(&n.message)))
        .collect();
    list(body, "The plan differs from the reviewed plan", &refused);
    let mut expectations = Vec::new();
    for judged in &preview.expectations {
        let word = if judged.holds { "holds" } else { "FAILED" };
        let mut item = format!("{} {}", kind(word), escape(&judged.name));
        for failed in &judged.failures {
            let _ = write!(item, "<br>{}. Next: {}", escape(&failed.message), escape(&failed.next));
        }
        expectations.push(item);
    }
    list(body, "Expectations", &expectations);
    let risks: Vec<String> =
        preview.risks.iter().map(|risk| format!("{} {}", kind(risk.kind), escape(&risk.message))).collect();
    list(body, "What can go wrong", &risks);
}

fn compared(preview: &Preview, body: &mut String) {
    let Some(compared) = &preview.compared else { return };
    if !compared.policies.is_empty() {
        body.push_str("<h2>Policies</h2>\n");
    }
    for diff in &compared.policies {
        let _ = write!(body, "<pre aria-label=\"{}\">", escape(&diff.policy.to_string()));
        for line in &diff.yaml {
            let class = match line.chars().next() {
                Some('+') => "plus",
                Some('-') => "minus",
                Some('@') => "at",
                _ => "same",
            };
            let _ = writeln!(body, "<span class=\"{class}\">{}</span>", escape(line));
        }
        body.push_str("</pre>\n");
    }
    let mut who = Vec::new();
    let mut say = |names: Vec<String>, what: &str| {
        who.extend(names.iter().map(|name| format!("<code>{}</code> {what}", escape(name))));
    };
    let pods = |pods: &[planner::names::PodRef]| pods.iter().map(ToString::to_string).collect();
    say(pods(&compared.evicts), "is evicted");
    say(compared.lose.clone(), "is not served any more");
    say(compared.wait.clone(), "has to wait for a change, and was served with existing slices before");
    say(compared.gain.clone(), "is served now");
    say(pods(&compared.spares), "is not evicted any more");
    list(body, "Who is affected", &who);
}

fn nodes(preview: &Preview, body: &mut String) {
    if preview.nodes.is_empty() {
        return;
    }
    body.push_str("<h2>Nodes, in the order in which they change</h2>\n<div class=\"wide\"><table><tr><th>node</th><th>policy</th><th>GPUs</th><th></th></tr>\n");
    for node in &preview.nodes {
        let gpus: Vec<String> = node
            .gpus
            .iter()
            .map(|gpu| format!("gpu{} {}: {} → {}", gpu.gpu, gpu.model, gpu.before, gpu.after))
            .collect();
        let mut notes = Vec::new();
        if node.preview_only {
            notes.push("preview only".to_owned());
        }
        if node.enables_mig {
            notes.push("MIG is switched on: all its GPUs are reset".to_owned());
        }
        if node.disables_mig {
            notes.push("MIG is switched off: all its GPUs are cleared".to_owned());
        }
        notes.extend(node.evicts.iter().map(|pod| format!("evicts {pod}")));
        notes.extend(node.serves.iter().map(|request| format!("serves {request}")));
        let cell = |lines: &[String]| lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>");
        let _ = writeln!(
            body,
            "<tr><td><code>{}</code></td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escape(&node.node.to_string()),
            escape(&node.policy.to_string()),
            cell(&gpus),
            cell(&notes)
        );
    }
    body.push_str("</table></div>\n");
}

fn supply(preview: &Preview, body: &mut String) {
    body.push_str(
        "<h2>Supply and demand</h2>\n<div class=\"wide\"><table><tr><th>policy</th><th>profile</th>",
    );
    for title in ["there now", "planned", "allocated", "asked for", "unserved", "attainable"] {
        let _ = write!(body, "<th class=\"num\">{title}</th>");
    }
    body.push_str("</tr>\n");
    for (policy, profiles) in &preview.supply {
        for (profile, supply) in profiles {
            let Supply { present, planned, allocated, requested, unserved, attainable } = supply;
            if present + planned + requested == 0 {
                continue;
            }
            let _ =
                write!(body, "<tr><td><code>{}</code></td><td>{profile}</td>", escape(&policy.to_string()));
            for figure in [present, planned, allocated, requested, unserved, attainable] {
                let _ = write!(body, "<td class=\"num\">{figure}</td>");
            }
            body.push_str("</tr>\n");
        }
    }
    body.push_str("</table></div>\n");
}

fn requests(preview: &Preview, body: &mut String) {
    let items: Vec<String> = preview
        .requests
        .iter()
        .map(|answer| format!("<code>{}</code>: {}", escape(&answer.request), escape(&answer.answer)))
        .collect();
    list(body, "Requests that wait", &items);
}

fn rollout(preview: &Preview, body: &mut String) {
    let mut items = Vec::new();
    for (policy, waves) in &preview.rollout {
        for (number, wave) in (1..).zip(waves) {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            let when = crate::preview::when(wave);
            items.push(escape(&format!("{policy} {number}. {when}: {}", nodes.join(", "))));
        }
    }
    list(body, "Rollout, with conservative estimates", &items);
}

fn annotations(preview: &Preview, body: &mut String) {
    body.push_str("<details><summary>Reviewed? Commit these annotations with the policies</summary>\n<pre>");
    for (key, value) in &preview.provenance.annotations {
        let _ = writeln!(body, "{}", escape(&format!("{key}: {value}")));
    }
    body.push_str("</pre></details>\n");
}
