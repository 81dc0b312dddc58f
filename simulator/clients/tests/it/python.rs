//! nvidia-ml-py, NVIDIA's binding for Python, and nvitop over it; py3nvml, an
//! older binding; nvsmi, which starts nvidia-smi. All of them unmodified.

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
        assert_eq!(mig["attributes"]["memorySizeMB"], mig["memoryMiB"]);
    }
    let in_use = json!({"error": "NVMLError_InUse", "text": "In use by another client"});
    assert_eq!(
        cut["cut"],
        json!({"id": 10, "placement": [3, 1], "too early": in_use, "devices": 3, "devices afterwards": 2})
    );
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
print(json.dumps([free, [nvml.nvmlDeviceGetName(each) for each in handles], nvml.nvmlSystemGetDriverVersion()]))";
    let told = evaluated(&node, &python, program);
    let free: Vec<bool> = (0..8).map(|index| index != 0).collect();
    assert_eq!(told, json!([free, vec!["NVIDIA A100-SXM4-80GB"; 8], "580.65.06"]));
}
