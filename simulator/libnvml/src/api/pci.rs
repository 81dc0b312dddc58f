//! The position of a GPU on the PCI bus.

use std::ffi::c_uint;

use gpu::{Gpu, NvmlError, PciClass, Reply};
use nvml_wrapper_sys::bindings::{self as sys, nvmlPciInfo_t, nvmlPciInfoExt_v1_t};

use crate::argument::{In, Out, Versioned, text};
use crate::c_handle::Device;
use crate::entry::Call;
use crate::figures::PciAddress;
use crate::first_versions::{PciInfoV1, PciInfoV2};

/// NVIDIA's.
const VENDOR: u32 = 0x10DE;

fn device_id(gpu: &Gpu) -> u32 {
    gpu.model.pci_device.map_or(0, |device| u32::from(device) << 16) | VENDOR
}

/// What is known of a place on the bus by its address alone.
pub(super) fn info_at(domain: u32, bus: u32, device: u32) -> nvmlPciInfo_t {
    let at = PciAddress { domain, bus, device };
    nvmlPciInfo_t {
        busIdLegacy: text(&at.legacy()),
        domain,
        bus,
        device,
        pciDeviceId: VENDOR,
        pciSubSystemId: 0,
        busId: text(&format!("{domain:08X}:{bus:02X}:{device:02X}.0")),
    }
}

/// Everything that the last version of the struct has.
pub(super) fn info_of(gpu: &Gpu) -> Reply<nvmlPciInfo_t> {
    let at = PciAddress::parse(&gpu.bus_id).ok_or(NvmlError::Unknown)?;
    let place = info_at(at.domain, at.bus, at.device);
    Ok(nvmlPciInfo_t {
        pciDeviceId: device_id(gpu),
        pciSubSystemId: subsystem_id(gpu),
        busId: text(&gpu.bus_id),
        ..place
    })
}

fn info(call: &mut Call<'_>, device: Device) -> Reply<nvmlPciInfo_t> {
    call.ask(device, |of| of.whole(NvmlError::InvalidArgument).and_then(info_of))
}

/// The board's, where a capture shows it.
fn subsystem_id(gpu: &Gpu) -> u32 {
    gpu.model.pci_subsystem.map_or(0, |board| u32::from(board) << 16 | VENDOR)
}

entries! {
    fn nvmlDeviceGetPciInfo(call, device: Device, pci: Out<PciInfoV1>) {
        pci.set(PciInfoV1::from_last(&info(call, device)?))
    }

    fn nvmlDeviceGetPciInfo_v2(call, device: Device, pci: Out<PciInfoV2>) {
        let info = info(call, device)?;
        pci.set(PciInfoV2 { v1: PciInfoV1::from_last(&info), pci_sub_system_id: info.pciSubSystemId, reserved: [0; 4] })
    }

    fn nvmlDeviceGetPciInfo_v3(call, device: Device, pci: Out<nvmlPciInfo_t>) {
        pci.set(info(call, device)?)
    }

    fn nvmlDeviceGetPciInfoExt(call, device: Device, pci: Versioned) {
        let pci = pci.must_be::<nvmlPciInfoExt_v1_t>(1)?;
        let version = pci.get()?.version;
        pci.set(call.ask(device, |of| {
            let gpu = of.whole(NvmlError::InvalidArgument)?;
            let at = PciAddress::parse(&gpu.bus_id).ok_or(NvmlError::Unknown)?;
            Ok(nvmlPciInfoExt_v1_t {
                version,
                domain: at.domain,
                bus: at.bus,
                device: at.device,
                pciDeviceId: device_id(gpu),
                pciSubSystemId: subsystem_id(gpu),
                baseClass: 0x03,
                subClass: match gpu.model.pci_class {
                    PciClass::ThreeD => 0x02,
                    PciClass::Vga => 0x00,
                },
                busId: text(&gpu.bus_id),
            })
        })?)
    }

    /// Nobody takes a simulated GPU out of use. Of the struct, which had fewer fields once, only the address counts.
    fn nvmlDeviceQueryDrainState(call, pci: In<PciInfoV1>, state: Out<c_uint>) {
        let PciInfoV1 { domain, bus, device, .. } = pci.get()?;
        let wanted = PciAddress { domain, bus, device };
        let mut gpus = call.session.machine().gpus().iter();
        let gpu = gpus.find(|gpu| PciAddress::parse(&gpu.bus_id) == Some(wanted));
        let gpu = gpu.ok_or(NvmlError::InvalidArgument)?;
        if gpu.lost {
            return Err(NvmlError::GpuIsLost);
        }
        state.set(sys::nvmlEnableState_enum_NVML_FEATURE_DISABLED)
    }

    /// One PCIe root for each GPU, as in a virtual machine: nothing is nearer.
    fn nvmlDeviceGetBoardId(call, device: Device, board: Out<c_uint>) {
        board.set(call.ask(device, |of| {
            let gpu = of.whole(NvmlError::InvalidArgument)?;
            PciAddress::parse(&gpu.bus_id).map(PciAddress::id).ok_or(NvmlError::Unknown)
        })?)
    }

    fn nvmlDeviceGetMultiGpuBoard(call, device: Device, several: Out<c_uint>) {
        several.set(call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(|_| 0))?)
    }
}
