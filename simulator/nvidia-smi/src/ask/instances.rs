//! Profiles and instances, for the tables of `mig`.

use nvml::library::{ComputeInstance, GpuInstance, GpuProfile};
use nvml::{Code, Error};

use super::{Found, engines, name_of, profiles, without_attributes};
use crate::snapshot;

/// A GPU instance with what is known of it.
pub(crate) struct FoundInstance<'l> {
    pub(crate) gpu: u32,
    pub(crate) profile: GpuProfile,
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) at: (u32, u32),
    pub(crate) instance: GpuInstance<'l>,
}

/// A compute instance with what is known of it.
pub(crate) struct FoundCompute<'l> {
    pub(crate) gpu: u32,
    pub(crate) gpu_instance: u32,
    pub(crate) name: String,
    pub(crate) profile: u32,
    pub(crate) id: u32,
    pub(crate) at: (u32, u32),
    pub(crate) instance: ComputeInstance<'l>,
}

/// A compute instance profile as a GPU instance offers it.
pub(crate) struct Offered {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Whether it fills the GPU instance.
    pub(crate) default: bool,
    profile: nvml::library::ComputeProfile,
}

/// The GPU instances of a GPU, by profile in NVML's order, then as the library
/// lists them; only those with these ids, if ids are given.
///
/// # Errors
/// The library's.
pub(crate) fn gpu_instances<'l>(
    found: &Found<'l>,
    ids: Option<&[u32]>,
) -> Result<Vec<FoundInstance<'l>>, Error> {
    let mut all = Vec::new();
    for profile in found.gpu.profiles()? {
        let name = name_of(&profile, &found.gpu);
        for instance in found.gpu.gpu_instances(&profile)? {
            let info = instance.info()?;
            if ids.is_none_or(|ids| ids.contains(&info.id)) {
                all.push(FoundInstance {
                    gpu: found.index,
                    profile: profile.clone(),
                    name: name.clone(),
                    id: info.id,
                    at: (info.placement.start, info.placement.size),
                    instance,
                });
            }
        }
    }
    Ok(all)
}

impl<'l> FoundInstance<'l> {
    /// The compute instance profiles inside.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn offers(&self) -> Result<Vec<Offered>, Error> {
        let mut default_found = false;
        let mut offer = |profile: nvml::library::ComputeProfile| {
            let full = profile.slices == self.profile.slices;
            let name = without_attributes(&self.name);
            let name = if full { name } else { format!("{}c.{name}", profile.slices) };
            let default = full && !default_found;
            default_found |= full;
            Offered { id: profile.id, name, default, profile }
        };
        Ok(self.instance.compute_profiles()?.into_iter().map(&mut offer).collect())
    }

    /// The compute instances inside; only those with these ids, if ids are given.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn compute_instances(&self, ids: Option<&[u32]>) -> Result<Vec<FoundCompute<'l>>, Error> {
        let mut all = Vec::new();
        for offered in self.offers()? {
            for instance in self.instance.compute_instances(offered.id)? {
                let info = instance.info()?;
                if ids.is_none_or(|ids| ids.contains(&info.id)) {
                    all.push(FoundCompute {
                        gpu: self.gpu,
                        gpu_instance: self.id,
                        name: offered.name.clone(),
                        profile: offered.id,
                        id: info.id,
                        at: (info.placement.start, info.placement.size),
                        instance,
                    });
                }
            }
        }
        Ok(all)
    }

    /// Its row in `-lgi`.
    pub(crate) fn row(&self) -> snapshot::GpuInstance {
        snapshot::GpuInstance {
            gpu: self.gpu,
            name: self.name.clone(),
            profile: self.profile.id,
            id: self.id,
            start: self.at.0,
            size: self.at.1,
        }
    }

    /// Its rows in `-lcip`.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn offered_rows(&self) -> Result<Vec<snapshot::ComputeProfile>, Error> {
        let row = |offered: Offered| {
            let Offered { id, name, default, profile } = offered;
            Ok(snapshot::ComputeProfile {
                gpu: self.gpu,
                gpu_instance: self.id,
                name,
                id,
                default,
                free: self.instance.compute_remaining_capacity(id)?,
                total: profile.max_instances,
                multiprocessors: profile.multiprocessors,
                engines: engines(profile.shared_engines),
            })
        };
        self.offers()?.into_iter().map(row).collect()
    }
}

impl FoundCompute<'_> {
    /// Its row in `-lci`.
    pub(crate) fn row(&self) -> snapshot::ComputeInstance {
        snapshot::ComputeInstance {
            gpu: self.gpu,
            gpu_instance: self.gpu_instance,
            name: self.name.clone(),
            profile: self.profile,
            id: self.id,
            start: self.at.0,
            size: self.at.1,
        }
    }
}

/// The rows of a GPU in `-lgip`. With MIG off everything is free.
///
/// # Errors
/// The library's.
pub(crate) fn gpu_profile_rows(found: &Found<'_>) -> Result<Vec<snapshot::GpuProfile>, Error> {
    let row = |profile: GpuProfile| {
        let free = match found.gpu.remaining_capacity(profile.id) {
            Err(error) if error.code() == Some(Code::NotSupported) => profile.max_instances,
            answer => answer?,
        };
        Ok(snapshot::GpuProfile {
            gpu: found.index,
            name: name_of(&profile, &found.gpu),
            id: profile.id,
            free,
            total: profile.max_instances,
            memory: profile.memory_mib,
            peer_to_peer: profile.peer_to_peer,
            multiprocessors: profile.multiprocessors,
            engines: engines(profile.engines),
        })
    };
    profiles(&found.gpu)?.into_iter().map(row).collect()
}

/// The rows of a GPU in `-lgipp`.
///
/// # Errors
/// The library's.
pub(crate) fn placement_rows(found: &Found<'_>) -> Result<Vec<snapshot::PossiblePlacements>, Error> {
    let row = |profile: GpuProfile| {
        let placements = found.gpu.possible_placements(profile.id)?;
        Ok(snapshot::PossiblePlacements {
            gpu: found.index,
            profile: profile.id,
            starts: placements.iter().map(|placement| placement.start).collect(),
            size: placements.first().map_or(0, |placement| placement.size),
        })
    };
    profiles(&found.gpu)?.into_iter().map(row).collect()
}
