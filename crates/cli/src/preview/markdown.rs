//! The preview as one comment of a pull request: the verdict, the risks, and then the rest, with folded
//! details. It never exceeds a number of bytes, since forges cut or refuse long comments; it says what is
//! omitted, and never omits the verdict and the provenance.

use std::io::{self, Write};

use planner::names::PolicyName;
use planner::report::Supply;

use crate::draw::{self, Colour};
use crate::expectations::{Failed, Judged};

use super::compare::{Change, Compared, SupplyDiff};
use super::{Preview, text, titles};

/// How long a comment may be: GitHub takes 65,536 characters.
pub const MOST_BYTES: usize = 60_000;
/// Below this there is no room for the verdict and the provenance: a quarter is for each of them, and 1,000 bytes for
/// the sentence that says what was left out.
pub const LEAST_BYTES: usize = 4_000;
/// Room for the sentence that says what was left out.
const LEFT_OUT_BYTES: usize = 1_000;
/// How long one line of a list may be.
const MOST_LINE: usize = 600;

/// Prints it in at most `most` bytes.
///
/// # Errors
/// If `out` cannot be written to.
pub fn print(preview: &Preview, most: usize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(render(preview, most).as_bytes())
}

/// A titled list, or a table when it has a head.
struct Section {
    title: String,
    /// What its items are, for the line that says what was left out.
    of: &'static str,
    folded: bool,
    head: Option<&'static str>,
    /// The language of the block of code that its items are the lines of.
    fence: Option<&'static str>,
    items: Vec<String>,
}

impl Section {
    fn open(&self) -> String {
        let fence = self.fence.map(|language| format!("```{language}\n"));
        let head = self.head.map(|head| format!("{head}\n")).or(fence).unwrap_or_default();
        match self.folded {
            true => format!("<details><summary>{} ({})</summary>\n\n{head}", self.title, self.items.len()),
            false => format!("#### {}\n\n{head}", self.title),
        }
    }

    const fn close(&self) -> &'static str {
        match (self.fence.is_some(), self.folded) {
            (true, true) => "```\n\n</details>\n\n",
            (true, false) => "```\n\n",
            (false, true) => "\n</details>\n\n",
            (false, false) => "\n",
        }
    }
}

fn render(preview: &Preview, most: usize) -> String {
    let most = most.max(LEAST_BYTES);
    let verdict = format!("**{}**\n\n", plain_within(&text::verdict_line(preview), most / 4));
    let tail = tail(preview, most / 4);
    let mut body = String::new();
    let mut room = most.saturating_sub(verdict.len() + tail.len() + LEFT_OUT_BYTES);
    let mut left_out = Vec::new();
    for section in sections(preview) {
        let (open, close) = (section.open(), section.close());
        // One section may not take all the room from those after it.
        let mut here = (room / 2).saturating_sub(open.len() + close.len());
        let mut lines = String::new();
        let mut shown = 0;
        for item in &section.items {
            if item.len() + 1 > here {
                break;
            }
            here -= item.len() + 1;
            lines.push_str(item);
            lines.push('\n');
            shown += 1;
        }
        let all = section.items.len();
        if shown < all {
            left_out.push(format!("{} of {all} {}", all - shown, section.of));
        }
        if shown > 0 {
            let part = format!("{open}{lines}{close}");
            room -= part.len();
            body.push_str(&part);
        }
    }
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        body.push_str(&format!(
            "Omitted, so that this fits into one comment: {left_out}. `slicewright plan -o text` shows everything.\n\n"
        ));
    }
    format!("{verdict}{body}{tail}")
}

