//! The identity of a GPU: its product, its board, and the data stored on it.

use super::tree::{Node, Section, block, entry, word};
use super::words::{DEPRECATED, NOT_GIVEN, given, switch, with_unit, yes_no};
use crate::generation::{Driver, Form};
use crate::snapshot::{Attributes, Gpu, Inforom, Memory, MigDevice};

/// Everything before the bus.
pub(super) fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let modes = &gpu.readings.modes;
    let mut nodes = vec![
        entry("Product Name", "product_name", &gpu.name),
        entry("Product Brand", "product_brand", gpu.brand.unwrap_or(NOT_GIVEN)),
        entry("Product Architecture", "product_architecture", gpu.architecture.unwrap_or(NOT_GIVEN)),
    ];
    if driver.has(Form::R575) {
        nodes.push(entry("Display Mode", "display_mode", DEPRECATED));
        nodes.push(entry("Display Attached", "display_attached", yes_no(gpu.display_mode)));
    } else {
        nodes.push(entry("Display Mode", "display_mode", switch(gpu.display_mode)));
    }
    nodes.push(entry("Display Active", "display_active", switch(gpu.display_active)));
    nodes.push(entry("Persistence Mode", "persistence_mode", switch(gpu.persistence)));
    if driver.has(Form::R530) {
        // Libraries before that of 560 know no other mode.
        let untold = if driver.has(Form::R560) { NOT_GIVEN } else { "None" };
        nodes.push(entry("Addressing Mode", "addressing_mode", modes.addressing.unwrap_or(untold)));
    }
    nodes.extend(mig(gpu, driver));
    nodes.push(
        entry("Accounting Mode", "accounting_mode", switch(gpu.accounting)).in_section(Section::Accounting),
    );
    let buffer = given(modes.accounting_buffer);
    nodes.push(
        entry("Accounting Mode Buffer Size", "accounting_mode_buffer_size", buffer)
            .in_section(Section::Accounting),
    );
    nodes.push(both("Driver Model", "driver_model", ("current_dm", "pending_dm"), None));
    nodes.extend(board(gpu, driver));
    nodes.extend(inforom(gpu, driver));
    nodes.extend(state(gpu, driver));
    nodes
}

/// A block with what is now and what will be after a reset.
pub(super) fn both(
    title: &'static str,
    element: &'static str,
    elements: (&'static str, &'static str),
    values: Option<(&str, &str)>,
) -> Node {
    let (current, pending) = values.unwrap_or((NOT_GIVEN, NOT_GIVEN));
    block(title, element, vec![entry("Current", elements.0, current), entry("Pending", elements.1, pending)])
}

/// The mode, and the MIG devices.
fn mig(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mode = gpu.mig.map(|mode| (switch(Some(mode.current)), switch(Some(mode.pending))));
    let mut nodes = vec![both("MIG Mode", "mig_mode", ("current_mig", "pending_mig"), mode)];
    if gpu.devices.is_empty() {
        nodes.push(word("mig_devices", "None"));
    } else {
        let devices = gpu.devices.iter().map(|device| mig_device(device, driver)).collect();
        nodes.push(block("", "mig_devices", devices));
    }
    nodes
}

fn mig_device(device: &MigDevice, driver: Driver) -> Node {
    let MigDevice { index, gpu_instance, compute_instance, profile: _, uuid: _, .. } = device;
    let MigDevice { memory, bar1, attributes, uncorrected, .. } = device;
    let count = |of: fn(&Attributes) -> u32| given(attributes.as_ref().map(of));
    let shared = vec![
        entry("Multiprocessor count", "multiprocessor_count", count(|has| has.multiprocessors)),
        entry("Copy Engine count", "copy_engine_count", count(|has| has.engines.copy)),
        entry("Encoder count", "encoder_count", count(|has| has.engines.encoder)),
        entry("Decoder count", "decoder_count", count(|has| has.engines.decoder)),
        entry("OFA count", "ofa_count", count(|has| has.engines.ofa)),
        entry("JPG count", "jpg_count", count(|has| has.engines.jpeg)),
    ];
    let errors = vec![entry("SRAM Uncorrectable", "sram_uncorrectable", given(*uncorrected))];
    let (frame_buffer, bar) = if driver.has(Form::R590) {
        ("Shared FB Memory Usage", "Shared BAR1 Memory")
    } else {
        ("FB Memory Usage", "BAR1 Memory Usage")
    };
    let nodes = vec![
        entry("Index", "index", index.to_string()),
        entry("GPU Instance ID", "gpu_instance_id", gpu_instance.to_string()),
        entry("Compute Instance ID", "compute_instance_id", compute_instance.to_string()),
        block("Device Attributes", "device_attributes", vec![block("Shared", "shared", shared)]),
        block("ECC Errors", "ecc_error_count", vec![block("Volatile", "volatile_count", errors)]),
        block(frame_buffer, "fb_memory_usage", memory_with_reserve(*memory)),
        block(bar, "bar1_memory_usage", memory_nodes(*bar1)),
    ];
    block("MIG Device", "mig_device", nodes).outdented()
}

