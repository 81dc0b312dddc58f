//! The map: read, written, assembled, and understood for a node.

use crate::fake::layout;
use mig::catalog::Catalog;
use mig::model::Model;
use planner::names::GpuIndex;
use slicewright_rollout::map::{Devices, MAX_BYTES, MapError, MigMap, NodeGpu, assemble, entry};
use slicewright_rollout::{NodeLayout, Strategy};

fn model(id: &str) -> &'static Model {
    Catalog::builtin().get(id).unwrap()
}

fn gpus<'a>(models: &[Option<&'a Model>]) -> Vec<NodeGpu<'a>> {
    let gpu = |(at, model): (usize, &Option<&'a Model>)| NodeGpu {
        index: GpuIndex(u16::try_from(at).unwrap()),
        model: *model,
    };
    models.iter().enumerate().map(gpu).collect()
}

#[track_caller]
fn check_refused(text: &str, message: &str) {
    let error = text.parse::<MigMap>().unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn an_entry_names_every_gpu_and_puts_equal_ones_together() {
    let wanted = layout("0:1g.10gb*7 1:1g.10gb*7 2:2g.20gb*2,3g.40gb*1 3:off");
    let map = MigMap { entries: [(wanted.entry_name(), entry(&wanted).unwrap())].into() };
    let expected = format!(
        "version: v1
mig-configs:
  {}:
    - devices: [0, 1]
      mig-enabled: true
      mig-devices: {{\"1g.10gb\": 7}}
    - devices: [2]
      mig-enabled: true
      mig-devices: {{\"2g.20gb\": 2, \"3g.40gb\": 1}}
    - devices: [3]
      mig-enabled: false
",
        wanted.entry_name()
    );
    assert_eq!(map.render(), expected);
    // And it reads back as the same.
    let read: MigMap = expected.parse().unwrap();
    assert_eq!(read, map);
    let a100 = Some(model("A100-80GB"));
    assert_eq!(read.layout_for(&wanted.entry_name(), &gpus(&[a100, a100, a100, None])).unwrap(), wanted);
}

#[test]
fn a_gpu_in_mig_mode_without_slices_is_refused() {
    let empty = layout("0:1g.10gb*0 1:1g.10gb*7");
    assert!(entry(&empty).unwrap_err().to_string().contains("gpu 0: MIG is on without any slice"));
    assert!(entry(&NodeLayout::default()).is_err());
}

#[test]
fn names_are_of_the_content() {
    let one = layout("0:1g.10gb*7 1:off");
    assert_eq!(one.entry_name(), layout("1:off 0:1g.10gb*7").entry_name());
    assert_ne!(one.entry_name(), layout("0:off 1:1g.10gb*7").entry_name());
    // A label's value has at most 63 characters, the alias's suffix included.
    assert!(one.entry_name().len() + 2 <= 63);
}

#[test]
fn our_map_keeps_theirs_and_adds_the_default_names() {
    let theirs: MigMap = "
version: v1
mig-configs:
  all-1g.10gb:
    - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 6}}
  night:
    - {device-filter: '0x20B510DE', devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
"
    .parse()
    .unwrap();
    let wanted = layout("0:1g.10gb*7");
    let models = [model("A100-80GB"), model("A30")];
    let ours = assemble(Some(&theirs), &models, [&wanted]).unwrap();
    let names: Vec<_> = ours.map.entries.keys().map(String::as_str).collect();
    for name in [
        "night",
        "all-disabled",
        "all-enabled",
        "all-balanced",
        "all-1g.10gb.me",
        "all-4g.24gb",
        "all-7g.80gb",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for suffix in ["", "-a", "-b"] {
        assert!(names.contains(&format!("{}{suffix}", wanted.entry_name()).as_str()));
    }
    assert_eq!(ours.map.entries["all-1g.10gb"], theirs.entries["all-1g.10gb"], "their meaning of a name");
    // The balanced entry is one item per kind of GPU, by PCI id.
    let a100 = [Some(models[0])];
    let a30 = [Some(models[1])];
    let meaning =
        |gpus: &[Option<&Model>]| ours.map.layout_for("all-balanced", &self::gpus(gpus)).unwrap().to_string();
    assert_eq!(meaning(&a100), "0:1g.10gb*2,2g.20gb*1,3g.40gb*1");
    assert_eq!(meaning(&a30), "0:1g.6gb*2,2g.12gb*1");
    let me = ours.map.layout_for("all-1g.10gb.me", &gpus(&a100)).unwrap();
    assert_eq!(me.to_string(), "0:1g.10gb+me*1");
    // What is rendered is what mig-parted would read.
    assert_eq!(ours.text.parse::<MigMap>().unwrap(), ours.map);
    // Same input, same bytes; nothing that nobody refers to is kept.
    assert_eq!(assemble(Some(&theirs), &models, [&wanted]).unwrap(), ours);
    let fewer = assemble(Some(&theirs), &models, []).unwrap();
    assert!(!fewer.map.entries.keys().any(|name| name.starts_with("slicewright-")));
}

/// A PCI id says which model is meant where there are several; one alone needs none.
#[test]
fn only_where_models_differ_do_default_entries_name_them() {
    let (a100, a30) = (model("A100-80GB"), model("A30"));
    let filters = |models: &[&Model]| {
        let map = assemble(None, models, []).unwrap().map;
        map.entries["all-balanced"].iter().map(|item| item.device_filter.len()).collect::<Vec<_>>()
    };
    assert_eq!(filters(&[a100]), [0]);
    assert_eq!(filters(&[a100, a100]), [0], "two of one model");
    assert!(filters(&[a100, a30]).iter().all(|filter| *filter > 0));
}

#[test]
fn a_model_without_device_ids_has_default_entries_only_where_it_is_alone() {
    let data = include_str!("../../../mig/data/a30.yaml");
    let source = data.lines().find(|line| line.starts_with("      pci_device_ids:")).unwrap();
    let without = data
        .replacen("[\"0x20B7\"]", "[]", 1)
        .replacen("    sources:", "    unverified: {pci_device_ids: nobody looked}\n    sources:", 1)
        .replacen(source, "", 1);
    let catalog = Catalog::parse(&[("a30.yaml", &without)]).unwrap();
    let unnamed = catalog.get("A30").unwrap();
    let alone = assemble(None, &[unnamed, unnamed], []).unwrap();
    assert_eq!(alone.without_defaults, Vec::<String>::new());
    assert!(alone.map.entries["all-balanced"].iter().all(|item| item.device_filter.is_empty()));
    let mixed = assemble(None, &[unnamed, model("A100-80GB")], []).unwrap();
    assert_eq!(mixed.without_defaults, [unnamed.id.as_str()]);
    assert!(!mixed.map.entries.contains_key("all-1g.6gb"));
    assert!(mixed.map.entries.contains_key("all-7g.80gb"));
}

#[test]
fn every_default_entry_of_every_model_fits_its_gpu() {
    for model in Catalog::builtin().models() {
        let ours = assemble(None, &[model], []).unwrap();
        assert!(ours.map.entries.len() > model.profiles.len(), "{}", model.id);
        let without_slices = ["all-disabled", "all-enabled"];
        for name in ours.map.entries.keys().filter(|name| !without_slices.contains(&name.as_str())) {
            let meant = ours.map.layout_for(name, &gpus(&[Some(model)])).unwrap();
            assert!(meant.check(Strategy::Mixed).is_ok(), "{} {name}", model.id);
            let slicewright_rollout::GpuLayout::Mig(slices) = &meant.0[&GpuIndex(0)] else {
                panic!("{} {name} is off", model.id)
            };
            let counts =
                slices.iter().map(|(name, n)| (model.geometry.profile_named(*name).unwrap(), *n)).collect();
            assert!(mig::fit::fit(&model.geometry, &counts).is_ok(), "{} {name}", model.id);
        }
    }
}

/// Nodes outside of every policy keep working with the names that they had:
/// DAS has its nodes at `all-enabled`, and makes the slices itself.
#[test]
fn mig_may_be_on_without_slices_under_its_own_name() {
    let models = [model("A100-80GB"), model("A30")];
    let ours = assemble(None, &models, []).unwrap();
    let mixed = gpus(&[Some(models[0]), Some(models[1]), None]);
    let meant = ours.map.layout_for("all-enabled", &mixed).unwrap();
    assert_eq!(meant.to_string(), "0:empty 1:empty 2:off");
    assert!(
        ours.text
            .contains("  all-enabled:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {}\n")
    );
}

#[test]
fn an_entry_that_leaves_something_open_says_what() {
    let map: MigMap = "
version: v1
mig-configs:
  half: [{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  board: [{device-filter: ['0x20B210DE:0x16C110DE'], devices: all, mig-enabled: false}]
  others:
    - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
    - {device-filter: ['0x233010DE:0x16C110DE'], devices: all, mig-enabled: false}
  compute: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 6}}]
  twice:
    - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
    - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 1}}
"
    .parse()
    .unwrap();
    let two = [Some(model("A100-80GB")); 2];
    let unclear = |entry: &str| map.layout_for(entry, &gpus(&two)).unwrap_err().to_string();
    assert_eq!(unclear("half"), "entry `half` says nothing of gpu 1");
    assert!(unclear("board").contains("subsystem id"));
    // Another device's board is of no interest.
    assert!(map.layout_for("others", &gpus(&two)).is_ok());
    assert!(unclear("compute").contains("`1c.3g.40gb`"));
    assert_eq!(unclear("none"), "the map has no entry `none`");
    // Items count in order; a display GPU stays as it is.
    let three = [two[0], two[1], None];
    let meant = map.layout_for("twice", &gpus(&three)).unwrap();
    assert_eq!(meant.to_string(), "0:1g.10gb*7 1:7g.80gb*1 2:off");
    assert_eq!(map.entries["twice"][1].devices, Devices::Indices(vec![1]));
}

#[test]
fn a_map_that_is_wrong_says_where() {
    let item = |item: &str| format!("version: v1\nmig-configs:\n  mine: [{item}]\n");
    check_refused("version: v1\nmig-configs: {}\n", "mig-configs is empty");
    check_refused("version: v1\nmig-configs: {mine: []}\n", "entry `mine` is empty");
    check_refused("version: v2\nmig-configs: {a: []}\n", "version is `v2`; allowed is v1");
    check_refused("version: v1\nmig-confgis: {}\n", "mig-confgis");
    check_refused(&item("{devices: some, mig-enabled: false}"), "devices is `some`; allowed are `all`");
    check_refused(&item("{devices: all, mig-enabled: true}"), "mig-devices is absent");
    check_refused(
        &item("{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}"),
        "mig-devices is given; it is not allowed",
    );
    check_refused(
        &item("{devices: all, mig-enabled: true, mig-devices: {1g10gb: 1}}"),
        "entry `mine`, item 1: mig-devices is `1g10gb`",
    );
    check_refused(&item("{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}"), "all zero");
    check_refused(
        &item("{device-filter: A100, devices: all, mig-enabled: false}"),
        "device-filter is `A100`; allowed are ids",
    );
    check_refused(&item("{devices: all}"), "line");
    let reserved: MigMap =
        "version: v1\nmig-configs:\n  slicewright-x: [{devices: all, mig-enabled: false}]\n".parse().unwrap();
    let error = assemble(Some(&reserved), &[], []).unwrap_err().to_string();
    assert!(error.contains("entry `slicewright-x`"), "{error}");
}

#[test]
fn a_map_that_no_configmap_can_hold_is_refused() {
    let item = "[{devices: all, mig-enabled: false}]";
    let mut text = "version: v1\nmig-configs:\n".to_owned();
    for n in 0..20_000 {
        text.push_str(&format!("  a-name-that-somebody-generated-{n}: {item}\n"));
    }
    let theirs: MigMap = text.parse().unwrap();
    let error = assemble(Some(&theirs), &[], []).unwrap_err().to_string();
    assert!(error.contains("are allowed: shorten"), "{error}");
}

#[test]
fn what_a_layout_offers() {
    let mixed = layout("0:1g.10gb*4,3g.40gb*1 1:1g.10gb*7 2:off");
    let offers = mixed.allocatable(Strategy::Mixed).unwrap();
    let expected = [("nvidia.com/gpu", 1), ("nvidia.com/mig-1g.10gb", 11), ("nvidia.com/mig-3g.40gb", 1)];
    assert_eq!(offers, expected.map(|(name, n)| (name.to_owned(), n)).into());
    assert!(mixed.allocatable(Strategy::Single).unwrap_err().to_string().contains("same profile"));
    let single = layout("0:1g.10gb*7 1:1g.10gb*7").allocatable(Strategy::Single).unwrap();
    assert_eq!(single, [("nvidia.com/gpu".to_owned(), 14)].into());
    assert!(layout("0:1g.10gb*7 1:off").check(Strategy::Single).is_err());
    assert!(mixed.check(Strategy::None).is_err());
    let suffix = layout("0:1g.10gb+me*1").allocatable(Strategy::Mixed).unwrap();
    assert_eq!(suffix, [("nvidia.com/mig-1g.10gb.me".to_owned(), 1)].into());
}

#[test]
fn a_map_may_be_as_large_as_a_config_map_and_not_a_byte_larger() {
    let items = entry(&layout("0:off")).unwrap();
    let named = |length: usize| {
        let entries = [("x".repeat(length), items.clone())].into();
        assemble(Some(&MigMap { entries }), &[], [])
    };
    let rest = named(1000).unwrap().text.len() - 1000;
    assert_eq!(named(MAX_BYTES - rest).unwrap().text.len(), MAX_BYTES);
    let error = named(MAX_BYTES - rest + 1).unwrap_err();
    assert!(matches!(error, MapError::TooLarge { bytes, max } if bytes == MAX_BYTES + 1 && max == MAX_BYTES));
}
