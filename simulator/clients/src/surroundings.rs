//! What programs look at beside NVML: the list of kernel modules, and the PCI
//! devices of sysfs. Made as files, and entered in a mount namespace, so that
//! the machine on which the tests run neither shows its own nor sees these.

use std::fs;
use std::path::Path;

use gpu::{Gpu, Machine, PciClass};

/// What [`enter.sh`](self) does, for `sh -c`.
pub(crate) const ENTER: &str = include_str!("enter.sh");

/// Writes the surroundings of a machine into a folder.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(machine: &Machine, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder.join("proc"))?;
    // Size, users and address mean nothing to anybody who asks whether it is there.
    fs::write(folder.join("modules"), "nvidia 56717312 0 - Live 0x0000000000000000 (POE)\n")?;
    let devices = folder.join("devices");
    for gpu in machine.gpus() {
        write_device(gpu, &devices.join(sysfs_address(&gpu.bus_id)))?;
    }
    Ok(())
}

/// `0000:01:00.0`: the domain has eight digits with NVML and four in sysfs.
fn sysfs_address(bus_id: &str) -> String {
    bus_id.strip_prefix("0000").unwrap_or(bus_id).to_lowercase()
}

fn write_device(gpu: &Gpu, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let model = &gpu.model;
    let device = model.pci_device.unwrap_or_default();
    let class = match model.pci_class {
        PciClass::ThreeD => 0x03_0200_u32,
        PciClass::Vga => 0x03_0000,
    };
    for (name, text) in [
        ("vendor", "0x10de\n".to_owned()),
        ("device", format!("0x{device:04x}\n")),
        ("class", format!("0x{class:06x}\n")),
        ("numa_node", "0\n".to_owned()),
        // One register window, as every card has.
        ("resource", "0x00000000b0000000 0x00000000b0ffffff 0x0000000000040200\n".to_owned()),
    ] {
        fs::write(folder.join(name), text)?;
    }
    fs::write(folder.join("config"), config_space(device, class))?;
    Ok(())
}

/// The first 256 bytes of a device's configuration: its ids and its class, and
/// no capabilities. A vGPU would be known by one of those.
fn config_space(device: u16, class: u32) -> [u8; 256] {
    let mut bytes = [0; 256];
    bytes[0x00..0x02].copy_from_slice(&0x10de_u16.to_le_bytes());
    bytes[0x02..0x04].copy_from_slice(&device.to_le_bytes());
    bytes[0x09..0x0c].copy_from_slice(&class.to_le_bytes()[..3]);
    bytes
}
