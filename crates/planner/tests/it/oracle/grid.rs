//! All legal states of a GPU, by trying every set of placements.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mig::{Geometry, ProfileName};

pub(crate) type Slice = (ProfileName, u8);

type States = Rc<Vec<Vec<Slice>>>;

thread_local! {
    static KNOWN: RefCell<HashMap<Vec<ProfileName>, States>> = RefCell::default();
}

/// Every set of slices that one GPU can have, the empty one included. Test
/// geometries have no media profiles: memory and compute are all that counts.
pub(crate) fn states(geometry: &Arc<Geometry>) -> States {
    let key: Vec<ProfileName> = geometry.profiles().iter().map(|spec| spec.name).collect();
    if let Some(states) = KNOWN.with_borrow(|known| known.get(&key).cloned()) {
        return states;
    }
    let mut states = vec![(vec![], 0_u32, 0_u8)];
    for spec in geometry.profiles() {
        for start in &spec.starts {
            let units = ((1_u32 << spec.size) - 1) << start;
            let grown: Vec<_> = states
                .iter()
                .filter(|(_, taken, compute)| {
                    taken & units == 0 && compute + spec.compute <= geometry.compute()
                })
                .map(|(slices, taken, compute)| {
                    let mut slices: Vec<Slice> = slices.clone();
                    slices.push((spec.name, *start));
                    (slices, taken | units, compute + spec.compute)
                })
                .collect();
            states.extend(grown);
        }
    }
    let states: States = Rc::new(states.into_iter().map(|(slices, _, _)| slices).collect());
    KNOWN.with_borrow_mut(|known| known.insert(key, Rc::clone(&states)));
    states
}

#[test]
fn the_known_figures_come_out() {
    let count = |gpu: planner::testing::GpuBuilder| states(&gpu.build().geometry).len();
    assert_eq!(count(planner::testing::a100()), 723);
    assert_eq!(count(planner::testing::a30()), 26);
}
