//! Error correction, and retired memory.

use super::identity::both;
use super::tree::{Node, Section, block, entry};
use super::words::{NOT_GIVEN, given, switch, with_unit, yes_no};
use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, Location};

/// From the mode to the remapped rows.
pub(super) fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mode = gpu.ecc.map(|ecc| (switch(Some(ecc.current)), switch(Some(ecc.pending))));
    let title = if driver.has(Form::R530) { "ECC Mode" } else { "Ecc Mode" };
    vec![
        both(title, "ecc_mode", ("current_ecc", "pending_ecc"), mode).in_section(Section::Ecc),
        block("ECC Errors", "ecc_errors", errors(gpu, driver)).in_section(Section::Ecc),
        retired_in_text(gpu).in_section(Section::PageRetirement).in_text(),
        retired_in_xml(gpu).in_xml(),
        remapped(gpu, driver).in_section(Section::RowRemapper),
    ]
}

/// Whether a card's static memory tells parity from SEC-DED: those before
/// Ampere do not.
fn tells_apart(gpu: &Gpu) -> bool {
    !matches!(gpu.architecture, Some("Kepler" | "Maxwell" | "Pascal" | "Volta" | "Turing"))
}

fn errors(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let errors = &gpu.readings.errors;
    let periods = [
        ("Volatile", "volatile", errors.corrected.volatile, errors.uncorrected.volatile),
        ("Aggregate", "aggregate", errors.corrected.aggregate, errors.uncorrected.aggregate),
    ];
    let dram = |corrected: Option<u64>, uncorrected: Option<u64>| {
        [
            entry("DRAM Correctable", "dram_correctable", given(corrected)),
            entry("DRAM Uncorrectable", "dram_uncorrectable", given(uncorrected)),
        ]
    };
    if !(driver.has(Form::R550) && tells_apart(gpu)) {
        let period = |(title, element, corrected, uncorrected): (
            _,
            _,
            crate::snapshot::ByLocation,
            crate::snapshot::ByLocation,
        )| {
            let mut nodes = vec![
                entry("SRAM Correctable", "sram_correctable", given(corrected.at(Location::Sram))),
                entry("SRAM Uncorrectable", "sram_uncorrectable", given(uncorrected.at(Location::Sram))),
            ];
            nodes.extend(dram(corrected.at(Location::Device), uncorrected.at(Location::Device)));
            block(title, element, nodes)
        };
        return periods.map(period).to_vec();
    }
    let mut blocks = Vec::new();
    for (title, element, corrected, uncorrected) in periods {
        let aggregate = element == "aggregate";
        let counts = errors.sram.map(|sram| if aggregate { sram.aggregate } else { sram.volatile });
        let mut nodes = vec![
            entry("SRAM Correctable", "sram_correctable", given(counts.map(|counts| counts.corrected))),
            entry(
                "SRAM Uncorrectable Parity",
                "sram_uncorrectable_parity",
                given(counts.map(|counts| counts.parity)),
            ),
            entry(
                "SRAM Uncorrectable SEC-DED",
                "sram_uncorrectable_secded",
                given(counts.map(|counts| counts.sec_ded)),
            ),
        ];
        nodes.extend(dram(corrected.at(Location::Device), uncorrected.at(Location::Device)));
        if aggregate {
            let exceeded = yes_no(errors.sram.map(|sram| sram.threshold_exceeded));
            nodes.push(entry("SRAM Threshold Exceeded", "sram_threshold_exceeded", exceeded));
        }
        blocks.push(block(title, element, nodes));
    }
    let source = |at: usize| given(errors.sram.map(|sram| sram.by_source[at]));
    let sources = vec![
        entry("SRAM L2", "sram_l2", source(0)),
        entry("SRAM SM", "sram_sm", source(1)),
        entry("SRAM Microcontroller", "sram_microcontroller", source(2)),
        entry("SRAM PCIE", "sram_pcie", source(3)),
        entry("SRAM Other", "sram_other", source(4)),
    ];
    blocks.push(block(
        "Aggregate Uncorrectable SRAM Sources",
        "aggregate_uncorrectable_sram_sources",
        sources,
    ));
    if driver.has(Form::R580) {
        let repairs = errors.pending_repairs;
        let channel = yes_no(repairs.map(|(channel, _)| channel));
        blocks.push(entry("Channel Repair Pending", "channel_repair_pending", channel));
        let tpc = yes_no(repairs.map(|(_, tpc)| tpc));
        blocks.push(entry("TPC Repair Pending", "tpc_repair_pending", tpc));
    }
    if driver.has(Form::WideLog) {
        blocks.push(entry("Unrepairable Memory", "unrepairable_memory", unrepairable(gpu)));
    }
    blocks
}

