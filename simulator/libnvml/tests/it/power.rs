//! The power and energy of cards, and the work of slices, through C.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::mem::zeroed;
use std::ptr::null_mut;

use crate::support::Sim;
use crate::support::raw::*;
use gpu::{Activity, Caller, Client, DriverBranch, Machine, Mode, Model, Target};
use jiff::SignedDuration;
use nvml_wrapper_sys::bindings::*;

/// Nodes have been up for so long.
const UP: SignedDuration = SignedDuration::from_hours(1);

/// An H100, which is whole, and one with an idle 4g and a 3g at work; an A100; all since an hour.
fn node() -> Sim {
    let machine = Machine::new("node-a", DriverBranch(580), store::now() - UP);
    let models = ["H100-80GB", "H100-80GB", "A100-80GB"].map(|name| Model::find(name).unwrap());
    let mut machine = models.iter().fold(machine, Machine::with_gpu);
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(1).unwrap();
    nvml.set_mig_mode(device, Mode::Enabled).unwrap();
    let three = nvml.create_gpu_instance(device, 9).unwrap();
    nvml.create_compute_instance(three, 2).unwrap();
    let four = nvml.create_gpu_instance(device, 5).unwrap();
    nvml.create_compute_instance(four, 3).unwrap();
    let busy = nvml.gpu_instance_info(three).unwrap().id;
    let name = "python3".to_owned();
    let target = Target::ComputeInstance(1, busy, 0);
    machine.open(Client { pid: 7, name, target, activity: Activity::Computes, memory_mib: 1 }).unwrap();
    let sim = Sim::new(machine);
    sim.init().unwrap();
    sim
}

fn field(sim: &Sim, device: nvmlDevice_t, id: u32) -> Result<u64, Code> {
    let mut field: nvmlFieldValue_t = unsafe { zeroed() };
    field.fieldId = id;
    done(unsafe { sim.lib.nvmlDeviceGetFieldValues(device, 1, &mut field) })?;
    done(field.nvmlReturn).map(|()| unsafe { field.value.ullVal })
}

#[test]
fn energy_is_counted_since_the_driver_was_loaded() {
    let sim = node();
    let energy =
        |index| ask(|mj| unsafe { sim.lib.nvmlDeviceGetTotalEnergyConsumption(sim.gpu(index).unwrap(), mj) });
    // An hour at 70 W, and at 690 W; and what it takes to ask.
    let [rest, work] = [70_000 * 3600, 690_000 * 3600];
    let (idle, busy) = (energy(0).unwrap(), energy(1).unwrap());
    assert!((rest..rest + rest / 10).contains(&idle), "{idle}");
    assert!((work..work + work / 10).contains(&busy), "{busy}");
    let told = field(&sim, sim.gpu(1).unwrap(), field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION).unwrap();
    assert!(told >= busy);
    let mig = sim.mig(sim.gpu(1).unwrap(), 0).unwrap();
    let of_slice = ask(|mj| unsafe { sim.lib.nvmlDeviceGetTotalEnergyConsumption(mig, mj) });
    assert_eq!(of_slice, Err(NOT_SUPPORTED));
}

#[test]
fn a_power_limit_that_is_set_is_the_one_in_force() {
    let sim = node();
    let device = sim.gpu(0).unwrap();
    let set = |limit| done(unsafe { sim.lib.nvmlDeviceSetPowerManagementLimit(device, limit) });
    assert_eq!(set(100_000), Err(INVALID));
    assert_eq!(set(300_000), Ok(()));
    let limits = || {
        let limit = ask(|mw| unsafe { sim.lib.nvmlDeviceGetPowerManagementLimit(device, mw) });
        let enforced = ask(|mw| unsafe { sim.lib.nvmlDeviceGetEnforcedPowerLimit(device, mw) });
        let default = ask(|mw| unsafe { sim.lib.nvmlDeviceGetPowerManagementDefaultLimit(device, mw) });
        [limit, enforced, default].map(Result::unwrap)
    };
    assert_eq!(limits(), [300_000, 300_000, 700_000]);
    assert_eq!(field(&sim, device, field_id::NVML_FI_DEV_POWER_CURRENT_LIMIT), Ok(300_000));
    assert_eq!(field(&sim, device, field_id::NVML_FI_DEV_POWER_MAX_LIMIT), Ok(700_000));
    let mut value: nvmlPowerValue_v2_t = unsafe { zeroed() };
    value.version = version::<nvmlPowerValue_v2_t>(2);
    value.powerValueMw = 400_000;
    let mut set = |scope| {
        value.powerScope = scope;
        done(unsafe { sim.lib.nvmlDeviceSetPowerManagementLimit_v2(device, &mut value) })
    };
    assert_eq!((set(1), set(0)), (Err(NOT_SUPPORTED), Ok(())));
    assert_eq!(limits()[0], 400_000);
}

