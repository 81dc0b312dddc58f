//! Power, energy, and the working time of a GPU's parts.

use gpu::{
    Activity, Behaviour, Caller, Client, ClientId, Device, DriverBranch, Fault, InstanceHandle, Load,
    Machine, Mode, Model, NvmlError, Subject, Target, Times, Verb, Work,
};
use jiff::{SignedDuration, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// An H100 (70 W at rest, 690 W at work), and a card that no data sheet of ours names.
fn machine() -> (Machine, Device) {
    let unknown = Model::without_mig("NVIDIA Unheard Of", 4096, gpu::PciClass::Vga);
    let mut machine = Machine::new("node-a", DriverBranch(580), at(0))
        .with_gpu(&Model::find("H100-80GB").unwrap())
        .with_gpu(&unknown.into());
    let device = machine.nvml(Caller::Root).device_handle_by_index(0).unwrap();
    (machine, device)
}

fn client(target: Target, activity: Activity) -> Client {
    Client { pid: 7, name: "python3".to_owned(), target, activity, memory_mib: 1 }
}

fn opens(machine: &mut Machine, seconds: i64, target: Target, activity: Activity) -> ClientId {
    machine.advance(at(seconds));
    machine.open(client(target, activity)).unwrap()
}

fn asks<T>(machine: &mut Machine, device: Device, answer: impl FnOnce(Subject<'_>) -> T) -> T {
    machine.nvml(Caller::User).ask(device, |of| Ok(answer(of))).unwrap()
}

fn energy(machine: &mut Machine, device: Device, seconds: i64) -> u64 {
    asks(machine, device, |of| of.energy_mj(at(seconds))).unwrap()
}

#[test]
fn energy_is_what_was_drawn_at_rest_and_at_work() {
    let (mut machine, device) = machine();
    assert_eq!(energy(&mut machine, device, 10), 700_000);
    // A monitor does not make it work.
    opens(&mut machine, 10, Target::Gpu(0), Activity::Watches);
    assert_eq!(energy(&mut machine, device, 20), 1_400_000);
    let worker = opens(&mut machine, 20, Target::Gpu(0), Activity::Computes);
    assert_eq!(energy(&mut machine, device, 30), 1_400_000 + 6_900_000);
    machine.advance(at(30));
    machine.close(worker);
    assert_eq!(energy(&mut machine, device, 40), 3 * 700_000 + 6_900_000);
    // Asking counts nothing twice, and a moment that is past takes nothing away.
    assert_eq!(energy(&mut machine, device, 40), 3 * 700_000 + 6_900_000);
    assert_eq!(energy(&mut machine, device, 5), 1_400_000 + 6_900_000);
}

#[test]
fn a_program_that_idles_keeps_the_clocks_up_and_computes_nothing() {
    let (mut machine, device) = machine();
    let notebook = opens(&mut machine, 10, Target::Gpu(0), Activity::Idles);
    assert_eq!(energy(&mut machine, device, 20), 700_000 + 1_190_000);
    let both =
        |of: Subject<'_>| (of.load(), of.idle_us(at(20)), of.rest_us(at(20)), of.work(at(20)).slice_us);
    assert_eq!(asks(&mut machine, device, both), (Load::Open, 20_000_000, 10_000_000, 0));
    machine.nvml(Caller::Root).set_mig_mode(device, Mode::Enabled).unwrap();
    let mode = machine.nvml(Caller::Root).mig_mode(device).unwrap();
    assert_eq!((mode.current, mode.pending), (Mode::Disabled, Mode::Enabled), "it is in the way of a reset");
    machine.advance(at(20));
    machine.close(notebook);
    assert_eq!(asks(&mut machine, device, |of| (of.load(), of.rest_us(at(30)))), (Load::Rest, 20_000_000));
}

#[test]
fn a_new_load_of_the_driver_counts_from_nothing_and_forgets_the_limit() {
    let (mut machine, device) = machine();
    machine.nvml(Caller::Root).set_power_limit(device, 300_000).unwrap();
    machine.advance(at(100));
    machine.reboot();
    let device = machine.nvml(Caller::Root).device_handle_by_index(0).unwrap();
    assert_eq!(energy(&mut machine, device, 100), 0);
    assert_eq!(asks(&mut machine, device, |of| of.gpu.power_limit_mw()), Some(700_000));
    assert_eq!(energy(&mut machine, device, 110), 700_000);
}

#[test]
fn a_limit_bounds_what_is_drawn_from_then_on() {
    let (mut machine, device) = machine();
    opens(&mut machine, 0, Target::Gpu(0), Activity::Computes);
    machine.advance(at(10));
    machine.nvml(Caller::Root).set_power_limit(device, 300_000).unwrap();
    assert_eq!(energy(&mut machine, device, 20), 6_900_000 + 3_000_000);
    assert_eq!(asks(&mut machine, device, |of| of.gpu.power_limit_mw()), Some(300_000));
}

#[test]
fn limits_that_are_refused() {
    let (mut machine, device) = machine();
    let other = machine.nvml(Caller::Root).device_handle_by_index(1).unwrap();
    let mut set = |caller, device, limit| machine.nvml(caller).set_power_limit(device, limit);
    assert_eq!(set(Caller::User, device, 300_000), Err(NvmlError::NoPermission));
    assert_eq!(set(Caller::Root, device, 199_999), Err(NvmlError::InvalidArgument));
    assert_eq!(set(Caller::Root, device, 700_001), Err(NvmlError::InvalidArgument));
    assert_eq!(set(Caller::Root, other, 100_000), Err(NvmlError::NotSupported));
    let behaviour = Behaviour::Fail(NvmlError::Unknown);
    machine.begin(Fault::Call { verb: Verb::SetPowerLimit, gpu: Some(0), behaviour, times: Times::Count(1) });
    assert_eq!(machine.nvml(Caller::Root).set_power_limit(device, 300_000), Err(NvmlError::Unknown));
    assert_eq!(asks(&mut machine, other, |of| of.energy_mj(at(1))), Err(NvmlError::NotSupported));
}

/// A 3g with two compute instances (1c and 2c), and a 4g with one.
fn cut(machine: &mut Machine, device: Device) -> [InstanceHandle; 2] {
    let mut nvml = machine.nvml(Caller::Root);
    nvml.set_mig_mode(device, Mode::Enabled).unwrap();
    let three = nvml.create_gpu_instance(device, 9).unwrap();
    nvml.create_compute_instance(three, 0).unwrap();
    nvml.create_compute_instance(three, 1).unwrap();
    let four = nvml.create_gpu_instance(device, 5).unwrap();
    nvml.create_compute_instance(four, 3).unwrap();
    [three, four]
}

#[test]
fn a_slice_has_worked_as_long_as_its_parts_by_their_sizes() {
    let (mut machine, device) = machine();
    let slices = cut(&mut machine, device);
    let [three, four] = slices.map(|gi| machine.nvml(Caller::Root).gpu_instance_info(gi).unwrap().id);
    let of_slice = |machine: &mut Machine, gi, seconds| {
        asks(machine, device, |of| of.work_of_instance(gi, at(seconds))).unwrap()
    };
    let of_gpu = |machine: &mut Machine, seconds| asks(machine, device, |of| of.work(at(seconds)));
    // The second compute instance of the 3g is the 2c.
    opens(&mut machine, 10, Target::ComputeInstance(0, three, 1), Activity::Computes);
    let before = (of_slice(&mut machine, three, 10), of_gpu(&mut machine, 10));
    let after = (of_slice(&mut machine, three, 20), of_gpu(&mut machine, 20));
    assert_eq!(after.0, Work { at: at(20), slice_us: 20_000_000, slices: 3 });
    assert_eq!(after.0.percent_since(before.0), Some(200.0 / 3.0));
    assert_eq!(after.1.percent_since(before.1), Some(200.0 / 7.0));
    assert_eq!(of_slice(&mut machine, four, 20).slice_us, 0);
    // It is written down, and read again.
    machine.advance(at(20));
    opens(&mut machine, 20, Target::ComputeInstance(0, four, 0), Activity::Computes);
    let mut read: Machine = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
    assert_eq!(read, machine);
    assert_eq!(of_slice(&mut read, three, 20), after.0);
    assert_eq!(of_slice(&mut read, four, 21).slice_us, 4_000_000);
    assert_eq!(asks(&mut read, device, |of| of.work_of_instance(14, at(20))), None);
}

#[test]
fn a_slice_that_is_cut_anew_at_the_same_place_has_not_worked() {
    let (mut machine, device) = machine();
    let [three, _] = cut(&mut machine, device);
    let id = machine.nvml(Caller::Root).gpu_instance_info(three).unwrap().id;
    let worker = opens(&mut machine, 0, Target::ComputeInstance(0, id, 0), Activity::Computes);
    machine.advance(at(10));
    machine.close(worker);
    let work =
        |machine: &mut Machine| asks(machine, device, |of| of.work_of_instance(id, at(20))).unwrap().slice_us;
    assert_eq!(work(&mut machine), 10_000_000);
    let mut nvml = machine.nvml(Caller::Root);
    // The slice of four is the first.
    let first = nvml.mig_device_handle_by_index(device, 1).unwrap();
    let Device::Mig(first) = first else { panic!("a MIG device") };
    nvml.destroy_compute_instance(first).unwrap();
    nvml.create_compute_instance(three, 0).unwrap();
    assert_eq!(work(&mut machine), 0);
}

#[test]
fn two_samples_that_cannot_be_compared_say_nothing() {
    let work = |seconds: i64, slice_us, slices| Work { at: at(seconds), slice_us, slices };
    assert_eq!(work(1, 0, 1).percent_since(work(1, 0, 1)), None);
    assert_eq!(work(1, 0, 1).percent_since(work(2, 0, 1)), None);
    assert_eq!(work(2, 0, 3).percent_since(work(1, 0, 1)), None);
    assert_eq!(work(2, 0, 1).percent_since(work(1, 5, 1)), None);
    assert_eq!(work(2, 500_000, 1).percent_since(work(1, 0, 1)), Some(50.0));
}
