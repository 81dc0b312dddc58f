//! Compares a file's geometry with the models that we know: a table that contradicts the hardware would
//! lead to plans that the hardware refuses.

use mig::{Catalog, Geometry};

use super::error::FileError;
use crate::problem::Model;

/// Refuses a model of our catalogue's name with another geometry than ours.
/// A file may leave profiles out; names that we do not know are the file's own.
pub(super) fn refuse_contradictions(models: &[Model]) -> Result<(), FileError> {
    models.iter().try_for_each(|model| contradiction(&model.name, &model.geometry).map_or(Ok(()), Err))
}

fn contradiction(name: &str, geometry: &Geometry) -> Option<FileError> {
    let known = &Catalog::builtin().get(name)?.geometry;
    let wrong = |place: String, given: String, ours: String| {
        Some(FileError::Value {
            place,
            problem: format!(
                "{given} contradicts {name}, which has {ours}; correct it, or give the model another name"
            ),
        })
    };
    for (field, given, ours) in
        [("compute", geometry.compute(), known.compute()), ("memory", geometry.memory(), known.memory())]
    {
        if given != ours {
            return wrong(format!("rules.totals.{name}.{field}"), given.to_string(), ours.to_string());
        }
    }
    for spec in geometry.profiles() {
        let place = format!("rules.geometry.{name}.{}", spec.name);
        let Some(ours) = known.profile_named(spec.name).map(|profile| known.profile(profile)) else {
            let names: Vec<String> = known.profiles().iter().map(|p| p.name.to_string()).collect();
            return wrong(place, spec.name.to_string(), names.join(", "));
        };
        if (spec.compute, spec.size) != (ours.compute, ours.size) {
            let words = |compute, size| format!("compute {compute} and size {size}");
            return wrong(place, words(spec.compute, spec.size), words(ours.compute, ours.size));
        }
        if spec.starts != ours.starts {
            return wrong(
                format!("{place}.starts"),
                format!("{:?}", spec.starts),
                format!("{:?}", ours.starts),
            );
        }
    }
    None
}
