//! The identity and the position of a GPU.

use super::super::field::{Field, measured, plain, unknown};
use super::{S, memory, number, switch, word, yes_no};
use crate::generation::Form;
use crate::render::log::identity::{fabric_guid, peer_type, text_of};
use crate::render::log::neighbours::{state, status};
use crate::render::log::uuid;
use crate::snapshot::Gpu;

pub(super) const FIELDS: &[Field<S>] = &[
    plain(&["timestamp"], |s| Some(s.time.clone())),
    plain(&["driver_version"], |s| Some(s.system.driver.clone())),
    plain::<S>(&["kmd_version"], |s| Some(s.system.driver.clone())).listed_from(Form::R595),
    unknown(&["vgpu_driver_capability.heterogenous_multivGPU"]),
    plain(&["count"], |s| Some(s.count.to_string())),
    plain(&["name", "gpu_name"], |s| Some(s.gpu.name.clone())),
    plain(&["serial", "gpu_serial"], |s| s.gpu.serial.clone()),
    plain(&["uuid", "gpu_uuid"], |s| Some(s.gpu.uuid.clone())),
    plain(&["pci.bus_id", "gpu_bus_id"], |s| Some(s.gpu.pci.id.clone())),
    plain(&["pci.domain"], |s| Some(format!("0x{:04X}", s.gpu.pci.domain))),
    plain(&["pci.bus"], |s| Some(format!("0x{:02X}", s.gpu.pci.bus))),
    plain(&["pci.device"], |s| Some(format!("0x{:02X}", s.gpu.pci.device))),
    plain(&["pci.baseClass"], |s| s.gpu.readings.pci_class.map(|(base, _)| format!("0x{base:x}"))),
    plain(&["pci.subClass"], |s| s.gpu.readings.pci_class.map(|(_, sub)| format!("0x{sub:x}"))),
    plain(&["pci.device_id"], |s| Some(format!("0x{:08X}", s.gpu.pci.device_id))),
    plain(&["pci.sub_device_id"], |s| s.gpu.pci.subsystem_id.map(|id| format!("0x{id:08X}"))),
    unknown(&["vgpu_device_capability.fractional_multiVgpu"]),
    unknown(&["vgpu_device_capability.heterogeneous_timeSlice_profile"]),
    unknown(&["vgpu_device_capability.heterogeneous_timeSlice_sizes"]),
    unknown(&["vgpu_device_capability.homogeneous_placements"]),
    unknown(&["vgpu_device_capability.mig_timeSlicing"]),
    unknown(&["vgpu_device_capability.mig_timeSlicing_mode"]),
    plain(&["pcie.link.gen.current"], |s| number(s.gpu.link.generation)),
    plain(&["pcie.link.gen.gpucurrent"], |s| number(s.gpu.link.generation)),
    plain(&["pcie.link.gen.max"], |s| number(s.gpu.link.max_generation)),
    plain(&["pcie.link.gen.gpumax"], |s| number(s.gpu.readings.link.device_max)),
    unknown(&["pcie.link.gen.hostmax"]),
    plain(&["pcie.link.width.current"], |s| number(s.gpu.link.width)),
    plain(&["pcie.link.width.max"], |s| number(s.gpu.link.max_width)),
    plain(&["index"], |s| Some(s.gpu.index.to_string())),
    plain::<S>(&["display_mode"], |s| switch(s.gpu.display_mode)).deprecated_from(Form::R575),
    plain(&["display_attached"], |s| yes_no(s.gpu.display_mode)),
    plain(&["display_active"], |s| switch(s.gpu.display_active)),
    plain(&["persistence_mode"], |s| switch(s.gpu.persistence)),
    plain(&["addressing_mode"], |s| word(s.gpu.readings.modes.addressing)),
    plain(&["accounting.mode"], |s| switch(s.gpu.accounting)),
    plain(&["accounting.buffer_size"], |s| number(s.gpu.readings.modes.accounting_buffer)),
    unknown(&["driver_model.current"]),
    unknown(&["driver_model.pending"]),
    plain(&["vbios_version"], |s| s.gpu.vbios.clone()),
    plain(&["inforom.img", "inforom.image"], |s| s.gpu.readings.board.inforom.image.clone()),
    plain(&["inforom.oem"], |s| s.gpu.readings.board.inforom.oem.clone()),
    plain(&["inforom.ecc"], |s| s.gpu.readings.board.inforom.ecc.clone()),
    plain(&["inforom.pwr", "inforom.power"], |s| s.gpu.readings.board.inforom.power.clone()),
    plain(&["inforom.checksum_validation"], |s| {
        word(s.gpu.readings.board.inforom.is_valid.map(|valid| if valid { "valid" } else { "invalid" }))
    }),
    plain(&["gpu_recovery_action"], |s| word(s.gpu.readings.modes.recovery)),
    plain(&["gom.current", "gpu_operation_mode.current"], |s| {
        word(s.gpu.readings.modes.operation.map(|(current, _)| current))
    }),
    plain(&["gom.pending", "gpu_operation_mode.pending"], |s| {
        word(s.gpu.readings.modes.operation.map(|(_, pending)| pending))
    }),
];

