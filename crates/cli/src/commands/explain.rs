//! `slicewright explain`.

use std::io::Write;
use std::path::PathBuf;

use planner::decide::Decision;
use planner::names::PolicyName;
use planner::policy::Mode;
use planner::report::{PolicyReport, RequestReport};
use reconcile::answers::plural;
use serde_json::{Value, json};

use crate::draw::Colour;
use crate::exit::{Failure, Status};
use crate::question::{Empty, Question, policies_exist};
use crate::source::Source;
use crate::{Outcome, files, picture, structured};
use subjects::Subject;

mod queue;
mod subjects;

/// Explains why a request is served or not and what would help, what a policy
/// achieves, and what a node has and will have
///
/// A request can be named by the object that people know: a workbench, a pod, or a
/// workload in a queue of Kueue. `profile` explains a hardware profile: whether
/// anybody can have what it offers, and who names it. `queue` explains a queue of
/// Kueue: a ClusterQueue by its name, or a LocalQueue as namespace/name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright explain request team-a/fraud-lab --fleet lab.yaml -f policies
  slicewright explain workbench team-a/fraud-lab --fleet lab.yaml -f policies
  slicewright explain queue research --fleet lab.yaml -f policies
  slicewright explain policy research --fleet lab.yaml -f policies
  slicewright explain node gpu-1 --fleet lab.yaml -f policies
  slicewright explain request team-a/fraud-lab --context lab -o json")]
pub struct Args {
    /// The kind of object to explain
    #[arg(value_enum, ignore_case = true)]
    what: What,
    /// The name of the object: `namespace/name`, or the name alone if there is
    /// only one. For a policy and a node, the name
    name: String,
    #[command(flatten)]
    source: Source,
    /// Policies: a file, `-` for standard input, or a folder of manifests; if
    /// absent, the policies of the fleet
    #[arg(short = 'f', long = "file", value_name = "DIR_OR_FILE")]
    file: Option<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs (formatVersion 1)
    Json,
    /// The same as YAML
    Yaml,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// A request, by the name of its root owner
    Request,
    /// A workbench (Notebook)
    #[value(alias = "notebook")]
    Workbench,
    /// A pod
    Pod,
    /// A workload in a queue of Kueue
    Workload,
    /// A queue of Kueue
    Queue,
    /// A hardware profile
    #[value(alias = "hardwareprofile")]
    Profile,
    /// A policy
    #[value(aliases = ["gpupartitionpolicy", "gpp"])]
    Policy,
    /// A node
    #[value(alias = "gpunode")]
    Node,
}

impl What {
    /// The kind of object, for those that are no request, policy or node.
    const fn subject(self) -> Subject {
        match self {
            Self::Workbench => Subject::Workbench,
            Self::Workload => Subject::Workload,
            Self::Profile => Subject::Profile,
            Self::Pod | Self::Request | Self::Queue | Self::Policy | Self::Node => Subject::Pod,
        }
    }
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    if args.source.is_standard_input() && args.file.as_deref().is_some_and(files::is_standard_input) {
        return Err(Failure::Usage(
            "--fleet and -f cannot both be standard input: name a file for one".to_owned(),
        ));
    }
    args.file.iter().try_for_each(|path| policies_exist(path))?;
    let (snapshot, problems) = args.source.read()?;
    let question = Question::read(&snapshot, problems, args.file.as_deref(), Empty::Refused)?;
    let decision = question.decide()?;
    if args.output != Output::Text {
        let value = for_programs(args, &question, &decision)?;
        match args.output {
            Output::Yaml => structured::yaml(&value, out)?,
            Output::Json | Output::Text => structured::json(&value, out)?,
        }
        return Ok(Status::Success);
    }
    match args.what {
        What::Request => request(&question, &decision, &args.name, out)?,
        What::Workbench | What::Pod | What::Workload | What::Profile => {
            subjects::told(args.what.subject(), &question, &decision, &args.name)?.write(&question, out)?;
        }
        What::Queue => queue::told(&question, &decision, &args.name)?.write(out)?,
        What::Policy => policy(&question, &decision, &args.name, out)?,
        What::Node => node(&question, &decision, &args.name, colour, out)?,
    }
    Ok(Status::Success)
}

