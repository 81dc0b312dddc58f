//! Maps of configurations: the generated content for a node's models, and invalid maps with their error
//! messages.

use crate::support::{label, machine, settle, slices, state};
use operands::{ConfigError, MigConfigs, Node, Setup};

fn names(models: &[&str]) -> Vec<String> {
    let machine = machine(models);
    let map = MigConfigs::generated(machine.gpus().iter().map(|gpu| &*gpu.model));
    assert_eq!(MigConfigs::parse(&map.to_yaml()), Ok(map.clone()), "it reads what it writes");
    map.mig_configs.keys().cloned().collect()
}

#[test]
fn the_generated_names_follow_from_the_models() {
    assert_eq!(
        names(&["A100-40GB"]),
        [
            "all-1g.10gb",
            "all-1g.5gb",
            "all-1g.5gb.me",
            "all-2g.10gb",
            "all-3g.20gb",
            "all-4g.20gb",
            "all-7g.40gb",
            "all-balanced",
            "all-disabled",
            "all-enabled"
        ]
    );
    assert!(names(&["A30"]).contains(&"all-2g.12gb.me".to_owned()));
}

#[test]
fn every_generated_configuration_can_be_applied() {
    for model in ["A100-40GB", "A100-80GB", "A30", "H100-80GB", "RTX-PRO-6000-96GB"] {
        for name in names(&[model]) {
            let mut node = Node::new(Setup::default(), machine(&[model]), [].into(), None, None).unwrap();
            label(&mut node, &name);
            settle(&mut node);
            assert_eq!(state(&node), Some("success"), "{model}: {name}");
            let cut = name != "all-disabled" && name != "all-enabled";
            assert_eq!(!slices(&node, 0).is_empty(), cut, "{model}: {name}");
        }
    }
}

#[test]
fn on_a_node_of_two_models_each_gets_its_own() {
    let mut node =
        Node::new(Setup::default(), machine(&["A100-40GB", "H100-80GB"]), [].into(), None, None).unwrap();
    label(&mut node, "all-balanced");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"));
    assert_eq!(slices(&node, 0), ["2g.10gb@0", "1g.5gb@2", "1g.5gb@3", "3g.20gb@4"]);
    assert_eq!(slices(&node, 1), ["2g.20gb@0", "1g.10gb@2", "1g.10gb@3", "3g.40gb@4"]);
    // On A100-40GB, 1g.10gb is the double-memory slice; on H100 the small one.
    label(&mut node, "all-1g.10gb");
    settle(&mut node);
    assert_eq!((slices(&node, 0).len(), slices(&node, 1).len()), (4, 7));
}

#[test]
fn products_of_one_model_are_chosen_by_their_own_ids() {
    // The second is the card of seed 000.
    let cards = ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 PCIe"];
    let map = "\
version: v1
mig-configs:
  apart:
    - {device-filter: '0x20B210DE', devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}
    - {device-filter: '0x20B510DE', devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
    - {device-filter: ['0x233110DE'], devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
";
    let of = |node: &Node| [0, 1, 2].map(|gpu| slices(node, gpu).len());
    let mut node = Node::new(Setup::default(), machine(&cards), [].into(), Some(map), None).unwrap();
    label(&mut node, "apart");
    settle(&mut node);
    assert_eq!((state(&node), of(&node)), (Some("success"), [1, 2, 7]));
    // A map that is generated for the node has an entry for each of them.
    let mut node = Node::new(Setup::default(), machine(&cards), [].into(), None, None).unwrap();
    label(&mut node, "all-1g.10gb");
    settle(&mut node);
    assert_eq!((state(&node), of(&node)), (Some("success"), [7, 7, 7]));
}

#[track_caller]
fn refused(entry: &str, expect: &str) {
    let map = format!("version: v1\nmig-configs:\n  mine:\n    - {entry}\n");
    let error = MigConfigs::parse(&map).expect_err("it is not valid").to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn what_is_not_valid_is_refused_with_the_entry_and_what_is_allowed() {
    refused("{devices: some, mig-enabled: false}", "devices is `some`; it is `all` or a list of indices");
    refused("{devices: all, mig-enabled: true}", "entry 0: mig-devices is missing");
    refused("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}", "mig-devices is not empty");
    refused("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}", "all counts are zero");
    refused("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}", "1g.5gb is -1");
    refused("{devices: all, mig-enabled: true, mig-devices: {huge: 1}}", "`huge` is not a profile name");
    refused("{devices: all, mig-enabled: false, colour: red}", "colour");
    let error = MigConfigs::parse("version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}\n");
    assert_eq!(error, Err(ConfigError::Version("v2".to_owned())));
}

#[test]
fn a_configuration_that_omits_a_gpu_applies_and_never_asserts() {
    let map = "version: v1
mig-configs:
  first-only:
    - {devices: [0], mig-enabled: true, mig-devices: {7g.40gb: 1}}
";
    let machine = machine(&["A100-40GB", "A100-40GB"]);
    let mut node = Node::new(Setup::default(), machine, [].into(), Some(map), None).unwrap();
    label(&mut node, "first-only");
    assert_eq!(crate::support::states(&settle(&mut node)), ["pending", "success"]);
    node.delete_operand(operands::Operand::MigManager);
    assert_eq!(crate::support::states(&settle(&mut node)), ["pending", "success"], "the whole cycle again");
}
