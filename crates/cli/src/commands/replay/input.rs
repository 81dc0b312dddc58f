//! Interprets the command line of a replay.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use jiff::SignedDuration;
use mig::{Catalog, Counts, ProfileName};
use observe::Objects;
use planner::policy::{Drain, LayoutPolicy, Mode, Order, Policy, Unrequested};
use replay::player::Unsafe;
use replay::{Fleet, Player, Rules, Trace};
use rollout::fleet::PolicyRollout;
use rollout::map::default_name;
use rollout::{GpuLayout, RolloutRules};

use super::Args;
use super::recorded::{self, Recordings};
use crate::exit::Failure;
use crate::files;
use crate::manifests;
use crate::question::refuse_errors;

/// What GPUs are cut into at the beginning, by node and index.
pub(super) type Cuts = BTreeMap<(usize, usize), Vec<(ProfileName, u8)>>;

/// Tells what GPUs are cut into at the beginning.
pub(super) trait Begins {
    /// What each GPU is cut into; one that is not named is one slice of full size.
    fn cut(&self, trace: &Trace, fleet: &Fleet, rules: &Rules) -> Result<Cuts, Unsafe>;
}

/// Every GPU is one slice of full size.
pub(super) struct AsItIs;

impl Begins for AsItIs {
    fn cut(&self, _: &Trace, _: &Fleet, _: &Rules) -> Result<Cuts, Unsafe> {
        Ok(Cuts::new())
    }
}

/// A time of the trace, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(pub(super) i64);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "write a whole number of seconds, or of minutes, hours or days such as 90m, 36h or 12d".to_owned()
        };
        let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("", 1)];
        let (number, unit) =
            units.iter().find_map(|(unit, n)| Some((text.strip_suffix(unit)?, *n))).ok_or_else(wrong)?;
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(unit).filter(|s| (0..=replay::trace::LAST_SECOND).contains(s));
        seconds.map(Span).ok_or_else(wrong)
    }
}

/// A length of time of at least a second.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let Span(seconds) = text.parse()?;
    if seconds > 31 * 86_400 {
        return Err("write at most 31d".to_owned());
    }
    Ok(SignedDuration::from_secs(seconds))
}

/// `6..12` or `6,8,12`.
pub(super) fn sizes(text: &str) -> Result<Arc<[usize]>, String> {
    /// Each is a replay of its own.
    const MOST: usize = 64;
    let wrong = || format!("write numbers of nodes such as 6..12 or 6,8,12, at most {MOST}");
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0);
    let mut sizes: Vec<usize> = match text.split_once("..") {
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last - first < MOST => (first..=last).collect(),
            _ => return Err(wrong()),
        },
        None => text.split(',').map(number).collect::<Option<_>>().ok_or_else(wrong)?,
    };
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() > MOST { Err(wrong()) } else { Ok(sizes.into()) }
}

/// What the planner is compared with.
#[derive(Clone, Debug)]
pub(super) struct Opponent {
    /// As it was written.
    pub(super) words: String,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    FirstFit,
    BestFit,
    Peak,
    Layout(String),
}

impl FromStr for Opponent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let what = match (text, text.strip_prefix("static:")) {
            ("first-fit", _) => What::FirstFit,
            ("best-fit", _) => What::BestFit,
            (_, Some("peak")) => What::Peak,
            (_, Some(layout)) if !layout.is_empty() => What::Layout(layout.to_owned()),
            _ => {
                return Err("write first-fit, best-fit, or static: and a layout, such as static:all-1g.10gb"
                    .to_owned());
            }
        };
        Ok(Self { words: text.to_owned(), what })
    }
}

impl Opponent {
    pub(super) const fn player(&self) -> Player {
        match self.what {
            What::FirstFit => Player::FirstFit,
            What::BestFit => Player::BestFit,
            What::Peak | What::Layout(_) => Player::Static,
        }
    }
}

/// The fleet that an opponent begins with.
pub(super) enum Beginning {
    Cut(Cuts),
    Peak,
}

impl Begins for Beginning {
    fn cut(&self, trace: &Trace, fleet: &Fleet, rules: &Rules) -> Result<Cuts, Unsafe> {
        match self {
            Self::Cut(cuts) => Ok(cuts.clone()),
            Self::Peak => replay::peak_layouts(trace, fleet, rules),
        }
    }
}

