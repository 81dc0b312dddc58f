//! `slicewright gpus` over the simulator's library, as users and programs see
//! it.

use std::process::{Command, Output};

use crate::support::{Node, workstation};
use serde_json::{Value, json};

fn ran(node: &Node, privileged: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .arg("gpus")
        .args(args)
        .env("LD_LIBRARY_PATH", node.libraries())
        .env(store::DIRECTORY_VARIABLE, node.directory())
        .env("SLICEWRIGHT_SIM_PRIVILEGED", privileged)
        .output()
        .unwrap()
}

#[track_caller]
fn text(node: &Node, privileged: &str, args: &[&str], status: i32) -> String {
    let output = ran(node, privileged, args);
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{out}{err}");
    format!("{out}{err}")
}

fn json_of(node: &Node, privileged: &str) -> Value {
    serde_json::from_str(&text(node, privileged, &["-o", "json"], 0)).unwrap()
}

#[test]
fn programs_get_every_gpu_with_its_slices_and_users() {
    let node = Node::with(workstation());
    let seen = json_of(&node, "1");
    let gpus = seen["gpus"].as_array().unwrap();
    let of = |field: &str| gpus.iter().map(|gpu| gpu[field].clone()).collect::<Vec<_>>();
    assert_eq!(seen["driver"], "580.65.06");
    assert_eq!(of("model"), [json!("A100-80GB"), Value::Null, json!("H100-80GB")]);
    let off = json!({"current": "off", "pending": "off"});
    assert_eq!(of("mig"), [json!({"current": "on", "pending": "on"}), Value::Null, off]);
    assert_eq!(of("memory_units"), [json!(8), Value::Null, json!(8)]);
    assert_eq!(of("differences"), [json!([]), json!([]), json!([])], "the simulator has our tables' values");

    let slices = gpus[0]["slices"].as_array().unwrap();
    let place = |slice: &Value| format!("{}@{}", slice["profile"].as_str().unwrap(), slice["start"]);
    let places: Vec<_> = slices.iter().map(place).collect();
    assert_eq!(places, ["2g.20gb@0", "1g.10gb@2", "3g.40gb@4"]);
    let user = json!({
        "pid": 4242, "name": "python3", "memory_mib": 9216, "gpu_instance": 3, "compute_instance": 0,
    });
    let users: Vec<_> = slices.iter().map(|slice| &slice["processes"]).collect();
    assert_eq!(users, [&json!([user]), &json!([]), &json!([])]);
}

#[test]
fn who_is_not_root_sees_what_programs_see_and_is_told_so() {
    let node = Node::with(workstation());
    let seen = json_of(&node, "0");
    let slices = seen["gpus"][0]["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 3);
    assert!(slices.iter().all(|slice| slice["start"].is_null() && slice["devices"][0]["whole"] == true));
    let text = text(&node, "0", &[], 0);
    assert!(text.contains("only root can see the positions of slices"), "{text}");
    assert!(!text.contains('│'), "nothing is drawn that is not known\n{text}");
}

#[test]
fn a_gpu_that_does_not_answer_is_told_beside_the_others() {
    let node = Node::with(workstation());
    node.store.update(|state| state.machine.begin(gpu::Fault::FallsOffTheBus { gpu: 2 })).unwrap();
    let text = text(&node, "1", &[], 1);
    assert!(text.contains("GPU 2 does not answer: "), "{text}");
    assert!(text.contains("GPU is lost (15): the GPU fell off the bus: reboot the node"), "{text}");
    assert!(text.contains("3g.40gb@4"), "{text}");
}

#[test]
fn a_slice_that_nothing_can_use_is_told() {
    let mut machine = workstation();
    let mut nvml = machine.nvml(gpu::Caller::Root);
    let device = nvml.device_handle_by_index(0).unwrap();
    let bare = nvml.create_gpu_instance(device, 19).unwrap();
    nvml.gpu_instance_info(bare).unwrap();
    let text = text(&Node::with(machine), "1", &[], 0);
    assert!(text.contains("none: it has no compute instance, so nothing can use it"), "{text}");
}

#[test]
fn values_of_the_driver_that_the_table_has_otherwise_are_told() {
    // An A100 whose driver gives its smallest slice a little less memory.
    let real = gpu::Model::find("A100-80GB").unwrap();
    let mut model = gpu::Model::clone(&real);
    let mig = model.mig.as_mut().unwrap();
    mig.profiles.iter_mut().find(|p| p.id == 19).unwrap().memory_mib -= 2;
    let machine = gpu::Machine::new("n", gpu::DriverBranch::default(), jiff::Timestamp::UNIX_EPOCH);
    let node = Node::with(machine.with_gpu(&std::sync::Arc::new(model)));
    let short = text(&node, "1", &[], 0);
    assert!(
        short.contains("1 value of Slicewright's table of A100-80GB differ from the driver's"),
        "{short}"
    );
    let long = text(&node, "1", &["--profiles"], 0);
    assert!(long.contains("  1g.10gb memory_mib: the table has "), "{long}");
}

#[test]
fn without_a_driver_one_is_told_what_to_do() {
    let node = Node::with(workstation());
    let text_of = |args: &[&str]| text(&node, "1", args, 1);
    let nowhere = text_of(&["--library", "/nowhere/libnvidia-ml.so.1"]);
    assert!(nowhere.starts_with("error: cannot load /nowhere/libnvidia-ml.so.1: "), "{nowhere}");
    assert!(nowhere.contains("install NVIDIA's driver, or give the library's path"), "{nowhere}");
    let other = text_of(&["--library", "libc.so.6"]);
    assert!(other.contains("the library has no function nvmlInit"), "{other}");
    std::fs::remove_dir_all(node.directory()).unwrap();
    let no_driver = text_of(&[]);
    assert!(
        no_driver.contains("error: nvmlInit failed: Driver Not Loaded (9): load NVIDIA's kernel module"),
        "{no_driver}"
    );
}

#[test]
fn a_machine_without_gpus_is_no_failure() {
    let none = gpu::Machine::new("n", gpu::DriverBranch::default(), jiff::Timestamp::UNIX_EPOCH);
    let node = Node::with(none);
    assert_eq!(text(&node, "1", &[], 0), "driver 580.65.06; there is no GPU on this machine\n");
}
