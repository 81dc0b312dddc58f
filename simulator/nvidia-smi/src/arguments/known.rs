//! Options that the real program has and this one does not simulate. The message must not look like that
//! for a typing error.

/// Options that stand alone or with a value, at the beginning of a command line.
const OPTIONS: &[&str] = &[
    "-col",
    "--columns",
    "-e",
    "--ecc-config",
    "-p",
    "--reset-ecc-errors",
    "-c",
    "--compute-mode",
    "-dm",
    "--driver-model",
    "-fdm",
    "--force-driver-model",
    "--gom",
    "-vm",
    "--virt-mode",
    "-lgc",
    "--lock-gpu-clocks",
    "-m",
    "--mode",
    "-rgc",
    "--reset-gpu-clocks",
    "-lmc",
    "--lock-memory-clocks",
    "-rmc",
    "--reset-memory-clocks",
    "-lmcd",
    "--lock-memory-clocks-deferred",
    "-rmcd",
    "--reset-memory-clocks-deferred",
    "-ac",
    "--applications-clocks",
    "-rac",
    "--reset-applications-clocks",
    "-sc",
    "--scope",
    "-cc",
    "--cuda-clocks",
    "-am",
    "--accounting-mode",
    "-caa",
    "--clear-accounted-apps",
    "--auto-boost-default",
    "--auto-boost-permission",
    "-gtt",
    "--gpu-target-temp",
    "-den",
    "--dram-encryption",
    "--set-hostname",
    "--get-hostname",
    "-eow",
    "--error-on-warning",
    "-t",
    "--toggle-led",
    "--debug",
];

/// Subcommands.
const SUBCOMMANDS: &[&str] = &[
    "daemon",
    "replay",
    "drain",
    "c2c",
    "clocks",
    "encodersessions",
    "fbcsessions",
    "vgpu",
    "compute-policy",
    "boost-slider",
    "power-hint",
    "base-clocks",
    "conf-compute",
    "gpm",
    "pci",
    "power-smoothing",
    "power-profiles",
    "rusd",
    "prm",
    "soc",
];

/// Whether the real program has this option.
pub(super) fn is_option(word: &str) -> bool {
    OPTIONS.contains(&word)
}

/// Whether the real program has this subcommand.
pub(super) fn is_subcommand(word: &str) -> bool {
    SUBCOMMANDS.contains(&word)
}
