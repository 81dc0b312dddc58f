//! Changes by other processes, made directly on the engine's machine: in process, or in the state that the
//! shared library reads.

use gpu::{Activity, Behaviour, Caller, Client, ClientId, Fault, Machine, NvmlError, Target, Times, Verb};
use jiff::Timestamp;
use nvml::Code;
use nvml::conformance::{Call, How, Opened, Others};
use nvml::port::Place;

/// The machine on which the stories play.
pub(crate) fn machine() -> Machine {
    let model = |name: &str| gpu::Model::find(name).unwrap();
    let t4 = gpu::Model::without_mig("Tesla T4", 15360, gpu::PciClass::ThreeD);
    Machine::new("sim-node", gpu::DriverBranch::default(), Timestamp::UNIX_EPOCH)
        .with_gpu(&model("A100-80GB"))
        .with_gpu(&std::sync::Arc::new(t4))
        .with_gpu(&model("H100-80GB"))
}

/// Others, by a way to reach the machine.
pub(crate) struct Behind<F>(pub(crate) F);

impl<F: Fn(&mut dyn FnMut(&mut Machine))> Behind<F> {
    fn with<T>(&self, mut work: impl FnMut(&mut Machine) -> T) -> T {
        let mut result = None;
        (self.0)(&mut |machine| result = Some(work(machine)));
        result.unwrap()
    }
}

impl<F: Fn(&mut dyn FnMut(&mut Machine))> Others for Behind<F> {
    fn misbehaves(&self, call: Call, how: How) {
        let verb = match call {
            Call::SetMode => Verb::SetMigMode,
            Call::CreateInstance => Verb::CreateGpuInstance,
            Call::CreateCompute => Verb::CreateComputeInstance,
            Call::DestroyInstance => Verb::DestroyGpuInstance,
            Call::DestroyCompute => Verb::DestroyComputeInstance,
            Call::Query => Verb::Query,
        };
        let behaviour = match how {
            How::Before(code) => Behaviour::Fail(error(code)),
            How::After(code) => Behaviour::FailAfterEffect(error(code)),
            How::Lies => Behaviour::Ignore,
        };
        let fault = Fault::Call { verb, gpu: Some(0), behaviour, times: Times::Count(1) };
        self.with(|machine| machine.begin(fault.clone()));
    }

    fn opens(&self, gpu: u32, place: Option<&Place>) -> Opened {
        let gpu = u16::try_from(gpu).unwrap();
        let pid = 4242;
        let number = self.with(|machine| {
            let target = place.map_or(Target::Gpu(gpu), |place| {
                Target::ComputeInstance(gpu, instance(machine, gpu, place), 0)
            });
            let name = "python3".to_owned();
            let client = Client { pid, name, target, activity: Activity::Computes, memory_mib: 512 };
            machine.open(client).unwrap().0
        });
        Opened { pid, number }
    }

    fn closes(&self, opened: Opened) {
        self.with(|machine| machine.close(ClientId(opened.number))).unwrap();
    }

    fn divides(&self, gpu: u32, place: &Place) {
        let gpu = u16::try_from(gpu).unwrap();
        self.with(|machine| {
            let id = instance(machine, gpu, place);
            let mut nvml = machine.nvml(Caller::Root);
            let device = nvml.device_handle_by_index(gpu).unwrap();
            let handle = nvml.gpu_instance_by_id(device, id).unwrap();
            let whole = nvml.compute_instance_by_id(handle, 0).unwrap();
            nvml.destroy_compute_instance(whole).unwrap();
            // 2c and 1c.
            nvml.create_compute_instance(handle, 1).unwrap();
            nvml.create_compute_instance(handle, 0).unwrap();
        });
    }

    fn loses(&self, gpu: u32) {
        let fault = Fault::FallsOffTheBus { gpu: u16::try_from(gpu).unwrap() };
        self.with(|machine| machine.begin(fault.clone()));
    }

    fn reports_xid(&self, gpu: u32, number: u32) {
        let fault = Fault::Xid { gpu: u16::try_from(gpu).unwrap(), code: number };
        self.with(|machine| machine.begin(fault.clone()));
    }
}

/// The id of the GPU instance at a place.
fn instance(machine: &Machine, gpu: u16, place: &Place) -> u8 {
    let gpu = machine.gpu(gpu).unwrap();
    let at = |gi: &&gpu::GpuInstance| {
        (gpu.profile_of(gi).name.to_string(), gpu.span_of(gi).0) == (place.profile.clone(), place.start)
    };
    gpu.instances.values().find(at).unwrap().id
}

/// The engine's name of a code that a test asks for.
fn error(code: Code) -> NvmlError {
    match code {
        Code::NoPermission => NvmlError::NoPermission,
        Code::Timeout => NvmlError::Timeout,
        Code::InUse => NvmlError::InUse,
        Code::Memory => NvmlError::Memory,
        Code::InsufficientResources => NvmlError::InsufficientResources,
        Code::NotReady => NvmlError::NotReady,
        Code::Unknown => NvmlError::Unknown,
        other => panic!("add {other:?} here"),
    }
}
