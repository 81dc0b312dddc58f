//! nvidia-ml-py, NVIDIA's binding for Python, and what is written over it: nvitop, gpustat, Glances, Zeus,
//! CodeCarbon, dask-cuda; cuda-core, with NVIDIA's compiled bindings; py3nvml, an older binding; nvsmi and GPUtil, which start nvidia-smi. All of them
//! are unmodified. Of Zeus, CodeCarbon, Glances and dask-cuda only the modules that ask for GPUs are loaded.

use clients::{Node, cut, find, json_lines};
use gpu::{Activity, Client, DriverBranch, Machine, Model, Target};
use serde_json::{Value, json};

/// A node, and the Python that has the packages.
fn node(machine: impl FnOnce(Machine) -> Machine) -> Option<(Node, String)> {
    let found = find(&["python"])?;
    let machine = machine(Machine::new("n1", DriverBranch(580), store::now()));
    let python = found.programs[0].to_str().unwrap().to_owned();
    Some((Node::new(machine, found.library).unwrap(), python))
}

fn a_whole_one_and_a_cut_one(machine: Machine) -> Machine {
    let model = Model::find("A100-80GB").unwrap();
    let mut machine = machine.with_gpu(&model).with_gpu(&model);
    cut(&mut machine, 1, &["3g.40gb", "2g.20gb"]);
    machine
}

#[test]
fn nvidia_ml_py_sees_the_machine_and_cuts_it() {
    let Some((node, python)) = node(a_whole_one_and_a_cut_one) else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session.py");
    let told = json_lines(&node.run(&python, &[script], "").unwrap()).unwrap().remove(0);
    assert_eq!((&told["driver"], &told["cuda"]), (&json!("580.65.06"), &json!(13_000)));
    assert_eq!(told["nobody"], json!({"error": "NVMLError_NotFound", "text": "Not Found"}));
    let [whole, cut] = &told["gpus"].as_array().unwrap()[..] else { panic!("{told}") };
    let not_supported = json!({"error": "NVMLError_NotSupported", "text": "Not Supported"});
    for (key, value) in [
        ("name", json!("NVIDIA A100-SXM4-80GB")),
        ("busId", json!("00000000:01:00.0")),
        ("memoryMiB", json!(81920)),
        ("mode", json!([0, 0])),
        ("migDevices", json!([])),
        ("processes", json!([])),
        ("utilization", json!(0)),
        ("cut", not_supported.clone()),
    ] {
        assert_eq!(whole[key], value, "{key}");
    }
    assert_eq!(whole["temperature"], whole["temperatureV"]);
    // Name, id, MiB, as `mig -lgip` of an A100 80GB prints them.
    assert_eq!(
        whole["profiles"],
        json!([
            ["MIG 1g.10gb", 19, 9728],
            ["MIG 2g.20gb", 14, 19968],
            ["MIG 3g.40gb", 9, 40192],
            ["MIG 4g.40gb", 5, 40192],
            ["MIG 7g.80gb", 0, 80896],
            ["MIG 1g.10gb+me", 20, 9728],
            ["MIG 1g.20gb", 15, 19968],
        ])
    );
    assert_eq!(cut["mode"], json!([1, 1]));
    assert_eq!(cut["utilization"], not_supported);
    let names: Vec<_> = cut["migDevices"].as_array().unwrap().iter().map(|mig| &mig["name"]).collect();
    assert_eq!(names, ["NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA A100-SXM4-80GB MIG 2g.20gb"]);
    for mig in cut["migDevices"].as_array().unwrap() {
        assert_eq!((&mig["parent"], &mig["utilization"]), (&cut["uuid"], &not_supported));
        // An A100 measures no slices; an H100 does.
        assert_eq!(mig["load"], not_supported);
        assert_eq!(mig["attributes"]["memorySizeMB"], mig["memoryMiB"]);
    }
    let in_use = json!({"error": "NVMLError_InUse", "text": "In use by another client"});
    assert_eq!(
        cut["cut"],
        json!({"id": 10, "placement": [3, 1], "too early": in_use, "devices": 3, "devices afterwards": 2})
    );
}

