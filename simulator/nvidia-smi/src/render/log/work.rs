//! The activity of a GPU: its state, its memory, its engines.

use super::identity::{both, memory_nodes, memory_with_reserve};
use super::tree::{Node, Section, block, entry};
use super::words::{NOT_GIVEN, given, switch, with_unit};
use crate::generation::{Driver, Form};
use crate::snapshot::{ComputeMode, EventCounters, Gpu, Past, Sessions};

/// From the fan to the encryption of memory.
pub(super) fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mut nodes = vec![entry("Fan Speed", "fan_speed", with_unit(gpu.fan, "%"))];
    nodes.extend(performance(gpu, driver).into_iter().map(|node| node.in_section(Section::Performance)));
    nodes.extend(memory(gpu, driver).into_iter().map(|node| node.in_section(Section::Memory)));
    let mode = compute_mode(gpu.compute_mode);
    nodes.push(entry("Compute Mode", "compute_mode", mode).in_section(Section::Compute));
    nodes.push(utilization(gpu, driver).in_section(Section::Utilization));
    let pasts = &gpu.readings.pasts;
    let mut remembered = vec![
        ("GPU Utilization Samples", pasts.gpu),
        ("Memory Utilization Samples", pasts.memory),
        ("ENC Utilization Samples", pasts.encoder),
        ("DEC Utilization Samples", pasts.decoder),
    ];
    if driver.has(Form::R530) {
        remembered.push(("JPG Utilization Samples", pasts.jpeg));
        remembered.push(("OFA Utilization Samples", pasts.ofa));
    }
    for (title, past) in remembered {
        let percent = |value: u64| with_unit(Some(value), "%");
        nodes.push(samples(title, past, percent).in_section(Section::Utilization).on_request());
    }
    let encoding = sessions("Encoder Stats", "encoder_stats", gpu.readings.encoding);
    nodes.push(encoding.in_section(Section::EncoderStats));
    nodes.push(sessions("FBC Stats", "fbc_stats", gpu.readings.grabbing).in_section(Section::FbcStats));
    if driver.has(Form::R570) {
        let modes = gpu.readings.modes.dram_encryption;
        let modes = modes.map(|(current, pending)| (switch(Some(current)), switch(Some(pending))));
        let elements = ("current_dram_encryption", "pending_dram_encryption");
        nodes.push(both("DRAM Encryption Mode", "dram_encryption_mode", elements, modes));
    }
    nodes
}

fn performance(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let state = given(gpu.performance.map(|state| format!("P{state}")));
    let mut nodes = vec![entry("Performance State", "performance_state", state), reasons(gpu, driver)];
    if driver.has(Form::R575) {
        nodes.push(counters(&gpu.readings.events.counters));
    }
    if driver.has(Form::R550) {
        // NVML does not tell it.
        nodes.push(entry("Sparse Operation Mode", "sparse_operation_mode", NOT_GIVEN));
    }
    nodes
}

/// What holds the clocks down. Old drivers call it throttling.
fn reasons(gpu: &Gpu, driver: Driver) -> Node {
    let active = |bit: u64| match gpu.readings.events.active {
        Some(mask) if mask & bit != 0 => "Active",
        Some(_) => "Not Active",
        None => NOT_GIVEN,
    };
    let elements: [&'static str; 9] = if driver.has(Form::R530) {
        [
            "clocks_event_reason_gpu_idle",
            "clocks_event_reason_applications_clocks_setting",
            "clocks_event_reason_sw_power_cap",
            "clocks_event_reason_hw_slowdown",
            "clocks_event_reason_hw_thermal_slowdown",
            "clocks_event_reason_hw_power_brake_slowdown",
            "clocks_event_reason_sync_boost",
            "clocks_event_reason_sw_thermal_slowdown",
            "clocks_event_reason_display_clocks_setting",
        ]
    } else {
        [
            "clocks_throttle_reason_gpu_idle",
            "clocks_throttle_reason_applications_clocks_setting",
            "clocks_throttle_reason_sw_power_cap",
            "clocks_throttle_reason_hw_slowdown",
            "clocks_throttle_reason_hw_thermal_slowdown",
            "clocks_throttle_reason_hw_power_brake_slowdown",
            "clocks_throttle_reason_sync_boost",
            "clocks_throttle_reason_sw_thermal_slowdown",
            "clocks_throttle_reason_display_clocks_setting",
        ]
    };
    let [idle, applications, power_cap, hardware, thermal, brake, sync, software, display] = elements;
    let nodes = vec![
        entry("Idle", idle, active(0x1)),
        entry("Applications Clocks Setting", applications, active(0x2)),
        entry("SW Power Cap", power_cap, active(0x4)),
        entry("HW Slowdown", hardware, active(0x8)),
        entry("    HW Thermal Slowdown", thermal, active(0x40)),
        entry("    HW Power Brake Slowdown", brake, active(0x80)),
        entry("Sync Boost", sync, active(0x10)),
        entry("SW Thermal Slowdown", software, active(0x20)),
        entry("Display Clock Setting", display, active(0x100)),
    ];
    if driver.has(Form::R530) {
        block("Clocks Event Reasons", "clocks_event_reasons", nodes)
    } else {
        block("Clocks Throttle Reasons", "clocks_throttle_reasons", nodes)
    }
}

