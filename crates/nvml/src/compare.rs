//! Our tables against the driver: every value of a model that the catalogue
//! and the driver both have.
//!
//! The adapter needs no table; planning without a driver does. Where there is hardware, its answers are
//! authoritative, and every difference that is printed here should be corrected in `crates/mig/data`.

use std::collections::BTreeSet;
use std::fmt;

use mig::{Field, Model};

use crate::port::{Gpu, Profile};

/// A value on which the two do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The profile; none for a value of the whole GPU.
    pub profile: Option<String>,
    /// The field, as the data files name it.
    pub field: &'static str,
    /// What the table has; `None` where it has nothing.
    pub table: Option<String>,
    /// What the driver says; `None` where it has nothing.
    pub driver: Option<String>,
    /// Why the table's value was in doubt already.
    pub doubt: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, field, table, driver, doubt } = self;
        if let Some(profile) = profile {
            write!(f, "{profile} ")?;
        }
        let nothing = "nothing".to_owned();
        let (table, driver) = (table.as_ref().unwrap_or(&nothing), driver.as_ref().unwrap_or(&nothing));
        write!(f, "{field}: the table has {table}, the driver {driver}")?;
        match doubt {
            Some(doubt) => write!(f, " (in doubt before: {doubt})"),
            None => Ok(()),
        }
    }
}

/// All differences between a model of the catalogue and a GPU's driver, whose
/// version (such as `580.82.07`) decides where figures changed with a branch. A
/// value that only the driver knows is a difference, too: it is worth learning.
#[must_use]
pub fn with_model(model: &Model, gpu: &Gpu, profiles: &[Profile], driver: &str) -> Vec<Difference> {
    let branch = driver.split('.').next().and_then(|branch| branch.parse().ok());
    let mut found = Found { model, branch, differences: Vec::new() };
    let memory = model.total_memory_mib.map(u64::from);
    found.check(None, Field::TotalMemoryMib, memory, gpu.memory_mib);
    let told: BTreeSet<_> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    for ours in &model.profiles {
        let name = ours.name.to_string();
        if !told.contains(name.as_str()) {
            found.add(Some(ours), "profile", Some(name), None, None);
        }
    }
    for theirs in profiles {
        let Some(ours) = model.profiles.iter().find(|ours| ours.name.to_string() == theirs.name) else {
            found.add(None, "profile", None, Some(theirs.name.clone()), None);
            continue;
        };
        found.profile(ours, theirs);
    }
    found.differences
}

struct Found<'m> {
    model: &'m Model,
    /// The driver's branch, where its version says one.
    branch: Option<u16>,
    differences: Vec<Difference>,
}