/// Seen is `No` on an H100 and an H200 and nothing on an L40S, and NVML 13.0 has no function for it. These differ in
/// their memory: of HBM a card tells the temperature.
fn unrepairable(gpu: &Gpu) -> &'static str {
    yes_no(gpu.memory_temperature.map(|_| false))
}

fn retired_in_text(gpu: &Gpu) -> Node {
    let errors = &gpu.readings.errors;
    let nodes = vec![
        entry("Single Bit ECC", "", given(errors.retired.map(|(single, _)| single))),
        entry("Double Bit ECC", "", given(errors.retired.map(|(_, double)| double))),
        entry("Pending Page Blacklist", "", yes_no(errors.retirement_pending)),
    ];
    block("Retired Pages", "", nodes)
}

fn retired_in_xml(gpu: &Gpu) -> Node {
    let errors = &gpu.readings.errors;
    let cause = |element, count: Option<u64>| {
        let list = match count {
            Some(_) => block("", "retired_pagelist", Vec::new()),
            None => entry("", "retired_pagelist", NOT_GIVEN),
        };
        block("", element, vec![entry("", "retired_count", given(count)), list])
    };
    let pending = yes_no(errors.retirement_pending);
    let nodes = vec![
        cause("multiple_single_bit_retirement", errors.retired.map(|(single, _)| single)),
        cause("double_bit_retirement", errors.retired.map(|(_, double)| double)),
        entry("", "pending_blacklist", pending),
        entry("", "pending_retirement", pending),
    ];
    block("", "retired_pages", nodes)
}

fn remapped(gpu: &Gpu, driver: Driver) -> Node {
    let errors = &gpu.readings.errors;
    let Some(rows) = errors.rows else { return entry("Remapped Rows", "remapped_rows", NOT_GIVEN) };
    let mut nodes = vec![entry("Correctable Error", "remapped_row_corr", rows.corrected.to_string())];
    // Rows that were remapped and are not in use: there are none here.
    let inactive = |title, element| entry(title, element, "0");
    if driver.has(Form::LateRows) {
        nodes.push(inactive("Inactive Correctable Error", "remapped_row_corr_inactive"));
    }
    nodes.push(entry("Uncorrectable Error", "remapped_row_unc", rows.uncorrected.to_string()));
    if driver.has(Form::LateRows) {
        nodes.push(inactive("Inactive Uncorrectable Error", "remapped_row_unc_inactive"));
    }
    nodes.push(entry("Pending", "remapped_row_pending", yes_no(Some(rows.pending))));
    nodes.push(entry("Remapping Failure Occurred", "remapped_row_failure", yes_no(Some(rows.failed))));
    let banks = |of: fn(&nvml::library::RemapAvailability) -> u32| {
        with_unit(errors.remap.as_ref().map(of), "bank(s)")
    };
    let histogram = vec![
        entry("Max", "row_remapper_histogram_max", banks(|remap| remap.max)),
        entry("High", "row_remapper_histogram_high", banks(|remap| remap.high)),
        entry("Partial", "row_remapper_histogram_partial", banks(|remap| remap.partial)),
        entry("Low", "row_remapper_histogram_low", banks(|remap| remap.low)),
        entry("None", "row_remapper_histogram_none", banks(|remap| remap.none)),
    ];
    nodes.push(block("Bank Remap Availability Histogram", "row_remapper_histogram", histogram));
    block("Remapped Rows", "remapped_rows", nodes)
}