/// The kind of object to explain, as a value.
fn for_programs(args: &Args, question: &Question, decision: &Decision) -> Result<Value, Failure> {
    let mut value = match args.what {
        What::Request => {
            let answers: Vec<Value> = requests(decision, &args.name)?
                .into_iter()
                .map(|report| {
                    json!({
                        "request": report.id.to_string(),
                        "policy": report.policy,
                        "served": !matches!(report.outcome, planner::report::Outcome::Unserved { .. }),
                        "outcome": report.outcome,
                        "answer": report.answer(),
                    })
                })
                .collect();
            json!({"requests": answers})
        }
        What::Workbench | What::Pod | What::Workload | What::Profile => {
            subjects::told(args.what.subject(), question, decision, &args.name)?.value()
        }
        What::Queue => queue::told(question, decision, &args.name)?.value(),
        What::Policy => {
            let report = reported(decision, &args.name)?;
            json!({"policy": report, "mode": question.mode(&report.policy)})
        }
        What::Node => {
            let nodes = &question.seen.inventory.nodes;
            let seating = question.seen.inventory.seating.iter().find(|(id, _)| id.0 == args.name);
            let seats = seating.map(|(id, seating)| structured::seats(&id.0, seating));
            if let Some(seats) = seats.as_ref().filter(|_| !nodes.keys().any(|id| id.0 == args.name)) {
                let mut value = json!({"node": {"name": args.name, "seats": seats}});
                value["formatVersion"] = json!(1);
                return Ok(value);
            }
            let found = nodes.iter().find(|(id, _)| id.0 == args.name);
            let Some((id, node)) = found else {
                return Err(unknown(
                    "node with GPUs that can be partitioned",
                    &args.name,
                    nodes.keys().map(ToString::to_string),
                ));
            };
            let assignment = planner::assign::policy_of(&question.seen.inventory, &question.seen.policies);
            json!({"node": {
                "name": id,
                "policy": assignment.policy_of.get(id),
                "mode": assignment.policy_of.get(id).and_then(|policy| question.mode(policy)),
                "held": node.hold.as_ref().map(ToString::to_string),
                "sharing": question.seen.node(id).and_then(observe::NodeView::sharing_in_words),
                "seats": seats,
                "gpus": node.gpus.iter().map(|(index, gpu)| structured::gpu(index.0, gpu)).collect::<Vec<_>>(),
                "plan": decision.plan.steps.iter().find(|step| step.node == *id),
            }})
        }
    };
    value["formatVersion"] = json!(1);
    Ok(value)
}

fn request(question: &Question, decision: &Decision, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    for report in requests(decision, name)? {
        let policy = report.policy.as_ref().map_or(String::new(), |policy| format!(" (policy {policy})"));
        writeln!(out, "{}{policy}: {}", report.id, report.answer())?;
        only_previewed(question, report, out)?;
    }
    Ok(())
}

/// That a change which would serve a request is not done, where that is so.
fn only_previewed(question: &Question, report: &RequestReport, out: &mut dyn Write) -> Result<(), Failure> {
    let by_plan = matches!(report.outcome, planner::report::Outcome::ServedByPlan { .. });
    let policy = report.policy.as_ref().filter(|_| by_plan);
    if let Some((policy, why)) = policy.and_then(|policy| Some((policy, not_applied(question, policy)?))) {
        writeln!(out, "  policy {policy} has {why}")?;
    }
    Ok(())
}

