//! Facts about a board: its firmware, its place in a chassis and in a fabric, how its memory is addressed
//! and protected. Where no capture shows a value, there is none.

use std::ffi::c_uint;

use gpu::{Gpu, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Ignored, Out, OutArray, OutText, Versioned};
use crate::boards::{self, Board};
use crate::c_handle::Device;
use crate::entry::Call;
use crate::padded::{FabricInfoV1, FabricInfoV2, FabricInfoV3, Pdi, PlatformV1, PlatformV2};

fn whole(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

fn board(of: Subject<'_>) -> Reply<&'static Board> {
    boards::board(whole(of)?).ok_or(NvmlError::NotSupported)
}

/// Turing's and later cards are driven by firmware of the driver's version.
fn has_gsp(of: Subject<'_>) -> Reply<()> {
    let late = whole(of)?.model.compute_capability.is_some_and(|capability| capability >= (7, 5));
    if late && of.machine.driver().0 >= 510 { Ok(()) } else { Err(NvmlError::NotSupported) }
}

fn asked(of: Subject<'_>) -> Reply<boards::Asked> {
    boards::asked(whole(of)?).ok_or(NvmlError::NotSupported)
}

/// A card on an NVSwitch board has joined its fabric, of which there is only one.
/// One that was passed through to a virtual machine without switches has none to
/// join (an H100 and an H200, driver 580).
fn fabric(call: &mut Call<'_>, device: Device) -> Reply<sys::nvmlGpuFabricState_t> {
    call.ask(device, |of| {
        let alone = of.machine.is_passed_through() && of.machine.topology().nvlinks.is_none();
        match board(of)?.fabric {
            true if alone => Ok(NO_FABRIC),
            true => Ok(COMPLETED),
            false => Err(NvmlError::NotSupported),
        }
    })
}

/// A number that is the board's own, made from its UUID.
fn pdi(gpu: &Gpu) -> u64 {
    // FNV-1a, so that it is not what the serial number is made of.
    gpu.uuid
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |n, byte| (n ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The interrupt of the first GPU.
const FIRST_INTERRUPT: c_uint = 100;

const OFF: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_DISABLED;
const ON: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED;
const NO_FABRIC: sys::nvmlGpuFabricState_t =
    sys::NVML_GPU_FABRIC_STATE_NOT_SUPPORTED as sys::nvmlGpuFabricState_t;
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

    fn nvmlDeviceGetGpuFabricInfo(call, device: Device, info: Out<FabricInfoV1>) {
        let state = fabric(call, device)?;
        info.set(FabricInfoV1 { clusterUuid: [0; 16], status: 0, cliqueId: 0, state, _1: [0; 3] })
    }

    fn nvmlDeviceGetGpuFabricInfoV(call, device: Device, info: Versioned) {
        if let Some(info) = info.is::<FabricInfoV2>(2) {
            let version = info.get()?.version;
            let state = fabric(call, device)?;
            info.set(FabricInfoV2 { version, clusterUuid: [0; 16], status: 0, cliqueId: 0, state, _1: [0; 3], healthMask: 0 });
        } else if let Some(info) = info.is::<FabricInfoV3>(3) {
            let version = info.get()?.version;
            let state = fabric(call, device)?;
            info.set(FabricInfoV3 {
                version,
                clusterUuid: [0; 16],
                status: 0,
                cliqueId: 0,
                state,
                _1: [0; 3],
                healthMask: 0,
                healthSummary: 0,
                _2: [0; 3],
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

    /// While accounting is off, nobody is remembered.
    fn nvmlDeviceGetAccountingPids(call, device: Device, count: Out<c_uint>, _pids: OutArray<c_uint>) {
        call.ask(device, |of| whole(of).map(drop))?;
        count.set(0)
    }

    /// In the first place of a chassis of which nothing else is known.
    fn nvmlDeviceGetPlatformInfo(call, device: Device, info: Versioned) {
        let module = call.ask(device, |of| asked(of).and(board(of)))?.module as u8;
        let none = [0; 16];
        if let Some(info) = info.is::<PlatformV2>(2) {
            let version = info.get()?.version;
            info.set(PlatformV2 {
                version,
                ibGuid: none,
                chassisSerialNumber: none,
                slotNumber: 0,
                trayIndex: 0,
                hostId: 1,
                peerType: 0,
                moduleId: module,
                _1: [0; 3],
            });
        } else if let Some(info) = info.is::<PlatformV1>(1) {
            let version = info.get()?.version;
            info.set(PlatformV1 {
                version,
                ibGuid: none,
                rackGuid: none,
                chassisPhysicalSlotNumber: 0,
                computeSlotIndex: 0,
                nodeIndex: 1,
                peerType: 0,
                moduleId: module,
                _1: [0; 3],
            });
        } else {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
    }

    fn nvmlDeviceGetPdi(call, device: Device, number: Versioned) {
        let number = number.must_be::<Pdi>(1)?;
        let version = number.get()?.version;
        let value = call.ask(device, |of| asked(of).and(whole(of)).map(pdi))?;
        number.set(Pdi { version, _1: 0, value })
    }

    fn nvmlDeviceGetNumGpuCores(call, device: Device, cores: Out<c_uint>) {
        cores.set(call.ask(device, asked)?.cores)
    }

    fn nvmlDeviceGetMemoryBusWidth(call, device: Device, bits: Out<c_uint>) {
        bits.set(call.ask(device, asked)?.bus_bits)
    }

    /// From the socket, as ever with a server.
    fn nvmlDeviceGetPowerSource(call, device: Device, source: Out<c_uint>) {
        call.ask(device, asked)?;
        source.set(sys::NVML_POWER_SOURCE_AC)
    }

    /// As in the driver's files beside this library.
    fn nvmlDeviceGetIrqNum(call, device: Device, number: Out<c_uint>) {
        number.set(call.ask(device, |of| asked(of).map(|_| FIRST_INTERRUPT + c_uint::from(of.index)))?)
    }

    /// That of an InfoROM whose settings were never changed.
    fn nvmlDeviceGetInforomConfigurationChecksum(call, device: Device, checksum: Out<c_uint>) {
        call.ask(device, asked)?;
        checksum.set(0)
    }

    /// Nothing was written yet.
    fn nvmlDeviceGetLastBBXFlushTime(call, device: Device, _time: Ignored, _took: Ignored) {
        call.ask(device, |of| asked(of).and(Err::<(), _>(NvmlError::NotReady)))?
    }

    fn nvmlDeviceGetCapabilities(call, device: Device, capabilities: Versioned) {
        let capabilities = capabilities.must_be::<sys::nvmlDeviceCapabilities_v1_t>(1)?;
        call.ask(device, asked)?;
        capabilities.update(|capabilities| capabilities.capMask = 0)?
    }

    /// Nothing that needs a licence. The structs of all versions begin with this answer and with how many
    /// features follow: none.
    fn nvmlDeviceGetGridLicensableFeatures | nvmlDeviceGetGridLicensableFeatures_v2
        | nvmlDeviceGetGridLicensableFeatures_v3 | nvmlDeviceGetGridLicensableFeatures_v4(
        call, device: Device, features: Out<[c_uint; 2]>
    ) {
        call.ask(device, asked)?;
        features.set([0, 0])
    }

    /// Everybody may let a card change its clocks by itself, where it can.
    fn nvmlDeviceGetAPIRestriction(call, device: Device, api: c_uint, restricted: Out<sys::nvmlEnableState_t>) {
        call.ask(device, asked)?;
        match api {
            sys::nvmlRestrictedAPI_enum_NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS => return Err(NvmlError::NotSupported),
            sys::nvmlRestrictedAPI_enum_NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS => restricted.set(OFF),
            _ => return Err(NvmlError::InvalidArgument),
        }
    }
}
