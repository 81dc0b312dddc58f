//! What stands in for the GPU Operator on a cluster where NVIDIA's components
//! run over simulated GPUs (`operands.yaml`, `driver.yaml` beside this): the
//! Operator's own program is in no module that can be had.
//!
//! It does what those who use the Operator see of it, and nothing else: the
//! labels of nodes that say what runs there, the DaemonSets' settings that
//! follow its ClusterPolicy, and that policy's state. What is due follows from
//! what is there ([`due`]); [`run`] looks, and does it.
//!
//! It may not: make DaemonSets (they are manifests), touch a value that
//! somebody else gave a label, or look at GPUs.

mod due;
mod run;

pub use due::{Seen, Write, due};
pub use run::{Error, run};
