//! The errors of NVML's calls: every code, by name, with NVML's text and with advice.

use std::fmt;

/// A code of `nvmlReturn_t` other than success.
///
/// nvml-wrapper knows those up to 22; among the others is what creating an
/// instance without room answers. A code that this list does not have keeps
/// its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// 1: the library was not initialised.
    Uninitialized,
    /// 2: a handle is stale or of the wrong kind, or a value is not possible.
    InvalidArgument,
    /// 3: the GPU, or its present mode, cannot do this.
    NotSupported,
    /// 4: the caller is not privileged.
    NoPermission,
    /// 5: initialised twice, in old versions.
    AlreadyInitialized,
    /// 6: there is no such thing.
    NotFound,
    /// 7: the caller's buffer is too small.
    InsufficientSize,
    /// 8: a power cable is missing.
    InsufficientPower,
    /// 9: there is no driver.
    DriverNotLoaded,
    /// 10: the call took too long, or nothing happened in time.
    Timeout,
    /// 11: the kernel has a problem with interrupts.
    IrqIssue,
    /// 12: a library that NVML needs is not there.
    LibraryNotFound,
    /// 13: the library is too old for this function.
    FunctionNotFound,
    /// 14: the InfoROM is damaged.
    CorruptedInforom,
    /// 15: the GPU fell off the bus.
    GpuIsLost,
    /// 16: the GPU must be reset first.
    ResetRequired,
    /// 17: the operating system blocks the GPU.
    OperatingSystem,
    /// 18: library and kernel module are of different versions.
    LibRmVersionMismatch,
    /// 19: somebody holds it.
    InUse,
    /// 20: no memory.
    Memory,
    /// 21: there is no data.
    NoData,
    /// 22: vGPU and ECC do not go together here.
    VgpuEccNotSupported,
    /// 23: no room for this instance.
    InsufficientResources,
    /// 24: not one of the frequencies.
    FreqNotSupported,
    /// 25: a struct of another version.
    ArgumentVersionMismatch,
    /// 26: the function is retired.
    Deprecated,
    /// 27: not yet.
    NotReady,
    /// 28: no GPU answers.
    GpuNotFound,
    /// 29: not in this state.
    InvalidState,
    /// 30: not this kind of reset.
    ResetTypeNotSupported,
    /// 999: anything else, as the driver says.
    Unknown,
    /// A code that is newer than this list.
    Other(u32),
}

/// Number, name of the constant, and words of each code that has a name. The
/// words are those of `nvmlErrorString`; what was not seen in a capture
/// follows the names in `nvml.h`.
const KNOWN: &[(u32, Code, &str)] = &[
    (1, Code::Uninitialized, "Uninitialized"),
    (2, Code::InvalidArgument, "Invalid Argument"),
    (3, Code::NotSupported, "Not Supported"),
    (4, Code::NoPermission, "Insufficient Permissions"),
    (5, Code::AlreadyInitialized, "Already Initialized"),
    (6, Code::NotFound, "Not Found"),
    (7, Code::InsufficientSize, "Insufficient Size"),
    (8, Code::InsufficientPower, "Insufficient External Power"),
    (9, Code::DriverNotLoaded, "Driver Not Loaded"),
    (10, Code::Timeout, "Timeout"),
    (11, Code::IrqIssue, "Interrupt Request Issue"),
    (12, Code::LibraryNotFound, "NVML Shared Library Not Found"),
    (13, Code::FunctionNotFound, "Function Not Found"),
    (14, Code::CorruptedInforom, "Corrupted infoROM"),
    (15, Code::GpuIsLost, "GPU is lost"),
    (16, Code::ResetRequired, "GPU requires reset"),
    (17, Code::OperatingSystem, "GPU access blocked by the operating system"),
    (18, Code::LibRmVersionMismatch, "Driver/library version mismatch"),
    (19, Code::InUse, "In use by another client"),
    (20, Code::Memory, "Insufficient Memory"),
    (21, Code::NoData, "No data"),
    (22, Code::VgpuEccNotSupported, "vGPU ECC not supported"),
    (23, Code::InsufficientResources, "Insufficient Resources"),
    (24, Code::FreqNotSupported, "Invalid Frequency"),
    (25, Code::ArgumentVersionMismatch, "Argument version mismatch"),
    (26, Code::Deprecated, "Requested functionality has been deprecated"),
    (27, Code::NotReady, "System is not in ready state"),
    (28, Code::GpuNotFound, "No supported GPUs were found"),
    (29, Code::InvalidState, "Resource not in correct state to perform requested operation"),
    (30, Code::ResetTypeNotSupported, "Reset type is not supported for given device"),
    (999, Code::Unknown, "Unknown Error"),
];

impl Code {
    /// What a call returned.
    ///
    /// # Errors
    /// Any number but that of success.
    pub fn check(number: u32) -> Result<(), Self> {
        if number == 0 {
            return Ok(());
        }
        let known = KNOWN.iter().find(|(n, _, _)| *n == number);
        Err(known.map_or(Self::Other(number), |(_, code, _)| *code))
    }

