//! NVIDIA's gpu-feature-discovery, unmodified: the labels that it writes for
//! each strategy, held against its documentation, and against the labels of
//! `simulator/operands`, which imitates it on virtual nodes.

#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::collections::{BTreeMap, BTreeSet};

use clients::{Node, cut, find};
use gpu::{DriverBranch, Machine, Model};
use operands::{Setup, Strategy};

type Labels = BTreeMap<String, String>;

fn machine(models: &[&str]) -> Machine {
    let machine = Machine::new("n1", DriverBranch(580), store::now());
    models.iter().fold(machine, |machine, model| machine.with_gpu(&Model::find(model).unwrap()))
}

/// What the real one writes, without the prefix that all keys have.
fn discovered(machine: &Machine, strategy: &str) -> Option<Labels> {
    let found = find(&["gpu-feature-discovery"])?;
    let node = Node::new(machine.clone(), found.library).unwrap();
    let product = node.file("sys/class/dmi/id/product_name");
    let product = product.to_str().unwrap();
    let args = ["--oneshot", "--no-timestamp", "--output-file", "", "--machine-type-file", product];
    let args: Vec<_> = args.into_iter().chain(["--mig-strategy", strategy]).collect();
    let said = node.run_inside(found.programs[0].to_str().unwrap(), &args).unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    // Its settings and its labels share the standard output.
    let labels = said.out.lines().filter_map(|line| {
        let (key, value) = line.strip_prefix("nvidia.com/")?.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    });
    Some(labels.collect())
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

#[test]
fn the_simulated_operands_write_what_the_real_one_writes() {
    let layouts: &[(&[&str], &[&[&str]])] = &[
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
        for (strategy, name) in [(Strategy::Single, "single"), (Strategy::Mixed, "mixed")] {
            let Some(real) = discovered(&machine, name) else { return };
            let setup = Setup { strategy, ..Setup::default() };
            let node = operands::Node::new(setup, machine.clone(), Labels::new(), None, None).unwrap();
            let ours: Labels = node
                .labels()
                .iter()
                .filter_map(|(key, value)| Some((key.strip_prefix("nvidia.com/")?.to_owned(), value.clone())))
                .filter(|(key, _)| !key.starts_with("gpu.deploy.") && !key.starts_with("mig.config"))
                .collect();
            let simulated = |labels: &Labels| -> BTreeSet<(String, String)> {
                let all = labels.iter().filter(|(key, _)| !is_not_simulated(key));
                all.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            assert_eq!(simulated(&ours), simulated(&real), "{models:?} {layout:?} {name}");
        }
    }
}
