//! NVIDIA's device plugin, unmodified: the devices that it offers to a kubelet, which of them it prefers for a
//! container that asks for several, and what the container gets. The kubelet's side of its socket is a small
//! program of ours.

use std::collections::BTreeSet;

use clients::{Node, cut, find};
use gpu::{DriverBranch, Machine, Model, Topology};
use serde_json::{Value, json};

/// A kubelet's folder and the folder of CDI specifications are the process's own; what was written into the
/// latter is shown at the end.
const ALONE: &str = r#"mount -t tmpfs simulated /var/lib && mount -t tmpfs simulated /run && "$@" && echo specification && if [ -d /run/cdi ]; then cat /run/cdi/*.json; fi"#;

/// The answers to a kubelet's questions, and the CDI specification if there is one.
fn answers(machine: Machine, options: &[&str], commands: &[&str]) -> Option<(Node, Vec<Value>, Value)> {
    let found = find(&["plugin-kubelet", "nvidia-device-plugin"])?;
    let node = Node::new(machine, found.library).unwrap().with_driver_root().unwrap();
    // The plugin's toolkit looks for the folder of CUDA's library; there is no CUDA here.
    std::fs::write(node.file("usr/lib64/libcuda.so.580.65.06"), "").unwrap();
    let root = node.file("").to_str().unwrap().trim_end_matches('/').to_owned();
    let [kubelet, plugin] = &found.programs[..] else { panic!("two were asked for") };
    let mut args = vec!["-c", ALONE, "alone", kubelet.to_str().unwrap(), plugin.to_str().unwrap()];
    args.extend([
        "--driver-root",
        &root,
        "--driver-root-ctr-path",
        &root,
        "--device-discovery-strategy",
        "nvml",
    ]);
    args.extend(options);
    args.push("--");
    args.extend(commands);
    let said = node.run_inside("sh", &args).unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    let (told, specification) = said.out.split_once("specification\n").unwrap();
    let told = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let specification = serde_json::from_str(specification).unwrap_or_default();
    Some((node, told, specification))
}

fn uuids(node: &Node) -> Vec<String> {
    node.machine().unwrap().gpus().iter().map(|gpu| gpu.uuid.clone()).collect()
}

#[test]
fn a_container_of_two_whole_gpus_gets_two_that_are_near_each_other() {
    let machine = Machine::new("n1", DriverBranch(580), store::now())
        .built_as(Topology::find("nvlink-bridges").unwrap());
    let model = Model::find("A100-80GB").unwrap();
    let machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
    let gpu = |index: usize| machine.gpus()[index].uuid.clone();
    // The first one's pair is taken: the plugin passes over it.
    let left: Vec<_> = (0..8).filter(|index| *index != 1).map(gpu).collect();
    let prefer = format!("prefer nvidia.com/gpu 2 {}", left.join(" "));
    let allocate = format!("allocate nvidia.com/gpu {} {}", gpu(2), gpu(3));
    let commands = ["list nvidia.com/gpu", "prefer nvidia.com/gpu 2", &prefer, &allocate];
    let Some((_, told, _)) = answers(machine.clone(), &[], &commands) else { return };
    let sorted = |gpus: &[usize]| json!(gpus.iter().map(|index| gpu(*index)).collect::<BTreeSet<_>>());
    assert_eq!(told[0], sorted(&[0, 1, 2, 3, 4, 5, 6, 7]));
    // Which of the pairs that are bridged is a matter of UUIDs.
    let pairs = [[0, 1], [2, 3], [4, 5], [6, 7]].map(|pair| sorted(&pair));
    assert!(pairs.contains(&told[1]), "{}", told[1]);
    assert!(pairs[1..].contains(&told[2]), "{}", told[2]);
    let visible = told[3]["envs"]["NVIDIA_VISIBLE_DEVICES"].as_str().unwrap();
    assert_eq!(
        visible.split(',').collect::<BTreeSet<_>>(),
        BTreeSet::from([gpu(2).as_str(), gpu(3).as_str()])
    );
}

/// One GPU with seven slices beside a whole one.
fn seven() -> Machine {
    let model = Model::find("A100-80GB").unwrap();
    let machine = Machine::new("n1", DriverBranch(580), store::now()).with_gpu(&model).with_gpu(&model);
    let mut machine = machine;
    cut(&mut machine, 0, &["1g.10gb"; 7]);
    machine
}

/// The UUIDs of its slices.
fn slices(machine: &Machine) -> Vec<String> {
    let gpu = machine.gpu(0).unwrap();
    gpu.mig_devices().map(|(gi, ci)| gpu.mig_uuid(gi, ci)).collect()
}

#[test]
fn slices_are_offered_by_profile_and_given_by_uuid() {
    let machine = seven();
    let first = slices(&machine)[0].clone();
    let allocate = format!("allocate nvidia.com/mig-1g.10gb {first}");
    let commands = ["list nvidia.com/gpu", "list nvidia.com/mig-1g.10gb", &allocate];
    let Some((node, told, _)) = answers(machine.clone(), &["--mig-strategy", "mixed"], &commands) else {
        return;
    };
    assert_eq!(told[0], json!([uuids(&node)[1]]), "the GPU that is cut is no device");
    assert_eq!(told[1], json!(slices(&machine).into_iter().collect::<BTreeSet<_>>()));
    assert_eq!(told[2]["envs"]["NVIDIA_VISIBLE_DEVICES"], json!(first));
}

#[test]
fn a_container_gets_its_slice_by_cdi() {
    let machine = seven();
    let last = slices(&machine)[6].clone();
    let allocate = format!("allocate nvidia.com/mig-1g.10gb {last}");
    let options = [
        "--mig-strategy",
        "mixed",
        "--device-list-strategy",
        "cdi-annotations",
        "--nvidia-cdi-hook-path",
        "/usr/bin/nvidia-cdi-hook",
    ];
    let Some((_, told, specification)) = answers(machine.clone(), &options, &[&allocate]) else { return };
    let annotations = told[0]["annotations"].as_object().unwrap();
    let given: Vec<_> = annotations.values().filter_map(Value::as_str).collect();
    assert_eq!(given, [format!("k8s.device-plugin.nvidia.com/gpu={last}")]);
    // The name leads to the slice's own capabilities, and to no other slice's.
    let devices = specification["devices"].as_array().unwrap();
    let device = devices.iter().find(|device| device["name"] == json!(last)).unwrap();
    let nodes = device["containerEdits"]["deviceNodes"].as_array().unwrap();
    let paths: BTreeSet<_> = nodes.iter().map(|node| node["path"].as_str().unwrap()).collect();
    let gi = machine.gpu(0).unwrap().mig_devices().nth(6).unwrap().0.id;
    let capability = 3 + u32::from(gi) * 9;
    let (of_gi, of_ci) = (capability, capability + 1);
    let (of_gi, of_ci) =
        (format!("/dev/nvidia-caps/nvidia-cap{of_gi}"), format!("/dev/nvidia-caps/nvidia-cap{of_ci}"));
    assert_eq!(paths, BTreeSet::from(["/dev/nvidia0", &of_gi, &of_ci]));
}
