//! NVIDIA's nvidia-mig-parted, unmodified: `export`, `assert` and `apply` of its own default configuration,
//! mode changes, resets, and the obstacles to them. Its output is compared with its sources, and its result
//! on the GPUs with the engine's state.

use std::collections::BTreeMap;

use clients::{Node, Output, cut, find};
use gpu::{Activity, Client, DriverBranch, Gpu, Machine, MigMode, Mode, Model, PciClass, Target};
use serde::Deserialize;
use serde_json::Value;

const PROGRAM: &str = "nvidia-mig-parted";
const CONFIGURATION: &str = "mig-parted-config.yaml";

/// What it says when it has done it.
const APPLIED: &str = "MIG configuration applied successfully\n";
/// What it says when everything is as wanted.
const HOLDS: &str = "Selected MIG configuration currently applied\n";
/// What it says when it is not.
const DIFFERS: &str = "assertion failure: selected configuration not currently applied";

type Slices = BTreeMap<String, u32>;

/// Its configuration, read by rules of our own.
#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "mig-configs")]
    layouts: BTreeMap<String, Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    device_filter: Option<Filter>,
    devices: Value,
    mig_enabled: bool,
    #[serde(default)]
    mig_devices: Slices,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Filter {
    One(String),
    Several(Vec<String>),
}

impl Entry {
    fn is_for(&self, device: u16) -> bool {
        assert_eq!(self.devices, "all", "the default configuration names no single GPU");
        let name = format!("0x{device:04X}10DE");
        match &self.device_filter {
            None => true,
            Some(Filter::One(only)) => *only == name,
            Some(Filter::Several(several)) => several.contains(&name),
        }
    }
}

/// A node, and what is run on it.
struct Bench {
    node: Node,
    program: String,
    configuration: String,
}

impl Bench {
    fn new(machine: impl FnOnce(Machine) -> Machine) -> Option<Self> {
        let found = find(&[PROGRAM, CONFIGURATION])?;
        let machine = machine(Machine::new("n1", DriverBranch::default(), store::now()));
        let [program, configuration] = &found.programs[..] else { panic!("two were asked for") };
        let shown = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        let (program, configuration) = (shown(program), shown(configuration));
        Some(Self { node: Node::new(machine, found.library).unwrap(), program, configuration })
    }

    fn for_model(model: &str) -> Option<Self> {
        Self::new(|machine| machine.with_gpu(&Model::find(model).unwrap()))
    }

    fn run(&self, args: &[&str]) -> Output {
        self.node.run_inside(&self.program, args).unwrap()
    }

    fn with_layout(&self, verb: &str, layout: &str) -> Output {
        self.run(&[verb, "-f", &self.configuration, "-c", layout])
    }

    #[track_caller]
    fn applies(&self, layout: &str) {
        let said = self.with_layout("apply", layout);
        assert_eq!((said.code, said.out.as_str()), (0, APPLIED), "{layout}: {}", said.err);
    }

    #[track_caller]
    fn holds(&self, layout: &str) {
        let said = self.with_layout("assert", layout);
        assert_eq!((said.code, said.out.as_str()), (0, HOLDS), "{layout}: {}", said.err);
    }

    #[track_caller]
    fn differs(&self, layout: &str) {
        let said = self.with_layout("assert", layout);
        assert_eq!(said.code, 1, "{layout}: {}", said.out);
        assert!(said.err.to_lowercase().contains(DIFFERS), "{layout}: {}", said.err);
    }

