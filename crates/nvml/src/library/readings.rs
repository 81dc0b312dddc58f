//! Readings of a GPU that nvml-wrapper does not have: the values that `nvidia-smi -q` prints beside the
//! usual ones. Each is one call that only reads.

#![allow(unsafe_code, reason = "calls that nvml-wrapper does not have")]

use std::os::raw::{c_uint, c_ulong, c_ulonglong};
use std::ptr;

use nvml_wrapper_sys::bindings::{
    self as sys, nvmlDevice_t, nvmlDeviceAddressingMode_t, nvmlDeviceCapabilities_t,
    nvmlDramEncryptionInfo_t, nvmlEccSramErrorStatus_t, nvmlFieldValue_t, nvmlGpuFabricInfoV_t,
    nvmlMarginTemperature_t, nvmlMemory_t, nvmlPciInfoExt_t, nvmlPdi_t, nvmlPlatformInfo_t,
    nvmlRepairStatus_t, nvmlReturn_t, nvmlRowRemapperHistogramValues_t, nvmlSample_t, nvmlValue_t,
};

use super::device::Gpu;
use super::function;
use super::profile::version;
use crate::error::{Result, check};

/// A function that answers with one thing about a GPU.
type Ask<T, E> = std::result::Result<unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t, E>;

/// How far a GPU is from where its clocks go down, and the like: a field's
/// value, whatever type C has it in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// A whole number.
    Whole(i64),
    /// One that is larger, or a count.
    Count(u64),
    /// A fraction.
    Real(f64),
}

impl FieldValue {
    /// As a count, unless it is negative or a fraction.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Whole(value) => u64::try_from(value).ok(),
            Self::Count(value) => Some(value),
            Self::Real(_) => None,
        }
    }

    /// As a whole number, unless it is too large or a fraction.
    #[must_use]
    pub fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Count(value) => i64::try_from(value).ok(),
            Self::Real(_) => None,
        }
    }
}

/// A reading of which the driver remembers samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Power, in milliwatts.
    Power,
    /// The load of the GPU, in percent, as are all that follow.
    Gpu,
    /// That of its memory.
    Memory,
    /// That of its encoders.
    Encoder,
    /// That of its decoders.
    Decoder,
    /// That of its JPEG engines.
    Jpeg,
    /// That of its optical flow engine.
    OpticalFlow,
}

/// A reading of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was, in microseconds since 1970.
    pub at: u64,
    /// In the unit of what was sampled.
    pub value: u64,
}

/// Errors of the static memory on the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SramErrors {
    /// Since the driver was loaded.
    pub volatile: SramCounts,
    /// Ever.
    pub aggregate: SramCounts,
    /// Ever, by where they struck: L2, multiprocessors, microcontrollers,
    /// PCIe, elsewhere.
    pub by_source: [u64; 5],
    /// There were too many of them.
    pub threshold_exceeded: bool,
}

/// Errors of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SramCounts {
    /// Those that were corrected.
    pub corrected: u64,
    /// Those that parity found.
    pub parity: u64,
    /// Those that SEC-DED found and could not correct.
    pub sec_ded: u64,
}

/// Where a GPU stands in its rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The serial number of the chassis, as bytes of text.
    pub chassis_serial: [u8; 16],
    /// The slot in the chassis.
    pub slot: u8,
    /// The tray among the compute slots.
    pub tray: u8,
    /// The host in the slot.
    pub host: u8,
    /// How its NVLinks end: 1 at another GPU, 2 at a switch.
    pub peer_type: u8,
    /// The GPU in the host.
    pub module: u8,
    /// Its identity in the fabric.
    pub fabric_guid: [u8; 16],
}

/// How a GPU takes part in an NVLink fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// 1 is not started, 2 is in progress, 3 is completed.
    pub state: u8,
    /// The code with which registering ended.
    pub status: u32,
    /// The clique.
    pub clique: u32,
    /// The cluster's UUID.
    pub cluster: [u8; 16],
}