fn sections(preview: &Preview) -> Vec<Section> {
    let mut all = Vec::new();
    let refused = |n: &super::NotReviewed| item(&format!("{}: {}", code(&n.policy), plain(&n.message)));
    all.push(list(
        titles::NOT_REVIEWED,
        "policies with another review",
        false,
        preview.not_reviewed.iter().map(refused).collect(),
    ));
    let (held, failed): (Vec<_>, Vec<_>) = preview.expectations.iter().partition(|judged| judged.holds);
    all.push(list(titles::FAILED, "failed expectations", false, failed.into_iter().map(failure).collect()));
    let risk = |risk: &super::Risk| item(&format!("**{}**: {}", risk.kind, plain(&risk.message)));
    let (notes, risks): (Vec<_>, Vec<_>) = preview.risks.iter().partition(|risk| risk.kind == "note");
    all.push(list(titles::RISKS, "risks", false, risks.into_iter().map(risk).collect()));
    if let Some(compared) = &preview.compared {
        changes(compared, &mut all);
    }
    all.push(bars(preview));
    all.push(supply(preview));
    all.extend(seats(preview));
    all.push(nodes(preview));
    let answer =
        |answer: &super::Answer| item(&format!("{}: {}", code(&answer.request), plain(&answer.answer)));
    all.push(list(titles::REQUESTS, "requests", true, preview.requests.iter().map(answer).collect()));
    all.push(rollout(preview));
    let holds = |judged: &Judged| item(&format!("{}{}", plain(&judged.name), text::before(judged)));
    all.push(list(titles::HOLD, "expectations that hold", true, held.into_iter().map(holds).collect()));
    all.push(list(titles::NOTES, "notes", true, notes.into_iter().map(risk).collect()));
    let not_read = |n: &super::NotRead| item(&format!("{} at {}: {}", code(&n.what), code(&n.place), n.why));
    all.push(list(
        titles::NOT_READ,
        "documents not read",
        true,
        preview.not_read.iter().map(not_read).collect(),
    ));
    all.retain(|section| !section.items.is_empty());
    all
}

fn list(title: &str, of: &'static str, folded: bool, items: Vec<String>) -> Section {
    Section { title: title.to_owned(), of, folded, head: None, fence: None, items }
}

fn item(text: &str) -> String {
    format!("- {}", cut(text, MOST_LINE))
}

/// An expectation that does not hold: what is expected, what is found, what to do.
fn failure(judged: &Judged) -> String {
    let mut parts = vec![format!("**{}**{}", plain(&judged.name), text::before(judged))];
    for Failed { field: _, message, next } in &judged.failures {
        parts.push(format!("{}. Next: {}", plain(&cut(message, 400)), plain(&cut(next, 400))));
    }
    if let Some(why) = &judged.why {
        parts.push(format!("Why it is expected: {}", plain(&cut(why, 400))));
    }
    format!("- {}", parts.join("<br>"))
}

/// What differs from the policies before, and for whom.
fn changes(compared: &Compared, all: &mut Vec<Section>) {
    let (mut policies, mut manifests) = (Vec::new(), Vec::new());
    for diff in &compared.policies {
        let name = code(&diff.policy.to_string());
        match diff.change {
            Change::Added => policies.push(item(&format!("{name} is added"))),
            Change::Removed => policies.push(item(&format!("{name} is removed"))),
            Change::Changed => policies.push(item(&format!("{name} changes"))),
        }
        manifests.extend(diff.yaml.iter().map(|line| fenced(line)));
    }
    policies.extend(compared.modes.iter().map(|change| item(&plain(&change.message()))));
    if policies.is_empty() {
        policies.push("- the policies are the same as before".to_owned());
    }
    all.push(list(titles::POLICIES, "changes of policies", false, policies));
    let manifests = list(titles::MANIFESTS, "lines of the manifests", false, manifests);
    all.push(Section { fence: Some("diff"), ..manifests });
    let gpus = compared.gpus.iter().map(|diff| {
        format!(
            "| {} | {} | {} | {} |",
            code(&diff.gpu.to_string()),
            plain(&diff.now),
            plain(&diff.before),
            plain(&diff.after)
        )
    });
    all.push(Section {
        title: titles::GPUS.to_owned(),
        of: "GPUs",
        folded: false,
        head: Some("| GPU | has | before this change | after it |\n|---|---|---|---|"),
        fence: None,
        items: gpus.collect(),
    });
    let mut who = Vec::new();
    let mut say = |names: Vec<String>, what: &str| {
        who.extend(names.iter().map(|name| item(&format!("{} {what}", code(name)))));
    };
    let pods = |pods: &[planner::names::PodRef]| pods.iter().map(ToString::to_string).collect();
    say(pods(&compared.evicts), "is evicted");
    say(compared.lose.clone(), "is not served any more");
    say(compared.wait.clone(), "has to wait for a change, and was served with existing slices before");
    say(compared.gain.clone(), "is served now");
    say(pods(&compared.spares), "is not evicted any more");
    for moved in &compared.nodes {
        let name = |policy: &Option<PolicyName>| {
            policy.as_ref().map_or("no policy".to_owned(), |policy| code(&policy.to_string()))
        };
        let (before, after) = (name(&moved.before), name(&moved.after));
        who.push(item(&format!("node {}: {before} → {after}", code(&moved.node.to_string()))));
    }
    all.push(list(titles::WHO, "who are affected", false, who));
}