#[test]
fn only_root_sets_a_power_limit() {
    let sim = Sim::with(&["H100-80GB"]).for_a_user();
    sim.init().unwrap();
    let set = unsafe { sim.lib.nvmlDeviceSetPowerManagementLimit(sim.gpu(0).unwrap(), 300_000) };
    assert_eq!(done(set), Err(NO_PERMISSION));
}

#[test]
fn processes_share_a_gpu_that_is_not_cut() {
    let sim = node();
    let on = |gpu, pid| {
        let (name, target) = ("python3".to_owned(), Target::Gpu(gpu));
        let client = Client { pid, name, target, activity: Activity::Computes, memory_mib: 1 };
        sim.store.update(|state| state.machine.open(client)).unwrap().unwrap();
    };
    let loads = |index, room: u32, since| {
        let mut all = [unsafe { zeroed::<nvmlProcessUtilizationSample_t>() }; 4];
        let mut count = room;
        let to = if room == 0 { null_mut() } else { all.as_mut_ptr() };
        let device = sim.gpu(index).unwrap();
        let code = unsafe { sim.lib.nvmlDeviceGetProcessUtilization(device, to, &mut count, since) };
        let loads = all.iter().take(count as usize).map(|load| (load.pid, load.smUtil)).collect::<Vec<_>>();
        done(code).map(|()| loads).map_err(|code| (code, count))
    };
    // Nobody knows with MIG on; nobody works on the other.
    assert_eq!(loads(1, 4, 0), Err((NOT_SUPPORTED, 4)));
    assert_eq!(loads(0, 4, 0), Err((NOT_FOUND, 4)));
    on(0, 11);
    assert_eq!(loads(0, 4, 0), Ok(vec![(11, 100)]));
    on(0, 12);
    assert_eq!(loads(0, 4, 0), Ok(vec![(11, 50), (12, 50)]));
    assert_eq!((loads(0, 0, 0), loads(0, 1, 0)), (Err((TOO_SMALL, 2)), Err((TOO_SMALL, 2))));
    assert_eq!(loads(0, 4, u64::MAX), Err((NOT_FOUND, 4)));

    let mut all = [unsafe { zeroed::<nvmlProcessUtilizationInfo_v1_t>() }; 4];
    let mut info = nvmlProcessesUtilizationInfo_v1_t {
        version: version::<nvmlProcessesUtilizationInfo_v1_t>(1),
        processSamplesCount: 4,
        lastSeenTimeStamp: 0,
        procUtilArray: all.as_mut_ptr(),
    };
    let device = sim.gpu(0).unwrap();
    assert_eq!(unsafe { sim.lib.nvmlDeviceGetProcessesUtilizationInfo(device, &mut info) }, 0);
    assert_eq!(info.processSamplesCount, 2);
    assert_eq!([all[0], all[1]].map(|load| (load.pid, load.smUtil)), [(11, 50), (12, 50)]);
}

fn sample(sim: &Sim) -> nvmlGpmSample_t {
    ask(|sample| unsafe { sim.lib.nvmlGpmSampleAlloc(sample) }).unwrap()
}

/// The metrics between two samples, the second of which is taken until time has passed.
fn metrics(sim: &Sim, ids: &[u32], take: impl Fn(nvmlGpmSample_t) -> Code) -> Result<Vec<(Code, f64)>, Code> {
    let mut request: nvmlGpmMetricsGet_t = unsafe { zeroed() };
    request.version = NVML_GPM_METRICS_GET_VERSION;
    request.numMetrics = ids.len() as u32;
    (request.sample1, request.sample2) = (sample(sim), sample(sim));
    for (metric, id) in request.metrics.iter_mut().zip(ids) {
        metric.metricId = *id;
    }
    done(take(request.sample1))?;
    let first = store::now();
    while store::now().as_microsecond() == first.as_microsecond() {}
    done(take(request.sample2))?;
    done(unsafe { sim.lib.nvmlGpmMetricsGet(&mut request) })?;
    Ok(request.metrics[..ids.len()].iter().map(|metric| (metric.nvmlReturn, metric.value)).collect())
}

