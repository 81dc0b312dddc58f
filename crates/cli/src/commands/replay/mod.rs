//! `slicewright replay`.

mod input;
mod json;
mod recorded;
mod svg;
mod text;

use std::io::Write;
use std::path::PathBuf;

use jiff::SignedDuration;
use replay::{Actuator, Bound, Fleet, Player, Replay, Rules, Scheduler, Trace};

use self::input::{Opponent, Span};
use crate::exit::{Failure, Status};
use crate::{Outcome, files};

/// Replays a trace of requests against the planner in virtual time, and reports
/// the waiting times
///
/// TRACE is CSV with a header: create_s,delete_s,pod,profile,count. A request
/// arrives at one second and leaves at another, whether it was served or not.
/// Or TRACE is recordings of a cluster (`slicewright snapshot`), as a folder or
/// as several files: from one to the next, pods come and go.
/// The planner, the rules of rollouts and the times of changes are those of the
/// operator; no cluster is changed. For comparison, the same trace is replayed
/// with layouts that never change and with slices that are created request by
/// request; a lower bound shows what no system could improve. docs/results.md
/// explains the figures.
///
/// The same input gives the same bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright replay examples/traces/lab-week.csv --fleet 2x4xA100-80GB
  slicewright replay week.csv --fleet 2x4xA100-80GB --against static:all-1g.10gb
  # What an agent would be worth:
  slicewright replay week.csv --fleet 2x4xA100-80GB --actuator all
  # How many nodes are enough:
  slicewright replay week.csv --fleet 2x4xA100-80GB --sizes 1..4
  # What a recorded week would have been:
  slicewright replay recordings/ --against static:all-balanced
  slicewright replay week.csv --fleet 2x4xA100-80GB --from 1d -o svg > week.svg")]
pub struct Args {
    /// The trace: a CSV file, a folder of recordings, or two or more recordings
    /// (`.yaml`, `.yml`, `.json`), in any order; `-` reads CSV from standard input
    #[arg(required = true)]
    trace: Vec<PathBuf>,
    /// The fleet, as NODESxGPUSxMODEL; commas separate several kinds of nodes.
    /// If absent, the nodes of the first recording. At the start, every GPU is
    /// one slice of full size
    #[arg(long, value_name = "NODESxGPUSxMODEL")]
    fleet: Option<String>,
    /// A policy (file or folder). If absent, all requested profiles are
    /// allowed, one node changes at a time, and the cooldown is 10 minutes. Its
    /// selectors of nodes and of namespaces are assumed to match all; its shares
    /// need recordings, since a CSV trace has no namespaces
    #[arg(short, long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The component that changes nodes; several values, or `all`, are compared
    #[arg(long, value_enum, value_name = "ACTUATOR", value_delimiter = ',', default_value = "provably-idle")]
    actuator: Vec<Chosen>,
    /// What to compare with: first-fit, best-fit, or static:LAYOUT, a layout that never changes:
    /// static:all-1g.10gb, static:all-balanced, static:3g.40gb:1,2g.20gb:2, or static:peak, the
    /// planner's own for the busiest second
    #[arg(long, value_name = "WHAT")]
    against: Vec<Opponent>,
    /// Also replay the trace with these numbers of nodes, such as 6..12 or
    /// 6,8,12, to find out how many GPUs are enough
    #[arg(long, value_name = "NODES", value_parser = input::sizes)]
    sizes: Option<Sizes>,
    /// With --sizes: the longest acceptable wait of 99 of 100 requests, such as
    /// 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = input::duration, requires = "sizes")]
    goal: SignedDuration,
    /// Replay the trace from this time on, in seconds, or as 36h or 12d
    #[arg(long, value_name = "TIME")]
    from: Option<Span>,
    /// Replay the trace until this time
    #[arg(long, value_name = "TIME")]
    until: Option<Span>,
    /// The column of profiles; if absent, the first column whose name begins
    /// with `profile` and whose profiles the fleet has
    #[arg(long, value_name = "COLUMN")]
    profiles: Option<String>,
    /// How long a node is unavailable during a change, such as 97s; if absent,
    /// the estimate for the actuator
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    away: Option<SignedDuration>,
    /// How long a new layout takes to reach a node through the map (not with
    /// single-slices)
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = input::duration)]
    map_settle: SignedDuration,
    /// How the scheduler chooses among the nodes that have what a pod requests
    #[arg(long, value_enum, default_value = "spread")]
    scheduler: Scheduling,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// Numbers of nodes, ascending.
type Sizes = std::sync::Arc<[usize]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Chosen {
    /// MIG manager, without an agent: whole GPUs that are provably idle are
    /// changed
    ProvablyIdle,
    /// MIG manager, with an agent that knows which pod holds which slice: every
    /// idle GPU can be changed
    IdleGpus,
    /// An agent that changes single slices beside those in use (its 80 s are a
    /// cautious assumption; 27 s were seen on kind, over simulated GPUs)
    SingleSlices,
    /// All of them
    All,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Scheduling {
    /// The node with the most free resources (LeastAllocated, the scheduler's
    /// default)
    Spread,
    /// The node with the least free resources (MostAllocated)
    Pack,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// A table for people
    Text,
    /// For programs (formatVersion 1)
    Json,
    /// The fleet over time as a picture
    Svg,
}

/// One way to run the fleet, and what came of it.
struct Row {
    player: String,
    /// None where nothing ever changes.
    actuator: Option<Actuator>,
    away: SignedDuration,
    played: Replay,
}

/// One size of the fleet.
struct Size {
    nodes: usize,
    fleet: Fleet,
    bound: Bound,
    actuator: Actuator,
    played: Replay,
}

/// Everything that is told.
struct Findings<'a> {
    args: &'a Args,
    trace: &'a Trace,
    fleet: &'a Fleet,
    bound: Bound,
    rows: Vec<Row>,
    sizes: Vec<Size>,
    /// Requests that ask for more than a node of the fleet can ever have.
    too_large: usize,
}

