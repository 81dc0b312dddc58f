//! Foreign kinds that we read, leniently: what we do not know is ignored.

pub mod cluster_policy;
pub mod hardware_profile;
pub mod kueue;
pub mod legacy;
pub mod metadata;
pub mod notebook;
pub mod platform;
pub mod queue;
pub mod shared;
pub mod string_map;
pub mod template;
pub mod workload;

pub use cluster_policy::ClusterPolicy;
pub use hardware_profile::HardwareProfile;
pub use kueue::{AdmissionCheck, ResourceFlavor};
pub use metadata::{Metadata, Named};
pub use notebook::Notebook;
pub use platform::{DscInitialization, ModelServer};
pub use queue::{ClusterQueue, LocalQueue};
pub use shared::Shared;
pub use string_map::StringMap;
pub use template::TemplateSpec;
pub use workload::Workload;
