//! NVIDIA's gpu-feature-discovery, unmodified: its labels for each strategy, compared with its
//! documentation and with the labels of `simulator/operands`, which imitates it on virtual nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clients::{Node, Output, cut, find};
use gpu::{DriverBranch, Machine, Model, PciClass};
use operands::{Setup, Strategy};

type Labels = BTreeMap<String, String>;

fn machine(models: &[&str]) -> Machine {
    let machine = Machine::new("n1", DriverBranch(580), store::now());
    models.iter().fold(machine, |machine, model| machine.with_gpu(&Model::find(model).unwrap()))
}

/// What the real one writes, without the prefix that all keys have.
fn discovered(machine: &Machine, strategy: &str) -> Option<Labels> {
    let said = run(machine, strategy, None)?;
    assert_eq!(said.code, 0, "{}", said.err);
    Some(written(&said))
}

/// Runs it once, with a configuration of the device plugin if there is one.
fn run(machine: &Machine, strategy: &str, configuration: Option<&str>) -> Option<Output> {
    run_over(machine, None, strategy, configuration)
}

/// The same, over a driver of this version.
fn run_over(
    machine: &Machine,
    driver: Option<&str>,
    strategy: &str,
    configuration: Option<&str>,
) -> Option<Output> {
    let found = find(&["gpu-feature-discovery"])?;
    let mut node = Node::new(machine.clone(), found.library).unwrap();
    if let Some(driver) = driver {
        node = node.with_driver(driver).unwrap();
    }
    let product = node.file("sys/class/dmi/id/product_name");
    let product = product.to_str().unwrap();
    let args = ["--oneshot", "--no-timestamp", "--output-file", "", "--machine-type-file", product];
    let mut args: Vec<_> = args.into_iter().chain(["--mig-strategy", strategy]).collect();
    let file = node.file("../configuration.yaml");
    if let Some(text) = configuration {
        std::fs::write(&file, text).unwrap();
        args.extend(["--config-file", file.to_str().unwrap()]);
    }
    Some(node.run_inside(found.programs[0].to_str().unwrap(), &args).unwrap())
}

/// The labels in what it said: its settings share the standard output.
fn written(said: &Output) -> Labels {
    let labels = said.out.lines().filter_map(|line| {
        let (key, value) = line.strip_prefix("nvidia.com/")?.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    });
    labels.collect()
}