impl Found<'_> {
    fn profile(&mut self, ours: &mig::Profile, theirs: &Profile) {
        let of = Some(ours);
        let Profile { name: _, id, number, slices, max_instances, multiprocessors, .. } = theirs;
        self.check(of, Field::NvmlEnum, Some(u32::from(ours.nvml_enum)), *number);
        self.check(of, Field::ProfileId, ours.profile_id.map(u32::from), *id);
        self.check(of, Field::Grid, Some(ours.slice_count), *slices);
        self.check(of, Field::MaxInstances, Some(u32::from(ours.max_instances)), *max_instances);
        self.check(of, Field::Sm, ours.sm.map(u32::from), *multiprocessors);
        self.check(of, Field::MemoryMib, ours.memory_mib_on(self.branch).map(u64::from), theirs.memory_mib);
        let mig::Engines { copy, decoder, encoder, jpeg, ofa } = ours.engines;
        let engines = &theirs.engines;
        for (engine, table, driver) in [
            ("engines.copy", copy, engines.copy),
            ("engines.decoder", decoder, engines.decoder),
            ("engines.encoder", encoder, engines.encoder),
            ("engines.jpeg", jpeg, engines.jpeg),
            ("engines.ofa", ofa, engines.ofa),
        ] {
            if table.map(u32::from) != Some(driver) {
                let doubt = self.model.doubt(of, Field::Engines).map(str::to_owned);
                let table = table.map(|n| n.to_string());
                self.add(of, engine, table, Some(driver.to_string()), doubt);
            }
        }
        // Nobody told the places, or somebody did.
        if let Some(first) = theirs.places.first() {
            let starts: Vec<u8> = theirs.places.iter().map(|span| span.start).collect();
            let written = |starts: &[u8], size: u8| format!("{starts:?} of size {size}");
            let table = written(&ours.starts, ours.size);
            self.check(of, Field::Placements, Some(table), written(&starts, first.size));
        }
    }

    fn check<T: PartialEq + ToString>(
        &mut self,
        profile: Option<&mig::Profile>,
        field: Field,
        table: Option<T>,
        driver: T,
    ) {
        if table.as_ref() == Some(&driver) {
            return;
        }
        let doubt = self.model.doubt(profile, field).map(str::to_owned);
        let table = table.map(|value| value.to_string());
        self.add(profile, field.name(), table, Some(driver.to_string()), doubt);
    }

    fn add(
        &mut self,
        profile: Option<&mig::Profile>,
        field: &'static str,
        table: Option<String>,
        driver: Option<String>,
        doubt: Option<String>,
    ) {
        let profile = profile.map(|profile| profile.name.to_string());
        self.differences.push(Difference { profile, field, table, driver, doubt });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Engines, GpuUuid, Span};

    fn a30() -> (&'static Model, Gpu, Vec<Profile>) {
        let model = mig::Catalog::builtin().get("A30").unwrap();
        let gpu = Gpu {
            index: 0,
            uuid: GpuUuid("GPU-1".to_owned()),
            name: "NVIDIA A30".to_owned(),
            bus_id: "00000000:01:00.0".to_owned(),
            memory_mib: model.total_memory_mib.unwrap().into(),
            mode: None,
        };
        let engine = |n: Option<u8>| n.unwrap().into();
        let told = |profile: &mig::Profile| Profile {
            name: profile.name.to_string(),
            id: profile.profile_id.unwrap().into(),
            number: profile.nvml_enum.into(),
            slices: profile.slice_count,
            max_instances: profile.max_instances.into(),
            multiprocessors: profile.sm.unwrap().into(),
            memory_mib: profile.memory_mib.unwrap().into(),
            engines: Engines {
                copy: engine(profile.engines.copy),
                decoder: engine(profile.engines.decoder),
                encoder: engine(profile.engines.encoder),
                jpeg: engine(profile.engines.jpeg),
                ofa: engine(profile.engines.ofa),
            },
            places: profile.starts.iter().map(|start| Span { start: *start, size: profile.size }).collect(),
        };
        (model, gpu, model.profiles.iter().map(told).collect())
    }

    #[test]
    fn a_driver_that_says_what_the_table_says_differs_in_nothing() {
        let (model, gpu, profiles) = a30();
        assert_eq!(with_model(model, &gpu, &profiles, "575.57.08"), []);
    }

    #[test]
    fn every_value_is_compared_and_told_with_its_place() {
        let (model, mut gpu, mut profiles) = a30();
        gpu.memory_mib += 1;
        let first = &mut profiles[0];
        first.id += 100;
        first.number += 1;
        first.slices += 1;
        first.max_instances += 1;
        first.multiprocessors += 1;
        first.memory_mib += 1;
        first.engines.copy += 1;
        first.engines.decoder += 1;
        first.engines.encoder += 1;
        first.engines.jpeg += 1;
        first.engines.ofa += 1;
        first.places[0].start += 1;
        let fields: Vec<_> = with_model(model, &gpu, &profiles, "575.57.08")
            .into_iter()
            .map(|d| (d.profile.is_some(), d.field))
            .collect();
        let expect = [
            (false, "total_memory_mib"),
            (true, "nvml_enum"),
            (true, "profile_id"),
            (true, "grid"),
            (true, "max_instances"),
            (true, "sm"),
            (true, "memory_mib"),
            (true, "engines.copy"),
            (true, "engines.decoder"),
            (true, "engines.encoder"),
            (true, "engines.jpeg"),
            (true, "engines.ofa"),
            (true, "placements"),
        ];
        assert_eq!(fields, expect);
    }

    #[test]
    fn profiles_that_only_one_has_are_told() {
        let (model, gpu, mut profiles) = a30();
        let gone = std::mem::replace(&mut profiles[0].name, "1g.7gb".to_owned());
        let told: Vec<_> =
            with_model(model, &gpu, &profiles, "575.57.08").iter().map(ToString::to_string).collect();
        let expect = [
            format!("{gone} profile: the table has {gone}, the driver nothing"),
            "profile: the table has nothing, the driver 1g.7gb".to_owned(),
        ];
        assert_eq!(told, expect);
    }
}
