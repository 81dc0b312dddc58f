//! The GPU on its bus.

use super::tree::{Node, block, entry};
use super::words::{NOT_GIVEN, given, with_unit};
use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, Pci};

/// The operations in NVML's mask of what a link does atomically, by bit.
const ATOMICS: [&str; 7] =
    ["FETCHADD_32", "FETCHADD_64", "SWAP_32", "SWAP_64", "CAS_32", "CAS_64", "CAS_128"];

/// The block.
pub(super) fn node(gpu: &Gpu, driver: Driver) -> Node {
    let Pci { id, domain, bus, device, device_id, subsystem_id } = &gpu.pci;
    let mut nodes = vec![
        hex("Bus", "pci_bus", format!("{bus:02X}")),
        hex("Device", "pci_device", format!("{device:02X}")),
        hex("Domain", "pci_domain", format!("{domain:04X}")),
    ];
    if driver.has(Form::R550) {
        let class = gpu.readings.pci_class;
        nodes.push(maybe_hex("Base Classcode", "pci_base_class", class.map(|(base, _)| format!("{base:x}"))));
        nodes.push(maybe_hex("Sub Classcode", "pci_sub_class", class.map(|(_, sub)| format!("{sub:x}"))));
    }
    nodes.extend([
        hex("Device Id", "pci_device_id", format!("{device_id:08X}")),
        entry("Bus Id", "pci_bus_id", id),
        maybe_hex("Sub System Id", "pci_sub_system_id", subsystem_id.map(|id| format!("{id:08X}"))),
        link(gpu),
    ]);
    let bridge =
        vec![entry("Type", "bridge_chip_type", NOT_GIVEN), entry("Firmware", "bridge_chip_fw", NOT_GIVEN)];
    nodes.push(block("Bridge Chip", "pci_bridge_chip", bridge));
    let detail = &gpu.readings.link;
    nodes.extend([
        entry("Replays Since Reset", "replay_counter", given(detail.replays)),
        entry("Replay Number Rollovers", "replay_rollover_counter", given(detail.rollovers)),
        entry("Tx Throughput", "tx_util", with_unit(detail.sent, "KB/s")),
        entry("Rx Throughput", "rx_util", with_unit(detail.received, "KB/s")),
    ]);
    let outbound = entry("Atomic Caps Outbound", "atomic_caps_outbound", atomics(detail.atomics.0));
    let inbound = entry("Atomic Caps Inbound", "atomic_caps_inbound", atomics(detail.atomics.1));
    let in_order = if driver.has(Form::R560) { [outbound, inbound] } else { [inbound, outbound] };
    // Drivers before 520 ask no link for them.
    if driver.has(Form::R520) {
        nodes.extend(in_order);
    }
    block("PCI", "pci", nodes)
}

/// A number that the log has with a prefix and XML without.
fn hex(title: &'static str, element: &'static str, digits: String) -> Node {
    entry(title, element, format!("0x{digits}")).with_xml(digits)
}

fn maybe_hex(title: &'static str, element: &'static str, digits: Option<String>) -> Node {
    match digits {
        Some(digits) => hex(title, element, digits),
        None => entry(title, element, NOT_GIVEN),
    }
}

fn link(gpu: &Gpu) -> Node {
    let link = &gpu.link;
    let generation = vec![
        entry("Max", "max_link_gen", given(link.max_generation)),
        entry("Current", "current_link_gen", given(link.generation)),
        entry("Device Current", "device_current_link_gen", given(link.generation)),
        entry("Device Max", "max_device_link_gen", given(gpu.readings.link.device_max)),
        // Only NVIDIA's own tool is told what the root port is capable of.
        entry("Host Max", "max_host_link_gen", NOT_GIVEN),
    ];
    let width = |lanes: Option<u32>| given(lanes.map(|lanes| format!("{lanes}x")));
    let widths = vec![
        entry("Max", "max_link_width", width(link.max_width)),
        entry("Current", "current_link_width", width(link.width)),
    ];
    let nodes =
        vec![block("PCIe Generation", "pcie_gen", generation), block("Link Width", "link_widths", widths)];
    block("GPU Link Info", "pci_gpu_link_info", nodes)
}

/// Each operation with a space behind it.
fn atomics(mask: Option<u64>) -> String {
    let mask = mask.unwrap_or(0);
    let has = ATOMICS.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
    let names: String = has.map(|(_, name)| format!("{name} ")).collect();
    if names.is_empty() { NOT_GIVEN.to_owned() } else { names }
}
