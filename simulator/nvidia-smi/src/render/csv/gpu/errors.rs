//! Error correction, and retired memory.

use super::super::field::{Field, plain};
use super::{S, number, switch, yes_no};
use crate::generation::Form;
use crate::snapshot::{Location, RemappedRows};

pub(super) const MODES: &[Field<S>] = &[
    plain(&["dramEncryption.mode.current"], |s| {
        switch(s.gpu.readings.modes.dram_encryption.map(|(current, _)| current))
    }),
    plain(&["dramEncryption.mode.pending"], |s| {
        switch(s.gpu.readings.modes.dram_encryption.map(|(_, pending)| pending))
    }),
    plain(&["ecc.mode.current"], |s| switch(s.gpu.ecc.map(|ecc| ecc.current))),
    plain(&["ecc.mode.pending"], |s| switch(s.gpu.ecc.map(|ecc| ecc.pending))),
];

pub(super) const CORRECTED: &[Field<S>] = &[
    plain(&["ecc.errors.corrected.volatile.device_memory"], |s| corrected_volatile(s, Location::Device)),
    plain(&["ecc.errors.corrected.volatile.dram"], |s| corrected_volatile(s, Location::Device)),
    plain(&["ecc.errors.corrected.volatile.register_file"], |s| {
        corrected_volatile(s, Location::RegisterFile)
    }),
    plain(&["ecc.errors.corrected.volatile.l1_cache"], |s| corrected_volatile(s, Location::L1)),
    plain(&["ecc.errors.corrected.volatile.l2_cache"], |s| corrected_volatile(s, Location::L2)),
    plain(&["ecc.errors.corrected.volatile.texture_memory"], |s| corrected_volatile(s, Location::Texture)),
    plain(&["ecc.errors.corrected.volatile.cbu"], |s| corrected_volatile(s, Location::Cbu)),
    plain(&["ecc.errors.corrected.volatile.sram"], |s| corrected_volatile(s, Location::Sram)),
    plain(&["ecc.errors.corrected.volatile.total"], |s| corrected_volatile(s, Location::Total)),
    plain(&["ecc.errors.corrected.aggregate.device_memory"], |s| corrected_aggregate(s, Location::Device)),
    plain(&["ecc.errors.corrected.aggregate.dram"], |s| corrected_aggregate(s, Location::Device)),
    plain(&["ecc.errors.corrected.aggregate.register_file"], |s| {
        corrected_aggregate(s, Location::RegisterFile)
    }),
    plain(&["ecc.errors.corrected.aggregate.l1_cache"], |s| corrected_aggregate(s, Location::L1)),
    plain(&["ecc.errors.corrected.aggregate.l2_cache"], |s| corrected_aggregate(s, Location::L2)),
    plain(&["ecc.errors.corrected.aggregate.texture_memory"], |s| corrected_aggregate(s, Location::Texture)),
    plain(&["ecc.errors.corrected.aggregate.cbu"], |s| corrected_aggregate(s, Location::Cbu)),
    plain(&["ecc.errors.corrected.aggregate.sram"], |s| corrected_aggregate(s, Location::Sram)),
    plain(&["ecc.errors.corrected.aggregate.total"], |s| corrected_aggregate(s, Location::Total)),
];

pub(super) const UNCORRECTED: &[Field<S>] = &[
    plain(&["ecc.errors.uncorrected.volatile.device_memory"], |s| uncorrected_volatile(s, Location::Device)),
    plain(&["ecc.errors.uncorrected.volatile.dram"], |s| uncorrected_volatile(s, Location::Device)),
    plain(&["ecc.errors.uncorrected.volatile.register_file"], |s| {
        uncorrected_volatile(s, Location::RegisterFile)
    }),
    plain(&["ecc.errors.uncorrected.volatile.l1_cache"], |s| uncorrected_volatile(s, Location::L1)),
    plain(&["ecc.errors.uncorrected.volatile.l2_cache"], |s| uncorrected_volatile(s, Location::L2)),
    plain(&["ecc.errors.uncorrected.volatile.texture_memory"], |s| {
        uncorrected_volatile(s, Location::Texture)
    }),
    plain(&["ecc.errors.uncorrected.volatile.cbu"], |s| uncorrected_volatile(s, Location::Cbu)),
    plain(&["ecc.errors.uncorrected.volatile.sram"], |s| uncorrected_volatile(s, Location::Sram)),
    plain(&["ecc.errors.uncorrected.volatile.total"], |s| uncorrected_volatile(s, Location::Total)),
    plain(&["ecc.errors.uncorrected.aggregate.device_memory"], |s| {
        uncorrected_aggregate(s, Location::Device)
    }),
    plain(&["ecc.errors.uncorrected.aggregate.dram"], |s| uncorrected_aggregate(s, Location::Device)),
    plain(&["ecc.errors.uncorrected.aggregate.register_file"], |s| {
        uncorrected_aggregate(s, Location::RegisterFile)
    }),
    plain(&["ecc.errors.uncorrected.aggregate.l1_cache"], |s| uncorrected_aggregate(s, Location::L1)),
    plain(&["ecc.errors.uncorrected.aggregate.l2_cache"], |s| uncorrected_aggregate(s, Location::L2)),
    plain(&["ecc.errors.uncorrected.aggregate.texture_memory"], |s| {
        uncorrected_aggregate(s, Location::Texture)
    }),
    plain(&["ecc.errors.uncorrected.aggregate.cbu"], |s| uncorrected_aggregate(s, Location::Cbu)),
    plain(&["ecc.errors.uncorrected.aggregate.sram"], |s| uncorrected_aggregate(s, Location::Sram)),
    plain(&["ecc.errors.uncorrected.aggregate.total"], |s| uncorrected_aggregate(s, Location::Total)),
];

