//! The options of `nvidia-smi mig`.

use super::{Command, Refused, Targets, Words};

/// A command about instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MigCommand {
    pub(crate) targets: Targets,
    /// The GPU instances that `-gi` names.
    pub(crate) gpu_instances: Option<Vec<u32>>,
    /// The compute instances that `-ci` names.
    pub(crate) compute_instances: Option<Vec<u32>>,
    pub(crate) action: MigAction,
}

/// What is to be done about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MigAction {
    ListGpuProfiles,
    ListPlacements,
    ListGpuInstances,
    ListComputeProfiles,
    ListComputeInstances,
    /// Profiles as they were typed: ids, names, each perhaps with `:start`.
    CreateGpuInstances {
        profiles: Vec<String>,
        default_compute: bool,
    },
    DestroyGpuInstances,
    /// Without profiles, the default of each GPU instance.
    CreateComputeInstances {
        profiles: Option<Vec<String>>,
    },
    DestroyComputeInstances,
}

fn refused() -> Refused {
    Refused::combination_of("mig")
}

pub(super) fn parse(mut words: Words) -> Result<Command, Refused> {
    // Whoever says nothing is told what could be said.
    if words.peek().is_none() {
        return Ok(Command::MigHelp);
    }
    let mut targets = Targets::default();
    let mut gpu_instances = None;
    let mut compute_instances = None;
    let mut default_compute = false;
    let mut actions = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MigHelp),
            "-i" | "--id" => targets = Targets(Some(words.list()?)),
            "-gi" | "--gpu-instance-id" => gpu_instances = Some(ids(&words.list()?)?),
            "-ci" | "--compute-instance-id" => compute_instances = Some(ids(&words.list()?)?),
            "-C" | "--default-compute-instance" => default_compute = true,
            "-lgip" | "--list-gpu-instance-profiles" => actions.push(MigAction::ListGpuProfiles),
            "-lgipp" | "--list-gpu-instance-possible-placements" => actions.push(MigAction::ListPlacements),
            "-lgi" | "--list-gpu-instances" => actions.push(MigAction::ListGpuInstances),
            "-lcip" | "--list-compute-instance-profiles" => actions.push(MigAction::ListComputeProfiles),
            "-lci" | "--list-compute-instances" => actions.push(MigAction::ListComputeInstances),
            "-cgi" | "--create-gpu-instance" => {
                let profiles = words.list()?;
                actions.push(MigAction::CreateGpuInstances { profiles, default_compute: false });
            }
            "-dgi" | "--destroy-gpu-instance" => actions.push(MigAction::DestroyGpuInstances),
            "-cci" | "--create-compute-instance" => {
                let profiles = words.optional_value();
                let profiles =
                    profiles.map(|list| list.split(',').map(|item| item.trim().to_owned()).collect());
                actions.push(MigAction::CreateComputeInstances { profiles });
            }
            "-dci" | "--destroy-compute-instance" => actions.push(MigAction::DestroyComputeInstances),
            unknown => {
                return Err(Refused::stray(unknown));
            }
        }
    }
    // The real program answers the next two, and there is no capture of what it says.
    if actions == [MigAction::ListGpuProfiles, MigAction::ListPlacements] {
        return Err(Refused::not_simulated("mig -lgip -lgipp"));
    }
    let Some(mut action) = actions.pop() else {
        return Err(Refused::not_simulated("mig without a command"));
    };
    if !actions.is_empty() {
        return Err(refused());
    }
    match &mut action {
        MigAction::CreateGpuInstances { profiles: _, default_compute: compute } => *compute = default_compute,
        _ if default_compute => return Err(refused()),
        _ => {}
    }
    Ok(Command::Mig(MigCommand { targets, gpu_instances, compute_instances, action }))
}

fn ids(items: &[String]) -> Result<Vec<u32>, Refused> {
    items.iter().map(|item| item.parse().map_err(|_| refused())).collect()
}