#[test]
fn nvidia_ml_py_tells_a_busy_slice_from_an_idle_one() {
    let Some((node, python)) = node(|machine| {
        let model = Model::find("H100-80GB").unwrap();
        let mut machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
        cut(&mut machine, 3, &["3g.40gb", "2g.20gb"]);
        let (gi, ci) = machine.gpu(3).unwrap().mig_devices().next().map(|(gi, ci)| (gi.id, ci.id)).unwrap();
        let (name, target) = ("/usr/bin/python3".to_owned(), Target::ComputeInstance(3, gi, ci));
        let client = Client { pid: 4242, name, target, activity: Activity::Computes, memory_mib: 1000 };
        machine.open(client).unwrap();
        machine
    }) else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session.py");
    let told = json_lines(&node.run(&python, &[script], "").unwrap()).unwrap().remove(0);
    let slices = told["gpus"][3]["migDevices"].as_array().unwrap();
    let loads: Vec<_> =
        slices.iter().map(|mig| (&mig["attributes"]["gpuInstanceSliceCount"], &mig["load"])).collect();
    assert_eq!(loads, [(&json!(3), &json!(100.0)), (&json!(2), &json!(0.0))]);
}

#[test]
fn nvitop_shows_the_gpus_and_the_slices() {
    let Some((node, python)) = node(a_whole_one_and_a_cut_one) else { return };
    let said = node.run(&python, &["-m", "nvitop", "--once", "--no-unicode"], "").unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    let shows = |text: &str| assert!(said.out.contains(text), "no {text:?} in\n{}", said.out);
    shows("Driver Version: 580.65.06");
    shows("CUDA Driver Version: 13.0");
    for text in ["A100-SXM4-80GB", "00000000:02:00.0", "0B / 80.00GiB", "Disabled", "Enabled"] {
        shows(text);
    }
    shows("| 1:0      3g.40gb @ GI/CI: 2/0 |        0B / 39.25GiB |");
    shows("| 1:1      2g.20gb @ GI/CI: 3/0 |        0B / 19968MiB |");
}

/// What a program of a few lines prints.
fn evaluated(node: &Node, python: &str, program: &str) -> Value {
    json_lines(&node.run(python, &["-c", program], "").unwrap()).unwrap().remove(0)
}

#[test]
fn nvitops_library_finds_slices_by_index_and_uuid() {
    let Some((node, python)) = node(a_whole_one_and_a_cut_one) else { return };
    let program = "
import json
from nvitop import Device, MigDevice
found = [[each.name(), each.memory_total() >> 20, each.is_mig_device()] for each in Device.all()]
migs = [[each.mig_index, each.uuid(), each.gpu_instance_id(), each.compute_instance_id()] for each in MigDevice.all()]
print(json.dumps([found, migs, [Device.count(), len(Device.from_indices([(1, 0), (1, 1)]))]]))";
    let told = evaluated(&node, &python, program);
    assert_eq!(
        told[0],
        json!([["NVIDIA A100-SXM4-80GB", 81920, false], ["NVIDIA A100-SXM4-80GB", 81920, false]])
    );
    let ids: Vec<_> = told[1].as_array().unwrap().iter().map(|mig| json!([mig[0], mig[2], mig[3]])).collect();
    assert_eq!(ids, [json!([0, 2, 0]), json!([1, 3, 0])]);
    assert_eq!(told[2], json!([2, 2]));
}

/// Eight GPUs: something computes on the first, and the last is cut.
fn a_busy_machine(machine: Machine) -> Machine {
    let model = Model::find("A100-80GB").unwrap();
    let mut machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
    cut(&mut machine, 7, &["3g.40gb"]);
    let name = "/usr/bin/python3".to_owned();
    let client =
        Client { pid: 4242, name, target: Target::Gpu(0), activity: Activity::Computes, memory_mib: 40_000 };
    machine.open(client).unwrap();
    machine
}

