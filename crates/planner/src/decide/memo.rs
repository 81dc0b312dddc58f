//! What is known from the decision before: it changes how long the next one takes, and nothing that it says.
//! Both parts are results that follow from their keys alone.

use std::sync::Arc;

use mig::Geometry;

use super::targets::{Situation, Target};
use crate::lasting::Lasting;
use crate::solver::Answers;

/// The targets that are kept of one turn at most, some 250 bytes each: 16 MiB a turn.
const MOST_TARGETS: usize = 1 << 16;
/// The geometries of which targets are kept: a fleet has one for each model of GPU.
const MOST_GEOMETRIES: usize = 64;

/// What is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Memo {
    /// What may become of GPUs.
    pub(super) targets: Targets,
    /// What the solver has answered.
    pub(super) answers: Answers,
    /// Whether nodes that are alike are planned together however few they are, as on a large fleet.
    pub(super) by_classes: bool,
    /// Whether each part of the cluster is planned by itself for a gang however small the fleet is, as on a large fleet.
    pub(super) by_parts: bool,
}

impl Memo {
    /// Begins a decision.
    pub(super) fn begin(&mut self) {
        self.targets.known.begin();
        if self.targets.geometries.len() > MOST_GEOMETRIES {
            self.targets = Targets::default();
        }
        self.answers.begin();
    }
}

/// The targets of situations.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    /// Their positions are the numbers of geometries in keys: each world has numbers of its own.
    geometries: Vec<Arc<Geometry>>,
    known: Lasting<Situation, Arc<[Target]>>,
}

impl Default for Targets {
    fn default() -> Self {
        Self { geometries: vec![], known: Lasting::new(MOST_TARGETS) }
    }
}

impl Targets {
    /// The targets of a situation of a GPU that has this geometry.
    pub(super) fn of_situation(&mut self, situation: &Situation, geometry: &Arc<Geometry>) -> Arc<[Target]> {
        let number = self.geometries.iter().position(|known| known == geometry).unwrap_or_else(|| {
            self.geometries.push(Arc::clone(geometry));
            self.geometries.len() - 1
        });
        let key = Situation { geometry: number, ..situation.clone() };
        if let Some(known) = self.known.get(&key) {
            return known;
        }
        let targets: Arc<[Target]> = situation.targets(geometry).into();
        self.known.keep(key, Arc::clone(&targets), targets.len() + 1);
        targets
    }
}
