//! Where a GPU is on the PCI bus. The subsystem's id is not known for any
//! model, and 0.

use std::ffi::c_uint;

use gpu::{Gpu, NvmlError, PciClass};
use nvml_wrapper_sys::bindings::{nvmlPciInfo_t, nvmlPciInfoExt_v1_t};

use crate::argument::{Out, Versioned, text};
use crate::figures::PciAddress;
use crate::handle::Device;

/// NVIDIA's.
const VENDOR: u32 = 0x10DE;

fn device_id(gpu: &Gpu) -> u32 {
    gpu.model.pci_device.map_or(0, |device| u32::from(device) << 16) | VENDOR
}

entries! {
    fn nvmlDeviceGetPciInfo | nvmlDeviceGetPciInfo_v2 | nvmlDeviceGetPciInfo_v3(call, device: Device, pci: Out<nvmlPciInfo_t>) {
        pci.set(call.ask(device, |of| {
            let gpu = of.whole(NvmlError::InvalidArgument)?;
            let at = PciAddress::parse(&gpu.bus_id).ok_or(NvmlError::Unknown)?;
            Ok(nvmlPciInfo_t {
                busIdLegacy: text(&at.legacy()),
                domain: at.domain,
                bus: at.bus,
                device: at.device,
                pciDeviceId: device_id(gpu),
                pciSubSystemId: 0,
                busId: text(&gpu.bus_id),
            })
        })?)
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
                pciSubSystemId: 0,
                baseClass: 0x03,
                subClass: match gpu.model.pci_class {
                    PciClass::ThreeD => 0x02,
                    PciClass::Vga => 0x00,
                },
                busId: text(&gpu.bus_id),
            })
        })?)
    }

    /// One PCIe root for each GPU, as in a virtual machine: nothing is nearer.
    fn nvmlDeviceGetBoardId(call, device: Device, board: Out<c_uint>) {
        board.set(call.ask(device, |of| {
            let gpu = of.whole(NvmlError::InvalidArgument)?;
            PciAddress::parse(&gpu.bus_id).map(|at| at.bus << 8).ok_or(NvmlError::Unknown)
        })?)
    }

    fn nvmlDeviceGetMultiGpuBoard(call, device: Device, several: Out<c_uint>) {
        several.set(call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(|_| 0))?)
    }
}
