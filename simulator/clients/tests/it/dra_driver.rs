//! NVIDIA's DRA driver, unmodified, with its feature DynamicMIG: what it publishes of a node, and the slices
//! that it creates and destroys for claims. The API server is a real one; the kubelet's side of the driver's
//! socket is a small program of ours, and nobody schedules: the tests allocate claims themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clients::{ApiServer, Node, Running, api_server, cut, find, json_lines};
use gpu::{DriverBranch, Gpu, Machine, Model};
use mig::sharing::Known;
use serde_json::{Value, json};

const NODE: &str = "n1";

/// A node on which the driver's plugin runs.
struct Bench {
    _plugin: Running,
    kubelet: String,
    socket: String,
    server: ApiServer,
    node: Node,
}

impl Bench {
    fn new(machine: Machine) -> Option<Self> {
        let mut wanted = vec!["gpu-kubelet-plugin", "dra-kubelet"];
        wanted.extend(api_server::PROGRAMS);
        let found = find(&wanted)?;
        let [plugin, kubelet, etcd, api_server, kubectl] = &found.programs[..] else {
            panic!("five were asked for")
        };
        let server = ApiServer::start([etcd, api_server, kubectl]).unwrap();
        server.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})).unwrap();
        let node = Node::new(machine, found.library).unwrap().with_driver_root().unwrap();
        // Beside the files that the node keeps: `dra` is short, as paths of sockets must be.
        let folder = |name: &str| {
            let folder = node.file("../dra").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder.canonicalize().unwrap().to_str().unwrap().to_owned()
        };
        let root = node.file("").to_str().unwrap().trim_end_matches('/').to_owned();
        let plugins = folder("plugins");
        let mut args = vec!["--node-name", NODE, "--namespace", "default", "--image-name", "none"];
        let (cdi, registry) = (folder("cdi"), folder("registry"));
        args.extend(["--cdi-root", &cdi, "--kubelet-registrar-directory-path", &registry]);
        args.extend(["--kubelet-plugins-directory-path", &plugins]);
        args.extend(["--nvidia-driver-root", &root, "--container-driver-root", &root]);
        args.extend(["--nvidia-cdi-hook-path", "/usr/bin/nvidia-cdi-hook", "--healthcheck-port", "-1"]);
        args.extend(["--feature-gates", "DynamicMIG=true"]);
        let kubeconfig = server.kubeconfig();
        args.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        let mut plugin = node.start_inside(plugin.to_str().unwrap(), &args).unwrap();
        let whole = || {
            let slices = server.list("resourceslices")?;
            let count = slices.first().and_then(|slice| slice["spec"]["pool"]["resourceSliceCount"].as_u64());
            Ok((count == Some(slices.len() as u64)).then_some(()))
        };
        plugin.until("the node's ResourceSlices", whole).unwrap();
        let socket = format!("{plugins}/gpu.nvidia.com/dra.sock");
        assert!(Path::new(&socket).exists(), "{}", plugin.said().unwrap());
        let kubelet = kubelet.to_str().unwrap().to_owned();
        Some(Self { _plugin: plugin, kubelet, socket, server, node })
    }

    /// The devices that the node offers, by name.
    fn devices(&self) -> BTreeMap<String, Value> {
        let slices = self.server.list("resourceslices").unwrap();
        let devices =
            slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().cloned().unwrap_or_default());
        devices.map(|device| (device["name"].as_str().unwrap().to_owned(), device)).collect()
    }

    /// A claim that was allocated this device; what the kubelet says of it.
    fn claim(&self, name: &str, device: &str) -> String {
        let request = json!({"name": "slice", "exactly": {"deviceClassName": "mig.nvidia.com"}});
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        });
        let made = self.server.create(&claim).unwrap();
        let result = json!({"request": "slice", "driver": "gpu.nvidia.com", "pool": NODE, "device": device});
        let status = json!({"allocation": {"devices": {"results": [result]}}});
        self.server.set_status("resourceclaim", name, &status).unwrap();
        format!("default {name} {}", made["metadata"]["uid"].as_str().unwrap())
    }

    /// What the driver answers to the kubelet.
    fn kubelet(&self, command: &str) -> Value {
        let said = self.node.run(&self.kubelet, &[&self.socket], &format!("{command}\n")).unwrap();
        json_lines(&said).unwrap().remove(0)
    }

    /// The slices of a GPU: profile and start.
    fn slices(&self, gpu: u16) -> Vec<String> {
        let machine = self.node.machine().unwrap();
        let gpu = machine.gpu(gpu).unwrap();
        let geometry = gpu.geometry().unwrap();
        let described = gpu.instances.values().map(|gi| geometry.describe(gi.placement));
        described.map(|(profile, start)| format!("{profile}@{start}")).collect()
    }
}

