//! nvidia-ml-py, NVIDIA's binding for Python, and nvitop over it, unmodified.

#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use clients::{Node, cut, find, json_lines};
use gpu::{DriverBranch, Machine, Model};
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