/// What the opponents begin with.
///
/// # Errors
/// If a layout does not fit a model of the fleet.
pub(super) fn opponents(against: &[Opponent], fleet: &Fleet) -> Result<Vec<Beginning>, Failure> {
    let beginning = |opponent: &Opponent| match &opponent.what {
        What::FirstFit | What::BestFit => Ok(Beginning::Cut(Cuts::new())),
        What::Peak => Ok(Beginning::Peak),
        What::Layout(layout) => cuts(layout, fleet).map(Beginning::Cut),
    };
    let usage = |message| Failure::Usage(format!("--against {message}"));
    against.iter().map(|opponent| beginning(opponent).map_err(usage)).collect()
}

fn cuts(layout: &str, fleet: &Fleet) -> Result<Cuts, String> {
    let mut known: BTreeMap<&str, Vec<(ProfileName, u8)>> = BTreeMap::new();
    let mut cuts = Cuts::new();
    for (node, spec) in fleet.nodes.iter().enumerate() {
        for (gpu, spec) in spec.gpus.iter().enumerate() {
            if !known.contains_key(spec.model.as_str()) {
                known.insert(&spec.model, cut(layout, &spec.model)?);
            }
            cuts.insert((node, gpu), known[spec.model.as_str()].clone());
        }
    }
    Ok(cuts)
}

/// A layout of one model, by the name of an entry that NVIDIA ships, or slice by slice.
fn cut(layout: &str, model: &str) -> Result<Vec<(ProfileName, u8)>, String> {
    let model = Catalog::builtin().get(model).expect("the fleet was made of the catalogue");
    let wanted: BTreeMap<ProfileName, u8> = if layout.starts_with("all-") {
        match default_name(layout, model) {
            Some(GpuLayout::Mig(slices)) if !slices.is_empty() => slices,
            _ => {
                let known = model.profiles.iter().map(|profile| format!("all-{}", profile.name));
                let known = known.chain(["all-balanced".to_owned()]).collect::<Vec<_>>().join(", ");
                return Err(format!("static:{layout}: {} has no such layout; it has {known}", model.id));
            }
        }
    } else {
        let mut wanted = BTreeMap::new();
        for part in layout.split(',') {
            let (profile, count) = part.rsplit_once(':').unwrap_or((part, "1"));
            let profile =
                model.resolve_profile(profile).map_err(|error| format!("static:{layout}: {error}"))?;
            let count = count.parse::<u8>().ok().filter(|n| *n > 0);
            let count = count.ok_or_else(|| {
                format!("static:{layout}: `{part}` counts nothing; write a profile and how many, such as 1g.10gb:2")
            })?;
            let sum: &mut u8 = wanted.entry(model.geometry.profile(profile).name).or_default();
            *sum = sum.saturating_add(count);
        }
        wanted
    };
    let counts: Option<Counts> =
        wanted.iter().map(|(name, n)| Some((model.geometry.profile_named(*name)?, *n))).collect();
    let fit = mig::fit(&model.geometry, &counts.unwrap_or_default());
    let fit = fit.map_err(|why| format!("static:{layout} does not fit one {}: {why}", model.id))?;
    Ok(fit.layout.iter().map(|placement| model.geometry.describe(placement)).collect())
}

/// Where the trace comes from.
pub(super) enum Source {
    /// A file of CSV.
    Csv(PathBuf),
    /// A cluster that was recorded several times.
    Recorded(Recordings),
}

/// Where the trace comes from.
///
/// # Errors
/// If the paths are no trace together, or recordings make no sense.
pub(super) fn source(args: &Args) -> Result<Source, Failure> {
    let paths = &args.trace;
    if paths.iter().all(|path| recorded::is_recorded(path)) {
        if args.profiles.is_some() {
            return Err(Failure::Usage(
                "--profiles names a column of a CSV trace, and recordings have none".to_owned(),
            ));
        }
        return Recordings::read(paths).map(Source::Recorded);
    }
    match paths.as_slice() {
        [path] => Ok(Source::Csv(path.clone())),
        paths => {
            let csv = paths.iter().find(|path| !recorded::is_recorded(path));
            Err(Failure::Usage(format!(
                "{} is not a recording; name one CSV file, or two or more recordings (.yaml, .yml, .json)",
                csv.map(|path| path.display().to_string()).unwrap_or_default()
            )))
        }
    }
}

