//! The types of the Kubernetes API: our own, and the foreign ones that we
//! read.
//!
//! Our own kinds are read strictly: a field that is unknown, misspelt or of
//! the wrong type is an error with file, line and column, and the same schema
//! that the API server gets decides it. Foreign kinds are read leniently: what
//! we do not know is ignored, what we cannot read is a problem to report.
//!
//! No client, no I/O: texts in, typed objects and problems out.

pub mod condition;
pub mod crd;
pub mod foreign;
pub mod gpu_node;
pub mod located;
pub mod node_agent;
pub mod policy;
pub mod policy_status;
pub mod review;
pub mod schema;
pub mod selector;
pub mod sharing;
pub mod spelling;
pub mod strict;
pub mod syntax;
pub mod units;
pub mod wanted;

pub use crd::crds;
pub use gpu_node::{GpuNode, GpuNodeSpec, GpuNodeStatus};
pub use policy::{GpuPartitionPolicy, GpuPartitionPolicySpec};
pub use policy_status::GpuPartitionPolicyStatus;

/// The API group of our kinds.
pub const GROUP: &str = "slicewright.io";
/// The version of our kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version as objects write them.
pub const API_VERSION: &str = "slicewright.io/v1alpha1";
