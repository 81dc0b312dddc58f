//! Parses a story. The whole story is parsed before any of it is executed, so that a misspelt last line
//! does not waste a run.

use std::collections::BTreeMap;

use api::node_agent::AgentMode;
use jiff::{SignedDuration, Timestamp};

use crate::command::{
    COMMANDS, Command, EXPECTATIONS, Expectation, Manifest, NodeSpec, PodSpec, Step, Stopper, Story, Topic,
    WorkbenchSpec,
};
use crate::place::{Place, StoryError, did_you_mean};
use crate::words::{Word, Words, split};

/// How long `run until quiet` runs at most when the story does not say.
const QUIET_AFTER: SignedDuration = SignedDuration::from_hours(4);

/// Reads the text of a story.
///
/// # Errors
/// The first thing that is wrong: where, what, and what is allowed.
pub fn parse(text: &str) -> Result<Story, StoryError> {
    let mut steps = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut index = 0;
    while index < lines.len() {
        let (line, number) = (lines[index], index + 1);
        index += 1;
        let trimmed = line.trim();
        let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
        let place = Place { line: number, column };
        if trimmed.is_empty() {
            continue;
        }
        if let Some(remark) = trimmed.strip_prefix('#') {
            let command = Command::Remark(remark.trim().to_owned());
            steps.push(Step { place, text: trimmed.to_owned(), command });
            continue;
        }
        if column > 1 {
            let what = "this line is indented, and no block is open: a block follows `policy:` or `apply:`";
            return Err(StoryError::new(place, what));
        }
        let end = Place { line: number, column: line.chars().count() + 1 };
        let command = if let Some(word) = trimmed.strip_suffix(':') {
            let manifest = block(&lines, &mut index);
            block_command(word, place, manifest)?
        } else {
            command(&mut Words::new(split(line, number)?, end))?
        };
        if matches!(command, Command::Clock(_))
            && steps.iter().any(|s: &Step| !matches!(s.command, Command::Remark(_)))
        {
            return Err(StoryError::new(place, "`clock` must come before everything else"));
        }
        steps.push(Step { place, text: trimmed.to_owned(), command });
    }
    Ok(Story { steps })
}

/// The indented lines from `index` on.
fn block(lines: &[&str], index: &mut usize) -> Manifest {
    let first = *index;
    while lines.get(*index).is_some_and(|l| l.trim().is_empty() || l.starts_with([' ', '\t'])) {
        *index += 1;
    }
    let body = &lines[first..*index];
    let indent = body.iter().filter(|l| !l.trim().is_empty()).map(|l| l.len() - l.trim_start().len()).min();
    let indent = indent.unwrap_or(0);
    let text = body.iter().map(|l| format!("{}\n", l.get(indent..).unwrap_or(""))).collect();
    Manifest::Block { text, place: Place { line: first + 1, column: indent + 1 } }
}

fn block_command(word: &str, place: Place, manifest: Manifest) -> Result<Command, StoryError> {
    if matches!(&manifest, Manifest::Block { text, .. } if text.trim().is_empty()) {
        return Err(StoryError::new(
            place,
            format!("`{word}:` needs a block: indented lines of YAML below it"),
        ));
    }
    match word {
        "policy" => Ok(Command::Policy(manifest)),
        "apply" => Ok(Command::Apply(manifest)),
        _ => {
            Err(StoryError::new(place, format!("`{word}:` does not open a block; `policy:` and `apply:` do")))
        }
    }
}

