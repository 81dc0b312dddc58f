//! GPUs and MIG devices: NVML has one kind of device handle for both; here they are two types.

#![allow(unsafe_code, reason = "the handle behind nvml-wrapper's device, and calls that it does not have")]

use std::os::raw::c_uint;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t};

use super::engines::Engines;
use super::function;
use crate::code::Code;
use crate::error::{Error, Result, check};

/// MIG on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Off.
    Disabled,
    /// On.
    Enabled,
}

/// The MIG mode of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MigMode {
    /// Now.
    pub current: Mode,
    /// After the next reset.
    pub pending: Mode,
}

/// How a successful change of the MIG mode went on. The call succeeds even
/// when the mode only becomes pending; why it did is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The mode is in force.
    Done,
    /// The mode is pending, for this reason: somebody has the GPU open
    /// ([`Code::InUse`]), or the driver cannot reset it itself.
    Pending(Code),
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What is used.
    pub used: u64,
}

/// A process that computes on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// How much memory it has, in bytes, where the driver says.
    pub memory: Option<u64>,
    /// On which GPU instance and compute instance.
    pub instance: Option<(u32, u32)>,
}

/// What a MIG device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigAttributes {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The engines of its GPU instance, which it may share.
    pub engines: Engines,
    /// Compute slices of its GPU instance.
    pub gpu_instance_slices: u32,
    /// Its own compute slices.
    pub compute_instance_slices: u32,
    /// Memory of its GPU instance, in MiB.
    pub memory_mib: u64,
}

/// A handle of a whole GPU.
#[derive(Debug)]
pub struct Gpu<'l> {
    device: Device<'l>,
}

/// A handle of a MIG device: one compute instance, as programs see it.
#[derive(Debug)]
pub struct MigDevice<'l> {
    device: Device<'l>,
}

impl<'l> Gpu<'l> {
    pub(super) const fn new(device: Device<'l>) -> Self {
        Self { device }
    }

