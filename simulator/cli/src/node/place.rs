//! Places on a node in the syntax of the command line: a GPU, or a slice.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;
use gpu::{Gpu, Machine, Target};

/// What somebody opens, as it is written: `0`, `0:13`, `0:13:0`, or a UUID.
#[derive(Clone, Debug)]
pub(super) enum Place {
    At(Target),
    Uuid(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("GPU-") || text.starts_with("MIG-") {
            return Ok(Self::Uuid(text.to_owned()));
        }
        let parts: Vec<&str> = text.split(':').collect();
        let id = |part: &str| part.parse::<u8>().ok();
        let target = match parts.as_slice() {
            [gpu] => id(gpu).map(|gpu| Target::Gpu(gpu.into())),
            [gpu, gi] => id(gpu).zip(id(gi)).map(|(gpu, gi)| Target::GpuInstance(gpu.into(), gi)),
            [gpu, gi, ci] => id(gpu)
                .zip(id(gi))
                .zip(id(ci))
                .map(|((gpu, gi), ci)| Target::ComputeInstance(gpu.into(), gi, ci)),
            _ => None,
        };
        target.map(Self::At).ok_or_else(|| {
            "a place is a GPU (0), a GPU instance (0:13), a compute instance (0:13:0), or a UUID".to_owned()
        })
    }
}

impl Place {
    /// What is meant, if it is there.
    pub(super) fn find(&self, machine: &Machine) -> anyhow::Result<Target> {
        let target = match self {
            Self::At(target) => *target,
            Self::Uuid(uuid) => return by_uuid(machine, uuid),
        };
        let gpu = find_gpu(machine, target.gpu())?;
        let (gi, ci) = match target {
            Target::Gpu(_) => return Ok(target),
            Target::GpuInstance(_, gi) => (gi, None),
            Target::ComputeInstance(_, gi, ci) => (gi, Some(ci)),
        };
        let Some(instance) = gpu.instances.get(&gi) else {
            bail!("GPU {} has no GPU instance {gi}: {}", target.gpu(), there(gpu.instances.keys()));
        };
        match ci {
            Some(ci) if !instance.compute.contains_key(&ci) => bail!(
                "GPU instance {gi} of GPU {} has no compute instance {ci}: {}",
                target.gpu(),
                there(instance.compute.keys())
            ),
            _ => Ok(target),
        }
    }
}

/// What a program that computes has open: the compute instance, where a GPU
/// instance was named.
pub(super) fn where_one_computes(machine: &Machine, target: Target) -> anyhow::Result<Target> {
    let Target::GpuInstance(gpu, gi) = target else { return Ok(target) };
    let compute = &find_gpu(machine, gpu)?.instances[&gi].compute;
    let ids: Vec<u8> = compute.keys().copied().collect();
    match ids.as_slice() {
        [ci] => Ok(Target::ComputeInstance(gpu, gi, *ci)),
        [] => bail!(
            "GPU instance {gi} of GPU {gpu} has no compute instance, so that nothing can compute there: \
             create one, or give --watches"
        ),
        [first, ..] => bail!(
            "GPU instance {gi} of GPU {gpu} has several compute instances: name one, such as {gpu}:{gi}:{first}"
        ),
    }
}

/// A GPU that is there.
pub(super) fn find_gpu(machine: &Machine, index: u16) -> anyhow::Result<&Gpu> {
    match machine.gpu(index) {
        Some(gpu) => Ok(gpu),
        None => bail!("there is no GPU {index}: {}", there(0..machine.gpus().len())),
    }
}

fn by_uuid(machine: &Machine, uuid: &str) -> anyhow::Result<Target> {
    for (index, gpu) in (0u16..).zip(machine.gpus()) {
        if gpu.uuid == uuid {
            return Ok(Target::Gpu(index));
        }
        if let Some((gi, ci)) = gpu.mig_devices().find(|(gi, ci)| gpu.mig_uuid(gi, ci) == uuid) {
            return Ok(Target::ComputeInstance(index, gi.id, ci.id));
        }
    }
    bail!("nothing here has the UUID {uuid}: `slicewright-sim node show --output json` lists them")
}

fn there<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    if all.is_empty() { "it has none".to_owned() } else { format!("there are {}", all.join(", ")) }
}

/// A target as it is written.
pub(super) fn name(target: Target) -> String {
    match target {
        Target::Gpu(gpu) => gpu.to_string(),
        Target::GpuInstance(gpu, gi) => format!("{gpu}:{gi}"),
        Target::ComputeInstance(gpu, gi, ci) => format!("{gpu}:{gi}:{ci}"),
    }
}