    /// Its number in `nvmlReturn_t`.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Other(number) => number,
            named => KNOWN.iter().find(|(_, code, _)| *code == named).map_or(999, |(n, _, _)| *n),
        }
    }

    /// What `nvmlErrorString`, and so nvidia-smi, says.
    #[must_use]
    pub fn words(self) -> &'static str {
        KNOWN.iter().find(|(_, code, _)| *code == self).map_or("Unknown Error", |(_, _, words)| *words)
    }

    /// What the reader can do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Uninitialized | Self::AlreadyInitialized | Self::InsufficientSize => {
                "this is an error of Slicewright: please report it with the name of the call"
            }
            Self::InvalidArgument => {
                "something that was there a moment ago may be gone, or the driver does not know the value: look at the GPU again"
            }
            Self::NotSupported => {
                "this GPU, its driver or its present MIG mode cannot do this: look at the GPU's mode and at the driver's version"
            }
            Self::NoPermission => {
                "run it as root; in a container, as a privileged one that has /dev/nvidia-caps"
            }
            Self::NotFound => "it is not there, or no longer: look at the GPU again",
            Self::InsufficientPower => "attach the GPU's power cables",
            Self::DriverNotLoaded => {
                "load NVIDIA's kernel module (`modprobe nvidia`), or wait until the driver's pod is ready"
            }
            Self::Timeout => {
                "the driver took too long: try again, and look for Xid errors in the kernel's log"
            }
            Self::IrqIssue => {
                "the kernel reports a problem with the GPU's interrupts: look into the kernel's log"
            }
            Self::LibraryNotFound => {
                "a part of the driver's libraries is not installed: install the whole driver, of one version"
            }
            Self::FunctionNotFound | Self::Deprecated | Self::ArgumentVersionMismatch => {
                "the driver is of another generation than this call: update the driver"
            }
            Self::CorruptedInforom => "the GPU's InfoROM is damaged: have the card replaced",
            Self::GpuIsLost => {
                "the GPU fell off the bus: reboot the node; if it happens again, have the card replaced"
            }
            Self::ResetRequired => {
                "the GPU needs a reset: drain the node, then `nvidia-smi --gpu-reset` or reboot it"
            }
            Self::OperatingSystem => "the operating system, or a cgroup, keeps this process from the GPU",
            Self::LibRmVersionMismatch => {
                "library and kernel module are of different versions, as after an update: reboot the node or reload the driver"
            }
            Self::InUse => {
                "a process has it open, which may be a monitor that runs nothing on it: end that process, then try again"
            }
            Self::Memory => "memory ran out: look at the node's free memory",
            Self::NoData | Self::NotReady => "the driver is not ready: try again in a moment",
            Self::VgpuEccNotSupported => "vGPU does not work with ECC on this GPU",
            Self::InsufficientResources => {
                "there is no room for it: what is there already overlaps it, or the most of this profile is reached"
            }
            Self::FreqNotSupported => "choose one of the supported frequencies",
            Self::GpuNotFound => "no GPU answers: look into the kernel's log",
            Self::InvalidState => {
                "the GPU is not in a state that allows this: look at its mode and its instances"
            }
            Self::ResetTypeNotSupported => "this kind of reset is not possible here: reboot the node",
            Self::Unknown | Self::Other(_) => "the driver gives no reason: look into the kernel's log",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.words(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_keeps_its_number_and_has_words_and_advice() {
        assert_eq!(Code::check(0), Ok(()));
        for number in (1..=40).chain([999, 1000, u32::MAX]) {
            let code = Code::check(number).unwrap_err();
            assert_eq!(code.number(), number);
            assert!(!code.words().is_empty() && !code.advice().is_empty());
        }
    }

    #[test]
    fn numbers_agree_with_the_header_that_the_bindings_were_made_from() {
        use nvml_wrapper_sys::bindings as sys;
        for (number, code) in [
            (sys::nvmlReturn_enum_NVML_ERROR_IN_USE, Code::InUse),
            (sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES, Code::InsufficientResources),
            (sys::nvmlReturn_enum_NVML_ERROR_FREQ_NOT_SUPPORTED, Code::FreqNotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, Code::ArgumentVersionMismatch),
            (sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED, Code::Deprecated),
            (sys::nvmlReturn_enum_NVML_ERROR_NOT_READY, Code::NotReady),
            (sys::nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND, Code::GpuNotFound),
            (sys::nvmlReturn_enum_NVML_ERROR_INVALID_STATE, Code::InvalidState),
            (sys::nvmlReturn_enum_NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, Code::ResetTypeNotSupported),
            (sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN, Code::Unknown),
        ] {
            assert_eq!(Code::check(number), Err(code));
        }
    }

    #[test]
    fn an_unknown_code_is_told_with_its_number() {
        assert_eq!(Code::Other(77).to_string(), "Unknown Error (77)");
        assert_eq!(Code::InsufficientResources.to_string(), "Insufficient Resources (23)");
    }
}