#[test]
fn nvsmi_finds_the_gpus_that_are_free_and_who_has_the_others() {
    let Some((node, python)) = node(a_busy_machine) else { return };
    let program = "
import json, nvsmi
gpus = [[gpu.id, gpu.uuid, gpu.mem_total, gpu.mem_used, gpu.driver, gpu.name] for gpu in nvsmi.get_gpus()]
free = [gpu.id for gpu in nvsmi.get_available_gpus()]
processes = [[each.pid, each.process_name, each.gpu_id, each.used_memory] for each in nvsmi.get_gpu_processes()]
print(json.dumps([gpus, free, processes]))";
    let told = evaluated(&node, &python, program);
    let gpus = told[0].as_array().unwrap();
    assert_eq!(gpus.len(), 8);
    for (index, gpu) in gpus.iter().enumerate() {
        let used = if index == 0 { 40_000.0 } else { 0.0 };
        assert_eq!((&gpu[0], &gpu[2], &gpu[3]), (&json!(index.to_string()), &json!(81_920.0), &json!(used)));
        assert_eq!((&gpu[4], &gpu[5]), (&json!("580.65.06"), &json!("NVIDIA A100-SXM4-80GB")));
        assert!(gpu[1].as_str().unwrap().starts_with("GPU-"));
    }
    // How busy a GPU with MIG is nobody knows, so it is not free.
    assert_eq!(told[1], json!(["1", "2", "3", "4", "5", "6"]));
    assert_eq!(told[2], json!([[4242, "/usr/bin/python3", "0", 40_000.0]]));
    // The program, as somebody types it.
    let said =
        node.run(&python, &["-m", "nvsmi", "ls", "--mem-free-min", "50000", "--limit", "3"], "").unwrap();
    assert_eq!((said.code, said.out.lines().count()), (0, 3), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("id: 1 | UUID: GPU-"), "{}", said.out);
}

#[test]
fn py3nvml_finds_the_gpus_that_are_free() {
    let Some((node, python)) = node(a_busy_machine) else { return };
    let program = "
import json, py3nvml
from py3nvml import py3nvml as nvml
free = py3nvml.get_free_gpus()
nvml.nvmlInit()
handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
def place(handle):
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    return [pci.busId if isinstance(pci.busId, str) else pci.busId.decode(), hex(pci.pciDeviceId)]
print(json.dumps([free, [nvml.nvmlDeviceGetName(each) for each in handles], nvml.nvmlSystemGetDriverVersion(),
    [place(each) for each in handles]]))";
    let told = evaluated(&node, &python, program);
    let free: Vec<bool> = (0..8).map(|index| index != 0).collect();
    // It asks an older version of the function, whose struct is shorter than today's.
    let places: Vec<_> = (1..=8).map(|bus| json!([format!("0000:{bus:02X}:00.0"), "0x20b210de"])).collect();
    assert_eq!(told, json!([free, vec!["NVIDIA A100-SXM4-80GB"; 8], "580.65.06", places]));
}

const RTX: &str = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
const SCREEN: &str = "NVIDIA DGX Display";

/// One that somebody computes on, one that is cut, two that have no MIG, one of Blackwell, and one that drives a
/// screen: nobody says what that draws, or how fast it runs.
fn a_mixed_machine(machine: Machine) -> Machine {
    let model = Model::find("A100-80GB").unwrap();
    let card = |name: &str| match mig::sharing::find(name) {
        Some(mig::sharing::Known::Card(card)) => Model::of_card(card).into(),
        _ => panic!("the catalogue has a {name}"),
    };
    let machine = machine.with_gpu(&model).with_gpu(&model);
    let blackwell = Model::find(RTX).unwrap();
    let mut machine = machine
        .with_gpu(&card("T4"))
        .with_gpu(&card("L40S"))
        .with_gpu(&blackwell)
        .with_gpu(&Model::display().into());
    cut(&mut machine, 1, &["3g.40gb", "2g.20gb"]);
    let (pid, name) = (std::process::id(), "/usr/bin/python3".to_owned());
    let client =
        Client { pid, name, target: Target::Gpu(0), activity: Activity::Computes, memory_mib: 40_000 };
    machine.open(client).unwrap();
    machine
}

#[test]
fn gpustat_shows_every_card_and_who_computes() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let said = node.run(&python, &["-m", "gpustat", "--json"], "").unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["driver_version"], "580.65.06");
    let gpus: Vec<_> = told["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| {
            [
                &gpu["name"],
                &gpu["memory.used"],
                &gpu["memory.total"],
                &gpu["utilization.gpu"],
                &gpu["temperature.gpu"],
            ]
        })
        .collect();
    let a100 = json!("NVIDIA A100-SXM4-80GB");
    assert_eq!(
        json!(gpus),
        json!([
            [a100, 40_000, 81_920, 100, 55],
            // How busy a GPU with MIG is nobody knows.
            [a100, 0, 81_920, null, 31],
            ["Tesla T4", 0, 15_360, 0, 31],
            ["NVIDIA L40S", 0, 46_068, 0, 31],
            [RTX, 0, 97_887, 0, 31],
            [SCREEN, 0, 4096, 0, 31],
        ])
    );
    let drawn: Vec<_> = told["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["power.draw"]).collect();
    // What the card of a screen draws nobody says, and gpustat has a gap there.
    assert_eq!(json!(drawn), json!([320, 66, 11, 58, 100, null]));
    let process = &told["gpus"][0]["processes"][0];
    assert_eq!((&process["pid"], &process["gpu_memory_usage"]), (&json!(std::process::id()), &json!(40_000)));
}