fn corrected_volatile(of: &S, location: Location) -> Option<String> {
    number(of.gpu.readings.errors.corrected.volatile.at(location))
}

fn corrected_aggregate(of: &S, location: Location) -> Option<String> {
    number(of.gpu.readings.errors.corrected.aggregate.at(location))
}

fn uncorrected_volatile(of: &S, location: Location) -> Option<String> {
    number(of.gpu.readings.errors.uncorrected.volatile.at(location))
}

fn uncorrected_aggregate(of: &S, location: Location) -> Option<String> {
    number(of.gpu.readings.errors.uncorrected.aggregate.at(location))
}

pub(super) const MEMORY: &[Field<S>] = &[
    plain(&["ecc.errors.uncorrected.volatile.sram.parity"], |s| sram(s, |sram| sram.volatile.parity)),
    plain(&["ecc.errors.uncorrected.volatile.sram.secded"], |s| sram(s, |sram| sram.volatile.sec_ded)),
    plain(&["ecc.errors.uncorrected.aggregate.sram.parity"], |s| sram(s, |sram| sram.aggregate.parity)),
    plain(&["ecc.errors.uncorrected.aggregate.sram.secded"], |s| sram(s, |sram| sram.aggregate.sec_ded)),
    plain(&["ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"], |s| {
        yes_no(s.gpu.readings.errors.sram.map(|sram| sram.threshold_exceeded))
    }),
    plain(&["ecc.errors.uncorrected.aggregate.sram.l2"], |s| sram(s, |sram| sram.by_source[0])),
    plain(&["ecc.errors.uncorrected.aggregate.sram.sm"], |s| sram(s, |sram| sram.by_source[1])),
    plain(&["ecc.errors.uncorrected.aggregate.sram.mcu"], |s| sram(s, |sram| sram.by_source[2])),
    plain(&["ecc.errors.uncorrected.aggregate.sram.pcie"], |s| sram(s, |sram| sram.by_source[3])),
    plain(&["ecc.errors.uncorrected.aggregate.sram.other"], |s| sram(s, |sram| sram.by_source[4])),
    plain(&["retired_pages.single_bit_ecc.count", "retired_pages.sbe"], |s| {
        number(s.gpu.readings.errors.retired.map(|(single, _)| single))
    }),
    plain(&["retired_pages.double_bit.count", "retired_pages.dbe"], |s| {
        number(s.gpu.readings.errors.retired.map(|(_, double)| double))
    }),
    plain(&["retired_pages.pending"], |s| yes_no(s.gpu.readings.errors.retirement_pending)),
    plain(&["remapped_rows.correctable", "remapped_rows.sbe"], |s| rows(s, |rows| rows.corrected)),
    plain::<S>(&["remapped_rows.correctable_inactive"], |s| rows(s, |_| 0)).listed_from(Form::LateRows),
    plain(&["remapped_rows.uncorrectable", "remapped_rows.dbe"], |s| rows(s, |rows| rows.uncorrected)),
    plain::<S>(&["remapped_rows.uncorrectable_inactive"], |s| rows(s, |_| 0)).listed_from(Form::LateRows),
    plain(&["remapped_rows.pending"], |s| yes_no(s.gpu.readings.errors.rows.map(|rows| rows.pending))),
    plain(&["remapped_rows.failure"], |s| yes_no(s.gpu.readings.errors.rows.map(|rows| rows.failed))),
    plain(&["remapped_rows.histogram.max"], |s| number(s.gpu.readings.errors.remap.map(|banks| banks.max))),
    plain(&["remapped_rows.histogram.high"], |s| number(s.gpu.readings.errors.remap.map(|banks| banks.high))),
    plain(&["remapped_rows.histogram.partial"], |s| {
        number(s.gpu.readings.errors.remap.map(|banks| banks.partial))
    }),
    plain(&["remapped_rows.histogram.low"], |s| number(s.gpu.readings.errors.remap.map(|banks| banks.low))),
    plain(&["remapped_rows.histogram.none"], |s| number(s.gpu.readings.errors.remap.map(|banks| banks.none))),
];

fn sram(of: &S, part: fn(&nvml::library::SramErrors) -> u64) -> Option<String> {
    number(of.gpu.readings.errors.sram.as_ref().map(part))
}

fn rows(of: &S, part: fn(&RemappedRows) -> u64) -> Option<String> {
    number(of.gpu.readings.errors.rows.as_ref().map(part))
}
