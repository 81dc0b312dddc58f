//! What NVML answers when a call fails: its codes, closed, with its own words.

use serde::{Deserialize, Serialize};

/// A failed NVML call. The numbers are those of `nvmlReturn_t`; the display is
/// what `nvmlErrorString` says.
///
/// Captured on hardware are the texts of [`InUse`](Self::InUse),
/// [`InsufficientResources`](Self::InsufficientResources),
/// [`NotFound`](Self::NotFound), [`NotSupported`](Self::NotSupported) and
/// [`NoPermission`](Self::NoPermission); the others follow the names in
/// `nvml.h` and are not verified to the letter.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error, Serialize, Deserialize,
)]
#[repr(u32)]
pub enum NvmlError {
    /// The caller did not initialise the library.
    #[error("Uninitialized")]
    Uninitialized = 1,
    /// A handle is stale or of the wrong kind, or a value is not possible.
    #[error("Invalid Argument")]
    InvalidArgument = 2,
    /// The GPU, or its present mode, cannot do this.
    #[error("Not Supported")]
    NotSupported = 3,
    /// The caller is not privileged.
    #[error("Insufficient Permissions")]
    NoPermission = 4,
    /// Initialised twice, where that is not allowed.
    #[error("Already Initialized")]
    AlreadyInitialized = 5,
    /// There is no such thing.
    #[error("Not Found")]
    NotFound = 6,
    /// The caller's buffer is too small.
    #[error("Insufficient Size")]
    InsufficientSize = 7,
    /// A power cable is missing.
    #[error("Insufficient External Power")]
    InsufficientPower = 8,
    /// There is no driver.
    #[error("Driver Not Loaded")]
    DriverNotLoaded = 9,
    /// The call took too long. Also what a call that hangs would answer if it
    /// ever came back: see [`Stall::Forever`](crate::Stall::Forever).
    #[error("Timeout")]
    Timeout = 10,
    /// The kernel has a problem with interrupts.
    #[error("Interrupt Request Issue")]
    IrqIssue = 11,
    /// The library is not there.
    #[error("NVML Shared Library Not Found")]
    LibraryNotFound = 12,
    /// The library is too old for this function.
    #[error("Function Not Found")]
    FunctionNotFound = 13,
    /// The InfoROM is damaged.
    #[error("Corrupted infoROM")]
    CorruptedInforom = 14,
    /// The GPU fell off the bus.
    #[error("GPU is lost")]
    GpuIsLost = 15,
    /// The GPU must be reset first.
    #[error("GPU requires reset")]
    ResetRequired = 16,
    /// The operating system blocks the GPU.
    #[error("GPU access blocked by the operating system")]
    OperatingSystem = 17,
    /// Library and kernel module are of different versions.
    #[error("Driver/library version mismatch")]
    LibRmVersionMismatch = 18,
    /// Somebody holds it.
    #[error("In use by another client")]
    InUse = 19,
    /// No memory.
    #[error("Insufficient Memory")]
    Memory = 20,
    /// There is no data.
    #[error("No data")]
    NoData = 21,
    /// vGPU and ECC do not go together here.
    #[error("The requested vgpu operation is not available on target device, because ECC is enabled")]
    VgpuEccNotSupported = 22,
    /// No room for this instance.
    #[error("Insufficient Resources")]
    InsufficientResources = 23,
    /// Not one of the frequencies.
    #[error("Requested frequency not supported")]
    FreqNotSupported = 24,
    /// A struct of another version.
    #[error("Argument version mismatch")]
    ArgumentVersionMismatch = 25,
    /// The function is retired.
    #[error("Deprecated")]
    Deprecated = 26,
    /// Not yet.
    #[error("System not ready")]
    NotReady = 27,
    /// No GPU answers.
    #[error("GPU not found")]
    GpuNotFound = 28,
    /// Not in this state.
    #[error("Invalid state")]
    InvalidState = 29,
    /// Not this kind of reset.
    #[error("Reset type not supported")]
    ResetTypeNotSupported = 30,
    /// Anything else.
    #[error("Unknown Error")]
    Unknown = 999,
}

impl NvmlError {
    /// The number of `nvmlReturn_t`.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// What an NVML call answers.
pub type Reply<T> = Result<T, NvmlError>;

#[cfg(test)]
mod tests {
    use super::NvmlError::{self, InUse, InsufficientResources, NoPermission, NotFound, NotSupported};

    #[test]
    fn the_captured_texts_and_their_codes() {
        let captured = [
            (InUse, 19, "In use by another client"),
            (InsufficientResources, 23, "Insufficient Resources"),
            (NotFound, 6, "Not Found"),
            (NotSupported, 3, "Not Supported"),
            (NoPermission, 4, "Insufficient Permissions"),
        ];
        for (error, code, text) in captured {
            assert_eq!((error.code(), error.to_string().as_str()), (code, text));
        }
        assert_eq!(NvmlError::Unknown.code(), 999);
    }
}