#[test]
fn gputil_finds_the_card_that_is_free() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let program = "
import json, GPUtil
gpus = [[gpu.id, gpu.name, gpu.memoryTotal, gpu.memoryUsed, None if gpu.load != gpu.load else gpu.load] for gpu in GPUtil.getGPUs()]
print(json.dumps([gpus, GPUtil.getAvailable(limit=9)]))";
    let told = evaluated(&node, &python, program);
    let a100 = json!("NVIDIA A100-SXM4-80GB");
    assert_eq!(
        told[0],
        json!([
            [0, a100, 81_920.0, 40_000.0, 1.0],
            [1, a100, 81_920.0, 0.0, null],
            [2, "Tesla T4", 15_360.0, 0.0, 0.0],
            [3, "NVIDIA L40S", 46_068.0, 0.0, 0.0],
            [4, RTX, 97_887.0, 0.0, 0.0],
            [5, SCREEN, 4096.0, 0.0, 0.0],
        ])
    );
    assert_eq!(told[1], json!([2, 3, 4, 5]));
}

/// What stands in the place of packages of which a program's code for GPUs uses nothing.
const ABSENT: &str = "
import importlib.util, json, sys, types
class Absent(types.ModuleType):
    __path__ = []
    def __getattr__(self, name): return type(name, (), {})
def absent(*names):
    for name in names: sys.modules[name] = Absent(name)
def alone(name):
    module = types.ModuleType(name)
    module.__path__ = importlib.util.find_spec(name).submodule_search_locations
    sys.modules[name] = module
";

#[test]
fn zeus_reads_power_limits_and_energy() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let program = format!(
        "{ABSENT}
absent('httpx')
from zeus.device import get_gpus
told = []
def asked(question):
    try: return question()
    except Exception as error: return type(error).__name__
for gpu in get_gpus().gpus:
    before = asked(gpu.get_total_energy_consumption)
    told.append([gpu.get_name(), asked(gpu.get_instant_power_usage), asked(gpu.get_power_management_limit),
        asked(gpu.get_power_management_limit_constraints), gpu.get_gpu_temperature(),
        gpu.supports_get_total_energy_consumption(), asked(gpu.get_total_energy_consumption) >= before])
gpu = get_gpus().gpus[2]
gpu.set_power_management_limit(65000)
told.append(gpu.get_power_management_limit())
gpu.reset_power_management_limit()
told.append(gpu.get_power_management_limit())
print(json.dumps(told))"
    );
    let told = evaluated(&node, &python, &program);
    let a100 = json!("NVIDIA A100-SXM4-80GB");
    let limits = json!([100_000, 400_000]);
    let not_supported = "ZeusGPUNotSupportedError";
    assert_eq!(
        told,
        json!([
            [a100, 320_000, 400_000, limits, 55, true, true],
            [a100, 66_666, 400_000, limits, 31, true, true],
            ["Tesla T4", 11_666, 70_000, [60_000, 70_000], 31, true, true],
            ["NVIDIA L40S", 58_333, 350_000, [100_000, 350_000], 31, true, true],
            [RTX, 100_000, 600_000, [300_000, 600_000], 31, true, true],
            // It says so by an exception of its own, question by question; before, it takes energy for supported
            // by every card from Volta on.
            [SCREEN, not_supported, not_supported, not_supported, 31, true, true],
            65_000,
            70_000,
        ])
    );
}

#[test]
fn codecarbon_counts_what_each_card_draws() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let program = format!(
        "{ABSENT}
alone('codecarbon')
from codecarbon.core.gpu import AllGPUDevices
from codecarbon.core.units import Time
gpus = AllGPUDevices()
gpus.start()
known = [[gpu['name'], gpu['total_memory'] >> 20, gpu['power_limit']] for gpu in gpus.get_gpu_static_info()]
drawn = [gpu['delta_energy_consumption'].kWh >= 0 for gpu in gpus.get_delta(Time(1))]
print(json.dumps([known, drawn]))"
    );
    let told = evaluated(&node, &python, &program);
    let a100 = json!(["NVIDIA A100-SXM4-80GB", 81_920, 400.0]);
    assert_eq!(
        told[0],
        json!([
            a100,
            a100,
            ["Tesla T4", 15_360, 70.0],
            ["NVIDIA L40S", 46_068, 350.0],
            [RTX, 97_887, 600.0],
            [SCREEN, 4096, null],
        ])
    );
    assert_eq!(told[1], json!([true, true, true, true, true, true]));
}