fn command(words: &mut Words) -> Result<Command, StoryError> {
    let first = words.word("a command")?;
    let command = match first.text.as_str() {
        "clock" => Command::Clock(timestamp(words)?),
        "node" => node(words)?,
        "namespace" => {
            let name = words.name("the name of a namespace")?;
            let labels = if words.peek().is_some() { words.pairs("a label")? } else { BTreeMap::new() };
            Command::Namespace(name, labels)
        }
        "policy" => {
            Command::Policy(Manifest::File(words.word("the path of a file, or a block (`policy:`),")?))
        }
        "apply" => Command::Apply(Manifest::File(words.word("the path of a file, or a block (`apply:`),")?)),
        "delete" => {
            let (kind, _) = words.one_of(&["policy", "workbench", "pod", "node", "profile"])?;
            Command::Delete(kind, words.word("a name")?)
        }
        "workbench" => {
            let key = words.namespaced("a workbench")?;
            let (asks, works, opens) = asks(words, "profile")?;
            debug_assert!(works.is_none() && !opens, "only pods have them");
            Command::Workbench(key, asks)
        }
        "pod" => {
            let key = words.namespaced("a pod")?;
            let (asks, works, opens) = asks(words, "works")?;
            Command::Pod(key, PodSpec { asks, works, opens })
        }
        "budget" => {
            let key = words.namespaced("a disruption budget")?;
            let min = words.number("how many pods must stay")?;
            Command::Budget(key, words.pairs("a label")?, min)
        }
        "start" => Command::Start(words.namespaced("a workbench")?),
        "stop" => {
            let key = words.namespaced("a workbench")?;
            Command::Stop(key, if words.take("culled") { Stopper::Culler } else { Stopper::User })
        }
        "end" => Command::End(words.namespaced("a pod")?),
        "open" => Command::Open(words.namespaced("a workbench or pod")?),
        "close" => Command::Close(words.namespaced("a workbench or pod")?),
        "cordon" => {
            let node = words.name("a node")?;
            let who =
                if words.take("by") { words.word("who cordons it")?.text } else { "somebody".to_owned() };
            Command::Cordon(node, who)
        }
        "uncordon" => Command::Uncordon(words.name("a node")?),
        "label" => label(words)?,
        "foreign" => {
            let node = words.name("a node")?;
            Command::Foreign(node, words.word("the name of a map entry")?.text)
        }
        "agent" => {
            let node = words.name("a node")?;
            let mode = match words.one_of(&["changes", "reports", "gone"])?.0 {
                "changes" => Some(AgentMode::Change),
                "reports" => Some(AgentMode::Report),
                _ => None,
            };
            Command::Agent(node, mode)
        }
        "reboot" => Command::Reboot(words.name("a node")?),
        "fault" => {
            let node = words.name("a node")?;
            Command::Fault(node, crate::faults::read(words)?)
        }
        "release" => Command::Release(words.name("a node")?),
        "crash" => Command::Crash,
        "advance" => Command::Advance(words.duration()?),
        "run" => {
            words.one_of(&["until"])?;
            words.one_of(&["quiet"])?;
            Command::RunUntilQuiet(if words.take("max") { words.duration()? } else { QUIET_AFTER })
        }
        "plan" => Command::Plan,
        "explain" => Command::Explain(match words.one_of(&["request", "node", "policy"])?.0 {
            "request" => Topic::Request(words.namespaced("a workbench or pod")?),
            "node" => Topic::Node(words.name("a node")?),
            _ => Topic::Policy(words.name("a policy")?),
        }),
        "fleet" => Command::Fleet,
        "expect" => Command::Expect(expectation(words)?),
        other => {
            let known = || COMMANDS.iter().map(|c| c.word);
            let list = known().collect::<Vec<_>>().join(", ");
            let what =
                format!("there is no command `{other}`; there are {list}{}", did_you_mean(other, known()));
            return Err(StoryError::new(first.place, what));
        }
    };
    words.end()?;
    Ok(command)
}

fn timestamp(words: &mut Words) -> Result<Timestamp, StoryError> {
    let word = words.word("a time, such as 2026-03-02T09:00:00Z,")?;
    word.text.parse().map_err(|_| {
        let what = format!("`{}` should be a time with a zone, such as 2026-03-02T09:00:00Z", word.text);
        StoryError::new(word.place, what)
    })
}

