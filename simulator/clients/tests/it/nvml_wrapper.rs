//! nvml-wrapper, the usual binding of Rust, unmodified.

use clients::{Node, cut, find, json_lines};
use gpu::{Activity, Client, DriverBranch, Fault, Machine, Model, Target};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nvml-wrapper-session");

fn node(machine: impl FnOnce(Machine) -> Machine) -> Option<Node> {
    let found = find(&[])?;
    let machine = machine(Machine::new("n1", DriverBranch(580), store::now()));
    Some(Node::new(machine, found.library).unwrap())
}

fn h100s(machine: Machine, count: usize) -> Machine {
    (0..count).fold(machine, |machine, _| machine.with_gpu(&Model::find("H100-80GB").unwrap()))
}

#[track_caller]
fn session(node: &Node, commands: &str) -> Vec<Value> {
    json_lines(&node.run(PROGRAM, &[], commands).unwrap()).unwrap()
}

#[test]
fn it_sees_the_machine_and_the_slices_as_on_hardware() {
    let Some(node) = node(|machine| {
        let mut machine = h100s(machine, 2);
        cut(&mut machine, 1, &["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]);
        machine
    }) else {
        return;
    };
    let walk = session(&node, "walk\n").remove(0);
    assert_eq!(walk["driver"], "580.65.06");
    assert!(walk["nvml"].as_str().unwrap().starts_with("13."), "{walk}");
    assert_eq!(walk["cuda"], 13_000, "{walk}");
    let [whole, cut] = &walk["devices"].as_array().unwrap()[..] else { panic!("{walk}") };
    for (key, value) in [
        ("name", json!("NVIDIA H100 80GB HBM3")),
        ("busId", json!("00000000:01:00.0")),
        ("byBusId", whole["uuid"].clone()),
        ("minor", json!(0)),
        ("memoryMiB", json!(81559)),
        ("migMode", json!([0, 0])),
        ("isMig", json!(false)),
        ("maxMigDevices", json!(0)),
        ("architecture", json!("Hopper")),
        ("computeCapability", json!([9, 0])),
        ("utilization", json!(0)),
        ("processes", json!([])),
    ] {
        assert_eq!(whole[key], value, "{key}");
    }
    for key in ["temperature", "powerMilliwatts", "smClock"] {
        assert!(whole[key].is_u64(), "{key}: {}", whole[key]);
    }
    // `nvidia-smi mig -lgip` of an H100 80GB: id, instances, 9.75 to 79.25 GiB, SMs.
    assert_eq!(
        whole["profiles"],
        json!([
            [19, 7, 9984, 16],
            [14, 3, 20096, 32],
            [9, 2, 40448, 60],
            [5, 1, 40448, 64],
            [0, 1, 81152, 132],
            [20, 1, 9984, 16],
            [15, 4, 20096, 26],
        ])
    );
    // With MIG on, what is said of the whole GPU has no utilisation.
    assert_eq!(cut["migMode"], json!([1, 1]));
    assert_eq!(cut["maxMigDevices"], 7);
    assert!(cut["utilization"]["error"].is_string(), "{}", cut["utilization"]);
    let slices = cut["migDevices"].as_array().unwrap();
    let seen: Vec<_> = slices.iter().map(|slice| (&slice["name"], &slice["attributes"])).collect();
    let small = (json!("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), json!([9984, 16, 1, 1]));
    assert_eq!(
        seen,
        [
            (&json!("NVIDIA H100 80GB HBM3 MIG 3g.40gb"), &json!([40448, 60, 3, 3])),
            (&json!("NVIDIA H100 80GB HBM3 MIG 2g.20gb"), &json!([20096, 32, 2, 2])),
            (&small.0, &small.1),
            (&small.0, &small.1),
        ]
    );
    for slice in slices {
        assert_eq!((&slice["isMig"], &slice["parent"]), (&json!(true), &cut["uuid"]));
        assert!(slice["uuid"].as_str().unwrap().starts_with("MIG-"), "{slice}");
    }
    let found = session(&node, &format!("find {}\nfind GPU-none\n", slices[0]["uuid"].as_str().unwrap()));
    assert_eq!(found[0], slices[0]["name"]);
    assert!(found[1]["error"].is_string(), "{}", found[1]);
}

#[test]
fn processes_are_told_with_the_slice_that_they_are_on() {
    let Some(node) = node(|machine| {
        let mut machine = h100s(machine, 1);
        cut(&mut machine, 0, &["1g.10gb"]);
        machine
    }) else {
        return;
    };
    let pid = std::process::id();
    let client = Client {
        pid,
        name: "python3".to_owned(),
        target: Target::ComputeInstance(0, 13, 0),
        activity: Activity::Computes,
        memory_mib: 512,
    };
    node.change(|machine| machine.open(client)).unwrap().unwrap();
    let walk = session(&node, "walk\n").remove(0);
    assert_eq!(walk["devices"][0]["processes"], json!([[pid, 13, 0]]));
}

#[test]
fn changes_of_the_mode_and_xid_errors_are_events() {
    let Some(node) = node(|machine| h100s(machine, 2)) else { return };
    let answers = session(&node, "watch 1\nnext 0\nmode 1 1\nnext 1000\nnext 0\n");
    let both = 0x108;
    assert_eq!(answers[0]["supported"].as_u64().unwrap() & both, both, "{}", answers[0]);
    assert!(answers[1]["error"].as_str().unwrap().contains("timeout"), "{}", answers[1]);
    assert_eq!(answers[2], 0, "the activation succeeded");
    assert_eq!(answers[3], json!({"gpu": 1, "type": 0x100, "xid": null}));
    assert!(answers[4]["error"].is_string(), "{}", answers[4]);

    node.change(|machine| {
        let at = machine.now();
        machine.schedule(gpu::Scheduled {
            at: at + std::time::Duration::from_millis(300),
            fault: Fault::Xid { gpu: 0, code: 79 },
        });
    })
    .unwrap();
    let answers = session(&node, "watch 0\nnext 5000\n");
    assert_eq!(answers[1], json!({"gpu": 0, "type": 8, "xid": 79}));
}
