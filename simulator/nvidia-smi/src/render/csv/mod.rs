//! `--query-gpu` and similar options: chosen fields, comma separated.

mod field;
mod gpu;
mod others;
#[cfg(test)]
mod tests;

use crate::generation::Driver;
use crate::snapshot::{Gpu, Process, ProcessKind, System};

pub(crate) use field::Field;
pub(crate) use gpu::FIELDS as GPU_FIELDS;
pub(crate) use others::{
    ACCOUNTED, APPS, Accounted, App, CLOCKS, ClockPair, REMAPPED, RETIRED, Remapped, Retired,
};

/// What `--format` asks for beside `csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// A first line with the names of the fields.
    pub(crate) header: bool,
    /// Units after the values.
    pub(crate) units: bool,
}

/// What a row of `--query-gpu` is about.
pub(crate) struct Subject {
    /// Now, as `2024/11/21 07:12:15.123`.
    pub(crate) time: String,
    /// The machine.
    pub(crate) system: System,
    /// How many GPUs there are.
    pub(crate) count: u32,
    /// The GPU.
    pub(crate) gpu: Gpu,
}

/// The fields of these names.
///
/// # Errors
/// The first name that is none.
pub(crate) fn find<'n, T>(
    groups: &'static [&'static [Field<T>]],
    names: &'n str,
) -> Result<Vec<&'static Field<T>>, &'n str> {
    let find = |name: &'n str| {
        groups.iter().copied().flatten().find(|field| field.names.contains(&name)).ok_or(name)
    };
    names.split(',').map(str::trim).map(find).collect()
}

/// The first line.
pub(crate) fn header<T>(fields: &[&Field<T>]) -> String {
    format!("{}\n", fields.iter().map(|field| field.heading()).collect::<Vec<_>>().join(", "))
}

/// One line of values.
pub(crate) fn row<T>(fields: &[&Field<T>], of: &T, driver: Driver, format: Format) -> String {
    let cell = |field: &&Field<T>| field.cell(of, driver, format.units);
    format!("{}\n", fields.iter().map(cell).collect::<Vec<_>>().join(", "))
}

/// Whether a process computes, which those that only draw do not.
pub(crate) fn computes(process: &Process) -> bool {
    process.kind != ProcessKind::Graphics
}
