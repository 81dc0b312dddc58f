//! The page about all models, for `docs/reference/models.md`.

use std::fmt::Write;

use crate::catalog::Catalog;
use crate::model::{Model, Profile};

const HEAD: &str = "\
# GPU models

Generated from `crates/mig/data/*.yaml`; do not edit. `UPDATE=1 cargo test -p slicewright-mig` regenerates it.

`?` is a value that no source gives. A model with gaps can be planned for; one without can also be simulated.
Memory is that of one slice. Starts and units are positions and sizes on the placement grid.
";

/// The page: every model with its profiles, sources and doubts, in Markdown.
#[must_use]
pub fn models_page(catalog: &Catalog) -> String {
    let mut page = String::from(HEAD);
    for model in catalog.models() {
        model_section(&mut page, model).expect("writing to a text cannot fail");
    }
    page
}

fn model_section(page: &mut String, model: &Model) -> std::fmt::Result {
    let (major, minor) = model.compute_capability;
    writeln!(page, "\n## {}\n", model.id)?;
    writeln!(
        page,
        "{}, compute capability {major}.{minor}. {} compute slices on {} memory units; {} MiB, {} SMs.",
        model.architecture,
        model.geometry.compute(),
        model.geometry.memory(),
        known(model.total_memory_mib),
        known(model.sm_count),
    )?;
    if !model.aliases.is_empty() {
        writeln!(page, "Also called {}.", model.aliases.join(", "))?;
    }
    if !model.names.is_empty() {
        writeln!(page, "NVML reports {}.", model.names.join(", "))?;
    }
    let ids: Vec<String> = model.pci_device_ids.iter().map(|id| format!("0x{id:04X}")).collect();
    writeln!(page, "PCI device ids: {}.", ids.join(", "))?;
    let simulated =
        if model.simulatable().is_ok() { "It can be simulated." } else { "It cannot be simulated." };
    writeln!(page, "{simulated}\n")?;
    writeln!(
        page,
        "| profile | id | NVML | max | slices | units | starts | MiB | SMs | CE | DEC | ENC | JPEG | OFA |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for profile in &model.profiles {
        profile_row(page, profile)?;
    }
    writeln!(page, "\nSources:\n")?;
    for (field, source) in &model.provenance.sources {
        writeln!(page, "- `{}`: {source}", field.name())?;
    }
    for profile in &model.profiles {
        for (field, source) in &profile.provenance.sources {
            writeln!(page, "- `{}` of {}: {source}", field.name(), profile.name)?;
        }
    }
    let of_model = model.provenance.unverified.iter().map(|(field, why)| (None, field, why));
    let of_profiles = model.profiles.iter().flat_map(|profile| {
        profile.provenance.unverified.iter().map(move |(field, why)| (Some(profile.name), field, why))
    });
    let doubts: Vec<_> = of_model.chain(of_profiles).collect();
    if !doubts.is_empty() {
        writeln!(page, "\nNot verified:\n")?;
        for (profile, field, why) in doubts {
            let of = profile.map(|name| format!(" of {name}")).unwrap_or_default();
            writeln!(page, "- `{}`{of}: {why}", field.name())?;
        }
    }
    if !model.notes.is_empty() {
        writeln!(page, "\nNotes:\n")?;
        for note in &model.notes {
            writeln!(page, "- {note}")?;
        }
    }
    Ok(())
}

fn profile_row(page: &mut String, profile: &Profile) -> std::fmt::Result {
    let crate::model::Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
    let engines = [copy, decoder, encoder, jpeg, ofa].map(known).join(" | ");
    let starts: Vec<String> = profile.starts.iter().map(u8::to_string).collect();
    writeln!(
        page,
        "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {engines} |",
        profile.name,
        known(profile.profile_id),
        profile.nvml_enum,
        profile.max_instances,
        profile.slice_count,
        profile.size,
        starts.join(", "),
        known(profile.memory_mib),
        known(profile.sm),
    )
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}
