//! `slicewright layouts`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use mig::{Architecture, Catalog, Geometry, Lattice, Layout, Model, Profile, creation_order};
use serde_json::{Value, json};

use crate::draw::{self, Colour, Mark};
use crate::exit::Status;
use crate::table::table;
use crate::{Outcome, card};

/// Lists the GPU models, or draws all full layouts of one
///
/// Without MODEL, lists the models that Slicewright knows. With MODEL, shows
/// its profiles, its engines and the possible starts of slices, counts its
/// legal layouts, and draws the full layouts, to which no slice can be added.
///
/// A picture shows one GPU, its memory units from left to right. Unit 7 of a
/// GPU with seven compute slices has memory only, so small slices leave it
/// free.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright layouts                           # all models
  slicewright layouts A100-80GB                 # one model
  slicewright layouts a30 -o json               # the same, for programs
  slicewright layouts H100-80GB --all-profiles  # count and draw +me slices too")]
pub struct Args {
    /// A model (`A100-80GB`), or the name that NVML or a node label gives it
    model: Option<String>,
    /// Count and draw layouts with media-extension and graphics slices (+me, +gfx, -me) too
    #[arg(long, requires = "model")]
    all_profiles: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// Tables and pictures
    Text,
    /// One JSON document
    Json,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let catalog = Catalog::builtin();
    let Some(name) = &args.model else {
        match args.output {
            Output::Text => print_models(catalog, out)?,
            Output::Json => print_value(&catalog.models().iter().map(summary).collect(), out)?,
        }
        return Ok(Status::Success);
    };
    let model = card::named(name)?;
    let (plain, all) = (Space::new(model.geometry.plain()), Space::new((*model.geometry).clone()));
    let drawn = if args.all_profiles { &all } else { &plain };
    match args.output {
        Output::Text => {
            print_model(model, out)?;
            print_profiles(model, out)?;
            print_doubts(model, out)?;
            print_figures(&plain, &all, out)?;
            print_maximal(drawn, colour, out)?;
        }
        Output::Json => {
            let Value::Object(mut result) = summary(model) else { unreachable!("summary is an object") };
            result.insert("profiles".to_owned(), model.profiles.iter().map(profile_json).collect());
            result.insert("figures".to_owned(), plain.figures().json());
            result.insert("figures_all_profiles".to_owned(), all.figures().json());
            result.insert("maximal".to_owned(), drawn.maximal_json());
            print_value(&Value::Object(result), out)?;
        }
    }
    Ok(Status::Success)
}