/// The number of banks that have so much left to remap rows to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemapAvailability {
    /// All of it.
    pub max: u32,
    /// Much.
    pub high: u32,
    /// Some.
    pub partial: u32,
    /// Little.
    pub low: u32,
    /// Nothing.
    pub none: u32,
}

impl Gpu<'_> {
    /// Asks a function for one thing; `place` is where the answer goes.
    fn reading<T, E: std::fmt::Display>(
        &self,
        call: &'static str,
        symbol: &Ask<T, E>,
        mut place: T,
    ) -> Result<T> {
        let ask = function(call, symbol)?;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one; the
        // place is ours, and of the type that the function's own signature in the header names.
        check(call, unsafe { ask(self.handle(), &raw mut place) })?;
        Ok(place)
    }

    /// The base class and the sub class of the PCI device.
    ///
    /// # Errors
    /// The library's.
    pub fn pci_class(&self) -> Result<(u32, u32)> {
        let place = nvmlPciInfoExt_t {
            version: version::<nvmlPciInfoExt_t>(1),
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            baseClass: 0,
            subClass: 0,
            busId: [0; 32],
        };
        let found = self.reading("nvmlDeviceGetPciInfoExt", &self.sys().nvmlDeviceGetPciInfoExt, place)?;
        Ok((found.baseClass, found.subClass))
    }

    /// How programs on the GPU may address the host's memory: 0 not at all, 1
    /// by mirrored page tables, 2 by address translation.
    ///
    /// # Errors
    /// The library's.
    pub fn addressing_mode(&self) -> Result<u32> {
        let place =
            nvmlDeviceAddressingMode_t { version: version::<nvmlDeviceAddressingMode_t>(1), value: 0 };
        let symbol = &self.sys().nvmlDeviceGetAddressingMode;
        Ok(self.reading("nvmlDeviceGetAddressingMode", symbol, place)?.value)
    }

    /// The identity of the chip's package.
    ///
    /// # Errors
    /// The library's.
    pub fn pdi(&self) -> Result<u64> {
        let place = nvmlPdi_t { version: version::<nvmlPdi_t>(1), value: 0 };
        Ok(self.reading("nvmlDeviceGetPdi", &self.sys().nvmlDeviceGetPdi, place)?.value)
    }

    /// Which module of its baseboard it is.
    ///
    /// # Errors
    /// The library's.
    pub fn module_id(&self) -> Result<u32> {
        self.reading("nvmlDeviceGetModuleId", &self.sys().nvmlDeviceGetModuleId, 0)
    }

    /// Whether it is linked to a CPU chip to chip.
    ///
    /// # Errors
    /// The library's.
    pub fn chip_to_chip(&self) -> Result<bool> {
        let place = sys::nvmlC2cModeInfo_v1_t { isC2cEnabled: 0 };
        let symbol = &self.sys().nvmlDeviceGetC2cModeInfoV;
        Ok(self.reading("nvmlDeviceGetC2cModeInfoV", symbol, place)?.isC2cEnabled != 0)
    }

    /// Where it stands in its rack.
    ///
    /// # Errors
    /// [`Code::NotSupported`](crate::Code) outside of racks.
    pub fn platform(&self) -> Result<Platform> {
        let place = nvmlPlatformInfo_t {
            version: version::<nvmlPlatformInfo_t>(2),
            ibGuid: [0; 16],
            chassisSerialNumber: [0; 16],
            slotNumber: 0,
            trayIndex: 0,
            hostId: 0,
            peerType: 0,
            moduleId: 0,
        };
        let symbol = &self.sys().nvmlDeviceGetPlatformInfo;
        let found = self.reading("nvmlDeviceGetPlatformInfo", symbol, place)?;
        Ok(Platform {
            chassis_serial: found.chassisSerialNumber,
            slot: found.slotNumber,
            tray: found.trayIndex,
            host: found.hostId,
            peer_type: found.peerType,
            module: found.moduleId,
            fabric_guid: found.ibGuid,
        })
    }

    /// Its part in an NVLink fabric.
    ///
    /// # Errors
    /// [`Code::NotSupported`](crate::Code) without one.
    pub fn fabric(&self) -> Result<Fabric> {
        let place = nvmlGpuFabricInfoV_t {
            version: version::<nvmlGpuFabricInfoV_t>(3),
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
            healthSummary: 0,
        };
        let symbol = &self.sys().nvmlDeviceGetGpuFabricInfoV;
        let found = self.reading("nvmlDeviceGetGpuFabricInfoV", symbol, place)?;
        Ok(Fabric {
            state: found.state,
            status: found.status,
            clique: found.cliqueId,
            cluster: found.clusterUuid,
        })
    }

    /// How much there is to remap rows to.
    ///
    /// # Errors
    /// The library's.
    pub fn remap_availability(&self) -> Result<RemapAvailability> {
        let place = nvmlRowRemapperHistogramValues_t { max: 0, high: 0, partial: 0, low: 0, none: 0 };
        let symbol = &self.sys().nvmlDeviceGetRowRemapperHistogram;
        let nvmlRowRemapperHistogramValues_t { max, high, partial, low, none } =
            self.reading("nvmlDeviceGetRowRemapperHistogram", symbol, place)?;
        Ok(RemapAvailability { max, high, partial, low, none })
    }

    /// The errors of the memory on the chip, told apart.
    ///
    /// # Errors
    /// [`Code::NotSupported`](crate::Code) on cards that count them as one.
    pub fn sram_errors(&self) -> Result<SramErrors> {
        let place = nvmlEccSramErrorStatus_t {
            version: version::<nvmlEccSramErrorStatus_t>(1),
            aggregateUncParity: 0,
            aggregateUncSecDed: 0,
            aggregateCor: 0,
            volatileUncParity: 0,
            volatileUncSecDed: 0,
            volatileCor: 0,
            aggregateUncBucketL2: 0,
            aggregateUncBucketSm: 0,
            aggregateUncBucketPcie: 0,
            aggregateUncBucketMcu: 0,
            aggregateUncBucketOther: 0,
            bThresholdExceeded: 0,
        };
        let symbol = &self.sys().nvmlDeviceGetSramEccErrorStatus;
        let found = self.reading("nvmlDeviceGetSramEccErrorStatus", symbol, place)?;
        Ok(SramErrors {
            volatile: SramCounts {
                corrected: found.volatileCor,
                parity: found.volatileUncParity,
                sec_ded: found.volatileUncSecDed,
            },
            aggregate: SramCounts {
                corrected: found.aggregateCor,
                parity: found.aggregateUncParity,
                sec_ded: found.aggregateUncSecDed,
            },
            by_source: [
                found.aggregateUncBucketL2,
                found.aggregateUncBucketSm,
                found.aggregateUncBucketMcu,
                found.aggregateUncBucketPcie,
                found.aggregateUncBucketOther,
            ],
            threshold_exceeded: found.bThresholdExceeded != 0,
        })
    }

    /// Whether repairs of a memory channel and of a TPC wait for a reset.
    ///
    /// # Errors
    /// The library's.
    pub fn pending_repairs(&self) -> Result<(bool, bool)> {
        let place = nvmlRepairStatus_t {
            version: version::<nvmlRepairStatus_t>(1),
            bChannelRepairPending: 0,
            bTpcRepairPending: 0,
        };
        let found =
            self.reading("nvmlDeviceGetRepairStatus", &self.sys().nvmlDeviceGetRepairStatus, place)?;
        Ok((found.bChannelRepairPending != 0, found.bTpcRepairPending != 0))
    }

    /// How many degrees there are to the temperature at which it slows down.
    ///
    /// # Errors
    /// [`Code::NotSupported`](crate::Code) on cards whose limits are absolute.
    pub fn margin_temperature(&self) -> Result<i32> {
        let place =
            nvmlMarginTemperature_t { version: version::<nvmlMarginTemperature_t>(1), marginTemperature: 0 };
        let symbol = &self.sys().nvmlDeviceGetMarginTemperature;
        Ok(self.reading("nvmlDeviceGetMarginTemperature", symbol, place)?.marginTemperature)
    }

    /// What it can do, as bits: the first is memory of a host in its fabric.
    ///
    /// # Errors
    /// The library's.
    pub fn capabilities(&self) -> Result<u32> {
        let place = nvmlDeviceCapabilities_t { version: version::<nvmlDeviceCapabilities_t>(1), capMask: 0 };
        let symbol = &self.sys().nvmlDeviceGetCapabilities;
        Ok(self.reading("nvmlDeviceGetCapabilities", symbol, place)?.capMask)
    }

    /// The memory that is protected for confidential computing: total, used and
    /// free bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn protected_memory(&self) -> Result<(u64, u64, u64)> {
        let place = nvmlMemory_t { total: 0, free: 0, used: 0 };
        let symbol = &self.sys().nvmlDeviceGetConfComputeProtectedMemoryUsage;
        let nvmlMemory_t { total, free, used } =
            self.reading("nvmlDeviceGetConfComputeProtectedMemoryUsage", symbol, place)?;
        Ok((total, used, free))
    }

    /// The PCIe generation that the GPU is capable of, wherever it is plugged in.
    ///
    /// # Errors
    /// The library's.
    pub fn max_link_generation(&self) -> Result<u32> {
        let symbol = &self.sys().nvmlDeviceGetGpuMaxPcieLinkGeneration;
        self.reading("nvmlDeviceGetGpuMaxPcieLinkGeneration", symbol, 0)
    }

    /// Whether memory is encrypted, now and after the next reset.
    ///
    /// # Errors
    /// The library's.
    pub fn dram_encryption(&self) -> Result<(bool, bool)> {
        const CALL: &str = "nvmlDeviceGetDramEncryptionMode";
        let ask = function(CALL, &self.sys().nvmlDeviceGetDramEncryptionMode)?;
        let empty =
            nvmlDramEncryptionInfo_t { version: version::<nvmlDramEncryptionInfo_t>(1), encryptionState: 0 };
        let (mut current, mut pending) = (empty, empty);
        // SAFETY: the handle came from this library, which is loaded; both places are ours and say their version.
        check(CALL, unsafe { ask(self.handle(), &raw mut current, &raw mut pending) })?;
        Ok((current.encryptionState != 0, pending.encryptionState != 0))
    }

    /// How busy the JPEG engines are, in percent.
    ///
    /// # Errors
    /// The library's.
    pub fn jpeg_utilization(&self) -> Result<u32> {
        const CALL: &str = "nvmlDeviceGetJpgUtilization";
        let ask = function(CALL, &self.sys().nvmlDeviceGetJpgUtilization)?;
        let (mut busy, mut period): (c_uint, c_uint) = (0, 0);
        // SAFETY: the handle came from this library, which is loaded; both places are ours.
        check(CALL, unsafe { ask(self.handle(), &raw mut busy, &raw mut period) })?;
        Ok(busy)
    }

    /// How busy the optical flow engine is, in percent.
    ///
    /// # Errors
    /// The library's.
    pub fn ofa_utilization(&self) -> Result<u32> {
        const CALL: &str = "nvmlDeviceGetOfaUtilization";
        let ask = function(CALL, &self.sys().nvmlDeviceGetOfaUtilization)?;
        let (mut busy, mut period): (c_uint, c_uint) = (0, 0);
        // SAFETY: the handle came from this library, which is loaded; both places are ours.
        check(CALL, unsafe { ask(self.handle(), &raw mut busy, &raw mut period) })?;
        Ok(busy)
    }

    /// When the black box was last written to the InfoROM, in microseconds
    /// since 1970, and how many it took.
    ///
    /// # Errors
    /// The library's.
    pub fn black_box_flush(&self) -> Result<(u64, u64)> {
        const CALL: &str = "nvmlDeviceGetLastBBXFlushTime";
        let ask = function(CALL, &self.sys().nvmlDeviceGetLastBBXFlushTime)?;
        let (mut at, mut took): (c_ulonglong, c_ulong) = (0, 0);
        // SAFETY: the handle came from this library, which is loaded; both places are ours.
        check(CALL, unsafe { ask(self.handle(), &raw mut at, &raw mut took) })?;
        // The type is wider on some machines than on others: never lossy.
        #[allow(clippy::useless_conversion, reason = "not useless where a long has 32 bits")]
        Ok((at, u64::from(took)))
    }

    /// A field's value, in a scope: which part of the GPU, or which link.
    ///
    /// # Errors
    /// The library's, about this field.
    pub fn field(&self, id: u32, scope: u32) -> Result<FieldValue> {
        const CALL: &str = "nvmlDeviceGetFieldValues";
        let ask = function(CALL, &self.sys().nvmlDeviceGetFieldValues)?;
        let mut place = nvmlFieldValue_t {
            fieldId: id,
            scopeId: scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        };
        // SAFETY: the handle came from this library, which is loaded; the one place is ours.
        check(CALL, unsafe { ask(self.handle(), 1, &raw mut place) })?;
        check(CALL, place.nvmlReturn)?;
        // SAFETY: every byte of the union was initialised, and each of its variants is any number.
        let value = unsafe {
            match place.valueType {
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => FieldValue::Real(place.value.dVal),
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
                    FieldValue::Whole(place.value.uiVal.into())
                }
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => {
                    FieldValue::Whole(place.value.sllVal)
                }
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => {
                    FieldValue::Whole(place.value.siVal.into())
                }
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => {
                    FieldValue::Whole(place.value.usVal.into())
                }
                // Longs are longs of 64 bits on every machine that has such GPUs.
                _ => FieldValue::Count(place.value.ullVal),
            }
        };
        Ok(value)
    }

    /// What the driver remembers of a reading, the oldest first.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code) where it remembers nothing,
    /// [`Code::NotSupported`](crate::Code) with MIG on.
    pub fn samples(&self, of: Sampled) -> Result<Vec<Sample>> {
        const CALL: &str = "nvmlDeviceGetSamples";
        let ask = function(CALL, &self.sys().nvmlDeviceGetSamples)?;
        let number = match of {
            Sampled::Power => sys::nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES,
            Sampled::Gpu => sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES,
            Sampled::Memory => sys::nvmlSamplingType_enum_NVML_MEMORY_UTILIZATION_SAMPLES,
            Sampled::Encoder => sys::nvmlSamplingType_enum_NVML_ENC_UTILIZATION_SAMPLES,
            Sampled::Decoder => sys::nvmlSamplingType_enum_NVML_DEC_UTILIZATION_SAMPLES,
            Sampled::Jpeg => sys::nvmlSamplingType_enum_NVML_JPG_UTILIZATION_SAMPLES,
            Sampled::OpticalFlow => sys::nvmlSamplingType_enum_NVML_OFA_UTILIZATION_SAMPLES,
        };
        let (mut kind, mut count): (c_uint, c_uint) = (0, 0);
        // SAFETY: the handle came from this library, which is loaded; both places are ours, and without an
        // array the function only counts.
        check(CALL, unsafe {
            ask(self.handle(), number, 0, &raw mut kind, &raw mut count, ptr::null_mut())
        })?;
        let empty = nvmlSample_t { timeStamp: 0, sampleValue: nvmlValue_t { ullVal: 0 } };
        let mut places = vec![empty; count as usize];
        // SAFETY: as above; the array has as many places as `count` says.
        check(CALL, unsafe {
            ask(self.handle(), number, 0, &raw mut kind, &raw mut count, places.as_mut_ptr())
        })?;
        places.truncate(count as usize);
        let value = |value: nvmlValue_t| {
            // SAFETY: every byte of the union was initialised, and each of its variants is any number.
            unsafe {
                match kind {
                    sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => value.uiVal.into(),
                    _ => value.ullVal,
                }
            }
        };
        let sample = |place: nvmlSample_t| Sample { at: place.timeStamp, value: value(place.sampleValue) };
        Ok(places.into_iter().map(sample).collect())
    }
}