fn counters(counters: &EventCounters) -> Node {
    let EventCounters { power_cap, sync_boost, software_thermal, hardware_thermal, power_brake } = counters;
    let nodes = vec![
        entry("SW Power Capping", "clocks_event_reasons_counters_sw_power_cap", with_unit(*power_cap, "us")),
        entry("Sync Boost", "clocks_event_reasons_counters_sync_boost", with_unit(*sync_boost, "us")),
        entry(
            "SW Thermal Slowdown",
            "clocks_event_reasons_counters_sw_therm_slowdown",
            with_unit(*software_thermal, "us"),
        ),
        entry(
            "HW Thermal Slowdown",
            "clocks_event_reasons_counters_hw_therm_slowdown",
            with_unit(*hardware_thermal, "us"),
        ),
        entry(
            "HW Power Braking",
            "clocks_event_reasons_counters_hw_power_brake",
            with_unit(*power_brake, "us"),
        ),
    ];
    block("Clocks Event Reasons Counters", "clocks_event_reasons_counters", nodes)
}

fn memory(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mut nodes = vec![
        block("FB Memory Usage", "fb_memory_usage", memory_with_reserve(gpu.memory)),
        block("BAR1 Memory Usage", "bar1_memory_usage", memory_nodes(gpu.bar1)),
    ];
    if driver.has(Form::R530) {
        let protected = memory_nodes(gpu.readings.protected);
        nodes.push(block("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", protected));
    }
    nodes
}

fn compute_mode(mode: Option<ComputeMode>) -> &'static str {
    match mode {
        Some(ComputeMode::Default) => "Default",
        Some(ComputeMode::Prohibited) => "Prohibited",
        Some(ComputeMode::ExclusiveProcess) => "Exclusive_Process",
        None => NOT_GIVEN,
    }
}

/// How busy the whole GPU is: with MIG on nobody knows.
fn utilization(gpu: &Gpu, driver: Driver) -> Node {
    let whole = !gpu.mig_is_on();
    let percent = |busy: Option<u32>| with_unit(busy.filter(|_| whole), "%");
    let engines = gpu.readings.engines;
    let title = if driver.has(Form::R570) { "GPU" } else { "Gpu" };
    let mut nodes = vec![
        entry(title, "gpu_util", percent(gpu.utilization.map(|busy| busy.gpu))),
        entry("Memory", "memory_util", percent(gpu.utilization.map(|busy| busy.memory))),
        entry("Encoder", "encoder_util", percent(engines.encoder)),
        entry("Decoder", "decoder_util", percent(engines.decoder)),
    ];
    if driver.has(Form::R530) {
        nodes.push(entry("JPEG", "jpeg_util", percent(engines.jpeg)));
        nodes.push(entry("OFA", "ofa_util", percent(engines.ofa)));
    }
    block("Utilization", "utilization", nodes)
}

/// What the driver remembers of a reading, if anything.
pub(super) fn samples(title: &'static str, past: Option<Past>, show: impl Fn(u64) -> String) -> Node {
    let values = match past {
        Some(Past { count, duration, max, min, mean }) => [
            format!("{}.{:02} sec", duration / 1_000_000, duration % 1_000_000 / 10_000),
            count.to_string(),
            show(max),
            show(min),
            show(mean),
        ],
        None => ["Not Found"; 5].map(str::to_owned),
    };
    let lines = ["Duration", "Number of Samples", "Max", "Min", "Avg"].into_iter().zip(values);
    block(title, "", lines.map(|(line, value)| entry(line, "", value)).collect())
}

fn sessions(title: &'static str, element: &'static str, sessions: Option<Sessions>) -> Node {
    let nodes = vec![
        entry("Active Sessions", "session_count", given(sessions.map(|sessions| sessions.count))),
        entry("Average FPS", "average_fps", given(sessions.map(|sessions| sessions.frames))),
        entry("Average Latency", "average_latency", given(sessions.map(|sessions| sessions.latency))),
    ];
    block(title, element, nodes)
}