/// The labels under a resource, such as `gpu` or `mig-1g.10gb`, in one line.
fn under(labels: &Labels, resource: &str) -> String {
    let prefix = format!("{resource}.");
    let all =
        labels.iter().filter_map(|(key, value)| Some(format!("{}={value}", key.strip_prefix(&prefix)?)));
    all.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(labels: &Labels, key: &str, value: &str) {
    assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key} in {labels:#?}");
}

/// What it wrote on two real machines (MIG off, one GPU passed through to a virtual machine), but for the
/// machine's name.
#[test]
fn the_labels_of_two_real_cards() {
    let h100 = include_str!("../captures/gfd-h100-80gb-580.159.04.txt");
    let h200 = include_str!("../captures/gfd-h200-580.159.04.txt");
    for (model, seen) in [("NVIDIA H100 80GB HBM3", h100), ("NVIDIA H200", h200)] {
        let machine = machine(&[model]).passed_through();
        let Some(said) = run_over(&machine, Some("580.159.04"), "none", None) else { return };
        let mut labels = written(&said);
        labels.remove("gpu.machine");
        let labels: String =
            labels.iter().map(|(key, value)| format!("nvidia.com/{key}={value}\n")).collect();
        assert_eq!(labels, seen, "{model}");
    }
}

#[test]
fn a_node_without_mig_has_the_same_labels_under_every_strategy_but_for_its_name() {
    let machine = machine(&["H100-80GB", "H100-80GB"]);
    let Some(none) = discovered(&machine, "none") else { return };
    assert_eq!(
        under(&none, "gpu"),
        "compute.major=9 compute.minor=0 count=2 family=hopper machine=Slicewright-simulated-node \
         memory=81559 mode=compute \
         product=NVIDIA-H100-80GB-HBM3 replicas=1 sharing-strategy=none"
    );
    for (key, value) in [
        ("mig.capable", "true"),
        ("mps.capable", "false"),
        ("cuda.driver.major", "580"),
        ("cuda.driver-version.full", "580.65.06"),
        ("vgpu.present", "false"),
    ] {
        says(&none, key, value);
    }
    assert!(!none.contains_key("mig.strategy") && !none.contains_key("gpu.clique"), "{none:#?}");
    for strategy in ["single", "mixed"] {
        let mut labels = discovered(&machine, strategy).unwrap();
        assert_eq!(labels.remove("mig.strategy").as_deref(), Some(strategy));
        assert_eq!(labels, none);
    }
}

#[test]
fn mixed_gives_the_labels_of_nvidias_documentation() {
    // An H100 with all-balanced. The documentation has 40320 MiB for the 3g, from an older driver; the
    // capture that the catalogue follows has 39.50 GiB.
    let mut machine = machine(&["H100-80GB"]);
    cut(&mut machine, 0, &["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]);
    let Some(labels) = discovered(&machine, "mixed") else { return };
    assert_eq!(
        under(&labels, "gpu"),
        "compute.major=9 compute.minor=0 count=1 family=hopper machine=Slicewright-simulated-node \
         memory=81559 mode=compute \
         product=NVIDIA-H100-80GB-HBM3 replicas=0 sharing-strategy=none"
    );
    assert_eq!(
        under(&labels, "mig-1g.10gb"),
        "count=2 engines.copy=1 engines.decoder=1 engines.encoder=0 engines.jpeg=1 engines.ofa=0 memory=9984 \
         multiprocessors=16 product=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb replicas=1 sharing-strategy=none \
         slices.ci=1 slices.gi=1"
    );
    assert_eq!(
        under(&labels, "mig-2g.20gb"),
        "count=1 engines.copy=2 engines.decoder=2 engines.encoder=0 engines.jpeg=2 engines.ofa=0 memory=20096 \
         multiprocessors=32 product=NVIDIA-H100-80GB-HBM3-MIG-2g.20gb replicas=1 sharing-strategy=none \
         slices.ci=2 slices.gi=2"
    );
    assert_eq!(
        under(&labels, "mig-3g.40gb"),
        "count=1 engines.copy=3 engines.decoder=3 engines.encoder=0 engines.jpeg=3 engines.ofa=0 memory=40448 \
         multiprocessors=60 product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb replicas=1 sharing-strategy=none \
         slices.ci=3 slices.gi=3"
    );
}

#[test]
fn under_none_a_cut_gpu_is_a_whole_one_that_nobody_shares() {
    let mut machine = machine(&["H100-80GB"]);
    cut(&mut machine, 0, &["1g.10gb"]);
    let Some(labels) = discovered(&machine, "none") else { return };
    says(&labels, "gpu.product", "NVIDIA-H100-80GB-HBM3");
    says(&labels, "gpu.replicas", "0");
    assert!(!labels.keys().any(|key| key.starts_with("mig-") || key == "mig.strategy"), "{labels:#?}");
}

#[test]
fn single_gives_the_slices_as_gpus_and_says_when_it_cannot() {
    let mut uniform = machine(&["A30"]);
    cut(&mut uniform, 0, &["2g.12gb", "2g.12gb"]);
    let Some(labels) = discovered(&uniform, "single") else { return };
    says(&labels, "gpu.product", "NVIDIA-A30-MIG-2g.12gb");
    says(&labels, "gpu.count", "2");
    says(&labels, "gpu.slices.gi", "2");
    says(&labels, "mig.strategy", "single");

    let mut empty = machine(&["A100-80GB"]);
    cut(&mut empty, 0, &[]);
    let mut some = machine(&["A100-80GB", "A100-80GB"]);
    cut(&mut some, 0, &["7g.80gb"]);
    let mut several = machine(&["A100-80GB"]);
    cut(&mut several, 0, &["3g.40gb", "1g.10gb"]);
    for (why, machine) in [("empty", empty), ("MIG on one of two", some), ("two profiles", several)] {
        let labels = discovered(&machine, "single").unwrap();
        says(&labels, "gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-INVALID");
        for key in ["gpu.count", "gpu.replicas", "gpu.memory"] {
            assert_eq!(labels[key], "0", "{key}, {why}");
        }
        assert_eq!(labels["gpu.sharing-strategy"], "", "{why}");
    }
}

#[test]
fn a_media_slice_has_a_dot_where_its_name_has_a_plus() {
    let mut machine = machine(&["A100-80GB"]);
    cut(&mut machine, 0, &["1g.10gb+me", "1g.10gb"]);
    let Some(labels) = discovered(&machine, "mixed") else { return };
    says(&labels, "mig-1g.10gb.me.count", "1");
    says(&labels, "mig-1g.10gb.me.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me");
    says(&labels, "mig-1g.10gb.me.engines.ofa", "1");
    says(&labels, "mig-1g.10gb.count", "1");
}

/// What `simulator/operands` leaves out of the real labels.
fn is_not_simulated(key: &str) -> bool {
    let others = ["gpu.machine", "vgpu.present", "gfd.timestamp", "gpu.present"];
    key.starts_with("cuda.") || others.contains(&key)
}

/// What `simulator/operands` writes on a node with this machine, once all has
/// settled, as far as GFD is the writer.
fn simulated(machine: &Machine, strategy: Strategy, configuration: Option<&str>) -> Labels {
    let setup = Setup { strategy, ..Setup::default() };
    let mut node = operands::Node::new(setup, machine.clone(), Labels::new(), None, None).unwrap();
    if let Some(text) = configuration {
        node.set_plugin_config(Some([("all".to_owned(), text.to_owned())].into()), "all");
    }
    let end = node.now() + Duration::from_secs(3600);
    while let Some(at) = node.next_event().filter(|at| *at <= end) {
        node.tick(at);
    }
    let others = |key: &str| key.starts_with("gpu.deploy.") || key.starts_with("mig.config");
    node.labels()
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("nvidia.com/")?.to_owned(), value.clone())))
        .filter(|(key, _)| !others(key) && !is_not_simulated(key))
        .collect()
}

