//! NVIDIA's container toolkit, unmodified: the CDI specification that `nvidia-ctk cdi generate` makes of a
//! node. With it a container engine gives containers their GPUs and slices.

use std::collections::{BTreeMap, BTreeSet};

use clients::{Node, cut, find};
use gpu::{DriverBranch, Machine, Model};
use mig::sharing::Known;
use serde_json::{Value, json};

/// The first minor number of a GPU instance's capability, as NVIDIA's MIG guide counts them.
fn capability(gpu: u32, gi: u32) -> u32 {
    3 + gpu * 135 + gi * 9
}

/// What the toolkit writes of a node.
fn specification(node: &Node, nvidia_ctk: &str) -> Value {
    let root = node.file("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let said =
        node.run_inside(nvidia_ctk, &["cdi", "generate", "--format", "json", "--driver-root", root]).unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.out))
}

/// The paths of device nodes in a container, by the names of devices.
fn devices(specification: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let nodes = |device: &Value| {
        let nodes = device["containerEdits"]["deviceNodes"].as_array().unwrap();
        nodes.iter().map(|node| node["path"].as_str().unwrap().to_owned()).collect()
    };
    let all = specification["devices"].as_array().unwrap();
    all.iter().map(|device| (device["name"].as_str().unwrap().to_owned(), nodes(device))).collect()
}

#[test]
fn each_of_seven_slices_is_a_device_with_its_own_capabilities() {
    let Some(found) = find(&["nvidia-ctk"]) else { return };
    let machine = Machine::new("n1", DriverBranch(580), store::now());
    let Some(Known::Card(t4)) = mig::sharing::find("T4") else { panic!("the catalogue has a T4") };
    let mut machine =
        machine.with_gpu(&Model::find("A100-80GB").unwrap()).with_gpu(&Model::of_card(t4).into());
    cut(&mut machine, 0, &["1g.10gb"; 7]);
    let node = Node::new(machine, found.library).unwrap().with_driver_root().unwrap();
    let told = specification(&node, found.programs[0].to_str().unwrap());
    assert_eq!(told["kind"], "nvidia.com/gpu");

    let machine = node.machine().unwrap();
    let slices: Vec<_> = machine.gpu(0).unwrap().mig_devices().map(|(gi, ci)| (gi.id, ci.id)).collect();
    assert_eq!(slices.len(), 7);
    let devices = devices(&told);
    // By index, by UUID, and all of them.
    for (index, (gi, ci)) in slices.iter().enumerate() {
        let gi = capability(0, u32::from(*gi));
        let wanted = BTreeSet::from([
            "/dev/nvidia0".to_owned(),
            format!("/dev/nvidia-caps/nvidia-cap{gi}"),
            format!("/dev/nvidia-caps/nvidia-cap{}", gi + 1 + u32::from(*ci)),
        ]);
        assert_eq!(devices[&format!("0:{index}")], wanted);
        let by_uuid = devices.iter().filter(|(name, nodes)| name.starts_with("MIG-") && **nodes == wanted);
        assert_eq!(by_uuid.count(), 1, "{devices:#?}");
    }
    assert_eq!(devices["1"], BTreeSet::from(["/dev/nvidia1".to_owned()]), "a card without MIG is whole");
    assert_eq!(devices["all"].iter().filter(|path| path.contains("nvidia-cap")).count(), 14);
    // A GPU that is cut is no device of its own.
    assert!(!devices.contains_key("0"));

    // What every container gets: the library under its file's name, and the link that programs load.
    let edits = &told["containerEdits"];
    let mounts: Vec<_> =
        edits["mounts"].as_array().unwrap().iter().map(|mount| &mount["containerPath"]).collect();
    assert_eq!(mounts, ["/usr/bin/nvidia-smi", "/usr/lib64/libnvidia-ml.so.580.65.06"]);
    let hooks = edits["hooks"].as_array().unwrap();
    let argument = |wanted: &str| {
        hooks.iter().any(|hook| hook["args"].as_array().unwrap().iter().any(|argument| argument == wanted))
    };
    assert!(argument("libnvidia-ml.so.580.65.06::/usr/lib64/libnvidia-ml.so.1"), "{hooks:#?}");
    assert!(argument("--host-driver-version=580.65.06"), "{hooks:#?}");
}

#[test]
fn a_slice_that_is_made_later_is_in_the_next_specification() {
    let Some(found) = find(&["nvidia-ctk"]) else { return };
    let mut machine =
        Machine::new("n1", DriverBranch(580), store::now()).with_gpu(&Model::find("H100-80GB").unwrap());
    cut(&mut machine, 0, &["3g.40gb"]);
    let node = Node::new(machine, found.library).unwrap().with_driver_root().unwrap();
    let nvidia_ctk = found.programs[0].to_str().unwrap();
    let slices = |told: &Value| devices(told).keys().filter(|name| name.starts_with("0:")).count();
    assert_eq!(slices(&specification(&node, nvidia_ctk)), 1);
    node.change(|machine| cut(machine, 0, &["2g.20gb"])).unwrap();
    assert_eq!(slices(&specification(&node, nvidia_ctk)), 2);
}

/// The devices of a specification as they would be without a driver root of its own, and without the UUID of
/// the card. What a container sees is compared, not where it is on the host.
fn without_host(told: &Value, uuid: &str, root: &str) -> Value {
    let text = told["devices"].to_string();
    let text = text.replace(uuid, "GPU-00000000-0000-0000-0000-000000000000");
    let text = text.replace(&format!("\"{root}\""), "\"\"");
    let mut devices: Value = serde_json::from_str(&text).unwrap();
    for device in devices.as_array_mut().unwrap() {
        for node in device["containerEdits"]["deviceNodes"].as_array_mut().unwrap() {
            node.as_object_mut().unwrap().remove("hostPath");
        }
    }
    devices
}

#[test]
fn a_card_that_is_not_cut_has_the_devices_of_a_real_one() {
    let Some(found) = find(&["nvidia-ctk"]) else { return };
    let machine =
        Machine::new("n1", DriverBranch(580), store::now()).with_gpu(&Model::find("H100-80GB").unwrap());
    let uuid = machine.gpu(0).unwrap().uuid.to_string();
    let node = Node::new(machine, found.library).unwrap().with_driver_root().unwrap();
    let root = node.file("").to_str().unwrap().trim_end_matches('/').to_owned();
    let told = specification(&node, found.programs[0].to_str().unwrap());
    let seen = include_str!("../captures/cdi-h100-80gb-580.159.04.json");
    let mut seen: Value = serde_json::from_str(seen).unwrap();
    let told = without_host(&told, &uuid, &root);
    // Who may not make device files has plain ones, which have no numbers.
    if told[0]["containerEdits"]["deviceNodes"][0]["major"] == Value::Null {
        for device in seen.as_array_mut().unwrap() {
            device["containerEdits"]["deviceNodes"] = json!([{"path": "/dev/nvidia0"}]);
        }
    }
    assert_eq!(told, seen, "{told:#}");
}