    /// What nvml-wrapper wraps soundly.
    #[must_use]
    pub const fn device(&self) -> &Device<'l> {
        &self.device
    }

    pub(super) fn nvml(&self) -> &'l Nvml {
        self.device.nvml()
    }

    pub(super) fn sys(&self) -> &'l NvmlLib {
        self.nvml().lib()
    }

    pub(super) fn handle(&self) -> nvmlDevice_t {
        // SAFETY: the handle is passed to functions of the library that it came from, and nowhere else.
        unsafe { self.device.handle() }
    }

    /// Its UUID, such as `GPU-…`.
    ///
    /// # Errors
    /// The library's.
    pub fn uuid(&self) -> Result<String> {
        self.device.uuid().map_err(|e| Error::from_call("nvmlDeviceGetUUID", e))
    }

    /// Its product's name.
    ///
    /// # Errors
    /// The library's.
    pub fn name(&self) -> Result<String> {
        self.device.name().map_err(|e| Error::from_call("nvmlDeviceGetName", e))
    }

    /// Its index. It may be another one after a reboot.
    ///
    /// # Errors
    /// The library's.
    pub fn index(&self) -> Result<u32> {
        self.device.index().map_err(|e| Error::from_call("nvmlDeviceGetIndex", e))
    }

    /// Its address on the bus, such as `00000000:07:00.0`.
    ///
    /// # Errors
    /// The library's.
    pub fn bus_id(&self) -> Result<String> {
        let pci = self.device.pci_info().map_err(|e| Error::from_call("nvmlDeviceGetPciInfo", e))?;
        Ok(pci.bus_id)
    }

    /// The PCI device id and vendor id, as one number.
    ///
    /// # Errors
    /// The library's.
    pub fn pci_device_id(&self) -> Result<u32> {
        let pci = self.device.pci_info().map_err(|e| Error::from_call("nvmlDeviceGetPciInfo", e))?;
        Ok(pci.pci_device_id)
    }

    /// Its memory.
    ///
    /// # Errors
    /// The library's.
    pub fn memory(&self) -> Result<Memory> {
        memory(&self.device)
    }

    /// The processes that compute on it, on its slices too.
    ///
    /// # Errors
    /// The library's.
    pub fn processes(&self) -> Result<Vec<Process>> {
        const CALL: &str = "nvmlDeviceGetComputeRunningProcesses_v3";
        let found = self.device.running_compute_processes().map_err(|e| Error::from_call(CALL, e))?;
        let process = |found: ProcessInfo| Process {
            pid: found.pid,
            memory: match found.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
            instance: found.gpu_instance_id.zip(found.compute_instance_id),
        };
        Ok(found.into_iter().map(process).collect())
    }

    /// Its MIG mode.
    ///
    /// # Errors
    /// [`Code::NotSupported`] without MIG.
    pub fn mig_mode(&self) -> Result<MigMode> {
        let mode = self.device.mig_mode().map_err(|e| Error::from_call("nvmlDeviceGetMigMode", e))?;
        Ok(MigMode { current: mode_of(mode.current)?, pending: mode_of(mode.pending)? })
    }

    /// Switches MIG on or off. A success may leave the mode pending.
    ///
    /// # Errors
    /// [`Code::NoPermission`], [`Code::NotSupported`] without MIG.
    pub fn set_mig_mode(&self, mode: Mode) -> Result<Activation> {
        let status = self.device.set_mig_mode(mode == Mode::Enabled);
        let status = status.map_err(|e| Error::from_call("nvmlDeviceSetMigMode", e))?;
        Ok(Code::check(status).map_or_else(Activation::Pending, |()| Activation::Done))
    }

    /// The most MIG devices that there can be; 0 with MIG off, or without.
    ///
    /// # Errors
    /// The library's.
    pub fn max_mig_devices(&self) -> Result<u32> {
        self.device.mig_device_count().map_err(|e| Error::from_call("nvmlDeviceGetMaxMigDeviceCount", e))
    }

    /// The MIG device with an index. Indices shift when instances come and go.
    ///
    /// # Errors
    /// [`Code::NotFound`] where there is none.
    pub fn mig_device(&self, index: u32) -> Result<MigDevice<'l>> {
        let device = self.device.mig_device_by_index(index);
        Ok(MigDevice::new(device.map_err(|e| Error::from_call("nvmlDeviceGetMigDeviceHandleByIndex", e))?))
    }

    /// The MIG devices that are there now, by index. None with MIG off.
    ///
    /// # Errors
    /// The library's.
    pub fn mig_devices(&self) -> Result<Vec<MigDevice<'l>>> {
        let mut devices = Vec::new();
        for index in 0..self.max_mig_devices()? {
            match self.mig_device(index) {
                Ok(device) => devices.push(device),
                Err(error) if error.code() == Some(Code::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(devices)
    }
}

impl<'l> MigDevice<'l> {
    pub(super) const fn new(device: Device<'l>) -> Self {
        Self { device }
    }

    /// What nvml-wrapper wraps soundly.
    #[must_use]
    pub const fn device(&self) -> &Device<'l> {
        &self.device
    }

    fn handle(&self) -> nvmlDevice_t {
        // SAFETY: the handle is passed to functions of the library that it came from, and nowhere else.
        unsafe { self.device.handle() }
    }

    /// Its UUID, such as `MIG-…`.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] once it is gone.
    pub fn uuid(&self) -> Result<String> {
        self.device.uuid().map_err(|e| Error::from_call("nvmlDeviceGetUUID", e))
    }

    /// Its name: the GPU's, `MIG`, and its profile.
    ///
    /// # Errors
    /// The library's.
    pub fn name(&self) -> Result<String> {
        self.device.name().map_err(|e| Error::from_call("nvmlDeviceGetName", e))
    }

    /// The memory of its GPU instance.
    ///
    /// # Errors
    /// The library's.
    pub fn memory(&self) -> Result<Memory> {
        memory(&self.device)
    }

    /// The GPU that it is a part of.
    ///
    /// # Errors
    /// The library's.
    pub fn gpu(&self) -> Result<Gpu<'l>> {
        let parent = self.device.mig_parent_device();
        Ok(Gpu::new(parent.map_err(|e| Error::from_call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", e))?))
    }

    /// The id of its GPU instance.
    ///
    /// # Errors
    /// The library's.
    pub fn gpu_instance_id(&self) -> Result<u32> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceId";
        let call = function(CALL, &self.device.nvml().lib().nvmlDeviceGetGpuInstanceId)?;
        let mut id: c_uint = 0;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), &raw mut id) })?;
        Ok(id)
    }

    /// The id of its compute instance, in its GPU instance.
    ///
    /// # Errors
    /// The library's.
    pub fn compute_instance_id(&self) -> Result<u32> {
        const CALL: &str = "nvmlDeviceGetComputeInstanceId";
        let call = function(CALL, &self.device.nvml().lib().nvmlDeviceGetComputeInstanceId)?;
        let mut id: c_uint = 0;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), &raw mut id) })?;
        Ok(id)
    }

    /// What it has.
    ///
    /// # Errors
    /// The library's.
    pub fn attributes(&self) -> Result<MigAttributes> {
        let found =
            self.device.attributes().map_err(|e| Error::from_call("nvmlDeviceGetAttributes_v2", e))?;
        Ok(MigAttributes {
            multiprocessors: found.multiprocessor_count,
            engines: Engines {
                copy: found.shared_copy_engine_count,
                decoder: found.shared_decoder_count,
                encoder: found.shared_encoder_count,
                jpeg: found.shared_jpeg_count,
                ofa: found.shared_ofa_count,
            },
            gpu_instance_slices: found.gpu_instance_slice_count,
            compute_instance_slices: found.compute_instance_slice_count,
            memory_mib: found.memory_size_mb,
        })
    }
}

fn memory(device: &Device<'_>) -> Result<Memory> {
    let memory = device.memory_info().map_err(|e| Error::from_call("nvmlDeviceGetMemoryInfo", e))?;
    Ok(Memory { total: memory.total, used: memory.used })
}

fn mode_of(number: u32) -> Result<Mode> {
    match number {
        0 => Ok(Mode::Disabled),
        1 => Ok(Mode::Enabled),
        other => Err(Error::nonsense("nvmlDeviceGetMigMode", format!("the mode {other}"))),
    }
}
