//! The errors of NVML's calls: its codes, a closed list, with NVML's own texts.

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
    #[error("vGPU ECC not supported")]
    VgpuEccNotSupported = 22,
    /// No room for this instance.
    #[error("Insufficient Resources")]
    InsufficientResources = 23,
    /// Not one of the frequencies.
    #[error("Invalid Frequency")]
    FreqNotSupported = 24,
    /// A struct of another version.
    #[error("Argument version mismatch")]
    ArgumentVersionMismatch = 25,
    /// The function is retired.
    #[error("Requested functionality has been deprecated")]
    Deprecated = 26,
    /// Not yet.
    #[error("System is not in ready state")]
    NotReady = 27,
    /// No GPU answers.
    #[error("No supported GPUs were found")]
    GpuNotFound = 28,
    /// Not in this state.
    #[error("Resource not in correct state to perform requested operation")]
    InvalidState = 29,
    /// Not this kind of reset.
    #[error("Reset type is not supported for given device")]
    ResetTypeNotSupported = 30,
    /// Anything else.
    #[error("Unknown Error")]
    Unknown = 999,
}

impl NvmlError {
    /// All of them, by number.
    pub const ALL: [Self; 31] = [
        Self::Uninitialized,
        Self::InvalidArgument,
        Self::NotSupported,
        Self::NoPermission,
        Self::AlreadyInitialized,
        Self::NotFound,
        Self::InsufficientSize,
        Self::InsufficientPower,
        Self::DriverNotLoaded,
        Self::Timeout,
        Self::IrqIssue,
        Self::LibraryNotFound,
        Self::FunctionNotFound,
        Self::CorruptedInforom,
        Self::GpuIsLost,
        Self::ResetRequired,
        Self::OperatingSystem,
        Self::LibRmVersionMismatch,
        Self::InUse,
        Self::Memory,
        Self::NoData,
        Self::VgpuEccNotSupported,
        Self::InsufficientResources,
        Self::FreqNotSupported,
        Self::ArgumentVersionMismatch,
        Self::Deprecated,
        Self::NotReady,
        Self::GpuNotFound,
        Self::InvalidState,
        Self::ResetTypeNotSupported,
        Self::Unknown,
    ];

    /// Its name in `nvml.h`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uninitialized => "NVML_ERROR_UNINITIALIZED",
            Self::InvalidArgument => "NVML_ERROR_INVALID_ARGUMENT",
            Self::NotSupported => "NVML_ERROR_NOT_SUPPORTED",
            Self::NoPermission => "NVML_ERROR_NO_PERMISSION",
            Self::AlreadyInitialized => "NVML_ERROR_ALREADY_INITIALIZED",
            Self::NotFound => "NVML_ERROR_NOT_FOUND",
            Self::InsufficientSize => "NVML_ERROR_INSUFFICIENT_SIZE",
            Self::InsufficientPower => "NVML_ERROR_INSUFFICIENT_POWER",
            Self::DriverNotLoaded => "NVML_ERROR_DRIVER_NOT_LOADED",
            Self::Timeout => "NVML_ERROR_TIMEOUT",
            Self::IrqIssue => "NVML_ERROR_IRQ_ISSUE",
            Self::LibraryNotFound => "NVML_ERROR_LIBRARY_NOT_FOUND",
            Self::FunctionNotFound => "NVML_ERROR_FUNCTION_NOT_FOUND",
            Self::CorruptedInforom => "NVML_ERROR_CORRUPTED_INFOROM",
            Self::GpuIsLost => "NVML_ERROR_GPU_IS_LOST",
            Self::ResetRequired => "NVML_ERROR_RESET_REQUIRED",
            Self::OperatingSystem => "NVML_ERROR_OPERATING_SYSTEM",
            Self::LibRmVersionMismatch => "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            Self::InUse => "NVML_ERROR_IN_USE",
            Self::Memory => "NVML_ERROR_MEMORY",
            Self::NoData => "NVML_ERROR_NO_DATA",
            Self::VgpuEccNotSupported => "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
            Self::InsufficientResources => "NVML_ERROR_INSUFFICIENT_RESOURCES",
            Self::FreqNotSupported => "NVML_ERROR_FREQ_NOT_SUPPORTED",
            Self::ArgumentVersionMismatch => "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
            Self::Deprecated => "NVML_ERROR_DEPRECATED",
            Self::NotReady => "NVML_ERROR_NOT_READY",
            Self::GpuNotFound => "NVML_ERROR_GPU_NOT_FOUND",
            Self::InvalidState => "NVML_ERROR_INVALID_STATE",
            Self::ResetTypeNotSupported => "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED",
            Self::Unknown => "NVML_ERROR_UNKNOWN",
        }
    }

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
            // All texts of driver 580.159.04; those that differ from the header's comments.
            (NvmlError::VgpuEccNotSupported, 22, "vGPU ECC not supported"),
            (NvmlError::FreqNotSupported, 24, "Invalid Frequency"),
            (NvmlError::Deprecated, 26, "Requested functionality has been deprecated"),
            (NvmlError::NotReady, 27, "System is not in ready state"),
            (NvmlError::GpuNotFound, 28, "No supported GPUs were found"),
            (NvmlError::InvalidState, 29, "Resource not in correct state to perform requested operation"),
            (NvmlError::ResetTypeNotSupported, 30, "Reset type is not supported for given device"),
        ];
        for (error, code, text) in captured {
            assert_eq!((error.code(), error.to_string().as_str()), (code, text));
        }
        assert_eq!(NvmlError::Unknown.code(), 999);
        assert!(NvmlError::ALL.is_sorted_by_key(|error| error.code()), "by number");
        assert_eq!(NvmlError::ALL.len(), 31);
        assert_eq!(NvmlError::GpuIsLost.name(), "NVML_ERROR_GPU_IS_LOST");
    }
}
