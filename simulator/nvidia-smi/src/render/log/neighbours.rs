//! The connections and users of a GPU: the fabric, the clocks that can be set, the processes.

use super::tree::{Node, Section, block, entry};
use super::words::{NOT_GIVEN, given, uuid, with_unit};
use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, Process, ProcessKind};

/// The end of the log.
pub(super) fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mut nodes = Vec::new();
    if driver.has(Form::R520) {
        nodes.push(fabric(gpu, driver));
    }
    nodes.extend(supported_clocks(gpu));
    nodes.extend(processes(&gpu.processes));
    if driver.has(Form::R560) {
        let memory = match gpu.readings.modes.extended_memory {
            Some(true) => "enabled",
            // A driver that does not know of it says so in the same word.
            Some(false) | None => "disabled",
        };
        nodes.push(block("Capabilities", "capabilities", vec![entry("EGM", "egm", memory)]));
    }
    nodes
}

fn fabric(gpu: &Gpu, driver: Driver) -> Node {
    let fabric = gpu.readings.fabric.filter(|fabric| fabric.state != 0);
    let mut nodes = vec![
        entry("State", "state", state(fabric.map(|fabric| fabric.state))),
        entry("Status", "status", status(fabric.map(|fabric| fabric.status))),
    ];
    if driver.has(Form::R550) {
        nodes.push(entry("CliqueId", "cliqueId", given(fabric.map(|fabric| fabric.clique))));
        nodes.push(entry("ClusterUUID", "clusterUuid", given(fabric.map(|fabric| uuid(fabric.cluster)))));
        // The mask of what a fabric's health is made of is not modelled.
        let health = health(driver).into_iter().map(|(title, element)| entry(title, element, NOT_GIVEN));
        nodes.push(block("Health", "health", health.collect()));
    }
    block("Fabric", "fabric", nodes)
}

/// How far registering with the fabric got.
pub(crate) const fn state(state: Option<u8>) -> &'static str {
    match state {
        Some(1) => "Not Started",
        Some(2) => "In Progress",
        Some(3) => "Completed",
        _ => NOT_GIVEN,
    }
}

/// How registering ended.
pub(crate) fn status(code: Option<u32>) -> String {
    match code {
        None => NOT_GIVEN.to_owned(),
        Some(0) => "Success".to_owned(),
        Some(code) => nvml::Code::check(code).err().map_or_else(String::new, |code| code.words().to_owned()),
    }
}

fn health(driver: Driver) -> Vec<(&'static str, &'static str)> {
    let mut lines = Vec::new();
    if driver.has(Form::R580) {
        lines.push(("Summary", "summary"));
    }
    lines.push(("Bandwidth", "bandwidth"));
    if driver.has(Form::R570) {
        lines.extend([
            ("Route Recovery in progress", "route_recovery_in_progress"),
            ("Route Unhealthy", "route_unhealthy"),
            ("Access Timeout Recovery", "access_timeout_recovery"),
        ]);
    }
    if driver.has(Form::R580) {
        lines.push(("Incorrect Configuration", "incorrect_configuration"));
    }
    if driver.tells_partition() {
        lines.push(("Partition Assigned", "partition_assigned"));
    }
    lines
}

/// The log has them only on request, XML always.
fn supported_clocks(gpu: &Gpu) -> Vec<Node> {
    let supported = &gpu.readings.clocks.supported;
    let mhz = |clock: u32| with_unit(Some(clock), "MHz");
    let (in_text, in_xml) = if supported.is_empty() {
        let none = || entry("Supported Clocks", "supported_clocks", NOT_GIVEN);
        (none(), none())
    } else {
        let lines = supported.iter().flat_map(|(memory, graphics)| {
            let below = graphics.iter().map(move |clock| entry("    Graphics", "", mhz(*clock)));
            std::iter::once(entry("Memory", "", mhz(*memory))).chain(below)
        });
        let elements = supported.iter().map(|(memory, graphics)| {
            let below = graphics.iter().map(|clock| entry("", "supported_graphics_clock", mhz(*clock)));
            let nodes = std::iter::once(entry("", "value", mhz(*memory))).chain(below).collect();
            block("", "supported_mem_clock", nodes)
        });
        (block("Supported Clocks", "", lines.collect()), block("", "supported_clocks", elements.collect()))
    };
    vec![in_text.in_section(Section::SupportedClocks).on_request(), in_xml.in_xml()]
}

fn processes(processes: &[Process]) -> Vec<Node> {
    let described = |process: &Process| {
        let Process { pid, kind, name, memory, instance } = process;
        let kind = match kind {
            ProcessKind::Compute => "C",
            ProcessKind::Graphics => "G",
            ProcessKind::Both => "C+G",
        };
        vec![
            entry("GPU instance ID", "gpu_instance_id", given(instance.map(|(gi, _)| gi))),
            entry("Compute instance ID", "compute_instance_id", given(instance.map(|(_, ci)| ci))),
            entry("Process ID", "pid", pid.to_string()),
            entry("    Type", "type", kind),
            entry("    Name", "process_name", name),
            entry("    Used GPU Memory", "used_memory", with_unit(*memory, "MiB")),
        ]
    };
    let in_text = if processes.is_empty() {
        entry("Processes", "", "None")
    } else {
        block("Processes", "", processes.iter().flat_map(described).collect::<Vec<_>>())
    };
    let narrow = if processes.is_empty() { in_text } else { in_text.narrow() };
    let infos = processes.iter().map(|process| block("", "process_info", described(process))).collect();
    vec![
        narrow.in_section(Section::Pids).in_text(),
        block("", "processes", infos).in_xml(),
        block("", "accounted_processes", Vec::new()).in_xml(),
        entry("Accounted Processes", "", "None").in_section(Section::Accounting).on_request(),
    ]
}
