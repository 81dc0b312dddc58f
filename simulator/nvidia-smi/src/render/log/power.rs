//! Temperatures, power and clocks.

use super::tree::{Node, Section, block, entry};
use super::words::{DEPRECATED, NOT_GIVEN, given, switch, watts, with_unit};
use super::work::samples;
use crate::generation::{Driver, Form};
use crate::snapshot::{Clocks, Gpu};

/// From the temperature to the voltage.
pub(super) fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mut nodes = vec![temperature(gpu, driver).in_section(Section::Temperature)];
    nodes.extend(target());
    nodes.extend(power(gpu, driver));
    nodes.extend(clocks(gpu, driver));
    if !driver.has(Form::R580) {
        let voltage = if driver.has(Form::R575) { DEPRECATED } else { NOT_GIVEN };
        let nodes_of_it = vec![entry("Graphics", "graphics_volt", voltage)];
        nodes.push(block("Voltage", "voltage", nodes_of_it).in_section(Section::Voltage));
    }
    nodes
}

/// Limits count from the point where the GPU slows down on cards that tell how
/// far they are from it, which those since Ada and Hopper do; drivers before
/// 545 print temperatures always.
fn temperature(gpu: &Gpu, driver: Driver) -> Node {
    let thermal = &gpu.readings.thermal;
    let celsius = |degrees: Option<i64>| with_unit(degrees, "C");
    let mut nodes = vec![entry("GPU Current Temp", "gpu_temp", celsius(gpu.temperature.map(i64::from)))];
    if driver.has(Form::R530) || thermal.margin.is_some() {
        nodes.push(entry("GPU T.Limit Temp", "gpu_temp_tlimit", celsius(thermal.margin)));
    }
    let relative = driver.has(Form::R545)
        && (thermal.margin.is_some()
            || matches!(gpu.architecture, Some("Ada Lovelace" | "Hopper" | "Blackwell")));
    let limits = if relative { thermal.relative } else { thermal.absolute };
    let titles: [(&'static str, &'static str); 4] = if relative {
        [
            ("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold"),
            ("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold"),
            ("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold"),
            ("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold"),
        ]
    } else {
        [
            ("GPU Shutdown Temp", "gpu_temp_max_threshold"),
            ("GPU Slowdown Temp", "gpu_temp_slow_threshold"),
            ("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold"),
            ("Memory Max Operating Temp", "gpu_temp_max_mem_threshold"),
        ]
    };
    let [shutdown, slowdown, max_operating, memory_max] = titles;
    nodes.extend([
        entry(shutdown.0, shutdown.1, celsius(limits.shutdown)),
        entry(slowdown.0, slowdown.1, celsius(limits.slowdown)),
        entry(max_operating.0, max_operating.1, celsius(limits.max_operating)),
        entry("GPU Target Temperature", "gpu_target_temperature", celsius(thermal.target)),
        entry("Memory Current Temp", "memory_temp", celsius(gpu.memory_temperature.map(i64::from))),
        entry(memory_max.0, memory_max.1, celsius(limits.memory_max)),
    ]);
    block("Temperature", "temperature", nodes)
}

/// The temperatures that can be aimed at; no server's card has any. The log
/// has them only on request, under these names (hardware, driver 580).
fn target() -> [Node; 2] {
    let nodes =
        vec![entry("Min", "gpu_target_temp_min", NOT_GIVEN), entry("Max", "gpu_target_temp_max", NOT_GIVEN)];
    let node = block("Supported GPU_TARGET_TEMP", "supported_gpu_target_temp", nodes);
    [node.clone().in_section(Section::SupportedTargetTemperature).on_request(), node.in_xml()]
}

fn power(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    if !driver.has(Form::R530) {
        return old_power(gpu);
    }
    let (power, detail) = (&gpu.power, &gpu.readings.power);
    let state = given(gpu.performance.map(|state| format!("P{state}")));
    let state = if driver.has(Form::R590) { DEPRECATED.to_owned() } else { state };
    let state = || entry("", "power_state", state.clone()).in_xml();
    let draw = |average: String, instant: String, one: String| {
        if driver.has(Form::R570) {
            vec![
                entry("Average Power Draw", "average_power_draw", average),
                entry("Instantaneous Power Draw", "instant_power_draw", instant),
            ]
        } else {
            vec![entry("Power Draw", "power_draw", one)]
        }
    };
    let mut own = vec![state()];
    own.extend(draw(watts(detail.average), watts(detail.instant), watts(power.draw)));
    own.extend(limits([
        watts(power.limit),
        watts(detail.requested_limit),
        watts(power.default_limit),
        watts(power.min_limit),
        watts(power.max_limit),
    ]));
    let mut nodes = vec![
        block("GPU Power Readings", "gpu_power_readings", own).in_section(Section::Power),
        samples("Power Samples", gpu.readings.pasts.power, |draw| watts(Some(draw)))
            .in_section(Section::Power)
            .on_request(),
    ];
    if driver.has(Form::R545) {
        let average = watts(detail.memory_average);
        let memory = draw(average.clone(), NOT_GIVEN.to_owned(), average);
        // The space is the real program's.
        nodes.push(
            block("GPU Memory Power Readings ", "gpu_memory_power_readings", memory)
                .in_section(Section::Power),
        );
    }
    let mut module = vec![state()];
    module.extend(draw(NOT_GIVEN.to_owned(), NOT_GIVEN.to_owned(), NOT_GIVEN.to_owned()));
    module.extend(limits([NOT_GIVEN; 5].map(str::to_owned)));
    nodes.push(block("Module Power Readings", "module_power_readings", module).in_section(Section::Power));
    if driver.has(Form::R570) {
        let smoothing = entry("Power Smoothing", "power_smoothing", NOT_GIVEN);
        nodes.push(smoothing.in_section(Section::PowerSmoothing));
        let profiles = vec![
            entry("Requested Profiles", "power_profile_requested_profiles", NOT_GIVEN),
            entry("Enforced Profiles", "power_profile_enforced_profiles", NOT_GIVEN),
        ];
        let profiles = block("Workload Power Profiles", "power_profiles", profiles);
        nodes.push(profiles.in_section(Section::PowerProfiles));
    }
    if driver.has(Form::R590) {
        // NVML 13.0 does not tell it.
        nodes.push(entry("EDPp Multiplier", "edpp_multiplier", NOT_GIVEN));
    }
    nodes
}

