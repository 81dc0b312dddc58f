//! `compute-policy`, `boost-slider` and `vgpu`, as far as they ask.

use super::{Command, Refused, Targets, Words};

pub(super) fn compute_policy(words: Words) -> Result<Command, Refused> {
    list("compute-policy", "--set-timeslice", words, Command::ComputePolicies)
}

pub(super) fn boost_slider(words: Words) -> Result<Command, Refused> {
    list("boost-slider", "--vboost", words, Command::BoostSliders)
}

/// A subcommand that lists, and sets what it lists with another option.
fn list(
    name: &str,
    sets: &str,
    mut words: Words,
    command: impl FnOnce(Targets) -> Command,
) -> Result<Command, Refused> {
    let mut lists = false;
    let mut helps = false;
    let mut targets = Targets::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => helps = true,
            "-l" | "--list" => lists = true,
            "-i" | "--id" => targets = Targets(Some(words.list()?)),
            known if known == sets => return Err(Refused::not_simulated(&format!("{name} {known}"))),
            unknown => return Err(Refused::stray(unknown)),
        }
    }
    // Whoever asks for nothing is told what could be asked for.
    Ok(if helps || !lists { Command::Help } else { command(targets) })
}

/// Questions about virtual GPUs, of which a simulated card has none: all have the same answer.
const OF_VGPUS: &[&str] = &[
    "-q",
    "--query",
    "-u",
    "--utilization",
    "-p",
    "--pmon",
    "-s",
    "--supported",
    "-c",
    "--creatable",
    "-es",
    "--encodersessions",
    "-m",
    "--migrationcap",
    "-ss",
    "--schedulerstate",
    "-sc",
    "--schedulercaps",
    "-sl",
    "--schedulerlogs",
    "-fs",
    "--fbcsessions",
    "-ghm",
    "--get-heterogeneous-mode",
    "-v",
    "--verbose",
];

/// What is known of `vgpu` beside these.
const VGPU: &[&str] = &[
    "-gi",
    "--gpu-instance-id",
    "-l",
    "--loop",
    "--gpm-metrics",
    "--query-accounted-apps",
    "--query-vgpu-scheduler-logs",
    "-caa",
    "--clear-accounted-apps",
    "-shm",
    "--set-heterogeneous-mode",
    "-smts",
    "--set-mig-timeslice-mode",
    "topo",
    "set-scheduler-state",
];

pub(super) fn vgpu(mut words: Words) -> Result<Command, Refused> {
    let mut targets = Targets::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "-i" | "--id" => targets = Targets(Some(words.list()?)),
            asks if OF_VGPUS.contains(&asks) => {}
            known if VGPU.contains(&known) => return Err(Refused::not_simulated(&format!("vgpu {known}"))),
            unknown => return Err(Refused::stray(unknown)),
        }
    }
    Ok(Command::Vgpu(targets))
}