/// What stands at the end of a row: modes, protected memory, fabric, rack.
pub(super) const PLACE: &[Field<S>] = &[
    plain(&["mig.mode.current"], |s| switch(s.gpu.mig.map(|mode| mode.current))),
    plain(&["mig.mode.pending"], |s| switch(s.gpu.mig.map(|mode| mode.pending))),
    plain(&["gsp.mode.current"], |s| switch(s.gpu.readings.board.gsp_mode.map(|(current, _)| current))),
    plain(&["gsp.mode.default"], |s| switch(s.gpu.readings.board.gsp_mode.map(|(_, default)| default))),
    plain(&["c2c.mode"], |s| switch(s.gpu.readings.modes.chip_to_chip)),
    measured(&["protected_memory.total"], "MiB", |s: &S| {
        memory(s.gpu.readings.protected.as_ref(), |memory| memory.total)
    }),
    measured(&["protected_memory.used"], "MiB", |s: &S| {
        memory(s.gpu.readings.protected.as_ref(), |memory| memory.used)
    }),
    measured(&["protected_memory.free"], "MiB", |s: &S| {
        memory(s.gpu.readings.protected.as_ref(), |memory| memory.free)
    }),
    plain::<S>(&["fabric.state"], |s| fabric(s, |fabric| state(Some(fabric.state)).to_owned())).bare(),
    plain::<S>(&["fabric.status"], |s| fabric(s, |fabric| status(Some(fabric.status)))).bare(),
    plain::<S>(&["fabric.cliqueId"], |s| fabric(s, |fabric| fabric.clique.to_string())).bare(),
    plain::<S>(&["fabric.clusterUuid"], |s| fabric(s, |fabric| uuid(fabric.cluster))).bare(),
    unknown::<S>(&["fabric.health.summary"]).bare(),
    unknown::<S>(&["fabric.health.bandwidth"]).bare(),
    unknown::<S>(&["fabric.health.route_recovery_in_progress"]).bare(),
    unknown::<S>(&["fabric.health.route_unhealthy"]).bare(),
    unknown::<S>(&["fabric.health.access_timeout_recovery"]).bare(),
    unknown::<S>(&["fabric.health.incorrect_configuration"]).bare(),
    unknown::<S>(&["fabric.health.partition_assigned"]).bare().listed_from(Form::LateRows),
    plain(&["platform.chassis_serial_number"], |s| platform(&s.gpu, |p| text_of(&p.chassis_serial))),
    plain(&["platform.slot_number"], |s| platform(&s.gpu, |p| p.slot.to_string())),
    plain(&["platform.tray_index"], |s| platform(&s.gpu, |p| p.tray.to_string())),
    plain(&["platform.host_id"], |s| platform(&s.gpu, |p| p.host.to_string())),
    plain(&["platform.peer_type"], |s| platform(&s.gpu, |p| peer_type(p.peer_type).to_owned())),
    plain(&["platform.module_id"], |s| number(s.gpu.readings.board.module)),
    plain(&["platform.gpu_fabric_guid"], |s| platform(&s.gpu, |p| fabric_guid(&p.fabric_guid))),
    unknown(&["hostname"]),
];

fn fabric(of: &S, part: fn(&nvml::library::Fabric) -> String) -> Option<String> {
    of.gpu.readings.fabric.as_ref().filter(|fabric| fabric.state != 0).map(part)
}

/// A GPU that stands in no rack and knows its module has these values all the
/// same, as captures show, although the log has none for it.
fn platform(gpu: &Gpu, part: fn(&nvml::library::Platform) -> String) -> Option<String> {
    const NOWHERE: nvml::library::Platform = nvml::library::Platform {
        chassis_serial: [0; 16],
        slot: 0,
        tray: 0,
        host: 1,
        peer_type: 1,
        module: 0,
        fabric_guid: [0; 16],
    };
    let board = &gpu.readings.board;
    match (&board.platform, board.module) {
        (Some(platform), _) => Some(part(platform)),
        (None, Some(_)) => Some(part(&NOWHERE)),
        (None, None) => None,
    }
}