fn node(words: &mut Words) -> Result<Command, StoryError> {
    let names = node_names(&words.word("the name of a node")?)?;
    let gpus = gpus(&words.word("GPUs, such as 8xA100-80GB,")?)?;
    let mut spec = NodeSpec {
        gpus,
        labels: BTreeMap::new(),
        single: false,
        mig: true,
        layout: None,
        agent: false,
        cpu: 128,
        memory: 1024,
        taints: Vec::new(),
    };
    while words.peek().is_some() {
        match words.one_of(&["labels", "strategy", "mig", "layout", "agent", "cpu", "memory", "taint"])?.0 {
            "labels" => spec.labels = words.pairs("a label")?,
            "strategy" => spec.single = words.one_of(&["mixed", "single"])?.0 == "single",
            "mig" => spec.mig = words.one_of(&["on", "off"])?.0 == "on",
            "layout" => spec.layout = Some(words.word("the name of a map entry, such as all-1g.10gb,")?),
            "agent" => spec.agent = true,
            "cpu" => spec.cpu = words.number("a number of cores")?,
            "memory" => spec.memory = words.number("a number of GiB")?,
            _ => spec.taints.push(taint(&words.word("a taint")?)?),
        }
    }
    Ok(Command::Nodes(names, spec))
}

/// `n1`, or `n1..n10`.
fn node_names(word: &Word) -> Result<Vec<String>, StoryError> {
    let wrong = || {
        let what = format!("`{}` should be a node's name, or a row of them such as n1..n10", word.text);
        StoryError::new(word.place, what)
    };
    let Some((first, last)) = word.text.split_once("..") else {
        return Ok(vec![Words::new(vec![word.clone()], word.place).name("a node's name")?]);
    };
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let (from, to) = (&first[stem.len()..], last.strip_prefix(stem).ok_or_else(wrong)?);
    let (from, to): (u32, u32) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if stem.is_empty() || from > to || to - from >= 1000 {
        return Err(wrong());
    }
    Ok((from..=to).map(|n| format!("{stem}{n}")).collect())
}

fn gpus(word: &Word) -> Result<Vec<(u16, Word)>, StoryError> {
    let mut column = word.place.column;
    let mut gpus = Vec::new();
    for part in word.text.split('+') {
        let place = Place { line: word.place.line, column };
        let wrong = || {
            let what = format!(
                "`{part}` should be a number of GPUs and a model, such as 8xA100-80GB, with 1 to 16 GPUs"
            );
            StoryError::new(place, what)
        };
        let (count, model) = part.split_once('x').ok_or_else(wrong)?;
        let count: u16 = count.parse().ok().filter(|n| (1..=16).contains(n)).ok_or_else(wrong)?;
        gpus.push((count, Word { text: model.to_owned(), place }));
        column += part.chars().count() + 1;
    }
    Ok(gpus)
}

fn taint(word: &Word) -> Result<(String, String, String), StoryError> {
    let parts = word
        .text
        .rsplit_once(':')
        .filter(|(_, e)| ["NoSchedule", "NoExecute", "PreferNoSchedule"].contains(e));
    let Some((pair, effect)) = parts else {
        let what = format!("`{}` should be a taint, such as dedicated=ml:NoSchedule", word.text);
        return Err(StoryError::new(word.place, what));
    };
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok((key.to_owned(), value.to_owned(), effect.to_owned()))
}

type Asks = (WorkbenchSpec, Option<SignedDuration>, bool);