    /// What `export` says, as JSON.
    #[track_caller]
    fn exported(&self) -> Value {
        let said = self.run(&["export", "-o", "json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let value: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(value["version"], "v1");
        value["mig-configs"]["current"].clone()
    }

    fn gpu(&self, index: u16) -> Gpu {
        self.node.machine().unwrap().gpu(index).unwrap().clone()
    }

    fn slices(&self, index: u16) -> Slices {
        slices(&self.gpu(index))
    }
}

/// The slices that a GPU has, whole ones only: mig-parted makes one compute instance in each.
fn slices(gpu: &Gpu) -> Slices {
    let mut slices = Slices::new();
    for (gi, ci) in gpu.mig_devices() {
        *slices.entry(gpu.mig_profile_name(gi, ci)).or_default() += 1;
    }
    slices
}

fn mode(gpu: &Gpu) -> Option<bool> {
    gpu.mode.map(|mode| mode == MigMode::settled(Mode::Enabled))
}

/// Every layout that has something for this model, one after the other on one
/// GPU, so that each begins with what another left.
fn every_layout(model: &str, at_least: usize) {
    let Some(bench) = Bench::for_model(model) else { return };
    let text = std::fs::read_to_string(&bench.configuration).unwrap();
    let configuration: Configuration = serde_saphyr::from_str(&text).unwrap();
    let known = Model::find(model).unwrap();
    let device = known.pci_device.unwrap();
    let names: Vec<String> =
        known.mig.as_ref().unwrap().profiles.iter().map(|profile| profile.name.to_string()).collect();
    let mut whole = 0;
    for (layout, entries) in &configuration.layouts {
        let Some(entry) = entries.iter().find(|entry| entry.is_for(device)) else { continue };
        if !entry.mig_devices.keys().all(|name| names.contains(name)) {
            continue;
        }
        bench.applies(layout);
        assert_eq!(bench.slices(0), entry.mig_devices, "{layout}");
        assert_eq!(mode(&bench.gpu(0)), Some(entry.mig_enabled), "{layout}");
        bench.holds(layout);
        let exported = bench.exported();
        let expected = serde_json::json!([{
            "devices": "all", "mig-enabled": entry.mig_enabled, "mig-devices": entry.mig_devices,
        }]);
        assert_eq!(exported, expected, "{layout}");
        whole += 1;
    }
    assert!(whole >= at_least, "only {whole} layouts are for {model}");
}

#[test]
fn every_default_layout_of_an_a100_80gb_is_applied_asserted_and_exported() {
    every_layout("A100-80GB", 10);
}

#[test]
fn every_default_layout_of_an_a30_is_applied_asserted_and_exported() {
    every_layout("A30", 8);
}

#[test]
fn every_default_layout_of_an_h100_is_applied_asserted_and_exported() {
    every_layout("H100-80GB", 10);
}

#[test]
fn a_layout_of_another_model_leaves_the_gpu_empty_and_is_not_asserted() {
    // go-nvlib knows only the names of profiles that the GPU has. mig-parted drops a layout with an
    // unknown name altogether, clears the GPU, and calls it applied: `assert` tells.
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    bench.applies("all-1g.10gb");
    bench.applies("all-2g.12gb");
    assert_eq!((mode(&bench.gpu(0)), bench.slices(0)), (Some(true), Slices::new()));
    bench.differs("all-2g.12gb");
    bench.holds("all-enabled");
}

#[test]
fn a_node_with_several_models_and_a_display_card_is_cut_by_device_filter() {
    let Some(bench) = Bench::new(|machine| {
        machine
            .with_gpu(&Model::find("A100-80GB").unwrap())
            .with_gpu(&std::sync::Arc::new(Model::without_mig("NVIDIA DGX Display", 3911, PciClass::Vga)))
            .with_gpu(&Model::find("A30").unwrap())
    }) else {
        return;
    };
    bench.applies("all-balanced");
    let expected = |slices: &[(&str, u32)]| -> Slices {
        slices.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    assert_eq!(bench.slices(0), expected(&[("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)]));
    assert_eq!(bench.slices(2), expected(&[("1g.6gb", 2), ("2g.12gb", 1)]));
    assert_eq!(mode(&bench.gpu(1)), None);
    // The card without MIG matches no part of the layout, so that the whole is never asserted.
    bench.differs("all-balanced");
    let exported = bench.exported();
    let parts: Vec<_> = exported.as_array().unwrap().iter().map(|part| &part["mig-devices"]).collect();
    assert_eq!(parts.len(), 3, "{exported}");
    bench.applies("all-disabled");
    bench.holds("all-disabled");
}

#[test]
fn a_card_that_is_not_cut_is_exported_as_a_real_one() {
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    let said = bench.run(&["export"]);
    let seen = include_str!("../captures/mig-parted-h100-80gb-580.159.04.txt");
    assert_eq!((said.code, said.out.as_str()), (0, seen), "{}", said.err);
}

#[test]
fn where_the_driver_cannot_reset_the_gpu_itself_it_is_reset_through_nvidia_smi() {
    let Some(_) = find(&["nvidia-smi"]) else { return };
    let Some(bench) =
        Bench::new(|machine| machine.passed_through().with_gpu(&Model::find("A100-80GB").unwrap()))
    else {
        return;
    };
    let said =
        bench.run(&["apply", "--skip-reset", "--mode-only", "-f", &bench.configuration, "-c", "all-enabled"]);
    assert_eq!((said.code, said.out.as_str()), (0, APPLIED), "{}", said.err);
    let pending = MigMode { current: Mode::Disabled, pending: Mode::Enabled };
    assert_eq!(bench.gpu(0).mode, Some(pending), "the mode waits for a reset");
    bench.differs("all-enabled");
    bench.applies("all-3g.40gb");
    assert_eq!(mode(&bench.gpu(0)), Some(true));
    bench.holds("all-3g.40gb");
}

#[test]
fn a_slice_that_is_open_stops_it_and_stays() {
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    bench.applies("all-1g.10gb");
    let (gi, ci) = {
        let gpu = bench.gpu(0);
        let (gi, ci) = gpu.mig_devices().next().unwrap();
        (gi.id, ci.id)
    };
    let client = Client {
        pid: std::process::id(),
        name: "python3".to_owned(),
        target: Target::ComputeInstance(0, gi, ci),
        activity: Activity::Computes,
        memory_mib: 1024,
    };
    bench.node.change(|machine| machine.open(client)).unwrap().unwrap();
    let said = bench.with_layout("apply", "all-3g.40gb");
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(
        said.err.contains("error destroying Compute instance for profile '(0, 0)': ERROR_IN_USE"),
        "{}",
        said.err
    );
    let left = bench.gpu(0);
    assert!(left.mig_devices().any(|(left_gi, left_ci)| (left_gi.id, left_ci.id) == (gi, ci)));
}

#[test]
fn a_busy_gpu_keeps_its_mode_until_it_is_left() {
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    let Some(_) = find(&["nvidia-smi"]) else { return };
    let client = Client {
        pid: std::process::id(),
        name: "nv-hostengine".to_owned(),
        target: Target::Gpu(0),
        activity: Activity::Watches,
        memory_mib: 0,
    };
    let id = bench.node.change(|machine| machine.open(client)).unwrap().unwrap();
    let said = bench.with_layout("apply", "all-1g.10gb");
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("error resetting all GPUs: exit status"), "{}", said.err);
    assert!(said.err.contains("In use by another client"), "what nvidia-smi said: {}", said.err);
    assert_eq!(bench.gpu(0).mode, Some(MigMode { current: Mode::Disabled, pending: Mode::Enabled }));
    bench.node.change(|machine| machine.close(id)).unwrap().unwrap();
    bench.applies("all-1g.10gb");
    bench.holds("all-1g.10gb");
}

#[test]
fn a_checkpoint_brings_every_slice_back_to_its_place_after_a_reboot() {
    let Some(bench) = Bench::new(|machine| {
        let mut machine =
            machine.with_gpu(&Model::find("H100-80GB").unwrap()).with_gpu(&Model::find("A100-80GB").unwrap());
        // Not the order in which mig-parted would make them, so that they are not where it would.
        cut(&mut machine, 0, &["1g.10gb", "2g.20gb", "1g.20gb", "1g.10gb"]);
        machine
    }) else {
        return;
    };
    let devices = |gpu: &Gpu| -> Vec<String> {
        gpu.mig_devices()
            .map(|(gi, ci)| format!("{} {}", gpu.mig_profile_name(gi, ci), gpu.mig_uuid(gi, ci)))
            .collect()
    };
    let before = devices(&bench.gpu(0));
    assert_eq!(before.len(), 4);
    let file = bench.node.file("../checkpoint.json");
    let file = file.to_str().unwrap();
    let said = bench.run(&["checkpoint", "-f", file]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "MIG configuration checkpointed successfully\n"),
        "{}",
        said.err
    );
    bench.node.change(Machine::reboot).unwrap();
    assert_eq!(
        (mode(&bench.gpu(0)), devices(&bench.gpu(0)).len()),
        (Some(false), 0),
        "a Hopper loses its mode"
    );
    let said = bench.run(&["restore", "-f", file]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "MIG configuration restored successfully\n"),
        "{}",
        said.err
    );
    assert_eq!(devices(&bench.gpu(0)), before);
    assert_eq!(mode(&bench.gpu(1)), Some(false));
}

#[test]
fn export_prints_the_form_of_its_readme() {
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    bench.applies("all-balanced");
    let said = bench.run(&["export"]);
    let expected = "\
version: v1
mig-configs:
  current:
  - devices: all
    mig-enabled: true
    mig-devices:
      1g.10gb: 2
      2g.20gb: 1
      3g.40gb: 1
";
    assert_eq!((said.code, said.out.as_str()), (0, expected), "{}", said.err);
}
