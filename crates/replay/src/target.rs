//! What becomes of GPUs, as the methods decide it.

use std::collections::BTreeMap;

use mig::ProfileName;
use planner::names::NodeName;

/// What a GPU is cut into: profiles and where they start.
pub(crate) type Cut = Vec<(ProfileName, u8)>;
/// What becomes of the GPUs of a node that change, by index.
pub(crate) type Target = BTreeMap<usize, Cut>;
/// What is wanted: by node, in the order in which nodes should go.
pub(crate) type Wanted = Vec<(NodeName, Target)>;
