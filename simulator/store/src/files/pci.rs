//! The PCI devices of a node under `/sys`, as the kernel lays them out: each is a folder under its root
//! complex, below the bridges above it, and `/sys/bus/pci` has links to these folders.

use gpu::{Bridge, BridgeKind, Gpu, PciClass, Topology};

use super::tree::Tree;

/// What the kernel tells of any device.
struct Function {
    address: String,
    /// Its folder, under `sys/devices`.
    folder: String,
    vendor: u16,
    device: u16,
    /// The board's maker and its number there.
    subsystem: (u16, u16),
    class: u32,
    revision: u8,
    driver: &'static str,
}

/// The address of a GPU as the kernel writes it: `0000:01:00.0`.
pub(super) fn address(gpu: &Gpu) -> String {
    let from = gpu.bus_id.len().saturating_sub("0000:01:00.0".len());
    gpu.bus_id.get(from..).unwrap_or(&gpu.bus_id).to_ascii_lowercase()
}

/// A card, with the bridges above it.
pub(super) fn card(tree: &mut Tree, gpu: &Gpu, topology: &Topology, index: u32) {
    let index = u16::try_from(index).unwrap_or(u16::MAX);
    let seat = topology.seat(index);
    let address = address(gpu);
    let domain = address.split(':').next().unwrap_or("0000");
    let mut folder = format!("pci{domain}:{:02x}", seat.root);
    for Bridge { bus, device, function, kind } in topology.bridges(index) {
        let address = format!("{domain}:{bus:02x}:{device:02x}.{function:x}");
        folder = format!("{folder}/{address}");
        add(tree, &bridge(address, folder.clone(), kind));
    }
    folder = format!("{folder}/{address}");
    let class = match gpu.model.pci_class {
        PciClass::ThreeD => 0x03_0200,
        PciClass::Vga => 0x03_0000,
    };
    add(
        tree,
        &Function {
            address,
            folder: folder.clone(),
            vendor: NVIDIA,
            // A card of which no source gives the ids has none; NFD wants the files.
            device: gpu.model.pci_device.unwrap_or_default(),
            subsystem: gpu.model.pci_subsystem.map_or((0, 0), |board| (NVIDIA, board)),
            class,
            revision: 0xa1,
            driver: "nvidia",
        },
    );
    // Where there is only one NUMA node, the kernel knows none.
    let numa = if topology.numa.len() > 1 { seat.numa.to_string() } else { "-1".to_owned() };
    tree.text(format!("sys/devices/{folder}/numa_node"), format!("{numa}\n"));
    let cpus: Vec<_> =
        topology.cpus(index, false).iter().map(|(first, last)| format!("{first}-{last}")).collect();
    tree.text(format!("sys/devices/{folder}/local_cpulist"), format!("{}\n", cpus.join(",")));
}

const NVIDIA: u16 = 0x10de;

/// Bridges are those that virtual machines have (QEMU's).
const fn bridge(address: String, folder: String, kind: BridgeKind) -> Function {
    let (vendor, device) = match kind {
        BridgeKind::RootPort => (0x1b36, 0x000c),
        BridgeKind::Upstream => (0x104c, 0x8232),
        BridgeKind::Downstream => (0x104c, 0x8233),
    };
    let (class, driver) = (0x06_0400, "pcieport");
    Function { address, folder, vendor, device, subsystem: (0, 0), class, revision: 0, driver }
}

fn add(tree: &mut Tree, function: &Function) {
    let Function { address, folder, vendor, device, subsystem, class, revision, driver } = function;
    let file = |name: &str| format!("sys/devices/{folder}/{name}");
    for (name, number) in [
        ("vendor", *vendor),
        ("device", *device),
        ("subsystem_vendor", subsystem.0),
        ("subsystem_device", subsystem.1),
    ] {
        tree.text(file(name), format!("{number:#06x}\n"));
    }
    tree.text(file("class"), format!("{class:#08x}\n"));
    tree.text(file("revision"), format!("{revision:#04x}\n"));
    tree.text(file("enable"), "1\n");
    tree.text(file("resource"), "0x0000000000000000 0x0000000000000000 0x0000000000000000\n".repeat(13));
    tree.text(
        file("uevent"),
        format!("DRIVER={driver}\nPCI_CLASS={class:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={address}\n"),
    );
    let mut config = vec![0u8; 256];
    config[..2].copy_from_slice(&vendor.to_le_bytes());
    config[2..4].copy_from_slice(&device.to_le_bytes());
    config[8] = *revision;
    config[9..12].copy_from_slice(&class.to_le_bytes()[..3]);
    tree.text(file("config"), config);
    // From the folder up to `sys`.
    let up = "../".repeat(folder.split('/').count() + 1);
    tree.link(file("driver"), format!("{up}bus/pci/drivers/{driver}"));
    tree.link(file("subsystem"), format!("{up}bus/pci"));
    tree.link(format!("sys/bus/pci/devices/{address}"), format!("../../../devices/{folder}"));
    tree.link(format!("sys/bus/pci/drivers/{driver}/{address}"), format!("../../../../devices/{folder}"));
}
