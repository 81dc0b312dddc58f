//! The situations of all GPUs by number: hundreds of GPUs are in a few situations, which are compared once.

use std::collections::BTreeMap;

use super::targets::Situation;
use crate::names::GpuIndex;

/// Situations by number.
#[derive(Debug)]
pub(super) struct Numbered {
    /// Each once, in their order: a lower number is a lower situation.
    pub(super) all: Vec<Situation>,
    /// By node, the number of the situation of each GPU.
    pub(super) of_nodes: Vec<Vec<(GpuIndex, usize)>>,
}

impl Numbered {
    /// Numbers the situations of the GPUs of each node.
    pub(super) fn new(nodes: impl Iterator<Item = Vec<(GpuIndex, Situation)>>) -> Self {
        // First by appearance.
        let mut known: BTreeMap<Situation, usize> = BTreeMap::new();
        let mut of_nodes: Vec<Vec<(GpuIndex, usize)>> = Vec::new();
        for gpus in nodes {
            let mut numbers = Vec::with_capacity(gpus.len());
            for (index, situation) in gpus {
                let next = known.len();
                numbers.push((index, *known.entry(situation).or_insert(next)));
            }
            of_nodes.push(numbers);
        }
        let mut place = vec![0; known.len()];
        let mut all = Vec::with_capacity(known.len());
        for (situation, appeared) in known {
            place[appeared] = all.len();
            all.push(situation);
        }
        of_nodes.iter_mut().flatten().for_each(|(_, number)| *number = place[*number]);
        Self { all, of_nodes }
    }
}
