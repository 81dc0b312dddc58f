//! Foreign kinds that we read, leniently: what we do not know is ignored.

pub mod cluster_policy;
pub mod hardware_profile;
pub mod kueue;
pub mod legacy;
pub mod notebook;
pub mod platform;
pub mod queue;
pub mod workload;

pub use cluster_policy::ClusterPolicy;
pub use hardware_profile::HardwareProfile;
pub use kueue::{AdmissionCheck, ResourceFlavor};
pub use notebook::Notebook;
pub use platform::{DscInitialization, ModelServer};
pub use queue::{ClusterQueue, LocalQueue};
pub use workload::Workload;
