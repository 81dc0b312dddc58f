//! The file format of planning problems (`docs/reference/solve.md`): JSON to checked types, with errors
//! that state the position, the value, and what is allowed.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use mig::{Geometry, Layout, ProfileName, ProfileSpec};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::FileError;
use super::{Demand, Gpu, Model, Problem};
use crate::options::MAX_WATCHED;

/// The largest demand or weight of a profile: their product stays exact.
const MAX_COUNT: i64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Rules,
    gpus: Vec<FileGpu>,
    demand: Unique<i64>,
    weights: Unique<i64>,
    // What describes a problem and its known answers, and plays no part here.
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "family")]
    _family: IgnoredAny,
    #[serde(default, rename = "seed")]
    _seed: IgnoredAny,
    #[serde(default, rename = "params")]
    _params: IgnoredAny,
    #[serde(default, rename = "planted_zero_unmet")]
    _planted: IgnoredAny,
    #[serde(default, rename = "optimum")]
    _optimum: IgnoredAny,
    #[serde(default, rename = "optimum_whole_gpu_only")]
    _optimum_whole: IgnoredAny,
    #[serde(default, rename = "heuristics")]
    _heuristics: IgnoredAny,
    #[serde(default, rename = "schema_note")]
    _schema_note: IgnoredAny,
    #[serde(default, rename = "witness_changes")]
    _witness: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    geometry: Unique<Unique<FileProfile>>,
    totals: Unique<Totals>,
    #[serde(default, rename = "note")]
    _note: IgnoredAny,
    #[serde(default, rename = "objectives")]
    _objectives: IgnoredAny,
    #[serde(default, rename = "order")]
    _order: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProfile {
    compute: i64,
    size: i64,
    starts: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Totals {
    compute: i64,
    memory: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGpu {
    id: String,
    #[serde(default, rename = "node")]
    _node: Option<String>,
    model: String,
    #[serde(default)]
    in_use: Vec<FileSlice>,
    #[serde(default)]
    idle: Vec<FileSlice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSlice {
    profile: String,
    start: i64,
}

/// A JSON object as a list, refused when a key is there twice (a map would
/// keep one of the two and say nothing).
struct Unique<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Unique<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries: Vec<(String, T)> = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(serde::de::Error::custom(format!("`{key}` is there twice")));
                    }
                    entries.push((key, map.next_value()?));
                }
                Ok(Unique(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

fn value_error(place: impl Into<String>, problem: impl Into<String>) -> FileError {
    FileError::Value { place: place.into(), problem: problem.into() }
}

fn join<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// A number that a field of a geometry can hold; what is possible beyond
/// that, [`Geometry::new`] says.
fn small(place: &str, field: &str, value: i64) -> Result<u8, FileError> {
    u8::try_from(value)
        .map_err(|_| value_error(format!("{place}.{field}"), format!("{value} is not in 0..=255")))
}

/// A profile name, in the one form that plans are printed in.
fn profile_name(place: &str, text: &str) -> Result<ProfileName, FileError> {
    let name: ProfileName = text.parse().map_err(|e: mig::NameError| value_error(place, e.to_string()))?;
    if name.to_string() != text {
        return Err(value_error(place, format!("write profile `{text}` as `{name}`")));
    }
    Ok(name)
}

impl Problem {
    /// Reads a problem from its file's text.
    ///
    /// # Errors
    /// Says where the text is not a planning problem, and what is allowed.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        let file: File = serde_json::from_str(text)?;
        let File { rules, gpus, demand, weights, name, .. } = file;
        let models = models(rules)?;
        let demand = demands(demand, weights)?;
        let mut read = Vec::with_capacity(gpus.len());
        let mut seen = BTreeMap::new();
        for (i, gpu) in gpus.into_iter().enumerate() {
            if let Some(first) = seen.insert(gpu.id.clone(), i) {
                return Err(value_error(
                    format!("gpus[{i}].id"),
                    format!("`{}` is the id of gpus[{first}] too; ids are unique", gpu.id),
                ));
            }
            read.push(read_gpu(i, gpu, &models)?);
        }
        Ok(Self { name, models, gpus: read, demand })
    }
}

fn models(rules: Rules) -> Result<Vec<Model>, FileError> {
    let Rules { geometry, totals, .. } = rules;
    let mut models: Vec<Model> = Vec::new();
    for (model, profiles) in geometry.0 {
        let place = format!("rules.geometry.{model}");
        let Some((_, total)) = totals.0.iter().find(|(name, _)| *name == model) else {
            return Err(value_error(
                format!("rules.totals.{model}"),
                "missing: every model of rules.geometry has its compute and memory here",
            ));
        };
        let mut specs = Vec::new();
        for (name, FileProfile { compute, size, starts }) in profiles.0 {
            let place = format!("{place}.{name}");
            specs.push(ProfileSpec {
                name: profile_name(&place, &name)?,
                compute: small(&place, "compute", compute)?,
                size: small(&place, "size", size)?,
                starts: starts.iter().map(|s| small(&place, "starts", *s)).collect::<Result<_, _>>()?,
            });
        }
        if specs.len() > MAX_WATCHED {
            return Err(value_error(
                place,
                format!("{} profiles; at most {MAX_WATCHED} are possible", specs.len()),
            ));
        }
        // One order of profiles, whatever the file's: equal tables are then equal geometries.
        specs.sort_by_key(|spec| spec.name);
        let totals_place = format!("rules.totals.{model}");
        let memory = small(&totals_place, "memory", total.memory)?;
        let compute = small(&totals_place, "compute", total.compute)?;
        let geometry = Geometry::new(memory, compute, specs)
            .map_err(|source| FileError::Geometry { model: model.clone(), source })?;
        models.push(Model { name: model, geometry });
    }
    if let Some((extra, _)) = totals.0.iter().find(|(name, _)| models.iter().all(|m| m.name != *name)) {
        return Err(value_error(
            format!("rules.totals.{extra}"),
            format!("there is no rules.geometry.{extra}; there are {}", join(models.iter().map(|m| &m.name))),
        ));
    }
    super::known::refuse_contradictions(&models)?;
    models.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(models)
}

fn demands(demand: Unique<i64>, weights: Unique<i64>) -> Result<Vec<Demand>, FileError> {
    let count = |place: String, value: i64| {
        if (0..=MAX_COUNT).contains(&value) {
            Ok(value)
        } else {
            Err(value_error(place, format!("{value} is not in 0..={MAX_COUNT}")))
        }
    };
    for (name, weight) in &weights.0 {
        profile_name(&format!("weights.{name}"), name)?;
        count(format!("weights.{name}"), *weight)?;
    }
    let mut demands = Vec::new();
    for (text, wanted) in demand.0 {
        let place = format!("demand.{text}");
        let profile = profile_name(&place, &text)?;
        let wanted = count(place, wanted)?;
        let Some((_, weight)) = weights.0.iter().find(|(name, _)| *name == text) else {
            return Err(value_error(
                format!("weights.{text}"),
                format!(
                    "missing: every profile of demand has a weight; there are {}",
                    join(weights.0.iter().map(|(name, _)| name))
                ),
            ));
        };
        demands.push(Demand { profile, count: wanted, weight: *weight });
    }
    demands.sort_by_key(|d| d.profile);
    Ok(demands)
}

fn read_gpu(i: usize, gpu: FileGpu, models: &[Model]) -> Result<Gpu, FileError> {
    let FileGpu { id, model, in_use, idle, .. } = gpu;
    let place = format!("gpus[{i}] ({id})");
    let Some(model_index) = models.iter().position(|m| m.name == model) else {
        return Err(value_error(
            format!("{place}.model"),
            format!(
                "there is no model `{model}` in rules.geometry; there are {}",
                join(models.iter().map(|m| &m.name))
            ),
        ));
    };
    let geometry = &models[model_index].geometry;
    let mut placements = Vec::new();
    for (field, slices) in [("in_use", &in_use), ("idle", &idle)] {
        for (k, slice) in slices.iter().enumerate() {
            let place = format!("{place}.{field}[{k}]");
            let name = profile_name(&format!("{place}.profile"), &slice.profile)?;
            let start = small(&place, "start", slice.start)?;
            // One by one first, so that the message names the slice.
            geometry
                .layout([(name, start)])
                .map_err(|source| FileError::Layout { place: place.clone(), source })?;
            placements.push((name, start));
        }
    }
    geometry.layout(placements.iter().copied()).map_err(|source| FileError::Layout { place, source })?;
    let part = |placements: &[(ProfileName, u8)]| -> Layout {
        geometry.layout(placements.iter().copied()).expect("a part of a legal layout is legal")
    };
    let (used, free) = placements.split_at(in_use.len());
    Ok(Gpu { id, model: model_index, in_use: part(used), idle: part(free) })
}
