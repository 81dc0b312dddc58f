//! Which call fails with which code, and the order of the checks.

use crate::support::{cgi, create, cut_ready, dci, device, dgi, instances, mig, model, open, start};
use gpu::{
    Activity, Behaviour, Caller, Device, DriverBranch, Fault, Happened, Machine, Mode, NvmlError, Placement,
    Reply, Scheduled, Share, Stall, Target, Times, Verb,
};
use jiff::SignedDuration;

fn h100() -> Machine {
    cut_ready("H100-80GB")
}

/// Runs a call as each kind of caller.
#[track_caller]
fn as_each<T: std::fmt::Debug + PartialEq>(
    machine: &Machine,
    call: impl Fn(&mut gpu::Nvml<'_>) -> Reply<T>,
    expect: [Option<NvmlError>; 3],
) {
    for (caller, expect) in [Caller::Uninitialized, Caller::User, Caller::Root].into_iter().zip(expect) {
        let mut machine = machine.clone();
        assert_eq!(call(&mut machine.nvml(caller)).err(), expect, "{caller:?}");
    }
}

#[test]
fn initialised_then_arguments_then_permission_then_support_then_state() {
    use NvmlError::{InsufficientResources, InvalidArgument, NoPermission, NotSupported, Uninitialized};
    let off = Machine::new("h", DriverBranch::default(), start()).with_gpu(&model("A100-40GB"));
    let gpu = device(&mut off.clone(), 0);
    let stale = Device::Gpu { index: 0, epoch: 99 };
    as_each(
        &off,
        |n| n.create_gpu_instance(stale, 19),
        [Some(Uninitialized), Some(InvalidArgument), Some(InvalidArgument)],
    );
    as_each(
        &off,
        |n| n.create_gpu_instance(gpu, 77),
        [Some(Uninitialized), Some(InvalidArgument), Some(InvalidArgument)],
    );
    as_each(
        &off,
        |n| n.create_gpu_instance(gpu, 19),
        [Some(Uninitialized), Some(NoPermission), Some(NotSupported)],
    );
    let mut full = cut_ready("A100-40GB");
    cgi(&mut full, 0, &[0]);
    let gpu = device(&mut full, 0);
    as_each(
        &full,
        |n| n.create_gpu_instance(gpu, 19),
        [Some(Uninitialized), Some(NoPermission), Some(InsufficientResources)],
    );
    as_each(&full, |n| n.set_mig_mode(gpu, Mode::Enabled), [Some(Uninitialized), Some(NoPermission), None]);
    as_each(&full, |n| n.mig_mode(gpu), [Some(Uninitialized), None, None]);
}

#[test]
fn profiles_are_asked_for_by_enum_and_end_with_invalid_argument() {
    let mut machine = h100();
    let gpu = device(&mut machine, 0);
    let mut nvml = machine.nvml(Caller::User);
    let mut found = Vec::new();
    for profile in 0.. {
        match nvml.gpu_instance_profile_info(gpu, profile) {
            Ok(facts) => found.push((profile, facts.id)),
            Err(NvmlError::NotSupported) => {}
            Err(error) => {
                assert_eq!((profile, error), (0x12, NvmlError::InvalidArgument));
                break;
            }
        }
    }
    assert_eq!(found, [(0, 19), (1, 14), (2, 9), (3, 5), (4, 0), (7, 20), (9, 15)]);
}

#[test]
fn drivers_differ() {
    let with = |branch| Machine::new("h", DriverBranch(branch), start()).with_gpu(&model("A100-40GB"));
    // 535 says nothing about profiles while MIG is off.
    let answer = |branch| {
        let mut machine = with(branch);
        let gpu = device(&mut machine, 0);
        machine.nvml(Caller::User).gpu_instance_profile_info(gpu, 0).err()
    };
    assert_eq!((answer(535), answer(580)), (Some(NvmlError::NotSupported), None));

    let profiles = |branch| with(branch).gpus()[0].mig().unwrap().profiles.len();
    assert_eq!((profiles(450), profiles(470), profiles(525)), (5, 6, 7));

    // A 4g beside a 3g came with 510.
    for (branch, expect) in [(470, Some(NvmlError::InsufficientResources)), (510, None)] {
        let mut machine = with(branch);
        mig(&mut machine, 0, Mode::Enabled).unwrap();
        assert_eq!(cgi(&mut machine, 0, &[9, 5]).1, expect, "{branch}");
    }
    let uuid = |branch| {
        let mut machine = with(branch);
        mig(&mut machine, 0, Mode::Enabled).unwrap();
        cgi(&mut machine, 0, &[0]);
        crate::support::mig_devices(&mut machine, 0)[0].2.clone()
    };
    assert!(uuid(450).starts_with("MIG-GPU-") && uuid(450).ends_with("/0/0"), "{}", uuid(450));
    assert_eq!(uuid(470).len(), 40);
}

#[test]
fn a_placement_must_be_one_of_the_profile_and_must_be_free() {
    let mut machine = h100();
    let gpu = device(&mut machine, 0);
    let mut nvml = machine.nvml(Caller::Root);
    let mut at = |profile, start, size| {
        nvml.create_gpu_instance_with_placement(gpu, profile, Placement { start, size }).err()
    };
    assert_eq!(at(19, 7, 1), Some(NvmlError::InvalidArgument), "seven compute slices, eight memory units");
    assert_eq!(at(14, 6, 2), Some(NvmlError::InvalidArgument));
    assert_eq!(at(9, 0, 3), Some(NvmlError::InvalidArgument), "a 3g spans four units");
    assert_eq!(at(15, 6, 2), None, "but the double-memory slice may use 6:2");
    assert_eq!(at(19, 6, 1), Some(NvmlError::InsufficientResources));
    assert_eq!(at(9, 0, 4), None);
}

#[test]
fn a_second_media_slice_does_not_fit() {
    let mut machine = h100();
    assert_eq!(cgi(&mut machine, 0, &[20, 20]).1, Some(NvmlError::InsufficientResources));
}

#[test]
fn what_a_process_has_open_stays() {
    let mut machine = h100();
    let gi = create(&mut machine, 0, 19).unwrap();
    let id = machine.nvml(Caller::Root).gpu_instance_info(gi).unwrap().id;
    let cuda = open(&mut machine, "python", Target::ComputeInstance(0, id, 0), Activity::Computes);
    let also = open(&mut machine, "python", Target::ComputeInstance(0, id, 0), Activity::Computes);
    assert_eq!(dci(&mut machine, 0), Err(NvmlError::InUse));
    machine.close(cuda).unwrap();
    assert_eq!(dci(&mut machine, 0), Err(NvmlError::InUse), "each opening counts");
    machine.close(also).unwrap();
    // A monitor that leaked the GPU instance holds it, without any process on it.
    let dcgm = open(&mut machine, "nv-hostengine", Target::GpuInstance(0, id), Activity::Watches);
    assert_eq!(dci(&mut machine, 0), Ok(vec![(id, 0)]));
    assert_eq!(dgi(&mut machine, 0), Err(NvmlError::InUse));
    machine.close(dcgm).unwrap();
    assert_eq!(dgi(&mut machine, 0), Ok(vec![id]));
    assert!(machine.breaches().is_empty());
}

#[test]
fn who_computes_on_the_whole_gpu_keeps_instances_from_being_created() {
    let mut machine = h100();
    let watch = open(&mut machine, "nv-hostengine", Target::Gpu(0), Activity::Watches);
    assert_eq!(cgi(&mut machine, 0, &[19]).1, None, "a watcher is not in the way");
    machine.close(watch).unwrap();
    open(&mut machine, "python", Target::Gpu(0), Activity::Computes);
    assert_eq!(cgi(&mut machine, 0, &[20]).1, Some(NvmlError::InUse));
}

#[test]
fn allocation_is_not_use_and_its_destruction_is_counted_once() {
    let mut machine = h100();
    let gi = create(&mut machine, 0, 9).unwrap();
    let id = machine.nvml(Caller::Root).gpu_instance_info(gi).unwrap().id;
    machine.allocate(Share::Slice(0, id), "team/notebook").unwrap();
    assert_eq!(machine.allocate(Share::Slice(0, id), "team/other"), Err(NvmlError::InUse));
    dci(&mut machine, 0).unwrap();
    dgi(&mut machine, 0).unwrap();
    let [breach] = machine.breaches() else { panic!("one: {:?}", machine.breaches()) };
    assert_eq!((breach.owner.as_str(), breach.slice.unwrap().1), ("team/notebook", 4));
    assert_eq!(
        breach.to_string(),
        "2026-11-20T09:00:00Z: slice 3g.40gb@4 of GPU 0 was allocated to team/notebook and was taken away (DestroyComputeInstance)"
    );

    // A whole GPU that is allocated and becomes a MIG GPU is a breach as well.
    mig(&mut machine, 0, Mode::Disabled).unwrap();
    machine.allocate(Share::Gpu(0), "team/trainer").unwrap();
    mig(&mut machine, 0, Mode::Enabled).unwrap();
    assert_eq!(machine.breaches().len(), 2);
    // A slice that was given back is nobody's.
    machine.release(Share::Gpu(0));
    mig(&mut machine, 0, Mode::Disabled).unwrap();
    assert_eq!(machine.breaches().len(), 2);
}

#[test]
fn a_handle_is_stale_once_its_instance_is_gone_even_when_the_id_is_taken_again() {
    let mut machine = h100();
    let before = create(&mut machine, 0, 0).unwrap();
    dci(&mut machine, 0).unwrap();
    dgi(&mut machine, 0).unwrap();
    let after = create(&mut machine, 0, 0).unwrap();
    let mut nvml = machine.nvml(Caller::Root);
    assert_eq!(nvml.gpu_instance_info(before), Err(NvmlError::InvalidArgument));
    assert_eq!(nvml.destroy_gpu_instance(before), Err(NvmlError::InvalidArgument));
    assert_eq!(nvml.gpu_instance_info(after).unwrap().id, 0);
    let gpu = nvml.device_handle_by_index(0).unwrap();
    assert_eq!(nvml.gpu_instance_by_id(gpu, 5), Err(NvmlError::NotFound));
    assert_eq!(nvml.mig_device_handle_by_index(gpu, 7), Err(NvmlError::InvalidArgument));
    machine.reboot();
    assert_eq!(machine.nvml(Caller::Root).mig_mode(gpu), Err(NvmlError::InvalidArgument));
}

fn fault(machine: &mut Machine, verb: Verb, behaviour: Behaviour, times: Times) {
    machine.begin(Fault::Call { verb, gpu: Some(0), behaviour, times });
}

#[test]
fn calls_fail_before_and_after_their_effect_and_lie() {
    let busy = NvmlError::InUse;
    for (behaviour, answer_is_error, instances_after) in [
        (Behaviour::Fail(busy), true, 0),
        (Behaviour::FailAfterEffect(busy), true, 1),
        (Behaviour::Ignore, false, 0),
    ] {
        let mut machine = h100();
        let gpu = device(&mut machine, 0);
        fault(&mut machine, Verb::CreateGpuInstance, behaviour, Times::Count(1));
        let answer = machine.nvml(Caller::Root).create_gpu_instance(gpu, 19);
        assert_eq!(answer.is_err(), answer_is_error, "{behaviour:?}");
        assert_eq!(instances(&mut machine, 0).len(), instances_after, "{behaviour:?}");
        if let Ok(lie) = answer {
            let info = machine.nvml(Caller::Root).gpu_instance_info(lie);
            assert_eq!(info, Err(NvmlError::InvalidArgument), "what was pretended is not there");
        }
        assert!(machine.nvml(Caller::Root).create_gpu_instance(gpu, 19).is_ok(), "once only");
    }
}

#[test]
fn faults_strike_so_often_or_until_cleared() {
    let mut machine = h100();
    let gpu = device(&mut machine, 0);
    let unknown = Behaviour::Fail(NvmlError::Unknown);
    fault(&mut machine, Verb::SetPersistenceMode, unknown, Times::Count(2));
    let set =
        |machine: &mut Machine| machine.nvml(Caller::Root).set_persistence_mode(gpu, Mode::Enabled).is_ok();
    assert_eq!([set(&mut machine), set(&mut machine), set(&mut machine)], [false, false, true]);
    fault(&mut machine, Verb::SetPersistenceMode, unknown, Times::UntilCleared);
    assert!((0..20).all(|_| !set(&mut machine)));
    machine.begin(Fault::Clear);
    assert!(set(&mut machine));
}

#[test]
fn slow_and_hanging_calls_say_how_long_they_kept_their_caller() {
    let mut machine = h100();
    let minute = SignedDuration::from_mins(1);
    fault(&mut machine, Verb::CreateGpuInstance, Behaviour::Slow(minute), Times::Count(2));
    cgi(&mut machine, 0, &[19, 19]);
    assert_eq!(machine.take_stall(), Stall::For(minute * 2));
    assert_eq!(machine.take_stall(), Stall::None);
    fault(&mut machine, Verb::CreateGpuInstance, Behaviour::Hang, Times::Count(1));
    assert_eq!(cgi(&mut machine, 0, &[19]).1, Some(NvmlError::Timeout));
    assert_eq!(machine.take_stall(), Stall::Forever);
    assert_eq!(instances(&mut machine, 0).len(), 2);
}

#[test]
fn a_reset_that_fails_leaves_the_mode_pending() {
    let mut machine = Machine::new("h", DriverBranch::default(), start()).with_gpu(&model("A30"));
    fault(&mut machine, Verb::Reset, Behaviour::Fail(NvmlError::Unknown), Times::Count(1));
    assert_eq!(mig(&mut machine, 0, Mode::Enabled), Ok(gpu::Activation::ResetRequired));
    assert!(!machine.gpus()[0].mig_is_on());
    let gpu = device(&mut machine, 0);
    machine.nvml(Caller::Root).reset_gpu(gpu).unwrap();
    assert!(machine.gpus()[0].mig_is_on());
}

#[test]
fn a_lost_gpu_answers_nothing_until_the_next_boot_and_events_keep_their_times() {
    let mut machine = h100();
    let at = |seconds| start() + SignedDuration::from_secs(seconds);
    machine.schedule(Scheduled { at: at(20), fault: Fault::FallsOffTheBus { gpu: 0 } });
    machine.schedule(Scheduled { at: at(10), fault: Fault::Xid { gpu: 0, code: 79 } });
    let gpu = device(&mut machine, 0);
    assert_eq!(machine.next_event(), Some(at(10)));
    machine.advance(at(15));
    assert!(machine.nvml(Caller::User).mig_mode(gpu).is_ok());
    machine.advance(at(30));
    assert_eq!(machine.nvml(Caller::User).mig_mode(gpu), Err(NvmlError::GpuIsLost));
    let told: Vec<_> = machine.events().iter().rev().take(2).map(|e| (e.at, e.what.clone())).collect();
    assert_eq!(told, [(at(20), Happened::FellOffTheBus), (at(10), Happened::Xid { code: 79 })]);
    machine.reboot();
    assert!(!machine.gpus()[0].lost);
    assert_eq!(machine.uptime(), SignedDuration::ZERO);
}
