//! Creates slices on a GPU before a program sees it.

use gpu::{Caller, Machine, Mode};

/// Switches MIG on, and makes these slices in this order, each with one
/// compute instance over the whole of it, as `nvidia-smi mig -cgi … -C` does.
///
/// # Panics
/// If the GPU cannot have them.
pub fn cut(machine: &mut Machine, gpu: u16, slices: &[&str]) {
    let ids: Vec<u32> = {
        let facts = machine.gpu(gpu).and_then(|gpu| gpu.mig()).expect("a GPU with MIG");
        let id = |slice: &&str| {
            let profile = facts.profiles.iter().find(|profile| profile.name.to_string() == **slice);
            profile.unwrap_or_else(|| panic!("the GPU has no profile {slice}")).id
        };
        slices.iter().map(id).collect()
    };
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu).expect("the GPU is there");
    nvml.set_mig_mode(device, Mode::Enabled).expect("root may");
    for id in ids {
        let gi = nvml.create_gpu_instance(device, id).expect("there is room for the slice");
        let profiles = nvml.compute_instance_profiles(gi).expect("it was just made");
        let (whole, _) = profiles.iter().find(|(profile, _)| profile.default).expect("one is the default");
        nvml.create_compute_instance(gi, whole.id).expect("it is empty");
    }
}