fn limits([current, requested, default, min, max]: [String; 5]) -> Vec<Node> {
    vec![
        entry("Current Power Limit", "current_power_limit", current),
        entry("Requested Power Limit", "requested_power_limit", requested),
        entry("Default Power Limit", "default_power_limit", default),
        entry("Min Power Limit", "min_power_limit", min),
        entry("Max Power Limit", "max_power_limit", max),
    ]
}

fn old_power(gpu: &Gpu) -> Vec<Node> {
    let (power, detail) = (&gpu.power, &gpu.readings.power);
    let management = if power.limit.is_some() { "Supported" } else { NOT_GIVEN };
    let state = given(gpu.performance.map(|state| format!("P{state}")));
    let nodes = vec![
        entry("", "power_state", state).in_xml(),
        entry("Power Management", "power_management", management),
        entry("Power Draw", "power_draw", watts(power.draw)),
        entry("Power Limit", "power_limit", watts(detail.requested_limit.or(power.limit))),
        entry("Default Power Limit", "default_power_limit", watts(power.default_limit)),
        entry("Enforced Power Limit", "enforced_power_limit", watts(power.limit)),
        entry("Min Power Limit", "min_power_limit", watts(power.min_limit)),
        entry("Max Power Limit", "max_power_limit", watts(power.max_limit)),
    ];
    vec![
        block("Power Readings", "power_readings", nodes).in_section(Section::Power),
        samples("Power Samples", gpu.readings.pasts.power, |draw| watts(Some(draw)))
            .in_section(Section::Power)
            .on_request(),
    ]
}

fn clocks(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let settings = &gpu.readings.clocks;
    let mhz = |clock: Option<u32>| with_unit(clock, "MHz");
    let four = |title, element, clocks: Clocks| {
        let Clocks { graphics, sm, memory, video } = clocks;
        let nodes = vec![
            entry("Graphics", "graphics_clock", mhz(graphics)),
            entry("SM", "sm_clock", mhz(sm)),
            entry("Memory", "mem_clock", mhz(memory)),
            entry("Video", "video_clock", mhz(video)),
        ];
        block(title, element, nodes)
    };
    let two = |title, element, (graphics, memory): (Option<u32>, Option<u32>)| {
        let value = |clock| if driver.has(Form::R590) { DEPRECATED.to_owned() } else { mhz(clock) };
        let nodes = vec![
            entry("Graphics", "graphics_clock", value(graphics)),
            entry("Memory", "mem_clock", value(memory)),
        ];
        block(title, element, nodes)
    };
    let mut nodes = vec![
        four("Clocks", "clocks", gpu.clocks),
        two("Applications Clocks", "applications_clocks", settings.applications),
        two("Default Applications Clocks", "default_applications_clocks", settings.default_applications),
    ];
    if driver.has(Form::R520) {
        let deferred = vec![entry("Memory", "mem_clock", NOT_GIVEN)];
        nodes.push(block("Deferred Clocks", "deferred_clocks", deferred));
    }
    let boost = vec![entry("Graphics", "graphics_clock", mhz(settings.max_boost))];
    let policy = vec![
        entry("Auto Boost", "auto_boost", switch(gpu.readings.modes.auto_boost.map(|(now, _)| now))),
        entry(
            "Auto Boost Default",
            "auto_boost_default",
            switch(gpu.readings.modes.auto_boost.map(|(_, by)| by)),
        ),
    ];
    nodes.extend([
        four("Max Clocks", "max_clocks", gpu.max_clocks),
        block("Max Customer Boost Clocks", "max_customer_boost_clocks", boost),
        samples("SM Clock Samples", None, |_| String::new()).on_request(),
        samples("Memory Clock Samples", None, |_| String::new()).on_request(),
        block("Clock Policy", "clock_policy", policy),
    ]);
    nodes.into_iter().map(|node| node.in_section(Section::Clock)).collect()
}
