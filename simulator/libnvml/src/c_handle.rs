//! Handles as C programs pass them: each type of the header is a pointer that was given for a [`Handle`] of one kind.

use std::ffi::c_void;

use gpu::{ComputeHandle, InstanceHandle, NvmlError, Reply};

use crate::argument::Argument;
use crate::filled::Filled;
use crate::handle::{Handle, Handles};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident is $variant:ident($inner:ty), on $gpu:expr;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(*mut c_void);

        impl $name {
            /// What it stands for.
            ///
            /// # Errors
            /// `InvalidArgument` for a pointer that is no handle of this kind.
            pub(crate) fn find(self, handles: &Handles) -> Reply<$inner> {
                match handles.find(self.0)? {
                    Handle::$variant(inner) => Ok(inner),
                    _ => Err(NvmlError::InvalidArgument),
                }
            }
        }

        impl Argument for $name {
            fn check(&self, handles: &Handles) -> Reply<()> {
                self.find(handles).map(drop)
            }

            fn gpu(&self, handles: &Handles) -> Option<u16> {
                self.find(handles).ok().and_then($gpu)
            }
        }
    )*};
}

handles! {
    /// `nvmlDevice_t`: a GPU or a MIG device.
    Device is Device(gpu::Device), on |device| Some(device.gpu());
    /// `nvmlGpuInstance_t`.
    GpuInstance is GpuInstance(InstanceHandle), on |instance| Some(instance.gpu());
    /// `nvmlComputeInstance_t`.
    ComputeInstance is ComputeInstance(ComputeHandle), on |instance| Some(instance.parent().gpu());
    /// `nvmlEventSet_t`.
    EventSet is Events(u64), on |_| None;
    /// `nvmlSystemEventSet_t`.
    SystemEventSet is SystemEvents(u64), on |_| None;
    /// `nvmlGpmSample_t`.
    Sample is Sample(u64), on |_| None;
}

impl Filled for SystemEventSet {}
