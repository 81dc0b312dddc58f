//! `mig -cgi` and `mig -cci`. The first failure ends the command; what was
//! created before it stays.

use std::io;

use nvml::library::{GpuProfile, Placement};
use nvml::{Code, Error};

use super::{Out, code_of, failed};
use crate::ask::instances::{FoundInstance, gpu_instances};
use crate::ask::{Found, name_of};
use crate::exit::Exit;

const GPU_INSTANCES: &str = "create GPU instances";
const COMPUTE_INSTANCES: &str = "create compute instances";

/// Creates GPU instances, on each GPU those of all profiles; with a compute
/// instance in each if `default_compute`.
pub(crate) fn create_gpu_instances(
    out: Out<'_>,
    found: &[Found<'_>],
    profiles: &[String],
    default_compute: bool,
) -> io::Result<Exit> {
    for found in found {
        for typed in profiles {
            match create(found, typed) {
                Ok(instance) => {
                    writeln!(
                        out,
                        "Successfully created GPU instance ID {:>2} on GPU {:>2} using profile MIG {} (ID {:>2})",
                        instance.id, instance.gpu, instance.name, instance.profile.id
                    )?;
                    if default_compute && let Some(exit) = create_in(out, &instance, None)? {
                        return Ok(exit);
                    }
                }
                Err(error) => {
                    let code = code_of(&error);
                    writeln!(
                        out,
                        "Unable to create a GPU instance on GPU {:>2} using profile {typed}: {}",
                        found.index,
                        code.words()
                    )?;
                    return failed(out, GPU_INSTANCES, code);
                }
            }
        }
    }
    Ok(Exit::SUCCESS)
}

/// Creates compute instances, in each GPU instance those of all profiles; the
/// default one without profiles.
pub(crate) fn create_compute_instances(
    out: Out<'_>,
    instances: &[FoundInstance<'_>],
    profiles: Option<&[String]>,
) -> io::Result<Exit> {
    for instance in instances {
        let exit = match profiles {
            None => create_in(out, instance, None)?,
            Some(profiles) => {
                let mut exit = None;
                for typed in profiles {
                    exit = create_in(out, instance, Some(typed))?;
                    if exit.is_some() {
                        break;
                    }
                }
                exit
            }
        };
        if let Some(exit) = exit {
            return Ok(exit);
        }
    }
    Ok(Exit::SUCCESS)
}

fn create<'l>(found: &Found<'l>, typed: &str) -> Result<FoundInstance<'l>, Error> {
    let (profile, start) = match typed.rsplit_once(':') {
        Some((profile, start)) => (profile, Some(start.parse::<u32>().map_err(|_| no_such_profile())?)),
        None => (typed, None),
    };
    let id = profile_id(found, profile)?;
    let instance = match start {
        None => found.gpu.create_gpu_instance(id)?,
        Some(start) => {
            let placements = found.gpu.possible_placements(id)?;
            // A start that is not possible is for the driver to refuse.
            let size = placements.first().map_or(0, |placement| placement.size);
            found.gpu.create_gpu_instance_at(id, Placement { start, size })?
        }
    };
    let created = instance.info()?.id;
    let mut of_that_id = gpu_instances(found, Some(&[created]))?;
    of_that_id.pop().ok_or(Error::Failed { call: "nvmlDeviceGetGpuInstances", code: Code::NotFound })
}

/// An id, or a name with or without `MIG `.
fn profile_id(found: &Found<'_>, typed: &str) -> Result<u32, Error> {
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    let name = typed.strip_prefix("MIG ").unwrap_or(typed);
    let named = |profile: &GpuProfile| name_of(profile, &found.gpu).eq_ignore_ascii_case(name);
    found.gpu.profiles()?.into_iter().find(named).map(|profile| profile.id).ok_or_else(no_such_profile)
}

const fn no_such_profile() -> Error {
    Error::Failed { call: "nvidia-smi mig -cgi", code: Code::InvalidArgument }
}

/// Creates a compute instance of the profile that was typed, or of the default
/// one. `Some` is how the command ends when it failed.
fn create_in(out: Out<'_>, instance: &FoundInstance<'_>, typed: Option<&str>) -> io::Result<Option<Exit>> {
    let FoundInstance { gpu, id: gi, .. } = instance;
    let wanted = |offered: &crate::ask::instances::Offered| match typed {
        None => offered.default,
        Some(typed) => match typed.parse::<u32>() {
            Ok(id) => offered.id == id,
            Err(_) => offered.name.eq_ignore_ascii_case(typed.strip_prefix("MIG ").unwrap_or(typed)),
        },
    };
    let created = instance.offers().and_then(|offers| {
        let offered = offers.into_iter().find(wanted).ok_or_else(no_such_profile)?;
        let created = instance.instance.create_compute_instance(offered.id)?.info()?.id;
        Ok((created, offered))
    });
    match created {
        Ok((id, offered)) => {
            writeln!(
                out,
                "Successfully created compute instance ID {id:>2} on GPU {gpu:>2} GPU instance ID {gi:>2} using profile MIG {} (ID {:>2})",
                offered.name, offered.id
            )?;
            Ok(None)
        }
        Err(error) => {
            let code = code_of(&error);
            let profile = typed.unwrap_or("default");
            writeln!(
                out,
                "Unable to create a compute instance on GPU {gpu:>2} GPU instance ID {gi:>2} using profile {profile}: {}",
                code.words()
            )?;
            failed(out, COMPUTE_INSTANCES, code).map(Some)
        }
    }
}
