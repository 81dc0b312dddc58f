//! Changes on nodes with an agent: single slices at chosen placements, beside those that are in use. The
//! agent itself is later work; here its steps take no time, through NVML on the simulated GPUs.

use gpu::{Caller, Nvml, NvmlError, Placement};
use mig::ProfileName;
use operands::Operand;
use planner::check::CheckedPlan;
use planner::names::GpuIndex;
use planner::plan::{GpuChange, NodeStep};
use planner::policy::Mode;
use reconcile::PlannedRound;

use crate::counters::Counters;
use crate::entry::Who;
use crate::world::World;

/// Does the steps of nodes that have an agent, where the policy is in force
/// and a window is open.
pub(crate) fn apply(
    world: &mut World,
    planned: &PlannedRound,
    plan: CheckedPlan<'_>,
    counters: &mut Counters,
) {
    let rules = &planned.view.rollouts;
    for step in plan.in_order() {
        let enforced = planned.view.policies.iter().any(|p| p.name == step.policy && p.mode == Mode::Enforce);
        let open =
            rules.get(&step.policy).is_some_and(|p| rollout::window::is_open(&p.rules.windows, world.now));
        let Some(host) = world.hosts.get_mut(&step.node.0).filter(|h| h.agent && enforced && open) else {
            continue;
        };
        if step.enable_mig || !step.evicts.is_empty() {
            continue;
        }
        counters.changes += 1;
        let result = change_node(host, step);
        let text = match result {
            Ok(did) => format!("the agent {}", did.join(", ")),
            Err(error) => format!("the agent stops: {error}"),
        };
        host.node.delete_operand(Operand::DevicePlugin);
        // What the agent did is seen at once, as its report would be.
        world.revision.0 += 1;
        world.say(Who::Does(step.node.0.clone()), text);
    }
}

fn change_node(host: &mut crate::host::Host, step: &NodeStep) -> Result<Vec<String>, String> {
    let mut did = Vec::new();
    for change in &step.gpus {
        let before: Vec<(ProfileName, u8, bool)> = host
            .node
            .truth()
            .iter()
            .find(|gpu| GpuIndex(gpu.index) == change.gpu)
            .map(|gpu| gpu.slices.iter().map(|s| (s.profile, s.start, s.holder.is_some())).collect())
            .unwrap_or_default();
        let GpuChange { gpu, after, .. } = change;
        let goes: Vec<_> = before.iter().filter(|(p, s, _)| !after.contains(&(*p, *s))).collect();
        let comes: Vec<_> =
            after.iter().filter(|(p, s)| !before.iter().any(|(q, t, _)| (q, t) == (p, s))).collect();
        // The precondition: what goes is free, still.
        if let Some((profile, start, _)) = goes.iter().find(|(_, _, held)| *held) {
            return Err(format!("{profile}@{start} on gpu{gpu} is held by now; the plan is void"));
        }
        let models = host.node.machine().gpu(gpu.0).map(|g| std::sync::Arc::clone(&g.model));
        let facts = models.and_then(|m| m.mig.clone()).ok_or_else(|| format!("gpu{gpu} cannot be cut"))?;
        let mut nvml = host.node.machine_mut().nvml(Caller::Root);
        let say = |error: NvmlError| format!("gpu{gpu}: {error}");
        for (profile, start, _) in goes {
            destroy(&mut nvml, gpu.0, *start).map_err(say)?;
            did.push(format!("destroys {profile}@{start} on gpu{gpu}"));
        }
        for (profile, start) in comes {
            let id = facts.named(*profile).ok_or_else(|| format!("gpu{gpu} has no {profile}"))?;
            let size = facts.geometry.profiles().iter().find(|p| p.name == *profile).map_or(0, |p| p.size);
            create(&mut nvml, gpu.0, id.id, Placement { start: *start, size }).map_err(say)?;
            did.push(format!("creates {profile}@{start} on gpu{gpu}"));
        }
    }
    Ok(did)
}

fn destroy(nvml: &mut Nvml<'_>, gpu: u16, start: u8) -> Result<(), NvmlError> {
    let device = nvml.device_handle_by_index(gpu)?;
    for id in 0..=u8::MAX {
        let Ok(instance) = nvml.gpu_instance_by_id(device, id) else { continue };
        if nvml.gpu_instance_info(instance)?.placement.start == start {
            for compute in nvml.compute_instances(instance)? {
                nvml.destroy_compute_instance(compute)?;
            }
            return nvml.destroy_gpu_instance(instance);
        }
    }
    Err(NvmlError::NotFound)
}

fn create(nvml: &mut Nvml<'_>, gpu: u16, profile: u32, at: Placement) -> Result<(), NvmlError> {
    let device = nvml.device_handle_by_index(gpu)?;
    let instance = nvml.create_gpu_instance_with_placement(device, profile, at)?;
    // The compute instance that spans all of it is the last of its profiles.
    let (whole, _) = nvml
        .compute_instance_profiles(instance)?
        .into_iter()
        .max_by_key(|(p, _)| p.slices)
        .ok_or(NvmlError::NotSupported)?;
    nvml.create_compute_instance(instance, whole.id).map(|_| ())
}
