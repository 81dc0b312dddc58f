//! The fleet on which a trace is played.

use std::collections::BTreeSet;
use std::sync::Arc;

use mig::{Catalog, Geometry, ProfileName};
use planner::names::NodeName;

/// The most GPUs of a node, and the most nodes: what the planner is measured with.
const MOST_GPUS: usize = 16;
const MOST_NODES: usize = 10_000;

/// Nodes with GPUs. All have MIG on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Its nodes, by name.
    pub nodes: Vec<FleetNode>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetNode {
    /// Its name.
    pub name: NodeName,
    /// Its GPUs, by index.
    pub gpus: Vec<FleetGpu>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetGpu {
    /// Its model's name in the catalogue.
    pub model: String,
    /// Its model's profiles and placements.
    pub geometry: Arc<Geometry>,
}

/// Why a text is no fleet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// Not of the form.
    #[error(
        "fleet `{text}`: `{part}` is not NODESxGPUSxMODEL; write such as 9x8xA100-80GB for nine nodes with eight GPUs each, several with commas between"
    )]
    Form {
        /// The whole.
        text: String,
        /// The part.
        part: String,
    },
    /// None, or more than can be.
    #[error("fleet `{text}`: `{value}` is not a number of {what}; write a whole number from 1 to {most}")]
    Number {
        /// The whole.
        text: String,
        /// The number.
        value: String,
        /// Of what.
        what: &'static str,
        /// The most.
        most: usize,
    },
    /// No such model.
    #[error("fleet `{text}`: {unknown}")]
    Model {
        /// The whole.
        text: String,
        /// What is known instead.
        unknown: String,
    },
    /// Of a fleet of several kinds of nodes nobody can tell which to add.
    #[error(
        "the nodes of the fleet differ, so how many of them are enough has no one answer; name one kind, such as 9x8xA100-80GB"
    )]
    Differ,
    /// More nodes than can be.
    #[error("the fleet has {nodes} nodes; at most {MOST_NODES} are played")]
    TooMany {
        /// How many.
        nodes: usize,
    },
}