/// How many spans a picture has.
const SPANS: usize = 320;
/// From so many requests on it is told how far a replay is.
const LONG: usize = 2_000;

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    if args.policy.as_ref().is_some_and(|p| files::is_standard_input(p))
        && args.trace.iter().any(|trace| files::is_standard_input(trace))
    {
        return Err(Failure::Usage(
            "TRACE and --policy cannot both be standard input: name a file for one".to_owned(),
        ));
    }
    let source = input::source(args)?;
    let fleet = input::fleet(args, &source)?;
    let sizes = sizes(args, &fleet)?;
    let (policy, rollout) = input::policy(args.policy.as_deref(), &source)?;
    let cuts = input::opponents(&args.against, &fleet)?;
    let trace = input::trace(args, &source, &fleet, err)?;
    let rules = |actuator| {
        let settings = rollout::Settings { map_settle: args.map_settle, ..rollout::Settings::default() };
        Rules {
            actuator,
            policy: policy.clone(),
            rollout: rollout.clone(),
            settings,
            away: args.away,
            scheduler: match args.scheduler {
                Scheduling::Spread => Scheduler::Spread,
                Scheduling::Pack => Scheduler::Pack,
            },
            spans: SPANS,
        }
    };
    let bound = replay::bound(&trace, &fleet);
    let mut rows = Vec::new();
    let actuators = actuators(&args.actuator);
    for actuator in &actuators {
        let played = play(
            &trace,
            &fleet,
            &Player::Slicewright,
            &rules(*actuator),
            &input::AsItIs,
            "slicewright",
            err,
        )?;
        let away = rules(*actuator).away();
        rows.push(Row { player: "slicewright".to_owned(), actuator: Some(*actuator), away, played });
    }
    for (opponent, cut) in args.against.iter().zip(&cuts) {
        let player = opponent.player();
        let never = player == Player::Static;
        for actuator in if never { &actuators[..1] } else { &actuators[..] } {
            let rules = rules(*actuator);
            let played = play(&trace, &fleet, &player, &rules, cut, &opponent.words, err)?;
            let actuator = (!never).then_some(*actuator);
            rows.push(Row { player: opponent.words.clone(), actuator, away: rules.away(), played });
        }
    }
    let mut of_sizes = Vec::new();
    for (nodes, fleet) in sizes {
        for actuator in &actuators {
            let (words, rules) = (format!("slicewright on {nodes} nodes"), rules(*actuator));
            let played = play(&trace, &fleet, &Player::Slicewright, &rules, &input::AsItIs, &words, err)?;
            let bound = replay::bound(&trace, &fleet);
            of_sizes.push(Size { nodes, fleet: fleet.clone(), bound, actuator: *actuator, played });
        }
    }
    let too_large = trace.requests.iter().filter(|a| a.count > fleet.most_on_a_node(a.profile)).count();
    let told = Findings { args, trace: &trace, fleet: &fleet, bound, rows, sizes: of_sizes, too_large };
    match args.output {
        Output::Text => text::print(&told, out)?,
        Output::Json => crate::structured::json(&json::value(&told), out)?,
        Output::Svg => out.write_all(svg::picture(&told).as_bytes())?,
    }
    Ok(Status::Success)
}

fn actuators(chosen: &[Chosen]) -> Vec<Actuator> {
    let is = |actuator: &Actuator| match actuator {
        Actuator::ProvablyIdle => Chosen::ProvablyIdle,
        Actuator::IdleGpus => Chosen::IdleGpus,
        Actuator::SingleSlices => Chosen::SingleSlices,
    };
    let all = chosen.contains(&Chosen::All);
    Actuator::ALL.into_iter().filter(|actuator| all || chosen.contains(&is(actuator))).collect()
}

fn sizes(args: &Args, fleet: &Fleet) -> Result<Vec<(usize, Fleet)>, Failure> {
    let sizes = args.sizes.iter().flat_map(|sizes| sizes.iter().copied());
    let of = |nodes| fleet.with_nodes(nodes).map(|fleet| (nodes, fleet));
    sizes.map(of).collect::<Result<_, _>>().map_err(|error| Failure::Usage(format!("--sizes: {error}")))
}

fn play(
    trace: &Trace,
    fleet: &Fleet,
    player: &Player,
    rules: &Rules,
    cut: &dyn input::Begins,
    words: &str,
    err: &mut dyn Write,
) -> Result<Replay, Failure> {
    let bug = |error: &dyn std::error::Error| Failure::Bug(error.to_string());
    let cut = cut.cut(trace, fleet, rules).map_err(|error| bug(&error))?;
    let mut tell = |come: usize, of: usize| {
        if of >= LONG && come * 10 / of != (come - 1) * 10 / of {
            let actuator = rules.actuator.name();
            let _ = writeln!(err, "{words}, {actuator}: {come} of {of} requests");
        }
    };
    replay::replay(trace, fleet, player, rules, &cut, &mut tell).map_err(|error| bug(&error))
}
