//! A session of nvml-wrapper, driven over standard input as that of go-nvml
//! under `tools/go-nvml`: one command a line, one JSON value a line in answer.
//!
//! ```text
//! walk           the driver, every GPU, its profiles and MIG devices
//! mode GPU 0|1   switch MIG mode
//! find UUID      look a device up
//! watch GPU      register for changes of its MIG configuration and for Xid errors
//! next MS        wait so long for an event
//! ```

#![expect(clippy::print_stdout, reason = "the answers are its output")]

use std::fmt::Display;
use std::io::BufRead;

use anyhow::{Context, bail};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::event::EventSet;
use nvml_wrapper::{Device, Nvml};
use serde_json::{Value, json};

/// What a call gave: the value, or what the wrapper calls the error.
fn gave<T: Into<Value>, E: Display>(result: Result<T, E>) -> Value {
    match result {
        Ok(value) => value.into(),
        Err(error) => json!({"error": error.to_string()}),
    }
}

fn main() -> anyhow::Result<()> {
    let nvml = Nvml::init()?;
    let mut events: Option<EventSet<'_>> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["walk"] => walk(&nvml),
            ["find", uuid] => gave(nvml.device_by_uuid(uuid).and_then(|device| device.name())),
            ["mode", gpu, on] => {
                let device = nvml.device_by_index(gpu.parse()?)?;
                gave(device.set_mig_mode(on == "1"))
            }
            ["watch", gpu] => {
                let device = nvml.device_by_index(gpu.parse()?)?;
                let set = match events.take() {
                    Some(set) => set,
                    None => nvml.create_event_set()?,
                };
                let wanted = EventTypes::MIG_CONFIG_CHANGE | EventTypes::CRITICAL_XID_ERROR;
                let supported = device.supported_event_types()?;
                events = Some(device.register_events(wanted, set)?);
                json!({"supported": supported.bits()})
            }
            ["next", milliseconds] => {
                let set = events.as_ref().context("nothing is watched yet")?;
                gave(set.wait(milliseconds.parse()?).map(|event| {
                    json!({
                        "gpu": gave(event.device.index()),
                        "type": event.event_type.bits(),
                        "xid": match event.event_data {
                            Some(XidError::Value(code)) => json!(code),
                            Some(XidError::Unknown) => json!("unknown"),
                            None => Value::Null,
                        },
                    })
                }))
            }
            _ => bail!("{line:?} is no command"),
        };
        println!("{answer}");
    }
    Ok(())
}

fn walk(nvml: &Nvml) -> Value {
    let count = nvml.device_count().unwrap_or_default();
    let devices: Vec<_> = (0..count)
        .map(|index| nvml.device_by_index(index).map_or_else(|e| gave::<Value, _>(Err(e)), |d| gpu(nvml, &d)))
        .collect();
    json!({
        "driver": gave(nvml.sys_driver_version()),
        "nvml": gave(nvml.sys_nvml_version()),
        "cuda": gave(nvml.sys_cuda_driver_version()),
        "devices": devices,
    })
}

fn gpu(nvml: &Nvml, device: &Device<'_>) -> Value {
    let bus_id = device.pci_info().map(|pci| pci.bus_id);
    let again = bus_id.as_deref().ok().map(|id| nvml.device_by_pci_bus_id(id).and_then(|d| d.uuid()));
    let most = device.mig_device_count().unwrap_or_default();
    let migs: Vec<_> =
        (0..most).filter_map(|i| device.mig_device_by_index(i).ok()).map(|mig| slice(&mig)).collect();
    let profiles: Vec<_> = (0..17)
        .filter_map(|profile| device.profile_info(profile).ok())
        .map(|info| json!([info.id, info.instance_count, info.memory_size_mb, info.multiprocessor_count]))
        .collect();
    json!({
        "name": gave(device.name()),
        "uuid": gave(device.uuid()),
        "byBusId": again.map(gave),
        "busId": gave(bus_id),
        "minor": gave(device.minor_number()),
        "memoryMiB": gave(device.memory_info().map(|memory| memory.total >> 20)),
        "migMode": gave(device.mig_mode().map(|mode| json!([mode.current, mode.pending]))),
        "isMig": gave(device.mig_is_mig_device_handle()),
        "maxMigDevices": most,
        "profiles": profiles,
        "migDevices": migs,
        "attributes": gave(device.attributes().map(|attributes| attributes.memory_size_mb)),
        "utilization": gave(device.utilization_rates().map(|rates| rates.gpu)),
        "temperature": gave(device.temperature(TemperatureSensor::Gpu)),
        "powerMilliwatts": gave(device.power_usage()),
        "smClock": gave(device.clock_info(Clock::SM)),
        "architecture": gave(device.architecture().map(|architecture| architecture.to_string())),
        "computeCapability":
            gave(device.cuda_compute_capability().map(|capability| json!([capability.major, capability.minor]))),
        "processes": gave(device.running_compute_processes().map(|all| {
            all.iter()
                .map(|one| json!([one.pid, one.gpu_instance_id, one.compute_instance_id]))
                .collect::<Vec<_>>()
        })),
    })
}

fn slice(mig: &Device<'_>) -> Value {
    json!({
        "name": gave(mig.name()),
        "uuid": gave(mig.uuid()),
        "isMig": gave(mig.mig_is_mig_device_handle()),
        "parent": gave(mig.mig_parent_device().and_then(|parent| parent.uuid())),
        "memoryMiB": gave(mig.memory_info().map(|memory| memory.total >> 20)),
        "attributes": gave(mig.attributes().map(|a| {
            json!([a.memory_size_mb, a.multiprocessor_count, a.gpu_instance_slice_count, a.compute_instance_slice_count])
        })),
        "utilization": gave(mig.utilization_rates().map(|rates| rates.gpu)),
        "minor": gave(mig.minor_number()),
    })
}