#[test]
fn a_slice_at_work_is_told_from_an_idle_one() {
    let sim = node();
    let (device, old) = (sim.gpu(1).unwrap(), sim.gpu(2).unwrap());
    let ids = [0, 1].map(|index| {
        let mig = sim.mig(device, index).unwrap();
        ask(|id| unsafe { sim.lib.nvmlDeviceGetGpuInstanceId(mig, id) }).unwrap()
    });
    let of_slice = |gi, wanted: &[u32]| {
        metrics(&sim, wanted, |sample| unsafe { sim.lib.nvmlGpmMigSampleGet(device, gi, sample) })
    };
    let of_gpu = |device| metrics(&sim, &[1], |sample| unsafe { sim.lib.nvmlGpmSampleGet(device, sample) });
    // Graphics, multiprocessors, tensor cores, a link that is not there; no metric at all.
    let wanted = [1, 2, 5, 100, 0];
    let no = (NOT_SUPPORTED, 0.0);
    let told = ids.map(|gi| of_slice(gi, &wanted).unwrap());
    // The slice of four has the lower id, and nobody works there.
    assert_eq!(told[0], [(0, 0.0), (0, 0.0), (0, 0.0), (0, 0.0), no]);
    assert_eq!(told[1], [(0, 100.0), (0, 100.0), (0, 0.0), (0, 0.0), no]);
    let whole = of_gpu(device).unwrap()[0].1;
    assert!((whole - 300.0 / 7.0).abs() < 1e-9, "{whole}");
    assert_eq!(of_gpu(sim.gpu(0).unwrap()).unwrap(), [(0, 0.0)]);
    assert_eq!(of_gpu(old), Err(NOT_SUPPORTED));
    assert_eq!(of_slice(14, &[1]), Err(INVALID));
    let on_whole =
        metrics(&sim, &[1], |sample| unsafe { sim.lib.nvmlGpmMigSampleGet(sim.gpu(0).unwrap(), 1, sample) });
    assert_eq!(on_whole, Err(NOT_SUPPORTED));
    let supported = |device| {
        ask(|support: &mut nvmlGpmSupport_t| {
            support.version = NVML_GPM_SUPPORT_VERSION;
            unsafe { sim.lib.nvmlGpmQueryDeviceSupport(device, support) }
        })
        .map(|support| support.isSupportedDevice)
    };
    assert_eq!((supported(device), supported(old)), (Ok(1), Ok(0)));
}

#[test]
fn samples_that_cannot_be_compared_are_refused() {
    let sim = node();
    let (one, other) = (sample(&sim), sample(&sim));
    let take =
        |gpu, sample| done(unsafe { sim.lib.nvmlGpmSampleGet(sim.gpu(gpu).unwrap(), sample) }).unwrap();
    let compare = |count, one, other| {
        let mut request: nvmlGpmMetricsGet_t = unsafe { zeroed() };
        request.version = NVML_GPM_METRICS_GET_VERSION;
        (request.numMetrics, request.sample1, request.sample2) = (count, one, other);
        done(unsafe { sim.lib.nvmlGpmMetricsGet(&mut request) })
    };
    assert_eq!(compare(1, one, other), Err(INVALID), "nothing is in them");
    take(0, one);
    take(1, other);
    assert_eq!(compare(1, one, other), Err(INVALID), "of two GPUs");
    assert_eq!(compare(1, one, one), Err(INVALID), "no time passed");
    assert_eq!(compare(1, null_mut(), other), Err(INVALID));
    assert_eq!(compare(u32::MAX, one, one), Err(INVALID));
    assert_eq!(done(unsafe { sim.lib.nvmlGpmSampleFree(one) }), Ok(()));
    assert_eq!(done(unsafe { sim.lib.nvmlGpmSampleFree(one) }), Err(INVALID));
}
