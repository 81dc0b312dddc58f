//! The devices that the device plugin finds on a machine.

use std::collections::BTreeMap;

use gpu::{Gpu, Machine, Share};

use crate::setup::Strategy;
use crate::sharing::{self, PluginConfig};
use crate::version::PluginVersion;

/// The resource of whole GPUs.
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// What the plugin finds when it starts.
pub(crate) enum Devices {
    /// UUIDs by resource.
    Of(BTreeMap<String, Vec<String>>),
    /// Nothing that it can serve under this strategy: it exits, with this.
    CrashLoop(String),
}

/// The resource of a profile, under strategy `mixed`.
fn resource_of(profile: &str, version: PluginVersion) -> Result<String, String> {
    let is_partial = profile.split('.').next().is_some_and(|first| first.ends_with('c'));
    if version.matches_whole_names() {
        // Only profiles that take a whole GPU instance have a resource.
        if is_partial {
            return Err(format!("unmatched MIG profile: {profile}"));
        }
        return Ok(format!("nvidia.com/mig-{}", profile.replace('+', ".")));
    }
    // The first name that is a part of it: that of the plain profile.
    let whole = if is_partial { profile.split_once('.').map_or(profile, |(_, rest)| rest) } else { profile };
    Ok(format!("nvidia.com/mig-{}", whole.split(['+', '-']).next().unwrap_or(whole)))
}

/// The devices under a strategy, shared as the configuration says.
pub(crate) fn devices(
    machine: &Machine,
    strategy: Strategy,
    version: PluginVersion,
    config: &PluginConfig,
) -> Devices {
    if let Some(why) = config.mps_refuses(machine, strategy) {
        return Devices::CrashLoop(why);
    }
    let found = match unshared(machine, strategy, version) {
        Devices::Of(found) => found,
        exits @ Devices::CrashLoop(_) => return exits,
    };
    let shared = |(resource, uuids): (String, Vec<String>)| {
        let replicas = config.replicas(&resource);
        if replicas < 2 {
            return (resource, uuids);
        }
        let renamed = config.sharing.as_ref().is_some_and(|sharing| sharing.renamed);
        let name = if renamed { format!("{resource}.shared") } else { resource };
        let copies = |uuid: String| (0..replicas).map(move |n| format!("{uuid}::{n}"));
        (name, uuids.into_iter().flat_map(copies).collect())
    };
    Devices::Of(found.into_iter().map(shared).collect())
}

/// The cards that NVIDIA's library for its components leaves out, by name: the
/// display of a DGX Station is for nobody's pods.
const LEFT_OUT: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

/// The GPUs that the plugin and GFD see.
pub(crate) fn seen(machine: &Machine) -> impl Iterator<Item = &Gpu> {
    machine.gpus().iter().filter(|gpu| !gpu.lost && !LEFT_OUT.contains(&gpu.model.product.as_str()))
}

fn unshared(machine: &Machine, strategy: Strategy, version: PluginVersion) -> Devices {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let present = || seen(machine);
    match strategy {
        Strategy::Mixed => {
            for gpu in present() {
                if gpu.mig_is_on() {
                    for (gi, ci) in gpu.mig_devices() {
                        match resource_of(&gpu.mig_profile_name(gi, ci), version) {
                            Ok(name) => found.entry(name).or_default().push(gpu.mig_uuid(gi, ci)),
                            Err(why) => return Devices::CrashLoop(why),
                        }
                    }
                } else {
                    found.entry(GPU.to_owned()).or_default().push(gpu.uuid.clone());
                }
            }
        }
        // `Configured` was resolved by whoever asks.
        Strategy::None | Strategy::Configured => {
            for gpu in present() {
                found.entry(GPU.to_owned()).or_default().push(gpu.uuid.clone());
            }
        }
        Strategy::Single => {
            let on = present().filter(|gpu| gpu.mig_is_on()).count();
            if on == 0 {
                let all = present().map(|gpu| gpu.uuid.clone()).collect();
                return Devices::Of(BTreeMap::from([(GPU.to_owned(), all)]));
            }
            if on < present().count() {
                return Devices::CrashLoop(
                    "all devices on the node must be configured with the same migEnabled value".to_owned(),
                );
            }
            let mut profiles = std::collections::BTreeSet::new();
            for gpu in present() {
                if gpu.mig_devices().next().is_none() {
                    return Devices::CrashLoop(
                        "a device on the node has no MIG devices configured".to_owned(),
                    );
                }
                for (gi, ci) in gpu.mig_devices() {
                    profiles.insert(gpu.mig_profile_name(gi, ci));
                    found.entry(GPU.to_owned()).or_default().push(gpu.mig_uuid(gi, ci));
                }
            }
            if profiles.len() > 1 {
                return Devices::CrashLoop("more than one MIG device type present on node".to_owned());
            }
        }
    }
    Devices::Of(found)
}

/// The slice or GPU of a device, if it is there.
pub(crate) fn share(machine: &Machine, device: &str) -> Option<Share> {
    let uuid = sharing::uuid(device);
    machine.gpus().iter().zip(0u16..).find_map(|(gpu, index)| {
        if gpu.uuid == uuid {
            return Some(Share::Gpu(index));
        }
        let found = gpu.mig_devices().find(|(gi, ci)| gpu.mig_uuid(gi, ci) == uuid)?;
        Some(Share::Slice(index, found.0.id))
    })
}