fn print_value(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{value:#}")
}

/// A geometry and all its states.
struct Space {
    geometry: Geometry,
    lattice: Lattice,
}

/// How many of everything.
struct Figures {
    placements: usize,
    states: usize,
    multisets: usize,
    maximal: usize,
}

impl Figures {
    fn json(&self) -> Value {
        let Self { placements, states, multisets, maximal } = self;
        json!({"placements": placements, "states": states, "multisets": multisets, "maximal": maximal})
    }
}

impl Space {
    fn new(geometry: Geometry) -> Self {
        let lattice = Lattice::enumerate(&geometry).expect("the catalogue has no geometry beyond the limit");
        Self { geometry, lattice }
    }

    fn figures(&self) -> Figures {
        Figures {
            placements: self.geometry.placement_count(),
            states: self.lattice.states().len(),
            multisets: self.lattice.multisets().len(),
            maximal: self.lattice.maximal().count(),
        }
    }

    /// The maximal layouts, those with the largest slices first.
    fn maximal(&self) -> Vec<Layout> {
        let mut layouts: Vec<Layout> =
            self.lattice.maximal().map(|state| self.lattice.state(state)).collect();
        layouts.sort_by_cached_key(|layout| {
            let spans = layout.iter().map(|placement| {
                let spec = self.geometry.profile(self.geometry.profile_of(placement));
                (spec.size, spec.compute, self.geometry.start_of(placement))
            });
            let mut spans: Vec<_> = spans.collect();
            spans.sort_unstable_by(|a, b| b.cmp(a));
            (std::cmp::Reverse(spans), *layout)
        });
        layouts
    }

    fn maximal_json(&self) -> Value {
        let slices = |layout: Layout| -> Vec<Value> {
            let mut slices: Vec<_> = layout.iter().map(|p| self.geometry.describe(p)).collect();
            slices.sort_by_key(|(_, start)| *start);
            slices.into_iter().map(|(name, start)| json!([name, start])).collect()
        };
        let order = |layout: Layout| {
            creation_order(&self.geometry, Layout::EMPTY, layout).map(|order| -> Vec<String> {
                order.iter().map(|p| self.geometry.describe(*p).0.to_string()).collect()
            })
        };
        self.maximal()
            .into_iter()
            .map(|layout| json!({"slices": slices(layout), "creation_order": order(layout)}))
            .collect()
    }
}

fn summary(model: &Model) -> Value {
    json!({
        "model": model.id,
        "aliases": model.aliases,
        "names": model.names,
        "product_label": model.product_label(),
        "architecture": model.architecture,
        "total_memory_mib": model.total_memory_mib,
        "sm_count": model.sm_count,
        "compute_slices": model.geometry.compute(),
        "memory_units": model.geometry.memory(),
        "simulatable": model.simulatable().is_ok(),
    })
}

fn profile_json(profile: &Profile) -> Value {
    let mig::Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
    json!({
        "name": profile.name,
        "id": profile.profile_id,
        "resource": profile.name.resource_name(),
        "compute_slices": profile.slice_count,
        "memory_units": profile.size,
        "starts": profile.starts,
        "max_instances": profile.max_instances,
        "memory_mib": profile.memory_mib,
        "sm": profile.sm,
        "engines": {"copy": copy, "decoder": decoder, "encoder": encoder, "jpeg": jpeg, "ofa": ofa},
    })
}

fn print_models(catalog: &Catalog, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![
        ["MODEL", "ARCHITECTURE", "MEMORY MiB", "SMs", "SLICES", "UNITS", "SIMULATED"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for model in catalog.models() {
        let architecture: Architecture = model.architecture;
        rows.push(vec![
            model.id.clone(),
            architecture.to_string(),
            known(model.total_memory_mib),
            known(model.sm_count),
            model.geometry.compute().to_string(),
            model.geometry.memory().to_string(),
            if model.simulatable().is_ok() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table(&rows, out)?;
    writeln!(out, "\n? means that the value is not known. `slicewright layouts MODEL` shows one model.")
}

fn print_model(model: &Model, out: &mut dyn Write) -> io::Result<()> {
    let (major, minor) = model.compute_capability;
    writeln!(out, "{}  {}, compute capability {major}.{minor}", model.id, model.architecture)?;
    writeln!(
        out,
        "{} compute slices on a grid of {} memory units; {} MiB, {} SMs",
        model.geometry.compute(),
        model.geometry.memory(),
        known(model.total_memory_mib),
        known(model.sm_count),
    )?;
    if !model.names.is_empty() {
        writeln!(out, "NVML calls it {}", model.names.join(", "))?;
    }
    if let Err(reason) = model.simulatable() {
        writeln!(out, "{reason}")?;
    }
    for note in &model.notes {
        writeln!(out, "Note: {note}")?;
    }
    Ok(())
}

fn print_profiles(model: &Model, out: &mut dyn Write) -> io::Result<()> {
    let header = [
        "PROFILE", "ID", "MAX", "SLICES", "UNITS", "MiB", "SMs", "CE", "DEC", "ENC", "JPEG", "OFA", "STARTS",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for profile in &model.profiles {
        let mig::Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
        let starts: Vec<String> = profile.starts.iter().map(u8::to_string).collect();
        rows.push(vec![
            profile.name.to_string(),
            known(profile.profile_id),
            profile.max_instances.to_string(),
            profile.slice_count.to_string(),
            profile.size.to_string(),
            known(profile.memory_mib),
            known(profile.sm),
            known(copy),
            known(decoder),
            known(encoder),
            known(jpeg),
            known(ofa),
            starts.join(","),
        ]);
    }
    writeln!(out, "\nProfiles")?;
    table(&rows, out)
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// What is absent or in doubt, with the reason, one line each.
fn print_doubts(model: &Model, out: &mut dyn Write) -> io::Result<()> {
    let mut doubts: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (field, reason) in &model.provenance.unverified {
        doubts.entry((field.name(), reason)).or_default();
    }
    for profile in &model.profiles {
        for (field, reason) in &profile.provenance.unverified {
            doubts.entry((field.name(), reason)).or_default().push(profile.name.to_string());
        }
    }
    if doubts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot verified")?;
    for ((field, reason), profiles) in doubts {
        let of = if profiles.is_empty() { String::new() } else { format!(" of {}", profiles.join(", ")) };
        writeln!(out, "  {field}{of}: {reason}")?;
    }
    Ok(())
}

fn print_figures(plain: &Space, all: &Space, out: &mut dyn Write) -> io::Result<()> {
    let mut rows =
        vec![["", "PLACEMENTS", "LEGAL LAYOUTS", "MULTISETS", "FULL LAYOUTS"].map(str::to_owned).to_vec()];
    let mut lines = vec![("profiles without suffix", plain)];
    if all.geometry != plain.geometry {
        lines.push(("all profiles", all));
    }
    for (what, space) in lines {
        let Figures { placements, states, multisets, maximal } = space.figures();
        let numbers = [placements, states, multisets, maximal].map(|n| n.to_string());
        rows.push([vec![what.to_owned()], numbers.to_vec()].concat());
    }
    writeln!(out, "\nFigures")?;
    table(&rows, out)
}

fn print_maximal(space: &Space, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nFull layouts, to which nothing can be added")?;
    writeln!(out, "  {}", draw::ruler(space.geometry.memory(), colour))?;
    for layout in space.maximal() {
        writeln!(out, "  {}", draw::layout(&space.geometry, layout, |_| Mark::Idle, colour))?;
    }
    Ok(())
}
