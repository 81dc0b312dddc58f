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
    "-acp",
    "--applications-clocks-permission",
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
    "clocks",
    "encodersessions",
    "fbcsessions",
    "power-hint",
    "base-clocks",
    "gpm",
    "pci",
    "power-smoothing",
    "rusd",
    "prm",
    "soc",
];

/// What the values of these options look like, where the real program looks at them before it does anything: numbers,
/// or one of these words (driver 580.159.04).
const WORDS: &[(&[&str], &[&str])] = &[
    (&["-e", "--ecc-config"], SWITCH),
    (&["-am", "--accounting-mode"], SWITCH),
    (&["-den", "--dram-encryption"], SWITCH),
    (&["-cc", "--cuda-clocks"], &["DEFAULT", "OVERRIDE"]),
    (COMPUTE_MODE, &["DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS"]),
    (&["-dm", "--driver-model", "-fdm", "--force-driver-model"], &["WDDM", "TCC", "WDM", "MCDM"]),
    (&["--gom"], &["ALL_ON", "COMPUTE", "LOW_DP"]),
    (&["-vm", "--virt-mode"], &["NONE", "VGPU", "VSGA"]),
    (&["--auto-boost-default"], SWITCH),
    (
        &["--auto-boost-permission", "-acp", "--applications-clocks-permission"],
        &["UNRESTRICTED", "RESTRICTED"],
    ),
    (&["-gtt", "--gpu-target-temp"], &[]),
    (&["-col", "--columns"], &[]),
    (&["-sc", "--scope"], &["GPU", "TOTAL_MODULE"]),
];

/// Its numbers are looked at later than its words.
const COMPUTE_MODE: &[&str] = &["-c", "--compute-mode"];

/// Whether this is a number, and no compute mode.
pub(super) fn is_no_compute_mode(option: &str, value: &str) -> bool {
    COMPUTE_MODE.contains(&option) && value.parse::<u64>().is_ok_and(|number| number > 3)
}

const SWITCH: &[&str] = &["DISABLED", "ENABLED"];

/// Options that take clocks, and how the real program says which.
const CLOCKS: &[(&[&str], &str)] = &[
    (
        &["-lgc", "--lock-gpu-clocks"],
        "'gpuClkMin,gpuClkMax' or 'gpuClkVal' e.g. '--lock-gpu-clocks=1500,1500', '--lock-gpu-clocks=1500', or '--lock-gpu-clocks=tdp,unlimited'",
    ),
    (
        &["-lmc", "--lock-memory-clocks"],
        "'memClkMin,memClkMax' or 'memClkVal' e.g. --lock-memory-clocks=5100,5100 or --lock-memory-clocks=5100",
    ),
    (&["-ac", "--applications-clocks"], "memClk,smClk e.g. --applications-clocks=2000,300"),
];

/// What the value of an option has to be.
pub(super) enum Value {
    /// A number, or one of these words.
    NumberOr(&'static [&'static str]),
    /// Clocks, in this form.
    Clocks(&'static str),
}

/// What the real program looks for at once, if it does so for this option.
pub(super) fn value_of(word: &str) -> Option<Value> {
    let words = WORDS.iter().find(|(options, _)| options.contains(&word));
    let clocks = CLOCKS.iter().find(|(options, _)| options.contains(&word));
    words.map(|(_, words)| Value::NumberOr(words)).or_else(|| clocks.map(|(_, form)| Value::Clocks(form)))
}

/// Whether the real program has this option.
pub(super) fn is_option(word: &str) -> bool {
    OPTIONS.contains(&word)
}

/// Whether the real program has this subcommand.
pub(super) fn is_subcommand(word: &str) -> bool {
    SUBCOMMANDS.contains(&word)
}
