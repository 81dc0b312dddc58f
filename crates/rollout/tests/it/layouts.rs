//! What a layout offers and requests under each strategy, and whose slices a new layout of a node destroys.

use std::collections::BTreeMap;

use crate::fake::{World, layout};
use planner::names::GpuIndex;
use slicewright_rollout::map::entry;
use slicewright_rollout::{LayoutRefused, Strategy};

const STRATEGIES: [Strategy; 3] = [Strategy::None, Strategy::Single, Strategy::Mixed];

fn counts<const N: usize>(all: [(&str, u64); N]) -> BTreeMap<String, u64> {
    all.map(|(resource, count)| (resource.to_owned(), count)).into()
}

#[test]
fn a_node_without_mig_is_the_same_under_every_strategy() {
    let off = layout("0:off 1:off");
    for strategy in STRATEGIES {
        assert_eq!(off.check(strategy), Ok(()), "{strategy:?}");
        assert_eq!(off.allocatable(strategy).unwrap(), [("nvidia.com/gpu".to_owned(), 2)].into());
        assert_eq!(off.counted(strategy), BTreeMap::new(), "{strategy:?}: nobody counts slices there");
    }
}

#[test]
fn without_a_strategy_no_slice_can_be_offered() {
    let cut = layout("0:1g.10gb*7 1:off");
    assert_eq!(cut.check(Strategy::None), Err(LayoutRefused::NoStrategy));
    assert_eq!(cut.counted(Strategy::None), BTreeMap::new());
}

#[test]
fn slices_are_counted_under_the_names_that_their_strategy_gives_them() {
    let mixed = layout("0:1g.10gb*4,3g.40gb*1 1:1g.10gb*7 2:off");
    let slices = [("nvidia.com/mig-1g.10gb", 11), ("nvidia.com/mig-3g.40gb", 1)];
    assert_eq!(mixed.counted(Strategy::Mixed), counts(slices), "whole GPUs are no slices");
    let single = layout("0:1g.10gb*7 1:1g.10gb*7");
    assert_eq!(single.counted(Strategy::Single), counts([("nvidia.com/gpu", 14)]));
}

/// The device plugin ends under `single` where MIG is on for some GPUs only, and offers nothing then.
#[test]
fn whole_gpus_beside_slices_need_strategy_mixed() {
    let half = layout("0:off 1:off 2:1g.10gb*7 3:1g.10gb*7");
    let whole_and_cut = [("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.10gb", 14)];
    assert_eq!(half.allocatable(Strategy::Mixed), Ok(counts(whole_and_cut)));
    assert_eq!(half.check(Strategy::Single), Err(LayoutRefused::NotUniform { layout: half.clone() }));
    let said = half.check(Strategy::Single).unwrap_err().to_string();
    assert!(said.contains("or MIG off on every GPU") && said.contains("to `mixed`"), "{said}");
    let items = entry(&half).unwrap();
    let modes: Vec<_> = items.iter().map(|item| (item.devices.clone(), item.mig_enabled)).collect();
    let indices = slicewright_rollout::map::Devices::Indices;
    assert_eq!(modes, [(indices(vec![0, 1]), false), (indices(vec![2, 3]), true)]);
}

/// A profile of which there is none is as if it were not named.
#[test]
fn a_profile_of_which_there_is_none_counts_for_nothing() {
    let (some, named) = (layout("0:1g.10gb*7"), layout("0:1g.10gb*7,3g.40gb*0"));
    for strategy in [Strategy::Single, Strategy::Mixed] {
        assert_eq!(named.check(strategy), Ok(()), "{strategy:?}");
        assert_eq!(named.allocatable(strategy), some.allocatable(strategy));
        assert_eq!(named.counted(strategy), some.counted(strategy));
    }
    assert_eq!(entry(&named), entry(&some), "it is not written into the map either");
}

/// MIG that goes on or off on one GPU resets them all: whoever holds anything on the
/// node loses it, wherever it is.
#[test]
fn a_switch_of_mig_costs_every_pod_of_the_node_its_slice() {
    let (off, on) = (layout("0:off 1:3g.40gb*2"), layout("0:1g.10gb*7 1:3g.40gb*2"));
    let cut = layout("0:2g.20gb*3 1:3g.40gb*2");
    let mut world = World::new("0:off 1:3g.40gb*2");
    let mut neighbour = world.pod("neighbour", "mig-3g.40gb", 1).pod.clone();
    for gpus in [None, Some([GpuIndex(1)].into())] {
        neighbour.gpus = gpus;
        assert!(neighbour.may_lose(Some(&off), &on, Strategy::Mixed), "MIG goes on beside it");
        assert!(neighbour.may_lose(Some(&on), &off, Strategy::Mixed), "MIG goes off beside it");
        assert!(!neighbour.may_lose(Some(&on), &cut, Strategy::Mixed), "a GPU beside it is cut anew");
        assert!(!neighbour.may_lose(Some(&off), &off, Strategy::Mixed), "nothing changes");
        assert!(neighbour.may_lose(None, &cut, Strategy::Mixed), "nobody knows what there is");
    }
}

#[test]
fn a_pod_that_asks_for_none_of_a_resource_holds_nothing() {
    let mut world = World::new("0:off");
    let pod = &mut world.pod("idle", "gpu", 0).pod;
    assert!(pod.holds_gpu());
    pod.requests.values_mut().for_each(|n| *n = 0);
    assert!(!pod.holds_gpu());
    assert!(!pod.may_lose(None, &layout("0:1g.10gb*7"), Strategy::Mixed));
}
