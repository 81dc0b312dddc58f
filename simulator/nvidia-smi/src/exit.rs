//! The statuses with which nvidia-smi ends. They follow NVML's codes where its
//! manual lists them; everything else is 255.

use nvml::Code;

/// A status for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// It worked.
    pub(crate) const SUCCESS: Self = Self(0);
    /// An argument is wrong.
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    /// What was asked for is not there.
    pub(crate) const NOT_FOUND: Self = Self(6);
    /// The library is not there.
    pub(crate) const LIBRARY_NOT_FOUND: Self = Self(12);
    /// The real program knows what was asked for, and this one does not simulate
    /// it. NVIDIA's own has no such status; it is that of `EX_UNAVAILABLE`.
    pub(crate) const NOT_SIMULATED: Self = Self(69);
    /// Anything that has no status of its own.
    pub(crate) const OTHER: Self = Self(255);

    /// The status for a code of the library.
    pub(crate) const fn from_code(code: Code) -> Self {
        match code {
            Code::InvalidArgument => Self::INVALID_ARGUMENT,
            Code::NotSupported => Self(3),
            Code::NoPermission => Self(4),
            Code::NotFound => Self::NOT_FOUND,
            Code::InsufficientPower => Self(8),
            Code::DriverNotLoaded => Self(9),
            Code::IrqIssue => Self(10),
            Code::LibraryNotFound => Self::LIBRARY_NOT_FOUND,
            Code::FunctionNotFound => Self(13),
            Code::CorruptedInforom => Self(14),
            Code::GpuIsLost => Self(15),
            Code::Uninitialized
            | Code::AlreadyInitialized
            | Code::InsufficientSize
            | Code::Timeout
            | Code::ResetRequired
            | Code::OperatingSystem
            | Code::LibRmVersionMismatch
            | Code::InUse
            | Code::Memory
            | Code::NoData
            | Code::VgpuEccNotSupported
            | Code::InsufficientResources
            | Code::FreqNotSupported
            | Code::ArgumentVersionMismatch
            | Code::Deprecated
            | Code::NotReady
            | Code::GpuNotFound
            | Code::InvalidState
            | Code::ResetTypeNotSupported
            | Code::Unknown
            | Code::Other(_) => Self::OTHER,
        }
    }
}