/// What a workbench or a pod asks for. `own` is the option that only one of
/// the two has.
fn asks(words: &mut Words, own: &'static str) -> Result<Asks, StoryError> {
    let mut spec = WorkbenchSpec {
        slices: words.slices()?,
        whole_gpus: 0,
        shares: 0,
        profile: None,
        priority: 0,
        selector: BTreeMap::new(),
        cpu: None,
        memory: None,
    };
    let (mut works, mut opens) = (None, false);
    let both = ["gpus", "shares", "priority", "selector", "cpu", "memory", own];
    let with_opens = ["gpus", "shares", "priority", "selector", "cpu", "memory", own, "opens"];
    let allowed: &[&'static str] = if own == "works" { &with_opens } else { &both };
    while words.peek().is_some() {
        match words.one_of(allowed)?.0 {
            "gpus" => spec.whole_gpus = words.number("a number of GPUs")?,
            "shares" => spec.shares = words.number("a number of shares")?,
            "priority" => spec.priority = words.number("a pod priority")?,
            "selector" => spec.selector = words.pairs("a node label")?,
            "cpu" => spec.cpu = Some(words.number("a number of cores")?),
            "memory" => spec.memory = Some(words.number("a number of GiB")?),
            "profile" => spec.profile = Some(words.word("the name of a hardware profile")?),
            "works" => works = Some(words.duration()?),
            _ => opens = true,
        }
    }
    Ok((spec, works, opens))
}

fn label(words: &mut Words) -> Result<Command, StoryError> {
    let node = words.name("a node")?;
    let mut labels = BTreeMap::new();
    while let Some(word) = words.peek().cloned() {
        if let Some(key) = word.text.strip_suffix('-').filter(|_| !word.text.contains('=')) {
            words.next();
            labels.insert(key.to_owned(), None);
        } else {
            let (key, value) = words.pair("a label")?;
            labels.insert(key, Some(value));
        }
    }
    if labels.is_empty() {
        words.word("a label, as key=value or key-,")?;
    }
    Ok(Command::Label(node, labels))
}

fn expectation(words: &mut Words) -> Result<Expectation, StoryError> {
    let known: Vec<&'static str> = EXPECTATIONS.iter().map(|e| e.word).collect();
    let kind = words.one_of(&known)?.0;
    Ok(match kind {
        "workbench" | "pod" => {
            let workbench = kind == "workbench";
            let key = words.namespaced(if workbench { "a workbench" } else { "a pod" })?;
            let states: &[&'static str] = if workbench {
                &["running", "pending", "stopped", "gone"]
            } else {
                &["running", "pending", "gone", "failed", "succeeded"]
            };
            let state = words.one_of(states)?.0;
            let node = if words.take("on") { Some(words.name("a node")?) } else { None };
            Expectation::Workload { workbench, key, state, node }
        }
        "allocatable" => Expectation::Allocatable {
            node: words.name("a node")?,
            resource: words.word("a profile or a resource")?.text,
            count: words.number("a count")?,
        },
        "node" => Expectation::Node {
            node: words.name("a node")?,
            state: words.one_of(&["cordoned", "schedulable", "failed", "settled", "changing"])?.0,
        },
        "label" => {
            let Command::Label(node, labels) = label(words)? else {
                unreachable!("label() returns only labels")
            };
            let (key, value) = labels.into_iter().next().expect("label() returns at least one");
            Expectation::Label { node, key, value }
        }
        "gpu" => {
            let (node, gpu) = (words.name("a node")?, words.number("the index of a GPU")?);
            let slices = if words.take("off") {
                None
            } else if words.take("empty") {
                Some(BTreeMap::new())
            } else {
                let slices = words.slices()?;
                if slices.is_empty() {
                    words.one_of(&["empty", "off"])?;
                }
                Some(slices)
            };
            Expectation::Gpu { node, gpu, slices }
        }
        "plan" => {
            let changes =
                if words.take("empty") { 0 } else { words.number("`empty` or how many nodes change")? };
            Expectation::Plan { changes }
        }
        "unserved" => Expectation::Unserved { count: words.number("how many requests")? },
        "told" => Expectation::Notified {
            who: words.word("who was told")?,
            text: words.word("a text in quotes")?.text,
        },
        "said" => Expectation::Output { text: words.word("a text in quotes")?.text },
        "condition" => Expectation::Condition {
            policy: words.name("a policy")?,
            kind: words.word("the type of a condition")?.text,
            status: words.one_of(&["True", "False", "Unknown"])?.0,
            reason: words.next().map(|w| w.text),
        },
        "evictions" => Expectation::Evictions(words.number("how many evictions")?),
        "changes" => Expectation::Changes(words.number("how many changes")?),
        _ => Expectation::Breaches(words.number("how many breaches")?),
    })
}
