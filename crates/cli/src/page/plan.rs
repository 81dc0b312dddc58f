//! The page of a plan: the content of the pull-request comment, with the fleet as a picture.

use std::fmt::Write;

use planner::names::{GpuIndex, PolicyName};

use super::svg::{self, Changes};
use super::{escape, page};
use crate::exit::Status;
use crate::expectations::Judged;
use crate::preview::compare::{Change, Compared};
use crate::preview::{self, Preview, markdown, titles, verdict_line};
use crate::question::Question;

/// The page of a preview.
#[must_use]
pub fn plan(question: &Question, preview: &Preview) -> String {
    let verdict = verdict_line(preview);
    let tone = match preview.status() {
        Status::Unmet | Status::Loss | Status::NotReviewed | Status::GaveUp => "red",
        Status::Blocked => "yellow",
        Status::Success | Status::Changes | Status::Negative | Status::Usage | Status::Data | Status::Cut => {
            "green"
        }
    };
    let mut body =
        format!("<header class=\"tone {tone}\"><h1>{}</h1>\n{}</header>\n", escape(&verdict), made(preview));
    warnings(preview, &mut body);
    let _ = writeln!(body, "<h2>{}</h2>\n<figure>{}</figure>", titles::PICTURES, picture(question, preview));
    if let Some(compared) = &preview.compared {
        changes(compared, &mut body);
    }
    nodes(preview, &mut body);
    supply(preview, &mut body);
    requests(preview, &mut body);
    rollout(preview, &mut body);
    beside(preview, &mut body);
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
    let age = preview::age(preview);
    let mut made = format!(
        "<p class=\"made\">Made from a snapshot taken at {}{age} by slicewright {}. Policies <code>{}</code>, plan \
         <code>{}</code>",
        from.snapshot_taken_at, from.version, from.policy_digest, from.plan_digest
    );
    if let Some(compared) = &preview.compared {
        let _ = write!(
            made,
            "; before this change policies <code>{}</code>, plan <code>{}</code>",
            compared.policy_digest, compared.plan_digest
        );
    }
    let _ = writeln!(made, ". {}</p>", escape(&preview::how_good(preview)));
    made
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

/// A heading with a table, where it has rows. The first cells of a row are names, the others figures.
fn table<const N: usize>(
    body: &mut String,
    title: &str,
    head: [&str; N],
    names: usize,
    rows: &[[String; N]],
) {
    if rows.is_empty() {
        return;
    }
    let class = |at: usize| if at < names { "" } else { " class=\"num\"" };
    let _ = write!(body, "<h2>{title}</h2>\n<div class=\"wide\"><table><tr>");
    for (at, cell) in head.iter().enumerate() {
        let _ = write!(body, "<th{}>{cell}</th>", class(at));
    }
    body.push_str("</tr>\n");
    for row in rows {
        body.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(body, "<td{}>{}</td>", class(at), escape(cell));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
}

/// An expectation, with what is found, what to do and why it is expected where it does not hold.
fn expectation(judged: &Judged) -> String {
    let word = if judged.holds { "holds" } else { "FAILED" };
    let mut item = format!("{} {}{}", kind(word), escape(&judged.name), preview::before(judged));
    for failed in &judged.failures {
        let _ = write!(item, "<br>{}. Next: {}", escape(&failed.message), escape(&failed.next));
    }
    if let Some(why) = judged.why.as_ref().filter(|_| !judged.holds) {
        let _ = write!(item, "<br>Why it is expected: {}", escape(why));
    }
    item
}

/// The expectations that hold, or those that do not.
fn expectations(preview: &Preview, holds: bool) -> Vec<String> {
    preview.expectations.iter().filter(|judged| judged.holds == holds).map(expectation).collect()
}

/// What can go wrong, or what is only good to know.
fn risks(preview: &Preview, notes: bool) -> Vec<String> {
    let risks = preview.risks.iter().filter(|risk| (risk.kind == "note") == notes);
    risks.map(|risk| format!("{} {}", kind(risk.kind), escape(&risk.message))).collect()
}

fn warnings(preview: &Preview, body: &mut String) {
    let refused: Vec<String> = preview
        .not_reviewed
        .iter()
        .map(|n| format!("<code>{}</code>: {}", escape(&n.policy), escape(&n.message)))
        .collect();
    list(body, titles::NOT_REVIEWED, &refused);
    list(body, titles::FAILED, &expectations(preview, false));
    list(body, titles::RISKS, &risks(preview, false));
}

/// What is good to know, and hurts nobody.
fn beside(preview: &Preview, body: &mut String) {
    list(body, titles::HOLD, &expectations(preview, true));
    list(body, titles::NOTES, &risks(preview, true));
    let not_read: Vec<String> = preview
        .not_read
        .iter()
        .map(|n| {
            format!(
                "<code>{}</code> at <code>{}</code>: {}",
                escape(&n.what),
                escape(&n.place),
                escape(n.why)
            )
        })
        .collect();
    list(body, titles::NOT_READ, &not_read);
}

/// What differs from the policies before, and for whom.
fn changes(compared: &Compared, body: &mut String) {
    let mut policies: Vec<String> = compared
        .policies
        .iter()
        .map(|diff| {
            let what = match diff.change {
                Change::Added => "is added",
                Change::Removed => "is removed",
                Change::Changed => "changes",
            };
            format!("<code>{}</code> {what}", escape(&diff.policy.to_string()))
        })
        .collect();
    policies.extend(compared.modes.iter().map(|change| escape(&change.message())));
    if policies.is_empty() {
        policies.push("the policies are the same as before".to_owned());
    }
    list(body, titles::POLICIES, &policies);
    if compared.policies.iter().any(|diff| !diff.yaml.is_empty()) {
        let _ = writeln!(body, "<h2>{}</h2>", titles::MANIFESTS);
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
    let gpus: Vec<[String; 4]> = compared
        .gpus
        .iter()
        .map(|diff| [diff.gpu.to_string(), diff.now.clone(), diff.before.clone(), diff.after.clone()])
        .collect();
    table(body, titles::GPUS, ["GPU", "has", "before this change", "after it"], 4, &gpus);
    who(compared, body);
}

fn who(compared: &Compared, body: &mut String) {
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
    for moved in &compared.nodes {
        let name = |policy: &Option<PolicyName>| {
            policy.as_ref().map_or("no policy".to_owned(), |policy| {
                format!("<code>{}</code>", escape(&policy.to_string()))
            })
        };
        let (before, after) = (name(&moved.before), name(&moved.after));
        who.push(format!("node <code>{}</code>: {before} → {after}", escape(&moved.node.to_string())));
    }
    list(body, titles::WHO, &who);
}

fn nodes(preview: &Preview, body: &mut String) {
    if preview.nodes.is_empty() {
        return;
    }
    let _ = writeln!(
        body,
        "<h2>{}</h2>\n<div class=\"wide\"><table><tr><th>node</th><th>policy</th><th>GPUs</th><th></th></tr>",
        titles::NODES
    );
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
    table(
        body,
        titles::SUPPLY,
        ["policy", "profile", "there now", "planned", "allocated", "asked for", "unserved", "attainable"],
        2,
        &markdown::supply_rows(preview),
    );
    table(
        body,
        titles::SEATS,
        ["policy", "resource", "devices", "seats", "held", "planned", "asked for", "unserved"],
        2,
        &markdown::seat_rows(preview),
    );
}

fn requests(preview: &Preview, body: &mut String) {
    let items: Vec<String> = preview
        .requests
        .iter()
        .map(|answer| format!("<code>{}</code>: {}", escape(&answer.request), escape(&answer.answer)))
        .collect();
    list(body, titles::REQUESTS, &items);
}

fn rollout(preview: &Preview, body: &mut String) {
    let mut items = Vec::new();
    for (policy, waves) in &preview.rollout {
        for (number, wave) in (1..).zip(waves) {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            let when = preview::when(wave);
            items.push(escape(&format!("{policy} {number}. {when}: {}", nodes.join(", "))));
        }
    }
    list(body, titles::ROLLOUT, &items);
}

fn annotations(preview: &Preview, body: &mut String) {
    body.push_str("<details><summary>Reviewed? Commit these annotations with the policies</summary>\n<pre>");
    for (key, value) in &preview.provenance.annotations {
        let _ = writeln!(body, "{}", escape(&format!("{key}: {value}")));
    }
    body.push_str("</pre></details>\n");
}
