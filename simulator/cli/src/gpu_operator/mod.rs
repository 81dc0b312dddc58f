//! Replaces the GPU Operator on a cluster where NVIDIA's components run over simulated GPUs (the manifests
//! are in `e2e/kind/manifests`): the Operator's own program is in no published module.
//!
//! It has only the visible effects of the Operator: the labels of nodes that determine which operands run
//! there, the settings of the DaemonSets that follow its ClusterPolicy, and the state of that policy. The
//! necessary writes follow from the observed objects ([`due`]); [`run`] observes, and does them.
//!
//! It never creates DaemonSets (they are manifests), changes a label value that another client wrote, or
//! reads GPUs.

mod due;
mod run;

pub use due::{Seen, Write, due};
pub use run::{Error, run};
