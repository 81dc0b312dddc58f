//! Facts about a board: its firmware, its place in a chassis and in a fabric, how its memory is addressed
//! and protected. Where no capture shows a value, there is none.

use std::ffi::c_uint;

use gpu::{Gpu, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutText, Versioned};
use crate::c_handle::Device;
use crate::entry::Call;
use crate::figures::{self, Board};

fn whole(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

fn board(of: Subject<'_>) -> Reply<&'static Board> {
    figures::board(whole(of)?).ok_or(NvmlError::NotSupported)
}

/// Turing's and later cards are driven by firmware of the driver's version.
fn has_gsp(of: Subject<'_>) -> Reply<()> {
    let late = whole(of)?.model.compute_capability.is_some_and(|capability| capability >= (7, 5));
    if late && of.machine.driver().0 >= 510 { Ok(()) } else { Err(NvmlError::NotSupported) }
}

/// A card on an NVSwitch board has joined its fabric; there is only one of it.
fn fabric(call: &mut Call<'_>, device: Device) -> Reply<()> {
    call.ask(device, |of| if board(of)?.fabric { Ok(()) } else { Err(NvmlError::NotSupported) })
}

const ON: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED;
const COMPLETED: sys::nvmlGpuFabricState_t =
    sys::NVML_GPU_FABRIC_STATE_COMPLETED as sys::nvmlGpuFabricState_t;

entries! {
    /// The buffer is as long as the header's constant says.
    fn nvmlDeviceGetGspFirmwareVersion(call, device: Device, version: OutText) {
        call.ask(device, has_gsp)?;
        let driver = call.session.state().driver_version.clone();
        version.set(sys::NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, &driver)?
    }

    fn nvmlDeviceGetGspFirmwareMode(call, device: Device, enabled: Out<c_uint>, default: Out<c_uint>) {
        call.ask(device, has_gsp)?;
        enabled.set(ON);
        default.set(ON)
    }

    fn nvmlDeviceGetInforomImageVersion(call, device: Device, version: OutText, length: c_uint) {
        version.set(length, call.ask(device, board)?.image)?
    }

    fn nvmlDeviceGetInforomVersion(call, device: Device, object: c_uint, version: OutText, length: c_uint) {
        if object >= sys::nvmlInforomObject_enum_NVML_INFOROM_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        let board = call.ask(device, board)?;
        let text = match object {
            sys::nvmlInforomObject_enum_NVML_INFOROM_OEM => board.oem,
            sys::nvmlInforomObject_enum_NVML_INFOROM_ECC => board.ecc,
            _ => return Err(NvmlError::NotSupported),
        };
        version.set(length, text)?
    }

    /// It is never damaged.
    fn nvmlDeviceValidateInforom(call, device: Device) {
        call.ask(device, |of| board(of).map(drop))?
    }

    fn nvmlDeviceGetBoardPartNumber(call, device: Device, number: OutText, length: c_uint) {
        number.set(length, call.ask(device, board)?.part)?
    }

    fn nvmlDeviceGetModuleId(call, device: Device, id: Out<c_uint>) {
        id.set(call.ask(device, board)?.module)
    }

    fn nvmlDeviceGetGpuFabricInfo(call, device: Device, info: Out<sys::nvmlGpuFabricInfo_t>) {
        fabric(call, device)?;
        info.set(sys::nvmlGpuFabricInfo_t { clusterUuid: [0; 16], status: 0, cliqueId: 0, state: COMPLETED })
    }

    fn nvmlDeviceGetGpuFabricInfoV(call, device: Device, info: Versioned) {
        if let Some(info) = info.is::<sys::nvmlGpuFabricInfo_v2_t>(2) {
            let version = info.get()?.version;
            fabric(call, device)?;
            let clusterUuid = [0; 16];
            info.set(sys::nvmlGpuFabricInfo_v2_t { version, clusterUuid, status: 0, cliqueId: 0, state: COMPLETED, healthMask: 0 });
        } else if let Some(info) = info.is::<sys::nvmlGpuFabricInfo_v3_t>(3) {
            let version = info.get()?.version;
            fabric(call, device)?;
            info.set(sys::nvmlGpuFabricInfo_v3_t {
                version,
                clusterUuid: [0; 16],
                status: 0,
                cliqueId: 0,
                state: COMPLETED,
                healthMask: 0,
                healthSummary: 0,
            });
        } else {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
    }

    /// Seen: none on an H100 with driver 590, HMM on an L40S with 595.
    fn nvmlDeviceGetAddressingMode(call, device: Device, mode: Versioned) {
        let mode = mode.must_be::<sys::nvmlDeviceAddressingMode_v1_t>(1)?;
        let value = call.ask(device, board)?.addressing;
        mode.update(|mode| mode.value = value)?
    }

    /// Without confidential computing there is nothing to protect.
    fn nvmlDeviceGetConfComputeProtectedMemoryUsage(call, device: Device, memory: Out<sys::nvmlMemory_t>) {
        call.ask(device, |of| board(of).map(drop))?;
        memory.set(sys::nvmlMemory_t { total: 0, free: 0, used: 0 })
    }

    /// The link to a processor beside it.
    fn nvmlDeviceGetC2cModeInfoV(call, device: Device, info: Out<sys::nvmlC2cModeInfo_v1_t>) {
        let used = call.ask(device, |of| board(of)?.c2c.ok_or(NvmlError::NotSupported))?;
        info.set(sys::nvmlC2cModeInfo_v1_t { isC2cEnabled: used.into() })
    }

    /// Where every card leaves the factory: so many processes are remembered.
    fn nvmlDeviceGetAccountingBufferSize(call, device: Device, size: Out<c_uint>) {
        call.ask(device, |of| whole(of).map(drop))?;
        size.set(4000)
    }
}