#[track_caller]
fn operands_write_what_the_real_one_writes(machine: &Machine, configuration: Option<&str>) {
    for (strategy, name) in
        [(Strategy::None, "none"), (Strategy::Single, "single"), (Strategy::Mixed, "mixed")]
    {
        let Some(said) = run(machine, name, configuration) else { return };
        assert_eq!(said.code, 0, "{}", said.err);
        let mut real = written(&said);
        real.retain(|key, _| !is_not_simulated(key));
        assert_eq!(simulated(machine, strategy, configuration), real, "{name} {configuration:?}");
    }
}

#[test]
fn the_simulated_operands_write_what_the_real_one_writes() {
    let layouts: &[(&[&str], &[&[&str]])] = &[
        (&["H100-80GB"], &[]),
        (&["H100-80GB"], &[&[]]),
        (&["H100-80GB", "H100-80GB"], &[&["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"], &["7g.80gb"]]),
        (&["A100-80GB"], &[&["1g.10gb+me", "1g.20gb", "3g.40gb"]]),
        (&["A30", "A30"], &[&["2g.12gb", "2g.12gb"], &["2g.12gb"]]),
        (&["A100-80GB", "A100-80GB"], &[&["7g.80gb"]]),
    ];
    for (models, layout) in layouts {
        let mut machine = machine(models);
        for (index, slices) in (0..).zip(*layout) {
            cut(&mut machine, index, slices);
        }
        operands_write_what_the_real_one_writes(&machine, None);
    }
}

#[test]
fn the_display_of_a_dgx_station_is_left_out_and_another_card_with_a_display_is_not() {
    let with = |product: &str| {
        let mut card = Model::without_mig(product, 4096, PciClass::Vga);
        card.compute_capability = Some((8, 6));
        machine(&["A100-80GB"]).with_gpu(&Arc::new(card))
    };
    operands_write_what_the_real_one_writes(&with("NVIDIA DGX Display"), None);
    // Which of two models has the labels of a GPU is the order of a map: only what is of the node counts.
    let machine = with("NVIDIA RTX A2000");
    let Some(real) = discovered(&machine, "none") else { return };
    let ours = simulated(&machine, Strategy::None, None);
    for key in ["gpu.mode", "mig.capable"] {
        assert_eq!(ours[key], real[key], "{key}");
    }
    says(&real, "gpu.mode", "unknown");
}

#[test]
fn cards_without_mig_have_every_label() {
    let card = |name: &str| match mig::sharing::find(name) {
        Some(mig::sharing::Known::Card(card)) => Model::of_card(card),
        _ => panic!("the catalogue has a {name}"),
    };
    for (name, family, capability) in
        [("T4", "turing", "7.5"), ("L40S", "ada-lovelace", "8.9"), ("V100-32GB", "volta", "7.0")]
    {
        let model = card(name);
        let machine = machine(&[]).with_gpu(&model.clone().into()).with_gpu(&model.clone().into());
        let Some(real) = discovered(&machine, "mixed") else { return };
        let (major, minor) = capability.split_once('.').unwrap();
        for (key, value) in [
            ("gpu.count", "2"),
            ("gpu.family", family),
            ("gpu.compute.major", major),
            ("gpu.compute.minor", minor),
            ("gpu.memory", &model.memory_mib.to_string()),
            ("gpu.product", &model.product.replace(' ', "-")),
            ("mig.capable", "false"),
        ] {
            says(&real, key, value);
        }
        operands_write_what_the_real_one_writes(&machine, None);
    }
}

#[test]
fn so_they_do_when_devices_are_shared() {
    let whole = machine(&["A100-80GB"]);
    let mut sliced = machine(&["A100-80GB"]);
    cut(&mut sliced, 0, &["3g.40gb", "3g.40gb"]);
    let resources =
        "resources: [{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-3g.40gb, replicas: 2}]";
    let by_turns = format!("version: v1\nsharing: {{timeSlicing: {{{resources}}}}}\n");
    let renamed = format!("version: v1\nsharing: {{timeSlicing: {{renameByDefault: true, {resources}}}}}\n");
    for configuration in [&by_turns, &renamed] {
        operands_write_what_the_real_one_writes(&whole, Some(configuration));
        operands_write_what_the_real_one_writes(&sliced, Some(configuration));
    }
    let at_once = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n";
    let Some(said) = run(&whole, "single", Some(at_once)) else { return };
    let mut real = written(&said);
    real.retain(|key, _| !is_not_simulated(key));
    says(&real, "mps.capable", "true");
    assert_eq!(simulated(&whole, Strategy::Single, Some(at_once)), real);
    // The real one ends there, and so does the simulated pod.
    let said = run(&sliced, "single", Some(at_once)).unwrap();
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("MPS sharing is not supported for mig devices"), "{}", said.err);
    assert_eq!(written(&said), Labels::new());
}
