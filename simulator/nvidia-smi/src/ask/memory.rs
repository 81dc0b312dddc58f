//! The driver's records: accounted processes, retired pages.

use nvml_wrapper::enum_wrappers::device::RetirementCause;

use super::Found;

/// A process that the driver remembers.
pub(crate) struct Remembered {
    pub(crate) pid: u32,
    /// In percent of the time that it ran.
    pub(crate) busy: Option<u32>,
    pub(crate) memory_busy: Option<u32>,
    /// In MiB.
    pub(crate) most_memory: Option<u64>,
    /// In milliseconds; zero while it runs.
    pub(crate) took: u64,
}

/// The processes that a GPU's accounting remembers; none while it is off.
pub(crate) fn accounted(found: &Found<'_>) -> Vec<Remembered> {
    let device = found.gpu.device();
    let mut pids = device.accounting_pids().unwrap_or_default();
    pids.sort_unstable();
    let of = |pid| {
        let stats = device.accounting_stats_for(pid).ok()?;
        Some(Remembered {
            pid,
            busy: stats.gpu_utilization,
            memory_busy: stats.memory_utilization,
            most_memory: stats.max_memory_usage.map(|bytes| bytes >> 20),
            took: stats.time,
        })
    };
    pids.into_iter().filter_map(of).collect()
}

/// Addresses and times of pages; absent where the card retires none.
type Pages = Option<Vec<(u64, String)>>;

/// The pages that a GPU retired, by cause.
pub(crate) fn retired_pages(found: &Found<'_>) -> Vec<(&'static str, Pages)> {
    let pages = |cause| {
        let pages = found.gpu.device().retired_pages(cause).ok()?;
        let page = |page: nvml_wrapper::structs::device::RetiredPage| {
            let at = super::readings::moment(page.timestamp.saturating_mul(1_000_000));
            (page.address, at.unwrap_or_else(|| "N/A".to_owned()))
        };
        Some(pages.into_iter().map(page).collect())
    };
    vec![
        ("Single Bit ECC", pages(RetirementCause::MultipleSingleBitEccErrors)),
        ("Double Bit ECC", pages(RetirementCause::DoubleBitEccError)),
    ]
}
