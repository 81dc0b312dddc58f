//! The library's answers as plain values. Missing answers stay absent; only values that a text cannot omit
//! are errors.

mod gpu;
pub(crate) mod instances;
pub(crate) mod machine;
mod memory;
mod processes;
mod readings;
mod rounding;

use nvml::library::{Gpu, GpuProfile, Library, profile_name};
use nvml::{Code, Error};
use nvml_wrapper::{cuda_driver_version_major, cuda_driver_version_minor};

use crate::arguments::Targets;
use crate::snapshot::{self, Pci, System};

pub(crate) use gpu::{everything, listed};
pub(crate) use memory::{Remembered, accounted, retired_pages};

/// A GPU that was found, with what every text about it needs.
pub(crate) struct Found<'l> {
    pub(crate) index: u32,
    pub(crate) pci: Pci,
    pub(crate) gpu: Gpu<'l>,
}

/// The GPUs that a command is about, and those that do not answer.
pub(crate) struct Selection<'l> {
    pub(crate) found: Vec<Found<'l>>,
    /// Index, and why there is no handle.
    pub(crate) silent: Vec<(u32, Code)>,
    /// How many GPUs there are.
    pub(crate) count: u32,
}

/// The machine as a whole.
pub(crate) fn system(library: &Library) -> System {
    let nvml = library.nvml();
    System {
        driver: library.driver_version().unwrap_or_else(|_| "N/A".to_owned()),
        nvml: nvml.sys_nvml_version().ok(),
        cuda: nvml
            .sys_cuda_driver_version()
            .ok()
            .map(|v| format!("{}.{}", cuda_driver_version_major(v), cuda_driver_version_minor(v))),
    }
}

/// The GPUs that `-i` names, by index. `None` if a name is nobody's.
///
/// # Errors
/// The library's, when it cannot even count them.
pub(crate) fn select<'l>(library: &'l Library, targets: &Targets) -> Result<Option<Selection<'l>>, Error> {
    let count = library.gpu_count()?;
    let mut all = Selection { found: Vec::new(), silent: Vec::new(), count };
    for index in 0..count {
        match library.gpu(index).and_then(|gpu| Ok((pci(&gpu)?, gpu))) {
            Ok((pci, gpu)) => all.found.push(Found { index, pci, gpu }),
            Err(error) => all.silent.push((index, error.code().unwrap_or(Code::Unknown))),
        }
    }
    let Some(names) = &targets.0 else { return Ok(Some(all)) };
    let is = |found: &Found<'_>, name: &str| {
        name.parse() == Ok(found.index)
            || at(name) == Some((found.pci.domain, found.pci.bus, found.pci.device))
            || found.gpu.uuid().is_ok_and(|uuid| uuid == *name)
    };
    let is_silent = |index: u32, name: &str| name.parse() == Ok(index);
    let known = |name: &String| {
        all.found.iter().any(|found| is(found, name))
            || all.silent.iter().any(|(index, _)| is_silent(*index, name))
    };
    if !names.iter().all(known) {
        return Ok(None);
    }
    all.found.retain(|found| names.iter().any(|name| is(found, name)));
    all.silent.retain(|(index, _)| names.iter().any(|name| is_silent(*index, name)));
    Ok(Some(all))
}

fn pci(gpu: &Gpu<'_>) -> Result<Pci, Error> {
    let info = gpu.device().pci_info().map_err(|error| Error::from_call("nvmlDeviceGetPciInfo", error))?;
    Ok(Pci {
        id: info.bus_id,
        domain: info.domain,
        bus: info.bus,
        device: info.device,
        device_id: info.pci_device_id,
        subsystem_id: info.pci_sub_system_id,
    })
}

/// Domain, bus and device of an address such as `00000000:01:00.0`, `0000:01:00.0`
/// or `01:00.0`.
fn at(address: &str) -> Option<(u32, u32, u32)> {
    let parts: Vec<_> = address.strip_suffix(".0")?.split(':').collect();
    let hex = |part: &str| u32::from_str_radix(part, 16).ok();
    match parts[..] {
        [bus, device] => Some((0, hex(bus)?, hex(device)?)),
        [domain, bus, device] => Some((hex(domain)?, hex(bus)?, hex(device)?)),
        _ => None,
    }
}

const fn engines(engines: nvml::library::Engines) -> snapshot::Engines {
    let nvml::library::Engines { copy, decoder, encoder, jpeg, ofa } = engines;
    snapshot::Engines { copy, decoder, encoder, jpeg, ofa }
}

/// The name of a profile: the driver's, or, from drivers that give none, by
/// the rule.
pub(crate) fn name_of(profile: &GpuProfile, gpu: &Gpu<'_>) -> String {
    let by_rule = || {
        let total = gpu.memory().map_or(0, |memory| memory.total >> 20);
        profile_name(profile.number, profile.slices, profile.memory_mib, total)
    };
    profile.name.clone().unwrap_or_else(by_rule)
}

/// The profiles of a GPU in the order of `-lgip`: by size, then by id. None if
/// the GPU has no MIG, or if an old driver keeps them to itself while MIG is off.
///
/// # Errors
/// The library's.
pub(crate) fn profiles(gpu: &Gpu<'_>) -> Result<Vec<GpuProfile>, Error> {
    let mut profiles = gpu.profiles()?;
    profiles.sort_by_key(|profile| (profile.slices, profile.memory_mib, profile.id));
    Ok(profiles)
}

/// The profile of a name without what follows the memory: `-L` and the tables
/// of compute instances say `1g.10gb` of a `1g.10gb+me`.
pub(crate) fn without_attributes(name: &str) -> String {
    let end = name.find("gb").map_or(name.len(), |at| at + 2);
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_length() {
        for address in ["00000000:0B:00.0", "0000:0b:00.0", "0B:00.0"] {
            assert_eq!(at(address), Some((0, 11, 0)), "{address}");
        }
        assert_eq!(at("00000001:00:00.0"), Some((1, 0, 0)));
        for other in ["0", "GPU-1", "0000:0b:00", "x:y.0"] {
            assert_eq!(at(other), None, "{other}");
        }
    }

    #[test]
    fn attributes_are_no_part_of_a_devices_profile() {
        for (full, short) in [
            ("1g.10gb+me", "1g.10gb"),
            ("1g.24gb-me", "1g.24gb"),
            ("1c.3g.40gb", "1c.3g.40gb"),
            ("1g.24gb+me.all", "1g.24gb"),
            ("whatever", "whatever"),
        ] {
            assert_eq!(without_attributes(full), short);
        }
    }
}