/// Supply against demand, before and after where there is a before: policy, profile and the figures.
pub(crate) fn supply_rows(preview: &Preview) -> Vec<[String; 8]> {
    let mut rows = Vec::new();
    let figure = |diff: &SupplyDiff, of: fn(&Supply) -> u32| match (diff.before.as_ref(), diff.after.as_ref())
    {
        (Some(before), Some(after)) if of(before) != of(after) => format!("{} → {}", of(before), of(after)),
        (Some(only), None) => format!("{} → –", of(only)),
        (None, Some(only)) if preview.compared.is_some() => format!("– → {}", of(only)),
        (_, Some(only)) => of(only).to_string(),
        (None, None) => String::new(),
    };
    let here;
    let supplies = match &preview.compared {
        Some(compared) => &compared.supply,
        None => {
            let alone = |supply: &Supply| SupplyDiff { before: None, after: Some(*supply) };
            let of = |all: &std::collections::BTreeMap<_, Supply>| {
                all.iter().map(|(profile, supply)| (*profile, alone(supply))).collect()
            };
            here = preview.supply.iter().map(|(policy, all)| (policy.clone(), of(all))).collect();
            &here
        }
    };
    for (policy, profiles) in supplies {
        for (profile, diff) in profiles {
            let counts = |s: &Supply| s.present + s.planned + s.requested > 0;
            if ![diff.before, diff.after].iter().flatten().any(counts) {
                continue;
            }
            rows.push([
                policy.to_string(),
                profile.to_string(),
                figure(diff, |s| s.present),
                figure(diff, |s| s.planned),
                figure(diff, |s| s.allocated),
                figure(diff, |s| s.requested),
                figure(diff, |s| s.unserved),
                figure(diff, |s| s.attainable),
            ]);
        }
    }
    rows
}

fn supply(preview: &Preview) -> Section {
    let row = |[policy, rest @ ..]: &[String; 8]| format!("| {} | {} |", code(policy), rest.join(" | "));
    let items = supply_rows(preview).iter().map(row).collect();
    Section {
        title: titles::SUPPLY.to_owned(),
        of: "rows of supply and demand",
        folded: false,
        head: Some(
            "| policy | profile | there now | planned | allocated | asked for | unserved | attainable |\n|---|---|--:|--:|--:|--:|--:|--:|",
        ),
        fence: None,
        items,
    }
}

/// Supply and demand in seats: policy, resource and the figures.
pub(crate) fn seat_rows(preview: &Preview) -> Vec<[String; 8]> {
    let rows = preview.seats.iter().flat_map(|(policy, all)| all.iter().map(move |(of, s)| (policy, of, s)));
    rows.map(|(policy, offered, s)| {
        let figures = [s.devices, s.total, s.held, s.planned, s.requested, s.unserved];
        let [devices, total, held, planned, requested, unserved] = figures.map(|figure| figure.to_string());
        [policy.to_string(), offered.resource_name(), devices, total, held, planned, requested, unserved]
    })
    .collect()
}

/// Supply and demand in seats, where there are any.
fn seats(preview: &Preview) -> Option<Section> {
    let row = |[policy, resource, rest @ ..]: &[String; 8]| {
        format!("| {} | {} | {} |", code(policy), code(resource), rest.join(" | "))
    };
    let items: Vec<String> = seat_rows(preview).iter().map(row).collect();
    let section = Section {
        title: titles::SEATS.to_owned(),
        of: "rows of seats",
        folded: false,
        head: Some(
            "| policy | resource | devices | seats | held | planned | asked for | unserved |\n|---|---|--:|--:|--:|--:|--:|--:|",
        ),
        fence: None,
        items,
    };
    (!section.items.is_empty()).then_some(section)
}

/// Each GPU that changes, as it is and as it becomes.
fn bars(preview: &Preview) -> Section {
    let mut items = Vec::new();
    for node in &preview.nodes {
        for gpu in &node.gpus {
            let Some(bars) = &gpu.bars else { continue };
            let [now, then] = bars.lines(Colour::Never);
            // One item, so that no GPU is shown by half.
            let name = fenced(&format!("{}/gpu{} {}", node.node, gpu.gpu, gpu.model));
            items.push(format!("{name}\n  now  {now}\n  then {then}"));
        }
    }
    let title = format!("{}: {}", titles::PICTURES, draw::legend(Colour::Never));
    Section { fence: Some("text"), ..list(&title, "GPUs as pictures", true, items) }
}

