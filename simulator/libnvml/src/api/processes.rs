//! Who computes on a GPU or a MIG device, in all three versions. Of a GPU with
//! MIG on, only a privileged caller sees whose instances are used.

use std::ffi::c_uint;

use gpu::{Activity, Reply, Target};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutArray};
use crate::entry::Call;
use crate::handle::Device;

/// What stands in place of an id on a GPU without MIG.
const NONE: c_uint = c_uint::MAX;

fn computing(call: &mut Call<'_>, device: Device) -> Reply<Vec<sys::nvmlProcessInfo_v2_t>> {
    let sees_instances = call.session.is_privileged();
    call.ask(device, |of| {
        let hidden = of.mig.is_none() && of.gpu.mig_is_on() && !sees_instances;
        let computes = of.clients().filter(|client| client.activity == Activity::Computes && !hidden);
        let entry = computes.map(|client| {
            let (gi, ci) = match client.target {
                Target::Gpu(_) => (NONE, NONE),
                Target::GpuInstance(_, gi) => (gi.into(), NONE),
                Target::ComputeInstance(_, gi, ci) => (gi.into(), ci.into()),
            };
            sys::nvmlProcessInfo_v2_t {
                pid: client.pid,
                usedGpuMemory: u64::from(client.memory_mib) << 20,
                gpuInstanceId: gi,
                computeInstanceId: ci,
            }
        });
        Ok(entry.collect())
    })
}

entries! {
    fn nvmlDeviceGetComputeRunningProcesses(
        call, device: Device, count: Out<c_uint>, infos: OutArray<sys::nvmlProcessInfo_v1_t>
    ) {
        let short = |p: sys::nvmlProcessInfo_v2_t| {
            sys::nvmlProcessInfo_v1_t { pid: p.pid, usedGpuMemory: p.usedGpuMemory }
        };
        let all: Vec<_> = computing(call, device)?.into_iter().map(short).collect();
        infos.fill_at_most(count, &all)?
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2 | nvmlDeviceGetComputeRunningProcesses_v3(
        call, device: Device, count: Out<c_uint>, infos: OutArray<sys::nvmlProcessInfo_v2_t>
    ) {
        infos.fill_at_most(count, &computing(call, device)?)?
    }

    /// Nobody draws on a simulated card, and nobody shares one through MPS.
    fn nvmlDeviceGetGraphicsRunningProcesses | nvmlDeviceGetMPSComputeRunningProcesses(
        call, device: Device, count: Out<c_uint>, _infos: OutArray<sys::nvmlProcessInfo_v1_t>
    ) {
        call.ask(device, |_| Ok(()))?;
        count.set(0)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2 | nvmlDeviceGetGraphicsRunningProcesses_v3
        | nvmlDeviceGetMPSComputeRunningProcesses_v2 | nvmlDeviceGetMPSComputeRunningProcesses_v3(
        call, device: Device, count: Out<c_uint>, _infos: OutArray<sys::nvmlProcessInfo_v2_t>
    ) {
        call.ask(device, |_| Ok(()))?;
        count.set(0)
    }
}
