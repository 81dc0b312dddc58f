//! Simulated GPUs with the MIG semantics of NVML and its driver. Pure: no I/O, no clock; time is an
//! argument, and faults are data.
//!
//! [`Machine`] is a host with GPUs. [`Machine::nvml`] is the library as a process sees it: typed functions
//! named after NVML's, which fail with NVML's codes. [`Machine::open`] and [`Machine::allocate`] are the
//! two ways to hold a slice: either a process has it open, and the driver protects it; or the kubelet
//! allocated it to a pod, and nothing protects it. Destroying the latter succeeds and is counted in
//! [`Machine::breaches`].
//!
//! What is modelled from which source, and what is inferred: `docs/simulator.md`.

mod compute;
mod device;
mod driver;
mod error;
mod event;
mod fault;
mod handle;
mod machine;
mod meter;
mod mode;
mod model;
mod named;
mod power;
mod question;
mod reserved;
mod saved;
mod session;
mod topology;
mod uuid;
mod verbs;

pub use compute::ComputeProfile;
pub use device::{Allocation, ComputeInstance, EccErrors, Gpu, GpuInstance, Labelling, gpu_instance_id};
pub use driver::{DriverBranch, OtherCards};
pub use error::{NvmlError, Reply};
pub use event::{Breach, Event, Happened};
pub use fault::{Behaviour, Fault, Scheduled, Stall, Times, Verb};
pub use handle::{
    Attributes, Caller, ComputeHandle, ComputeInstanceInfo, Device, GpuInstanceInfo, InstanceHandle, Memory,
    Placement,
};
pub use machine::{Activity, Client, ClientId, Machine, Share, Target};
pub use mode::{Activation, MigMode, Mode};
pub use model::{Engines, MigFacts, Model, ModelError, PciClass, ProfileFacts};
pub use named::{NotNamed, without_mig};
pub use power::{Load, Work};
pub use question::Subject;
pub use session::{GPU_INSTANCE_PROFILE_COUNT, Nvml};
pub use topology::{Bridge, BridgeKind, FarEnd, Nearness, NumaNode, NvLinks, Seat, Topology, UnknownMachine};