/// The requests of this name.
fn requests<'a>(decision: &'a Decision, name: &str) -> Result<Vec<&'a RequestReport>, Failure> {
    let reports = &decision.report.requests;
    let found: Vec<_> = reports
        .iter()
        .filter(|report| {
            let id = &report.id;
            format!("{}/{}", id.namespace, id.name) == name || id.to_string() == name || id.name == name
        })
        .collect();
    if found.is_empty() {
        let known = reports.iter().map(|report| format!("{}/{}", report.id.namespace, report.id.name));
        return Err(unknown("waiting request", name, known));
    }
    Ok(found)
}

/// The report of the policy of this name.
fn reported<'a>(decision: &'a Decision, name: &str) -> Result<&'a PolicyReport, Failure> {
    let reports = &decision.report.policies;
    reports
        .iter()
        .find(|report| report.policy.0 == name)
        .ok_or_else(|| unknown("policy", name, reports.iter().map(|report| report.policy.to_string())))
}

/// Why nothing of what a policy plans is done, where that is so.
fn not_applied(question: &Question, policy: &PolicyName) -> Option<&'static str> {
    match question.mode(policy)? {
        Mode::Enforce => None,
        Mode::Preview => {
            Some("mode: Preview, so nothing of its plan is applied; set spec.mode to Enforce to apply it")
        }
        Mode::Invalid => Some(
            "a spec that makes no sense, so no change starts; `slicewright plan` says what is wrong with it",
        ),
        Mode::Paused => Some("mode: Paused, so no change starts; set spec.mode to Enforce to go on"),
    }
}