/// The fleet on which it is played.
///
/// # Errors
/// If none is named and none is recorded, or what is named makes no sense.
pub(super) fn fleet(args: &Args, source: &Source) -> Result<Fleet, Failure> {
    match (&args.fleet, source) {
        (Some(text), _) => {
            Fleet::parse(text, Catalog::builtin()).map_err(|error| Failure::Usage(error.to_string()))
        }
        (None, Source::Recorded(recordings)) => recordings.fleet(),
        (None, Source::Csv(path)) => {
            // A path that is wrong is told before what is missing for it.
            if path.as_os_str() != "-" {
                files::read(path)?;
            }
            Err(Failure::Usage(
                "--fleet is missing: a CSV trace has no nodes; write such as --fleet 9x8xA100-80GB for nine nodes \
                 with eight GPUs each"
                    .to_owned(),
            ))
        }
    }
}

/// The trace, or what of it is to be played.
///
/// # Errors
/// If it cannot be read, makes no sense, or nothing of it is left.
pub(super) fn trace(
    args: &Args,
    source: &Source,
    fleet: &Fleet,
    err: &mut dyn Write,
) -> Result<Trace, Failure> {
    if let (Some(Span(from)), Some(Span(until))) = (args.from, args.until)
        && until <= from
    {
        return Err(Failure::Usage(format!(
            "--until {until} is not after --from {from}: nothing lies between"
        )));
    }
    let (name, trace, has) = match source {
        Source::Csv(path) => {
            let (name, text) = files::read(path)?;
            let trace = Trace::parse(&text, &fleet.profiles(), args.profiles.as_deref())
                .map_err(|error| Failure::Data(format!("{name}: {error}")))?;
            (name, trace, "a trace has a line for each request")
        }
        Source::Recorded(recordings) => {
            let (trace, of_several) = recordings.trace(fleet)?;
            if let Some(first) = of_several.first() {
                let _ = writeln!(
                    err,
                    "left out, since they ask for slices of several profiles: {} pods, such as {first}",
                    of_several.len()
                );
            }
            (recordings.words(), trace, "pods that ask for slices make a trace")
        }
    };
    let trace = trace.between(args.from.map(|Span(s)| s), args.until.map(|Span(s)| s));
    if trace.requests.is_empty() {
        let message = format!("{name}: nobody asks for anything in what is to be played; {has}");
        return Err(Failure::Data(message));
    }
    Ok(trace)
}

/// The policy and how it rolls out; without a file whatever is asked for is made.
///
/// # Errors
/// If it cannot be read, is not one policy, or is none that this trace can be played under.
pub(super) fn policy(path: Option<&Path>, source: &Source) -> Result<(Policy, PolicyRollout), Failure> {
    let Some(path) = path else {
        let slices = BTreeMap::new();
        let (unrequested, order) = (Unrequested::Keep, Order::MostServed);
        let layout = LayoutPolicy::DemandDriven {
            namespaces: vec![],
            slices,
            unrequested,
            order,
            shares: vec![],
            whole_gpus: None,
        };
        let name = "replay".into();
        let policy =
            Policy { name, nodes: vec![], priority: 0, mode: Mode::Enforce, layout, drain: Drain::Never };
        return Ok((policy, PolicyRollout { rules: RolloutRules::default(), enforce: true }));
    };
    let found = manifests::read_manifests(path)?;
    let (mut objects, mut problems) = (Objects::default(), Vec::new());
    observe::manifest::read_all(&mut objects, &found.manifests, &mut problems);
    let (mut policies, rollouts) = observe::policy::all(&objects, Catalog::builtin(), &mut problems);
    refuse_errors(&problems)?;
    let found = policies.len();
    let (Some(mut policy), 1) = (policies.pop(), found) else {
        return Err(Failure::Data(format!(
            "{}: holds {found} policies; a replay is played with one",
            path.display()
        )));
    };
    if matches!(policy.layout, LayoutPolicy::Static { .. }) {
        return Err(Failure::Data(format!(
            "{}: spec.layout.type: `Static` never changes, so there is nothing to plan; name a DemandDriven policy, \
             and compare with a layout by --against static:LAYOUT",
            path.display()
        )));
    }
    // In one namespace for everybody, `perNamespace` would be one team's, and any other share nobody's.
    if let (Source::Csv(_), LayoutPolicy::DemandDriven { shares, .. }) = (source, &policy.layout)
        && !shares.is_empty()
    {
        return Err(Failure::Data(format!(
            "{}: spec.layout.demandDriven.shares: a CSV trace does not say in which namespace anybody is, so nobody would \
             have a share; remove the field, or play recordings (slicewright snapshot), which have namespaces",
            path.display()
        )));
    }
    let mut rollout = rollouts.get(&policy.name).cloned().unwrap_or_default();
    // What it would do, whether it is in force yet or not.
    (policy.mode, rollout.enforce) = (Mode::Enforce, true);
    Ok((policy, rollout))
}
