//! The output for programs.

use nvml::port::{Device, Engines, Layout, MigMode, Process, Profile, Silent, Slice};
use serde_json::{Value, json};

use super::{Machine, Seen};
use crate::exit::chain;

pub(super) fn render(machine: &Machine) -> Value {
    let Machine { found, gpus } = machine;
    let silent = |silent: &Silent| json!({"index": silent.index, "error": chain(&silent.error)});
    json!({
        "driver": found.driver,
        "gpus": gpus.iter().map(gpu).collect::<Vec<_>>(),
        "silent": found.silent.iter().map(silent).collect::<Vec<_>>(),
    })
}

fn gpu(seen: &Seen) -> Value {
    let Seen { gpu, model, profiles, layout, differences } = seen;
    let mode =
        |mode: &MigMode| json!({"current": mode.current.to_string(), "pending": mode.pending.to_string()});
    let errors: Vec<String> =
        [profiles.as_ref().err(), layout.as_ref().err()].into_iter().flatten().map(|e| chain(e)).collect();
    let profiles = profiles.as_ref().map_or(&[][..], Vec::as_slice);
    let nothing = Layout::default();
    let layout = layout.as_ref().unwrap_or(&nothing);
    json!({
        "index": gpu.index,
        "uuid": gpu.uuid.0,
        "name": gpu.name,
        "model": model.map(|model| model.id.as_str()),
        "bus_id": gpu.bus_id,
        "memory_mib": gpu.memory_mib,
        "mig": gpu.mode.as_ref().map(mode),
        "memory_units": nvml::port::geometry(profiles).map(|geometry| geometry.memory()),
        "profiles": profiles.iter().map(profile).collect::<Vec<_>>(),
        "slices": layout.slices.iter().map(|it| slice(it, layout)).collect::<Vec<_>>(),
        "processes": layout.processes.as_ref().map(|all| all.iter().map(process).collect::<Vec<_>>()),
        "differences": differences.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "errors": errors,
    })
}

fn profile(profile: &Profile) -> Value {
    let Profile { name, id, number, slices, max_instances, multiprocessors, memory_mib, engines, places } =
        profile;
    let Engines { copy, decoder, encoder, jpeg, ofa } = engines;
    json!({
        "name": name,
        "id": id,
        "nvml_enum": number,
        "compute_slices": slices,
        "memory_units": places.first().map(|span| span.size),
        "starts": places.iter().map(|span| span.start).collect::<Vec<_>>(),
        "max_instances": max_instances,
        "memory_mib": memory_mib,
        "sm": multiprocessors,
        "engines": {"copy": copy, "decoder": decoder, "encoder": encoder, "jpeg": jpeg, "ofa": ofa},
    })
}

fn slice(slice: &Slice, layout: &Layout) -> Value {
    let Slice { profile, span, gpu_instance, devices } = slice;
    let device = |device: &Device| {
        let Device { uuid, compute_instance, whole } = device;
        json!({"uuid": uuid, "compute_instance": compute_instance, "whole": whole})
    };
    let known = layout.processes.as_ref();
    json!({
        "profile": profile,
        "start": span.map(|span| span.start),
        "size": span.map(|span| span.size),
        "gpu_instance": gpu_instance,
        "devices": devices.iter().map(device).collect::<Vec<_>>(),
        "processes": known.map(|_| layout.on(slice).map(process).collect::<Vec<_>>()),
    })
}

fn process(process: &Process) -> Value {
    let Process { pid, name, memory_mib, instance } = process;
    json!({
        "pid": pid,
        "name": name,
        "memory_mib": memory_mib,
        "gpu_instance": instance.map(|(gpu_instance, _)| gpu_instance),
        "compute_instance": instance.map(|(_, compute_instance)| compute_instance),
    })
}