fn policy(question: &Question, decision: &Decision, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let report = reported(decision, name)?;
    let PolicyReport {
        policy,
        nodes,
        lost,
        supply: _,
        whole_gpus: _,
        seats,
        unmet,
        static_missed,
        unknown_profiles,
    } = report;
    let names = |nodes: &[planner::names::NodeName]| {
        nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    match nodes.as_slice() {
        [] => writeln!(out, "policy {policy} has no node")?,
        _ => writeln!(out, "policy {policy} has {}: {}", plural(nodes.len(), "node"), names(nodes))?,
    }
    if let Some(why) = not_applied(question, policy) {
        writeln!(out, "  {why}")?;
    }
    for (node, winner) in lost {
        writeln!(
            out,
            "  {node} is selected too, but belongs to policy {winner} (higher priority, or first name)"
        )?;
    }
    for (what, s) in report.offers() {
        writeln!(
            out,
            "  {what}: {} present, {} allocated, {} planned, {} asked for, {} of these unserved; {} attainable",
            s.present, s.allocated, s.planned, s.requested, s.unserved, s.attainable
        )?;
    }
    for (offered, s) in seats {
        writeln!(
            out,
            "  {}: {} seats on {} devices, {} held, {} planned, {} asked for, {} of these unserved",
            offered.resource_name(),
            s.total,
            s.devices,
            s.held,
            s.planned,
            s.requested,
            s.unserved
        )?;
    }
    for unmet in unmet {
        writeln!(out, "  not met: {unmet}")?;
    }
    for (node, gpu) in static_missed {
        writeln!(out, "  {node}/gpu{gpu} keeps another layout (see `explain node {node}`)")?;
    }
    for unknown in unknown_profiles {
        writeln!(out, "  {} does not exist on {}", unknown.profile, unknown.lacking.join(", "))?;
    }
    Ok(())
}

fn node(
    question: &Question,
    decision: &Decision,
    name: &str,
    colour: Colour,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let nodes = &question.seen.inventory.nodes;
    let objects = &question.snapshot.objects.nodes;
    let labels = objects.get(name).and_then(|node| node.metadata.labels.clone()).unwrap_or_default();
    let Some((id, node)) = nodes.iter().find(|(id, _)| id.0 == name) else {
        let advice = observe::sharing::advice(&labels, None);
        // Its plugin offers whole GPUs and no label says which: `fleet` shows them.
        let offers = question.seen.inventory.seating.contains_key(&name.into());
        if advice.is_empty() && !offers {
            let mut known: Vec<String> = nodes.keys().map(ToString::to_string).collect();
            let others = objects.iter().filter(|(name, node)| {
                let labels = node.metadata.labels.clone().unwrap_or_default();
                !known.contains(name) && !observe::sharing::advice(&labels, None).is_empty()
            });
            let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
            known.extend(others);
            return Err(unknown("node with GPUs", name, known.into_iter()));
        }
        let why =
            if advice.is_empty() { "no GPU of which a label tells the model" } else { "no GPU with MIG" };
        writeln!(out, "{name} has {why}, so nothing is planned for it")?;
        seats(question, &name.into(), out)?;
        return how_to_share(&advice, out);
    };
    let assignment = planner::assign::policy_of(&question.seen.inventory, &question.seen.policies);
    let owner = assignment.policy_of.get(id);
    let policy = owner.map_or("no policy".to_owned(), |p| format!("policy {p}"));
    writeln!(out, "{name} ({policy})")?;
    if let Some((owner, why)) = owner.and_then(|owner| Some((owner, not_applied(question, owner)?))) {
        writeln!(out, "  policy {owner} has {why}")?;
    }
    if let Some(hold) = &node.hold {
        writeln!(out, "  nothing on it changes: {hold}")?;
    }
    if let Some(shared) = question.seen.node(id).and_then(observe::NodeView::sharing_in_words) {
        writeln!(out, "  sharing: {shared}")?;
    }
    let warnings = question.seen.nodes.get(id).map(|view| view.sharing_warnings(&labels, Some(node)));
    for warning in warnings.into_iter().flatten() {
        writeln!(out, "  WARNING: {warning}")?;
    }
    seats(question, id, out)?;
    if node.gpus.is_empty() && question.seen.inventory.seating.contains_key(id) {
        return how_to_share(&observe::sharing::advice(&labels, Some(node)), out);
    }
    for (index, gpu) in &node.gpus {
        writeln!(out, "  gpu{index:<3} {:<12} {}", gpu.model, picture::on_node(node, gpu, colour))?;
        let frozen = decision.report.frozen_in_doubt.iter();
        if frozen.clone().any(|frozen| frozen.node == *id && frozen.gpu == *index) {
            writeln!(out, "         not changed: some of it may be in use, and it is not known which")?;
        }
    }
    match decision.plan.steps.iter().find(|step| step.node == *id) {
        None => writeln!(out, "  the plan does not change it")?,
        Some(step) => {
            for change in &step.gpus {
                writeln!(out, "  the plan: {change}")?;
            }
            for pod in &step.evicts {
                writeln!(out, "  the plan evicts {pod}")?;
            }
            for request in &step.serves {
                writeln!(out, "  the plan serves {request}")?;
            }
        }
    }
    how_to_share(&observe::sharing::advice(&labels, Some(node)), out)
}

/// The seats of a node, and who has those of GPUs that are not cut.
fn seats(question: &Question, id: &planner::names::NodeName, out: &mut dyn Write) -> Result<(), Failure> {
    let inventory = &question.seen.inventory;
    for seats in picture::seats(inventory, id) {
        writeln!(out, "  seats: {seats}")?;
    }
    for (pod, n) in inventory.seating.get(id).into_iter().flat_map(|seating| &seating.held) {
        writeln!(out, "         {n} held by {pod}")?;
    }
    Ok(())
}

/// Which way of sharing suits the node's cards (docs/guides/sharing.md).
fn how_to_share(advice: &[String], out: &mut dyn Write) -> Result<(), Failure> {
    for line in advice {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = String>) -> Failure {
    let known: Vec<String> = known.collect();
    let meant = api::spelling::nearest(name, known.iter().map(String::as_str))
        .map_or_else(|| ".".to_owned(), |right| format!("; did you mean `{right}`?"));
    let list = match (known.as_slice(), what) {
        ([], "policy") => "The fleet has no policy of its own: give policies with -f".to_owned(),
        ([], _) => format!("The fleet has no {what}"),
        (known, _) => format!("There are: {}", known.join(", ")),
    };
    Failure::Usage(format!("there is no {what} `{name}`{meant} {list}"))
}
