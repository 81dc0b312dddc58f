//! Compute and graphics processes.

use std::collections::BTreeMap;

use nvml::Library;
use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::Found;
use crate::snapshot::{Process, ProcessKind};

/// Room for the name of a process.
const NAME: usize = 256;

/// The processes of a GPU. With MIG on they are asked for device by device,
/// which those without privileges may; a GPU's own list leaves them out then.
pub(super) fn list(library: &Library, found: &Found<'_>, mig_is_on: bool) -> Vec<Process> {
    // By place and process: one may compute and draw.
    let mut all: BTreeMap<(Option<(u32, u32)>, u32), Process> = BTreeMap::new();
    let mut add = |device: &Device<'_>| {
        let lists = [
            (ProcessKind::Compute, device.running_compute_processes()),
            (ProcessKind::Graphics, device.running_graphics_processes()),
        ];
        for (kind, list) in lists {
            for info in list.unwrap_or_default() {
                let place = place(&info);
                let process =
                    all.entry((place, info.pid)).or_insert_with(|| described(library, &info, place, kind));
                if process.kind != kind {
                    process.kind = ProcessKind::Both;
                }
            }
        }
    };
    add(found.gpu.device());
    if mig_is_on {
        for mig in found.gpu.mig_devices().unwrap_or_default() {
            add(mig.device());
        }
    }
    all.into_values().collect()
}

fn place(info: &ProcessInfo) -> Option<(u32, u32)> {
    Some((info.gpu_instance_id?, info.compute_instance_id?))
}

fn described(
    library: &Library,
    info: &ProcessInfo,
    instance: Option<(u32, u32)>,
    kind: ProcessKind,
) -> Process {
    let name = library.nvml().sys_process_name(info.pid, NAME);
    Process {
        pid: info.pid,
        kind,
        name: name.unwrap_or_else(|_| "[Not Found]".to_owned()),
        memory: match info.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes >> 20),
            UsedGpuMemory::Unavailable => None,
        },
        instance,
    }
}