fn nodes(preview: &Preview) -> Section {
    let items = preview.nodes.iter().map(|node| {
        let gpus: Vec<String> =
            node.gpus.iter().map(|gpu| format!("gpu{}: {} → {}", gpu.gpu, gpu.before, gpu.after)).collect();
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
        if !node.evicts.is_empty() {
            notes.push(format!("evicts {}", text::some(&node.evicts)));
        }
        if !node.serves.is_empty() {
            notes.push(format!("serves {}", text::some(&node.serves)));
        }
        format!(
            "| {} | {} | {} | {} |",
            code(&node.node.to_string()),
            code(&node.policy.to_string()),
            plain(&cut(&gpus.join("; "), MOST_LINE)),
            plain(&cut(&notes.join("; "), MOST_LINE))
        )
    });
    Section {
        title: titles::NODES.to_owned(),
        of: "nodes",
        folded: true,
        head: Some("| node | policy | GPUs | |\n|---|---|---|---|"),
        fence: None,
        items: items.collect(),
    }
}

fn rollout(preview: &Preview) -> Section {
    let mut items = Vec::new();
    for (policy, waves) in &preview.rollout {
        for (number, wave) in (1..).zip(waves) {
            let when = text::when(wave);
            items.push(item(&format!(
                "{} {number}. {when}: {}",
                code(&policy.to_string()),
                text::some(&wave.nodes)
            )));
        }
    }
    list(titles::ROLLOUT, "waves", true, items)
}

/// Where all this comes from, the digests, and the mark by which the comment
/// is found again. Never left out; of the annotations, those that fit into
/// `room`.
fn tail(preview: &Preview, room: usize) -> String {
    let from = &preview.provenance;
    let cluster = from.cluster.as_deref().unwrap_or("a fleet");
    let mut tail = format!(
        "---\nMade from a snapshot of {} taken at {}{} by slicewright {}. Policies {}, plan {}",
        code(&cut(cluster, 100)),
        from.snapshot_taken_at,
        text::age(preview),
        from.version,
        code(&from.policy_digest),
        code(&from.plan_digest)
    );
    if let Some(compared) = &preview.compared {
        let (policies, plan) = (code(&compared.policy_digest), code(&compared.plan_digest));
        tail.push_str(&format!("; before this change policies {policies}, plan {plan}"));
    }
    tail.push_str(&format!(
        ". {}\n\n{}{}\n",
        cut(&super::how_good(preview), 300),
        annotations(preview, room.saturating_sub(tail.len())),
        mark(from.cluster.as_deref())
    ));
    tail
}

/// The annotations that say that this was reviewed.
fn annotations(preview: &Preview, room: usize) -> String {
    let head = "<details><summary>After the review, commit these annotations with the policies; their status then says whether the reviewed plan is the one that runs</summary>\n\n```yaml\n";
    let mut lines = String::new();
    for (key, value) in preview.provenance.annotations.iter().rev() {
        let line = format!("{key}: {value}\n");
        if head.len() + lines.len() + line.len() < room {
            lines.push_str(&line);
        }
    }
    if lines.is_empty() { lines } else { format!("{head}{lines}```\n\n</details>\n\n") }
}

/// The mark that makes a comment findable, one for each cluster.
#[must_use]
pub fn mark(cluster: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let name: String = cluster.unwrap_or("fleet").chars().filter(|c| plain(*c)).take(100).collect();
    format!("<!-- slicewright-plan:{} -->", name.replace("--", "-"))
}

/// At most so many characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(most).collect::<String>())
}

/// Text of others without any power over the page: no markup, no mention, one line.
fn plain(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("@\u{200b}"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The same in at most so many bytes; what is cut off is never a part of an escape.
fn plain_within(text: &str, most: usize) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        let next = plain(&c.to_string());
        if safe.len() + next.len() + '…'.len_utf8() > most {
            safe.push('…');
            break;
        }
        safe.push_str(&next);
    }
    safe
}

/// A line inside of a block of code: it cannot end the block.
fn fenced(text: &str) -> String {
    cut(&text.replace("```", "` ` `"), MOST_LINE)
}

/// A name, as code.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ").replace('`', "'").replace('|', "\\|");
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_has_no_power_over_the_page() {
        assert_eq!(
            plain("a|b <script> @team *x* `y`\n# z"),
            "a\\|b &lt;script&gt; @\u{200b}team \\*x\\* \\`y\\` # z"
        );
        assert_eq!(code("a`b|c\nd"), "`a'b\\|c d`");
        assert_eq!(mark(Some("lab --> <b>")), "<!-- slicewright-plan:lab-b -->");
    }
}