/// Total, reserved, used, free.
pub(super) fn memory_with_reserve(memory: Option<Memory>) -> Vec<Node> {
    let mut nodes = memory_nodes(memory);
    let reserved = with_unit(memory.map(|memory| memory.reserved), "MiB");
    nodes.insert(1, entry("Reserved", "reserved", reserved));
    nodes
}

/// Total, used, free.
pub(super) fn memory_nodes(memory: Option<Memory>) -> Vec<Node> {
    vec![
        entry("Total", "total", with_unit(memory.map(|memory| memory.total), "MiB")),
        entry("Used", "used", with_unit(memory.map(|memory| memory.used), "MiB")),
        entry("Free", "free", with_unit(memory.map(|memory| memory.free), "MiB")),
    ]
}

fn board(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let board = &gpu.readings.board;
    let mut nodes = vec![
        entry("Serial Number", "serial", given(gpu.serial.as_ref())),
        entry("GPU UUID", "uuid", &gpu.uuid),
    ];
    if driver.has(Form::R580) {
        nodes.push(entry("GPU PDI", "pdi", given(board.pdi.map(|pdi| format!("0x{pdi:x}")))));
    }
    nodes.extend([
        entry("Minor Number", "minor_number", given(gpu.minor)),
        entry("VBIOS Version", "vbios_version", given(gpu.vbios.as_ref())),
        entry("MultiGPU Board", "multigpu_board", yes_no(board.is_multi_gpu)),
        entry("Board ID", "board_id", given(gpu.board_id.map(|id| format!("0x{id:x}")))),
    ]);
    if driver.has(Form::R520) {
        nodes.push(entry("Board Part Number", "board_part_number", given(board.part_number.as_ref())));
    }
    // NVML tells neither of them.
    nodes.push(entry("GPU Part Number", "gpu_part_number", NOT_GIVEN));
    if driver.has(Form::R530) {
        nodes.push(entry("FRU Part Number", "gpu_fru_part_number", NOT_GIVEN));
    }
    if driver.has(Form::R560) {
        nodes.push(platform(gpu, driver));
    } else {
        nodes.push(entry("Module ID", "gpu_module_id", given(board.module)));
    }
    nodes
}

/// Where the GPU stands in its rack. Its module is known outside of racks too.
fn platform(gpu: &Gpu, driver: Driver) -> Node {
    let board = &gpu.readings.board;
    let platform = board.platform.as_ref();
    let number = |of: fn(&nvml::library::Platform) -> u8| given(platform.map(of));
    let serial = platform.map_or_else(|| NOT_GIVEN.to_owned(), |p| text_of(&p.chassis_serial));
    let peers = platform.map_or(NOT_GIVEN, |p| peer_type(p.peer_type));
    let module = entry("Module Id", "module_id", given(board.module));
    if !driver.has(Form::R570) {
        let nodes = vec![
            entry("RACK Serial Number", "rack_serial_number", serial),
            entry("Chassis Physical Slot Number", "chassis_physical_slot_number", number(|p| p.slot)),
            entry("Compute Slot Index", "compute_slot_index", number(|p| p.tray)),
            entry("Node Index", "node_index", number(|p| p.host)),
            entry("Peer Type", "peer_type", peers),
            module,
        ];
        return block("Platform Info", "platformInfo", nodes);
    }
    let guid = platform.map_or_else(|| NOT_GIVEN.to_owned(), |p| fabric_guid(&p.fabric_guid));
    let nodes = vec![
        entry("Chassis Serial Number", "chassis_serial_number", serial),
        entry("Slot Number", "slot_number", number(|p| p.slot)),
        entry("Tray Index", "tray_index", number(|p| p.tray)),
        entry("Host ID", "host_id", number(|p| p.host)),
        entry("Peer Type", "peer_type", peers),
        module,
        entry("GPU Fabric GUID", "gpu_fabric_guid", guid),
    ];
    block("Platform Info", "platformInfo", nodes)
}

