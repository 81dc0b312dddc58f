//! NVML, safely and thinly: every call about instances that nvml-wrapper lacks or implements incorrectly
//! (its placements are always empty), beside the few that it implements correctly.
//!
//! [`Library`] is the loaded library. Everything that comes from it borrows it, so that no handle outlives
//! it: [`Gpu`], [`GpuInstance`], [`ComputeInstance`], [`MigDevice`]. Handles of instances are neither
//! `Send` nor `Clone`; one that is destroyed takes its handle with it. If another process destroyed an
//! instance, the driver notices it, since it validates every handle
//! ([`Code::InvalidArgument`](crate::Code)).
//!
//! This module uses NVML's own terms.

mod compute;
mod confidential;
mod device;
mod engines;
mod event;
mod instance;
mod profile;
mod readings;
mod reset;
mod text;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::InitFlags;
use nvml_wrapper::error::NvmlError;

use crate::code::Code;
use crate::error::{Error, Result};

pub use compute::{ComputeInstance, ComputeInstanceInfo, ComputeProfile};
pub use confidential::{ConfidentialCapabilities, ConfidentialState};
pub use device::{Activation, Gpu, Memory, MigAttributes, MigDevice, MigMode, Mode, Process};
pub use engines::Engines;
pub use event::{Event, EventSet};
pub use instance::{GpuInstance, GpuInstanceInfo};
pub use profile::{GpuProfile, Placement, profile_name};
pub use readings::{
    Fabric, FieldValue, Platform, RemapAvailability, Sample, Sampled, SramCounts, SramErrors,
};

/// The name under which every driver installs the library.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// The loaded and initialised library. Dropping it shuts NVML down and unloads
/// it; nothing that borrows from it is left then.
#[derive(Debug)]
pub struct Library {
    nvml: Nvml,
}

impl Library {
    /// Loads the library that the system finds by [`LIBRARY`]'s name, or the
    /// one at a path, and initialises it. A machine without a GPU is fine.
    ///
    /// # Errors
    /// [`Error::NoLibrary`], [`Error::NoFunction`] for a library that is
    /// something else; the code of the initialisation, such as
    /// [`Code::DriverNotLoaded`].
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(LIBRARY));
        let gpus_or_not = load(path.as_os_str(), Some(InitFlags::NO_GPUS));
        let nvml = match gpus_or_not {
            // Drivers before 418 have no flags.
            Err(NvmlError::FailedToLoadSymbol(_)) => load(path.as_os_str(), None),
            other => other,
        };
        let nvml = nvml.map_err(|error| match error {
            NvmlError::LibloadingError(error) => {
                Error::NoLibrary { library: PathBuf::from(path), reason: error.to_string() }
            }
            other => Error::from_call("nvmlInit", other),
        })?;
        Ok(Self { nvml })
    }

    /// What nvml-wrapper wraps soundly: names, clocks, utilisation and such.
    #[must_use]
    pub const fn nvml(&self) -> &Nvml {
        &self.nvml
    }

    /// How many GPUs there are, those that do not answer included.
    ///
    /// # Errors
    /// The library's.
    pub fn gpu_count(&self) -> Result<u32> {
        self.nvml.device_count().map_err(|e| Error::from_call("nvmlDeviceGetCount", e))
    }

    /// A GPU, by its index.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] past the last
    /// one, [`Code::GpuIsLost`] for one that does not
    /// answer.
    pub fn gpu(&self, index: u32) -> Result<Gpu<'_>> {
        let device = self.nvml.device_by_index(index);
        Ok(Gpu::new(device.map_err(|e| Error::from_call("nvmlDeviceGetHandleByIndex", e))?))
    }

    /// A GPU, by its UUID.
    ///
    /// # Errors
    /// [`Code::NotFound`].
    pub fn gpu_by_uuid(&self, uuid: &str) -> Result<Gpu<'_>> {
        const CALL: &str = "nvmlDeviceGetHandleByUUID";
        let device = self.nvml.device_by_uuid(uuid).map_err(|e| Error::from_call(CALL, e))?;
        // The call finds MIG devices too.
        match device.mig_is_mig_device_handle() {
            Ok(true) => Err(Error::Failed { call: CALL, code: Code::NotFound }),
            // A driver that cannot tell them apart has none.
            Ok(false) | Err(NvmlError::FailedToLoadSymbol(_)) => Ok(Gpu::new(device)),
            Err(error) => Err(Error::from_call("nvmlDeviceIsMigDeviceHandle", error)),
        }
    }

    /// A MIG device, by its UUID.
    ///
    /// # Errors
    /// [`Code::NotFound`].
    pub fn mig_device_by_uuid(&self, uuid: &str) -> Result<MigDevice<'_>> {
        let device = self.nvml.device_by_uuid(uuid);
        Ok(MigDevice::new(device.map_err(|e| Error::from_call("nvmlDeviceGetHandleByUUID", e))?))
    }

    /// The driver's version, such as `580.82.07`.
    ///
    /// # Errors
    /// The library's.
    pub fn driver_version(&self) -> Result<String> {
        self.nvml.sys_driver_version().map_err(|e| Error::from_call("nvmlSystemGetDriverVersion", e))
    }

    /// The name of a process, where the driver knows it.
    #[must_use]
    pub fn process_name(&self, pid: u32) -> Option<String> {
        const LONGEST: usize = 1024;
        self.nvml.sys_process_name(pid, LONGEST).ok().filter(|name| !name.is_empty())
    }

    /// A new set of events, which is empty.
    ///
    /// # Errors
    /// The library's.
    pub fn event_set(&self) -> Result<EventSet<'_>> {
        let set = self.nvml.create_event_set().map_err(|e| Error::from_call("nvmlEventSetCreate", e))?;
        Ok(EventSet::new(set))
    }
}

fn load(path: &OsStr, flags: Option<InitFlags>) -> std::result::Result<Nvml, NvmlError> {
    let mut builder = Nvml::builder();
    builder.lib_path(path);
    if let Some(flags) = flags {
        builder.flags(flags);
    }
    builder.init()
}

/// A function of the library, unless the library is too old to have it.
fn function<'f, F, E: std::fmt::Display>(
    call: &'static str,
    symbol: &'f std::result::Result<F, E>,
) -> Result<&'f F> {
    symbol.as_ref().map_err(|reason| Error::NoFunction { call, reason: reason.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_driver_is_told_what_to_do() {
        let error = Library::load(Some(Path::new("/nowhere/libnvidia-ml.so.1"))).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::NoLibrary { .. }), "{error:?}");
        // The loader names the file too; once is enough.
        let told = "cannot load /nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory; install";
        assert!(text.starts_with(told), "{text}");
        assert!(text.contains("install NVIDIA's driver, or give the library's path"), "{text}");
    }

    #[test]
    fn another_library_is_not_taken_for_nvml() {
        let error = Library::load(Some(Path::new("libc.so.6"))).unwrap_err();
        assert!(matches!(error, Error::NoFunction { call: "nvmlInit", .. }), "{error:?}");
    }
}
