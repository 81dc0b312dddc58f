//! The compute processes of a GPU or a MIG device, in all three versions, and their use of it. For a GPU
//! with MIG on, only a privileged caller sees the instances that processes use, and no caller their
//! utilisation: for that, see the samples of `gpm`.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{Activity, NvmlError, Reply, Target};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutArray, Versioned};
use crate::c_handle::Device;
use crate::entry::Call;
use crate::filled::filled;
use crate::padded::{ProcessDetail, ProcessInfoV1, ProcessInfoV2, UtilizationInfo, UtilizationSample};

/// What stands in place of an id on a GPU without MIG.
const NONE: c_uint = c_uint::MAX;

fn computing(call: &mut Call<'_>, device: Device) -> Reply<Vec<ProcessInfoV2>> {
    let sees_instances = call.session.is_privileged();
    call.ask(device, |of| {
        let hidden = of.mig.is_none() && of.gpu.mig_is_on() && !sees_instances;
        let listed = of.clients().filter(|client| client.activity.has_context() && !hidden);
        let entry = listed.map(|client| {
            let (gi, ci) = match client.target {
                Target::Gpu(_) => (NONE, NONE),
                Target::GpuInstance(_, gi) => (gi.into(), NONE),
                Target::ComputeInstance(_, gi, ci) => (gi.into(), ci.into()),
            };
            ProcessInfoV2 {
                pid: client.pid,
                _1: 0,
                usedGpuMemory: u64::from(client.memory_mib) << 20,
                gpuInstanceId: gi,
                computeInstanceId: ci,
            }
        });
        Ok(entry.collect())
    })
}

/// What the caller of `nvmlDeviceGetProcessesUtilizationInfo` hands over:
/// `nvmlProcessesUtilizationInfo_v1_t`, with its array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Loads {
    version: c_uint,
    count: c_uint,
    last_seen: c_ulonglong,
    infos: OutArray<UtilizationInfo>,
}

filled! { Loads { version, count, last_seen, infos } }
const _: () = assert!(size_of::<Loads>() == size_of::<sys::nvmlProcessesUtilizationInfo_v1_t>());

/// What the caller of `nvmlDeviceGetRunningProcessDetailList` hands over:
/// `nvmlProcessDetailList_v1_t`, with its array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Details {
    version: c_uint,
    mode: c_uint,
    count: c_uint,
    _1: c_uint,
    infos: OutArray<ProcessDetail>,
}

filled! { Details { version, mode, count, _1, infos } }
const _: () = assert!(size_of::<Details>() == size_of::<sys::nvmlProcessDetailList_v1_t>());

/// The kinds of processes, as the header's comment numbers them.
const COMPUTING: c_uint = 0;
const GRAPHICS: c_uint = 1;
const SHARING: c_uint = 2;

/// How much of a GPU each process uses: those that compute share it evenly, and
/// none does anything else. The samples are of now.
fn loads(call: &mut Call<'_>, device: Device, last_seen: u64) -> Reply<Vec<UtilizationInfo>> {
    let now = store::now().as_microsecond().cast_unsigned();
    let found: Vec<_> = call.ask(device, |of| {
        if of.whole(NvmlError::NotSupported)?.mig_is_on() {
            return Err(NvmlError::NotSupported);
        }
        let computes = || of.clients().filter(|client| client.activity == Activity::Computes);
        let share = 100 / u32::try_from(computes().count().max(1)).unwrap_or(100);
        let load = |pid| UtilizationInfo {
            timeStamp: now,
            pid,
            smUtil: share,
            memUtil: 0,
            encUtil: 0,
            decUtil: 0,
            jpgUtil: 0,
            ofaUtil: 0,
            _1: 0,
        };
        Ok(computes().map(|client| load(client.pid)).collect())
    })?;
    if found.is_empty() || now <= last_seen { Err(NvmlError::NotFound) } else { Ok(found) }
}

