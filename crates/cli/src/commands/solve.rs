//! `slicewright solve`.

use std::io::Write;
use std::path::PathBuf;

use planner::problem::{Actuation, Plan, Problem};
use planner::solver::{Effort, Level, SolveError};
use serde_json::json;

use crate::exit::{Failure, Status};
use crate::{Outcome, files};

/// Solves a planning problem from a file, and proves how good the plan is
///
/// The best plan leaves the least weight of demand unserved; among those it
/// changes the fewest GPUs, and among those it creates and destroys the
/// fewest slices. The file's format is in docs/reference/solve.md.
///
/// Exits with 0 if all three objectives are proved optimal, and with 7 if the
/// effort was used up before: it then prints the best plan found with its
/// bounds, or a message if it found none.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The problem (JSON); `-` reads standard input
    file: PathBuf,
    /// Change only GPUs without any slice in use
    #[arg(long)]
    whole_gpu: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// The number of search nodes for each of the three objectives; when they
    /// are used up, the best plan found is printed with the proved bounds
    #[arg(long, value_name = "NODES", default_value_t = Effort::default().nodes)]
    effort: u64,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// A summary for people
    Text,
    /// The whole plan
    Json,
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let hint = "a problem is a JSON file, as examples/problems/morning.json of the repository";
    let (name, text) = files::read_or_hint(&args.file, hint)?;
    if text.trim().is_empty() {
        return Err(Failure::Data(format!("{name}: the file is empty; {hint}")));
    }
    let problem = Problem::from_json(&text).map_err(|error| {
        // A file of another kind, and not a slip of the pen in one of this kind.
        let hint = if text.trim_start().starts_with('{') { String::new() } else { format!("; {hint}") };
        Failure::Data(format!("{name}: {}{hint}", crate::exit::chain(&error)))
    })?;
    let actuation = if args.whole_gpu { Actuation::WholeGpu } else { Actuation::SliceBySlice };
    let plan = problem.solve(actuation, Effort { nodes: args.effort }).map_err(|e| match e {
        SolveError::NotFound { .. } => {
            Failure::GaveUp(format!("{name}: {e}; a larger --effort may find one"))
        }
        SolveError::Malformed { .. } | SolveError::Infeasible => Failure::Data(format!("{name}: {e}")),
    })?;
    match args.output {
        Output::Json => print_json(&plan, out)?,
        Output::Text => print_text(&problem, &plan, out)?,
    }
    let is_proven = levels(&plan).iter().all(|(_, _, level)| level.is_proven());
    Ok(if is_proven { Status::Success } else { Status::GaveUp })
}

fn levels(plan: &Plan) -> [(&'static str, &'static str, Level); 3] {
    [
        ("unserved_weight", "weight of unserved demand", plan.unserved_weight),
        ("gpus_changed", "GPUs changed", plan.gpus_changed),
        ("operations", "slices created and destroyed", plan.operations),
    ]
}

/// How good the plan is: that none is better only where everything is proved.
fn how_good(plan: &Plan) -> String {
    match levels(plan).into_iter().find(|(_, _, level)| !level.is_proven()) {
        None => "no plan is better".to_owned(),
        Some((_, words, Level { value, bound })) => {
            format!("a better plan may exist: {words} is {value}, and cannot be below {bound}")
        }
    }
}

fn print_json(plan: &Plan, out: &mut dyn Write) -> std::io::Result<()> {
    let mut objectives = serde_json::Map::new();
    let mut certificate = serde_json::Map::new();
    for (key, _, level) in levels(plan) {
        objectives.insert(key.to_owned(), level.value.into());
        certificate.insert(key.to_owned(), json!({"bound": level.bound, "proven": level.is_proven()}));
    }
    let result = json!({
        "changes": plan.changes,
        "objectives": objectives,
        "certificate": certificate,
        "unmet": plan.unmet,
    });
    serde_json::to_writer(&mut *out, &result)?;
    writeln!(out)
}

fn print_text(problem: &Problem, plan: &Plan, out: &mut dyn Write) -> std::io::Result<()> {
    if let Some(name) = &problem.name {
        writeln!(out, "{name}")?;
    }
    writeln!(out, "{} of {} GPUs change; {}", plan.changes.len(), problem.gpus.len(), how_good(plan))?;
    writeln!(out)?;
    writeln!(out, "{:<30} {:>9} {:>9}", "objective", "value", "bound")?;
    for (_, words, Level { value, bound }) in levels(plan) {
        let proof = if value <= bound { "proved optimal" } else { "not proved optimal" };
        writeln!(out, "{words:<30} {value:>9} {bound:>9}  {proof}")?;
    }
    if !plan.unmet.is_empty() {
        writeln!(out)?;
        writeln!(out, "{:<14} {:>7} {:>7} {:>9} {:>7}", "profile", "wanted", "served", "unserved", "weight")?;
        for u in &plan.unmet {
            let served = u.wanted - u.unserved;
            writeln!(out, "{:<14} {:>7} {served:>7} {:>9} {:>7}", u.profile, u.wanted, u.unserved, u.weight)?;
        }
    }
    if !plan.changes.is_empty() {
        writeln!(out)?;
        writeln!(out, "final layout of every GPU that changes:")?;
        for change in &plan.changes {
            let slices: Vec<String> = change.layout.iter().map(|(p, start)| format!("{p}@{start}")).collect();
            let slices = if slices.is_empty() { "nothing".to_owned() } else { slices.join(" ") };
            writeln!(out, "  {}: {slices}", change.gpu)?;
        }
    }
    Ok(())
}
