//! The work of a GPU or a GPU instance between two samples: the only way to measure the utilisation of a
//! slice. Hopper and later cards support it. A process of a simulated machine keeps its multiprocessors
//! busy, and nothing else: no memory, no tensor cores, no decoders, no links.

use std::ffi::{CStr, c_uint, c_void};

use gpu::{NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings::{self as sys, nvmlGpmMetric_t, nvmlReturn_t};

use crate::argument::{In, Out};
use crate::c_handle::{Device, Sample};
use crate::handle::Handle;

/// How `nvmlGpmMetricsGet_t` begins; behind it are as many metrics as it says.
/// Headers differ in how many there may be, so a caller's struct has an end
/// that only the caller knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Request {
    version: c_uint,
    count: c_uint,
    before: Sample,
    after: Sample,
}

const _: () = assert!(size_of::<Request>() == std::mem::offset_of!(sys::nvmlGpmMetricsGet_t, metrics));

fn is_supported(of: Subject<'_>) -> Reply<bool> {
    let gpu = of.whole(NvmlError::NotSupported)?;
    Ok(gpu.model.compute_capability.is_some_and(|(major, _)| major >= 9))
}

fn must_be_supported(of: Subject<'_>) -> Reply<()> {
    if is_supported(of)? { Ok(()) } else { Err(NvmlError::NotSupported) }
}

/// A metric's name, what it says, and its unit. The texts are ours.
const fn words(id: c_uint) -> Option<(&'static CStr, &'static CStr, &'static CStr)> {
    Some(match id {
        sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL => (c"gract", c"Graphics engine active", c"%"),
        sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL => (c"smutil", c"Multiprocessors active", c"%"),
        sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_OCCUPANCY => {
            (c"smoccp", c"Occupancy of multiprocessors", c"%")
        }
        sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL => (c"dram", c"Memory bandwidth used", c"%"),
        // Links and the bus, whatever is behind their numbers; the others are shares of the time.
        20 | 21 => (c"pcie", c"PCI Express, sent or received", c"MiB/s"),
        60..=97 => (c"nvlink", c"NVLink, sent or received", c"MiB/s"),
        100..=119 => (c"c2c", c"A link to a processor, sent or received", c"MiB/s"),
        4..=9 | 11..=13 => (c"pipe", c"A pipe of the multiprocessors active", c"%"),
        30..=57 => (c"engine", c"A video engine active", c"%"),
        14..=19 | 22..=29 | 58 | 59 | 98 | 99 => (c"other", c"A share of the time", c"%"),
        _ => return None,
    })
}

/// What a metric is, if a share of `percent` of the time was spent at work.
const fn value(id: c_uint, percent: f64) -> f64 {
    match id {
        sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL
        | sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL => percent,
        _ => 0.0,
    }
}

fn answer(metric: &mut nvmlGpmMetric_t, percent: f64) {
    let Some((short, long, unit)) = words(metric.metricId) else {
        metric.nvmlReturn = NvmlError::NotSupported as nvmlReturn_t;
        return;
    };
    metric.nvmlReturn = 0;
    metric.value = value(metric.metricId, percent);
    metric.metricInfo.shortName = short.as_ptr().cast_mut();
    metric.metricInfo.longName = long.as_ptr().cast_mut();
    metric.metricInfo.unit = unit.as_ptr().cast_mut();
}

entries! {
    fn nvmlGpmQueryIfStreamingEnabled(call, device: Device, enabled: Out<c_uint>) {
        call.ask(device, must_be_supported)?;
        enabled.set(0)
    }

    fn nvmlGpmQueryDeviceSupport(call, device: Device, support: Out<sys::nvmlGpmSupport_t>) {
        if support.get()?.version != sys::NVML_GPM_SUPPORT_VERSION {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        let supported = call.ask(device, is_supported)?;
        support.update(|support| support.isSupportedDevice = supported.into())?
    }

    fn nvmlGpmSampleAlloc(call, sample: Out<*mut c_void>) {
        let number = call.samples.create();
        sample.set(call.give(Handle::Sample(number)))
    }

    fn nvmlGpmSampleFree(call, sample: Sample) {
        let number = sample.find(call.handles)?;
        call.samples.free(number);
        call.handles.take(Handle::Sample(number))
    }

    /// Of the whole GPU: with MIG on, its slices by their sizes.
    fn nvmlGpmSampleGet(call, device: Device, sample: Sample) {
        let number = sample.find(call.handles)?;
        let (gpu, work) = call.ask(device, |of| {
            must_be_supported(of)?;
            Ok((of.index, of.work(store::now())))
        })?;
        call.samples.put(number, (gpu, None), work)
    }

    fn nvmlGpmMigSampleGet(call, device: Device, instance: c_uint, sample: Sample) {
        let number = sample.find(call.handles)?;
        let (gpu, instance, work) = call.ask(device, |of| {
            must_be_supported(of)?;
            if !of.gpu.mig_is_on() {
                return Err(NvmlError::NotSupported);
            }
            let instance = u8::try_from(instance).map_err(|_| NvmlError::InvalidArgument)?;
            let work = of.work_of_instance(instance, store::now()).ok_or(NvmlError::InvalidArgument)?;
            Ok((of.index, instance, work))
        })?;
        call.samples.put(number, (gpu, Some(instance)), work)
    }

    /// Two samples of one thing, the earlier one first. Each metric has a code of its own.
    fn nvmlGpmMetricsGet(call, request: In<Request>) {
        let Request { version, count, before, after } = request.get()?;
        if version != sys::NVML_GPM_METRICS_GET_VERSION {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        if count > sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_MAX {
            return Err(NvmlError::InvalidArgument);
        }
        let taken = |sample: Sample| {
            call.samples.get(sample.find(call.handles)?).ok_or(NvmlError::InvalidArgument)
        };
        let ((source, before), (same, after)) = (taken(before)?, taken(after)?);
        if source != same {
            return Err(NvmlError::InvalidArgument);
        }
        let percent = after.percent_since(before).ok_or(NvmlError::InvalidArgument)?;
        request.behind::<nvmlGpmMetric_t>().update_each(count as usize, |metric| answer(metric, percent))?
    }
}
