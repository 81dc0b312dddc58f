//! `nvidia-smi mig`: the GPUs and instances to which a command applies, and its message when there are
//! none.

use std::io;

use nvml::{Code, Error, Library};

use crate::act::{self, Out, code_of, failed};
use crate::arguments::{MigAction, MigCommand};
use crate::ask::instances::{FoundInstance, gpu_instances, gpu_profile_rows, placement_rows};
use crate::ask::{self, Found, Selection};
use crate::exit::Exit;
use crate::generation::{Driver, Form};
use crate::render;

/// Runs a command.
pub(crate) fn run(
    out: Out<'_>,
    library: &Library,
    all: Selection<'_>,
    command: &MigCommand,
) -> io::Result<Exit> {
    let driver = Driver::from_version(&ask::system(library).driver);
    let MigCommand { targets: _, gpu_instances, compute_instances, action } = command;
    let supported: Vec<_> = all.found.into_iter().filter(|found| found.gpu.mig_mode().is_ok()).collect();
    if supported.is_empty() {
        // Drivers that answer for no profile while MIG is off do not tell the two apart.
        let old = !driver.has(Form::R545);
        return none(
            out,
            if old { "No MIG-enabled devices found." } else { "No MIG-supported devices found." },
        );
    }
    match action {
        MigAction::ListGpuProfiles => {
            let rows = each(&supported, gpu_profile_rows);
            return listed(out, rows, "GPU instance profiles", |rows| {
                render::gpu_profiles::gpu_profiles(rows, driver)
            });
        }
        MigAction::ListPlacements => {
            let rows = each(&supported, placement_rows);
            return listed(out, rows, "GPU instance possible placements", render::placements::placements);
        }
        _ => {}
    }
    let on = |found: &Found<'_>| {
        found.gpu.mig_mode().is_ok_and(|mode| mode.current == nvml::library::Mode::Enabled)
    };
    let enabled: Vec<_> = supported.into_iter().filter(on).collect();
    if enabled.is_empty() {
        return none_enabled(out);
    }
    if let MigAction::CreateGpuInstances { profiles, default_compute } = action {
        return act::create::create_gpu_instances(out, &enabled, profiles, *default_compute);
    }
    let doing = doing(action);
    let instances = match each(&enabled, |found| gpu_instances_of(found, gpu_instances.as_deref())) {
        Ok(instances) if instances.is_empty() => return none(out, "No GPU instances found: Not Found"),
        Ok(instances) => instances,
        Err(error) => return failed(out, doing, code_of(&error)),
    };
    of_instances(out, action, instances, compute_instances.as_deref(), driver)
}

fn of_instances(
    out: Out<'_>,
    action: &MigAction,
    instances: Vec<FoundInstance<'_>>,
    ids: Option<&[u32]>,
    driver: Driver,
) -> io::Result<Exit> {
    match action {
        MigAction::ListGpuInstances => {
            let rows: Vec<_> = instances.iter().map(FoundInstance::row).collect();
            write!(out, "{}", render::gpu_instances::gpu_instances(&rows, driver))?;
            return Ok(Exit::SUCCESS);
        }
        MigAction::DestroyGpuInstances => return act::destroy::destroy_gpu_instances(out, instances),
        MigAction::CreateComputeInstances { profiles } => {
            return act::create::create_compute_instances(out, &instances, profiles.as_deref());
        }
        MigAction::ListComputeProfiles => {
            let rows = each(&instances, FoundInstance::offered_rows);
            return listed(out, rows, "compute instance profiles", |rows| {
                render::compute_profiles::compute_profiles(rows)
            });
        }
        _ => {}
    }
    let found = match each(&instances, |instance| instance.compute_instances(ids)) {
        Ok(found) if found.is_empty() => return none(out, "No compute instances found: Not Found"),
        Ok(found) => found,
        Err(error) => return failed(out, doing(action), code_of(&error)),
    };
    if *action == MigAction::DestroyComputeInstances {
        return act::destroy::destroy_compute_instances(out, found);
    }
    let rows: Vec<_> = found.iter().map(ask::instances::FoundCompute::row).collect();
    write!(out, "{}", render::compute_instances::compute_instances(&rows))?;
    Ok(Exit::SUCCESS)
}

/// What a command does, as its failure names it.
const fn doing(action: &MigAction) -> &'static str {
    match action {
        MigAction::ListGpuProfiles => "display GPU instance profiles",
        MigAction::ListPlacements => "display GPU instance possible placements",
        MigAction::ListGpuInstances => "display GPU instances",
        MigAction::ListComputeProfiles => "display compute instance profiles",
        MigAction::ListComputeInstances => "display compute instances",
        MigAction::CreateGpuInstances { .. } => "create GPU instances",
        MigAction::DestroyGpuInstances => "destroy GPU instances",
        MigAction::CreateComputeInstances { .. } => "create compute instances",
        MigAction::DestroyComputeInstances => "destroy compute instances",
    }
}

fn gpu_instances_of<'l>(found: &Found<'l>, ids: Option<&[u32]>) -> Result<Vec<FoundInstance<'l>>, Error> {
    gpu_instances(found, ids)
}

/// What is found in each, in order.
fn each<S, T>(all: &[S], find: impl Fn(&S) -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    for one in all {
        found.extend(find(one)?);
    }
    Ok(found)
}

/// Prints rows. A GPU with MIG that has none keeps them to itself while MIG is
/// off.
fn listed<T>(
    out: Out<'_>,
    rows: Result<Vec<T>, Error>,
    what: &str,
    render: impl Fn(&[T]) -> String,
) -> io::Result<Exit> {
    match rows {
        Ok(rows) if rows.is_empty() => none_enabled(out),
        Ok(rows) => {
            write!(out, "{}", render(&rows))?;
            Ok(Exit::SUCCESS)
        }
        Err(error) if error.code() == Some(Code::NotSupported) => none_enabled(out),
        Err(error) => failed(out, &format!("display {what}"), code_of(&error)),
    }
}

/// That MIG is off is no failure (driver 580.159.04).
fn none_enabled(out: Out<'_>) -> io::Result<Exit> {
    writeln!(out, "No MIG-enabled devices found.")?;
    Ok(Exit::SUCCESS)
}

fn none(out: Out<'_>, words: &str) -> io::Result<Exit> {
    writeln!(out, "{words}")?;
    Ok(Exit::NOT_FOUND)
}