#[test]
fn glances_has_a_line_for_each_card() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let program = "
import json
from glances.plugins.gpu.cards.nvidia import NvidiaGPU
print(json.dumps([[gpu['name'], round(gpu['mem']), gpu['proc'], gpu['temperature']] for gpu in NvidiaGPU().get_device_stats()]))";
    let a100 = json!("NVIDIA A100-SXM4-80GB");
    // What the driver reserves counts as used: one per cent of an A100, and more of a small card.
    assert_eq!(
        evaluated(&node, &python, program),
        json!([
            [a100, 50, 100, 55],
            [a100, 1, null, 31],
            ["Tesla T4", 3, 0, 31],
            ["NVIDIA L40S", 1, 0, 31],
            [RTX, 0, 0, 31],
            [SCREEN, 0, 0, 31],
        ])
    );
}

#[test]
fn dask_cuda_finds_devices_and_slices_for_its_workers() {
    let Some((node, python)) = node(a_mixed_machine) else { return };
    let program = format!(
        "{ABSENT}
absent('numpy', 'dask', 'dask.config', 'dask.utils', 'distributed', 'distributed.comm')
# It is not installed for Python before 3.11.
told = 'not for this Python' if sys.version_info < (3, 11) else None
if importlib.util.find_spec('dask_cuda'):
    alone('dask_cuda')
    import dask_cuda.utils as utils
    count, slices = utils.get_gpu_count_mig(return_uuids=True)
    told = [utils.get_n_gpus(), count, [utils.parse_cuda_visible_device(each) == each for each in slices],
        utils.get_device_total_memory(2) >> 20, utils.nvml_device_index(1, '2,3'), utils.get_gpu_uuid(1)[:4]]
print(json.dumps(told))"
    );
    let told = evaluated(&node, &python, &program);
    if told.is_string() {
        return;
    }
    assert_eq!(told, json!([6, 2, [true, true], 15_360, 3, "GPU-"]));
}

#[test]
fn cuda_core_finds_gpus_and_slices_over_nvidias_compiled_bindings() {
    let Some((node, python)) = node(|machine| {
        let model = Model::find("H100-80GB").unwrap();
        let mut machine = machine.with_gpu(&model).with_gpu(&model);
        cut(&mut machine, 1, &["3g.40gb", "2g.20gb"]);
        machine
    }) else {
        return;
    };
    let program = "
import json, sys
if sys.version_info < (3, 11):
    print(json.dumps('there is no cuda-core for this Python'))
    raise SystemExit
from cuda.core import system
def seen(device):
    memory = device.memory_info
    slices = [[mig.mig.is_mig_device, mig.uuid, mig.memory_info.total >> 20, mig.mig.parent.uuid] for mig in device.mig.get_all_devices()] if device.mig.mode else []
    return [device.name, device.uuid, device.cuda_compute_capability, [memory.total >> 20, memory.reserved >> 10, memory.used >> 20], slices]
print(json.dumps([system.get_num_devices(), system.get_kernel_mode_driver_version(), [seen(system.Device(index=i)) for i in range(2)]]))";
    let told = evaluated(&node, &python, program);
    if told.is_string() {
        return;
    }
    assert_eq!((&told[0], &told[1]), (&json!(2), &json!([580, 65, 6])));
    let machine = node.machine().unwrap();
    let whole = &told[2][0];
    assert_eq!(
        (&whole[0], &whole[1]),
        (&json!("NVIDIA H100 80GB HBM3"), &json!(machine.gpu(0).unwrap().uuid))
    );
    // 480 MiB are the driver's.
    assert_eq!((&whole[2], &whole[3], &whole[4]), (&json!([9, 0]), &json!([81_559, 491_520, 0]), &json!([])));
    let gpu = machine.gpu(1).unwrap();
    let wanted: Vec<_> = gpu.mig_devices().map(|(gi, ci)| gpu.mig_uuid(gi, ci)).collect();
    let slices = told[2][1][4].as_array().unwrap();
    let memory = [40_448, 20_096];
    assert_eq!(slices.len(), 2);
    for ((slice, uuid), memory) in slices.iter().zip(&wanted).zip(memory) {
        assert_eq!(slice, &json!([true, uuid, memory, gpu.uuid]));
    }
}