impl Fleet {
    /// Reads `NODESxGPUSxMODEL`, several with commas between.
    ///
    /// # Errors
    /// Names the part that makes no sense, and what is allowed.
    pub fn parse(text: &str, catalog: &Catalog) -> Result<Self, FleetError> {
        let mut kinds = Vec::new();
        for part in text.split(',').map(str::trim) {
            let form = || FleetError::Form { text: text.to_owned(), part: part.to_owned() };
            let (nodes, rest) = part.split_once('x').ok_or_else(form)?;
            let (gpus, model) = rest.split_once('x').ok_or_else(form)?;
            let number = |value: &str, what: &'static str, most: usize| {
                let number = value.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
                let wrong =
                    || FleetError::Number { text: text.to_owned(), value: value.to_owned(), what, most };
                number.ok_or_else(wrong)
            };
            let (nodes, gpus) =
                (number(nodes, "nodes", MOST_NODES)?, number(gpus, "GPUs of a node", MOST_GPUS)?);
            let unknown = |error: mig::UnknownModel| FleetError::Model {
                text: text.to_owned(),
                unknown: error.to_string(),
            };
            let model = catalog.find(model).map_err(unknown)?;
            let gpu = FleetGpu { model: model.id.clone(), geometry: Arc::clone(&model.geometry) };
            kinds.push((nodes, vec![gpu; gpus]));
        }
        let total: usize = kinds.iter().map(|(nodes, _)| nodes).sum();
        if total > MOST_NODES {
            return Err(FleetError::TooMany { nodes: total });
        }
        Ok(Self::numbered(
            kinds.into_iter().flat_map(|(nodes, gpus)| std::iter::repeat_n(gpus, nodes)).collect(),
        ))
    }

    /// The same nodes, but so many; the fleet has one kind of nodes.
    ///
    /// # Errors
    /// If its nodes differ, or there would be none or more than are played.
    pub fn with_nodes(&self, nodes: usize) -> Result<Self, FleetError> {
        let text = self.words();
        let wrong = FleetError::Number { text, value: nodes.to_string(), what: "nodes", most: MOST_NODES };
        let (Some(first), 1..=MOST_NODES) = (self.nodes.first(), nodes) else { return Err(wrong) };
        if self.nodes.iter().any(|node| node.gpus != first.gpus) {
            return Err(FleetError::Differ);
        }
        Ok(Self::numbered(std::iter::repeat_n(first.gpus.clone(), nodes).collect()))
    }

    fn numbered(gpus: Vec<Vec<FleetGpu>>) -> Self {
        let width = gpus.len().to_string().len();
        // Names of one width are in the order of their numbers.
        let name = |i: usize| NodeName(format!("n{:0width$}", i + 1));
        Self {
            nodes: gpus.into_iter().enumerate().map(|(i, gpus)| FleetNode { name: name(i), gpus }).collect(),
        }
    }

    /// All GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &FleetGpu> {
        self.nodes.iter().flat_map(|node| &node.gpus)
    }

    /// The compute slices of all GPUs.
    #[must_use]
    pub fn compute(&self) -> u64 {
        self.gpus().map(|gpu| u64::from(gpu.geometry.compute())).sum()
    }

    /// What some GPU of it can be cut into.
    #[must_use]
    pub fn profiles(&self) -> BTreeSet<ProfileName> {
        self.gpus().flat_map(|gpu| gpu.geometry.profiles().iter().map(|spec| spec.name)).collect()
    }

    /// The most slices of a profile that one node can have.
    #[must_use]
    pub fn most_on_a_node(&self, profile: ProfileName) -> u32 {
        let of = |gpu: &FleetGpu| {
            gpu.geometry
                .profile_named(profile)
                .map_or(0, |p| u32::from(mig::remaining(&gpu.geometry, mig::Layout::EMPTY, p)))
        };
        self.nodes.iter().map(|node| node.gpus.iter().map(of).sum()).max().unwrap_or(0)
    }

    /// How many GPUs it has of each model, by name: `72 A100-80GB`.
    #[must_use]
    pub fn words(&self) -> String {
        let mut models: Vec<(&str, usize)> = Vec::new();
        for gpu in self.gpus() {
            match models.iter_mut().find(|(model, _)| *model == gpu.model) {
                Some((_, n)) => *n += 1,
                None => models.push((&gpu.model, 1)),
            }
        }
        models.iter().map(|(model, n)| format!("{n} {model}")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_nodes_times_gpus_times_a_model() {
        let fleet = Fleet::parse("9x8xA100-80GB, 2x4xA30", Catalog::builtin()).expect("a fleet");
        assert_eq!(fleet.words(), "72 A100-80GB, 8 A30");
        assert_eq!(fleet.compute(), 72 * 7 + 8 * 4);
        assert_eq!((fleet.nodes[0].name.0.as_str(), fleet.nodes[10].name.0.as_str()), ("n01", "n11"));
        assert_eq!(fleet.most_on_a_node("3g.40gb".parse().expect("a profile")), 16);
    }

    #[test]
    fn what_is_no_fleet_is_refused_with_what_is_allowed() {
        let refused = |text: &str| Fleet::parse(text, Catalog::builtin()).expect_err("refused").to_string();
        assert!(refused("").starts_with("fleet ``: `` is not NODESxGPUSxMODEL; write such as 9x8xA100-80GB"));
        assert_eq!(
            refused("0x8xA100-80GB"),
            "fleet `0x8xA100-80GB`: `0` is not a number of nodes; write a whole number from 1 to 10000"
        );
        assert_eq!(
            refused("1x17xA100-80GB"),
            "fleet `1x17xA100-80GB`: `17` is not a number of GPUs of a node; write a whole number from 1 to 16"
        );
        assert!(refused("1x1xA100-90GB").contains("A100-80GB"));
    }
}