/// The devices that the driver should offer of a GPU: it calls a placement by profile, id and start.
fn placements(index: u16, gpu: &Gpu) -> BTreeSet<String> {
    let facts = gpu.mig().unwrap();
    let of = |profile: &gpu::ProfileFacts| {
        let name = profile.name.to_string().replace('.', "").replace('+', "-");
        let starts = facts.geometry.profile(profile.index).starts.iter();
        starts.map(|start| format!("gpu-{index}-mig-{name}-{}-{start}", profile.id)).collect::<Vec<_>>()
    };
    facts.profiles.iter().flat_map(of).collect()
}

fn machine(models: &[&str]) -> Machine {
    let machine = Machine::new(NODE, DriverBranch(580), store::now());
    models.iter().fold(machine, |machine, model| match mig::sharing::find(model) {
        Some(Known::Card(card)) => machine.with_gpu(&Model::of_card(card).into()),
        _ => machine.with_gpu(&Model::find(model).unwrap()),
    })
}

#[test]
fn a_node_of_mixed_cards_offers_every_placement_and_every_whole_card() {
    // MIG on and empty, MIG off, and cards that have none; the display card is no device for pods.
    let mut machine =
        machine(&["A100-80GB", "H100-80GB", "A30", "T4", "L40S"]).with_gpu(&Model::display().into());
    cut(&mut machine, 0, &[]);
    cut(&mut machine, 2, &[]);
    let Some(bench) = Bench::new(machine.clone()) else { return };
    let devices = bench.devices();
    let mut wanted = BTreeSet::from(["gpu-1", "gpu-3", "gpu-4"].map(str::to_owned));
    for index in [0, 1, 2] {
        wanted.extend(placements(index, machine.gpu(index).unwrap()));
    }
    assert_eq!(devices.keys().cloned().collect::<BTreeSet<_>>(), wanted);

    let attribute = |device: &str, name: &str| devices[device]["attributes"][name].clone();
    assert_eq!(attribute("gpu-3", "cudaComputeCapability"), json!({"version": "7.5.0"}));
    assert_eq!(attribute("gpu-4", "productName"), json!({"string": "NVIDIA L40S"}));
    for device in ["gpu-1", "gpu-3", "gpu-0-mig-1g10gb-19-6", "gpu-2-mig-2g12gb-5-2"] {
        // Of the sysfs links of the node.
        assert_eq!(
            attribute(device, "resource.kubernetes.io/pcieRoot"),
            json!({"string": "pci0000:00"}),
            "{device}"
        );
    }
    // The scheduler keeps placements apart by the memory units that they share.
    let consumed = |device: &str| {
        let counters = devices[device]["consumesCounters"][0]["counters"].as_object().unwrap();
        counters.keys().filter(|name| name.starts_with("memory-slice-")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        consumed("gpu-0-mig-3g40gb-9-4"),
        ["memory-slice-4", "memory-slice-5", "memory-slice-6", "memory-slice-7"]
    );
    let memory = &devices["gpu-1-mig-1g10gb-19-0"]["capacity"]["memory"]["value"];
    assert_eq!(memory, "9984Mi");
}

#[test]
fn a_claim_gets_its_slice_and_its_end_takes_it_away() {
    let Some(bench) = Bench::new(machine(&["H100-80GB", "H100-80GB"])) else { return };
    let (one, other) =
        (bench.claim("one", "gpu-1-mig-3g40gb-9-4"), bench.claim("other", "gpu-1-mig-1g10gb-19-0"));
    let answer = bench.kubelet(&format!("prepare {one}"));
    assert_eq!(answer["error"], "", "{answer}");
    assert!(answer["devices"]["gpu-1-mig-3g40gb-9-4"][0].is_string(), "{answer}");
    assert_eq!(bench.kubelet(&format!("prepare {other}"))["error"], "");
    assert_eq!(
        (bench.slices(0), bench.slices(1)),
        (vec![], vec!["3g.40gb@4".to_owned(), "1g.10gb@0".to_owned()])
    );
    // A kubelet that restarts asks again; nothing is made twice.
    assert_eq!(bench.kubelet(&format!("prepare {one}")), answer);
    assert_eq!(bench.slices(1).len(), 2);

    // What overlaps is refused with NVML's words, and takes nothing from anybody.
    let whole = bench.claim("whole", "gpu-1-mig-7g80gb-0-0");
    let refused = bench.kubelet(&format!("prepare {whole}"))["error"].as_str().unwrap().to_owned();
    assert!(refused.contains("Insufficient Resources"), "{refused}");
    assert_eq!(bench.slices(1).len(), 2);

    assert_eq!(bench.kubelet(&format!("unprepare {one}"))["error"], "");
    assert_eq!(bench.slices(1), ["1g.10gb@0"]);
    assert_eq!(bench.kubelet(&format!("unprepare {other}"))["error"], "");
    assert_eq!(bench.slices(1), [""; 0]);
}