/// The text in a field of fixed length.
pub(crate) fn text_of(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What is at the other end of a GPU's NVLinks.
pub(crate) const fn peer_type(number: u8) -> &'static str {
    match number {
        2 => "Switch Connected",
        _ => "Direct Connected",
    }
}

/// The identity in the fabric: the first eight bytes, as a number.
pub(crate) fn fabric_guid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{hex}")
}

fn inforom(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let Inforom { image, oem, ecc, power, is_valid: _, flushed } = &gpu.readings.board.inforom;
    let versions = vec![
        entry("Image Version", "img_version", given(image.as_ref())),
        entry("OEM Object", "oem_object", given(oem.as_ref())),
        entry("ECC Object", "ecc_object", given(ecc.as_ref())),
        entry("Power Management Object", "pwr_object", given(power.as_ref())),
    ];
    let mut nodes = vec![block("Inforom Version", "inforom_version", versions)];
    if driver.has(Form::R545) {
        let at = given(flushed.as_ref().map(|(at, _)| at));
        let took = with_unit(flushed.as_ref().map(|(_, took)| took), "us");
        let flush = vec![
            entry("Latest Timestamp", "latest_timestamp", at),
            entry("Latest Duration", "latest_duration", took),
        ];
        nodes.push(block("Inforom BBX Object Flush", "inforom_bbx_flush", flush));
    }
    nodes
}

/// How the GPU is run.
fn state(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let modes = &gpu.readings.modes;
    let version = given(gpu.readings.board.gsp_version.as_ref());
    let gsp = entry("GSP Firmware Version", "gsp_firmware_version", version)
        .in_section(Section::GspFirmwareVersion);
    let mut nodes = vec![both(
        "GPU Operation Mode",
        "gpu_operation_mode",
        ("current_gom", "pending_gom"),
        modes.operation,
    )];
    if !driver.has(Form::R550) {
        nodes.push(gsp.clone());
    }
    if driver.has(Form::R545) {
        nodes.push(entry("GPU C2C Mode", "c2c_mode", switch(modes.chip_to_chip)));
    }
    let mut virtualization = vec![
        entry("Virtualization Mode", "virtualization_mode", modes.virtualization.unwrap_or(NOT_GIVEN)),
        entry("Host VGPU Mode", "host_vgpu_mode", modes.host_vgpu.unwrap_or(NOT_GIVEN)),
    ];
    if driver.has(Form::R550) {
        virtualization.push(entry("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NOT_GIVEN));
    }
    nodes.push(block("GPU Virtualization Mode", "gpu_virtualization_mode", virtualization));
    if driver.has(Form::R530) && !driver.has(Form::R580) {
        let (required, recommended) = if driver.has(Form::R570) {
            (DEPRECATED, DEPRECATED)
        } else {
            (yes_no(modes.reset_required), yes_no(modes.drain_recommended))
        };
        let reset = vec![
            entry("Reset Required", "reset_required", required),
            entry("Drain and Reset Recommended", "drain_and_reset_recommended", recommended),
        ];
        nodes.push(block("GPU Reset Status", "gpu_reset_status", reset));
    }
    if driver.has(Form::R560) {
        nodes.push(entry("GPU Recovery Action", "gpu_recovery_action", modes.recovery.unwrap_or(NOT_GIVEN)));
    }
    if driver.has(Form::R550) {
        nodes.push(gsp);
    }
    let ordering = vec![entry("Relaxed Ordering Mode", "relaxed_ordering_mode", NOT_GIVEN)];
    nodes.push(block("IBMNPU", "ibmnpu", ordering));
    nodes
}
