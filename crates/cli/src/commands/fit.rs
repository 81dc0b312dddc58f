//! `slicewright fit`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use mig::{Counts, Fit, Geometry, Layout, Model, NoFit, PlacementIndex, ProfileIndex, ProfileName};
use serde::Serialize;

use crate::draw::{self, Colour, Mark};
use crate::exit::{Failure, Status};
use crate::{Outcome, card};

/// Says whether slices fit one GPU together, and where, or why not
///
/// Exits with 0 if they fit and with 1 if they do not. If they fit, it also
/// prints an order of creation with which the driver, without instructions
/// about placements, produces exactly this layout.
///
/// The driver never moves a slice, so the order matters: with --in-order the
/// question is whether the driver succeeds in the order of the command line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright fit A100-80GB 3g.40gb 2g.20gb 1g.10gb:2
  slicewright fit A100-40GB 9,14,19,19             # ids, as in `nvidia-smi`
  slicewright fit A100-40GB 19,19,14,9 --in-order  # fails; without it, they fit
  slicewright fit A30 nvidia.com/mig-1g.6gb.me:1 1g.6gb:3 -o json")]
pub struct Args {
    /// A model (`slicewright layouts` lists them)
    model: String,
    /// Slices: a profile in any form of its name, or its id, with an optional count (`1g.10gb`,
    /// `1g.10gb:7`, `1g.10gbx7`, `19:7`); commas separate too
    #[arg(required = true, value_name = "PROFILE:COUNT")]
    slices: Vec<String>,
    /// Create the slices in this order, instead of searching for an order
    #[arg(long)]
    in_order: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// A sentence and a picture
    Text,
    /// {"fits", "placements", "creation_order", "why"}
    Json,
}

/// The answer, as programs get it.
#[derive(Serialize)]
struct Answer {
    fits: bool,
    placements: Vec<(ProfileName, u8)>,
    creation_order: Option<Vec<ProfileName>>,
    why: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let usage = |message: String| Failure::Usage(message);
    let model = card::named(&args.model)?;
    let requests = requests(model, &args.slices).map_err(usage)?;
    let result = if args.in_order { in_order(model, &requests) } else { together(model, &requests) };
    match args.output {
        Output::Text => print_text(model, &requests, &result, colour, out)?,
        Output::Json => writeln!(out, "{}", serde_json::json!(answer(&model.geometry, &result)))?,
    }
    Ok(if result.is_ok() { Status::Success } else { Status::Negative })
}

/// What is asked for, in the order of the command line.
type Requests = Vec<(ProfileIndex, u32)>;

fn requests(model: &Model, words: &[String]) -> Result<Requests, String> {
    let words = words.iter().flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty());
    let requests: Requests = words.map(|word| request(model, word)).collect::<Result<_, _>>()?;
    if requests.is_empty() {
        return Err("no slice is requested; name at least one, such as 1g.10gb:2".to_owned());
    }
    Ok(requests)
}

/// One word of the command line: a profile, with a count after `:` or `x`.
fn request(model: &Model, word: &str) -> Result<(ProfileIndex, u32), String> {
    let resolve = |text: &str| model.resolve_profile(text).map_err(|error| error.to_string());
    if let Some((profile, count)) = word.rsplit_once(':') {
        let profile = resolve(profile)?;
        let count = count.trim().parse().map_err(|_| {
            format!("`{word}`: `{count}` is not a count; write a whole number from 0 up, such as `1g.10gb:2`")
        })?;
        return Ok((profile, count));
    }
    // `1g.24gb+gfx` ends with an x that counts nothing.
    match word.rsplit_once(['x', 'X']).map(|(profile, count)| (profile, count.parse())) {
        Some((profile, Ok(count))) => Ok((resolve(profile)?, count)),
        _ => Ok((resolve(word)?, 1)),
    }
}

/// More slices of one profile than this fit no GPU, whatever its geometry: a
/// layout has 64 bits.
const MANY: u32 = 64;

fn together(model: &Model, requests: &Requests) -> Result<Fit, String> {
    let geometry = &*model.geometry;
    let sums = sums(requests);
    if let Some((profile, asked)) = sums.iter().find(|(_, asked)| **asked > MANY) {
        let spec = geometry.profile(*profile);
        let possible = model.profile(*profile).max_instances;
        let reason =
            NoFit::TooManyOfOne { profile: spec.name, asked: *asked, possible, starts: spec.starts.clone() };
        return Err(reason.to_string());
    }
    let counts: Counts =
        sums.into_iter().map(|(profile, n)| (profile, u8::try_from(n).expect("at most MANY"))).collect();
    mig::fit(geometry, &counts).map_err(|reason| reason.to_string())
}