entries! {
    /// Of processes about which something is known since the caller last looked.
    fn nvmlDeviceGetProcessUtilization(
        call, device: Device, samples: OutArray<UtilizationSample>, count: Out<c_uint>,
        last_seen: c_ulonglong
    ) {
        let short = |load: UtilizationInfo| UtilizationSample {
            pid: load.pid,
            _1: 0,
            timeStamp: load.timeStamp,
            smUtil: load.smUtil,
            memUtil: load.memUtil,
            encUtil: load.encUtil,
            decUtil: load.decUtil,
        };
        let all: Vec<_> = loads(call, device, last_seen)?.into_iter().map(short).collect();
        if samples.is_null() {
            count.set(all.len().try_into().unwrap_or(c_uint::MAX));
            return Err(NvmlError::InsufficientSize);
        }
        samples.fill_at_most(count, &all)?
    }

    fn nvmlDeviceGetProcessesUtilizationInfo(call, device: Device, info: Versioned) {
        let info = info.must_be::<Loads>(1)?;
        let Loads { version: _, count: room, last_seen, infos } = info.get()?;
        // Who only asks how many there are is told so, even if there are none (driver 580).
        let all = match loads(call, device, last_seen) {
            Err(NvmlError::NotFound) if infos.is_null() || room == 0 => Vec::new(),
            all => all?,
        };
        info.update(|info| info.count = all.len().try_into().unwrap_or(c_uint::MAX))?;
        if infos.is_null() || all.len() > room as usize {
            return Err(NvmlError::InsufficientSize);
        }
        infos.fill(&all)
    }

    fn nvmlDeviceGetComputeRunningProcesses(
        call, device: Device, count: Out<c_uint>, infos: OutArray<ProcessInfoV1>
    ) {
        let short = |p: ProcessInfoV2| {
            ProcessInfoV1 { pid: p.pid, _1: 0, usedGpuMemory: p.usedGpuMemory }
        };
        let all: Vec<_> = computing(call, device)?.into_iter().map(short).collect();
        infos.fill_at_most(count, &all)?
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2 | nvmlDeviceGetComputeRunningProcesses_v3(
        call, device: Device, count: Out<c_uint>, infos: OutArray<ProcessInfoV2>
    ) {
        infos.fill_at_most(count, &computing(call, device)?)?
    }

    /// Nobody draws on a simulated card, and nobody shares one through MPS.
    fn nvmlDeviceGetGraphicsRunningProcesses | nvmlDeviceGetMPSComputeRunningProcesses(
        call, device: Device, count: Out<c_uint>, _infos: OutArray<ProcessInfoV1>
    ) {
        call.ask(device, |_| Ok(()))?;
        count.set(0)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2 | nvmlDeviceGetGraphicsRunningProcesses_v3
        | nvmlDeviceGetMPSComputeRunningProcesses_v2 | nvmlDeviceGetMPSComputeRunningProcesses_v3(
        call, device: Device, count: Out<c_uint>, _infos: OutArray<ProcessInfoV2>
    ) {
        call.ask(device, |_| Ok(()))?;
        count.set(0)
    }

    /// Of processes of one kind; only those that compute are simulated.
    fn nvmlDeviceGetRunningProcessDetailList(call, device: Device, list: Versioned) {
        let list = list.must_be::<Details>(1)?;
        let Details { version: _, mode, count: room, _1: _, infos } = list.get()?;
        let all = match mode {
            COMPUTING => computing(call, device)?,
            GRAPHICS | SHARING => call.ask(device, |_| Ok(Vec::new()))?,
            _ => return Err(NvmlError::InvalidArgument),
        };
        list.update(|list| list.count = all.len().try_into().unwrap_or(c_uint::MAX))?;
        if all.len() > room as usize {
            return Err(NvmlError::InsufficientSize);
        }
        if infos.is_null() && !all.is_empty() {
            return Err(NvmlError::InvalidArgument);
        }
        let detail = |p: &ProcessInfoV2| ProcessDetail {
            pid: p.pid,
            _1: 0,
            usedGpuMemory: p.usedGpuMemory,
            gpuInstanceId: p.gpuInstanceId,
            computeInstanceId: p.computeInstanceId,
            usedGpuCcProtectedMemory: 0,
        };
        infos.fill(&all.iter().map(detail).collect::<Vec<_>>())
    }
}