fn sums(requests: &Requests) -> BTreeMap<ProfileIndex, u32> {
    let mut sums: BTreeMap<ProfileIndex, u32> = BTreeMap::new();
    for (profile, count) in requests {
        let sum = sums.entry(*profile).or_insert(0);
        *sum = sum.saturating_add(*count);
    }
    sums
}

/// Asks the driver for one slice after the other.
fn in_order(model: &Model, requests: &Requests) -> Result<Fit, String> {
    let geometry = &*model.geometry;
    let (mut layout, mut order) = (Layout::EMPTY, Vec::new());
    let one_by_one = requests.iter().flat_map(|(profile, n)| (0..*n).map(|_| *profile));
    for profile in one_by_one {
        let Some(placement) = mig::default_placement(geometry, layout, profile) else {
            return Err(stuck(model, requests, &order, profile));
        };
        layout = layout.with(placement);
        order.push(placement);
    }
    Ok(Fit { layout, creation_order: Some(order) })
}

fn stuck(model: &Model, requests: &Requests, order: &[PlacementIndex], profile: ProfileIndex) -> String {
    let geometry = &*model.geometry;
    let there: Vec<String> = order.iter().map(|placement| placed(geometry, *placement)).collect();
    let name = geometry.profile(profile).name;
    let local = if there.is_empty() { "an empty GPU".to_owned() } else { there.join(", ") };
    let stuck = format!("the driver has no room for {name} beside {local}");
    match together(model, requests) {
        Ok(Fit { creation_order: Some(order), .. }) => {
            format!("{stuck}; in the order {} they fit", names(geometry, &order).join(", "))
        }
        Ok(_) => format!("{stuck}; with placements they fit"),
        Err(reason) => format!("{stuck}; they do not fit in any order: {reason}"),
    }
}

fn placed(geometry: &Geometry, placement: PlacementIndex) -> String {
    let (name, start) = geometry.describe(placement);
    format!("{name}@{start}")
}

fn names(geometry: &Geometry, order: &[PlacementIndex]) -> Vec<String> {
    order.iter().map(|placement| geometry.describe(*placement).0.to_string()).collect()
}

fn answer(geometry: &Geometry, result: &Result<Fit, String>) -> Answer {
    match result {
        Ok(Fit { layout, creation_order }) => {
            let mut placements: Vec<_> = layout.iter().map(|p| geometry.describe(p)).collect();
            placements.sort_by_key(|(name, start)| (*start, *name));
            let order = creation_order
                .as_ref()
                .map(|order| order.iter().map(|placement| geometry.describe(*placement).0).collect());
            Answer { fits: true, placements, creation_order: order, why: None }
        }
        Err(why) => {
            Answer { fits: false, placements: Vec::new(), creation_order: None, why: Some(why.clone()) }
        }
    }
}

fn print_text(
    model: &Model,
    requests: &Requests,
    result: &Result<Fit, String>,
    colour: Colour,
    out: &mut dyn Write,
) -> io::Result<()> {
    let geometry = &*model.geometry;
    let asked = sums(requests);
    let asked = asked.iter().map(|(profile, n)| format!("{n} x {}", geometry.profile(*profile).name));
    let asked = asked.collect::<Vec<_>>().join(", ");
    let Fit { layout, creation_order } = match result {
        Ok(fit) => fit,
        Err(why) => return writeln!(out, "{asked} do not fit one {}: {why}.", model.id),
    };
    writeln!(out, "{asked} fit one {}:", model.id)?;
    writeln!(out, "  {}", draw::ruler(geometry.memory(), colour))?;
    writeln!(out, "  {}", draw::layout(geometry, *layout, |_| Mark::Idle, colour))?;
    match creation_order {
        Some(order) if order.is_empty() => Ok(()),
        Some(order) => {
            writeln!(out, "If they are created in this order, the driver chooses these placements:")?;
            writeln!(out, "  nvidia-smi mig -cgi {} -C", names(geometry, order).join(","))
        }
        None => {
            let placed: Vec<String> = layout.iter().map(|placement| placed(geometry, placement)).collect();
            writeln!(out, "No order of creation leads to these placements: specify them.")?;
            writeln!(out, "  {}", placed.join(", "))
        }
    }
}
