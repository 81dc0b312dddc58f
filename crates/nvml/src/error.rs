//! Why the library could not be called, or which error it returned.

use std::path::{Path, PathBuf};

use nvml_wrapper::error::NvmlError;

use crate::code::Code;

/// A call of the library that did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library is not there, or cannot be loaded.
    #[error(
        "cannot load {}: {}; install NVIDIA's driver, or give the library's path (where the GPU Operator installs the driver: /run/nvidia/driver/usr/lib64/libnvidia-ml.so.1)",
        library.display(),
        without_its_name(library, reason)
    )]
    NoLibrary {
        /// What was to be loaded.
        library: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// What was loaded is something else, or too old for this.
    #[error("the library has no function {call}: {reason}; it is older than this needs: update the driver")]
    NoFunction {
        /// The function.
        call: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// The call failed with a code.
    #[error("{call} failed: {code}: {}", code.advice())]
    Failed {
        /// The function.
        call: &'static str,
        /// The code.
        code: Code,
    },
    /// The call succeeded, and its answer cannot be.
    #[error(
        "{call} answered what cannot be: {what}; this driver is not supported: please report its version"
    )]
    Nonsense {
        /// The function.
        call: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// The driver's code, if the driver answered with one.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Failed { call: _, code } => Some(*code),
            Self::NoLibrary { .. } | Self::NoFunction { .. } | Self::Nonsense { .. } => None,
        }
    }

    pub(crate) fn nonsense(call: &'static str, what: impl Into<String>) -> Self {
        Self::Nonsense { call, what: what.into() }
    }

    /// What nvml-wrapper says about a call. It knows the codes up to 22 by
    /// name and hands on the numbers of the others.
    #[must_use]
    pub fn from_call(call: &'static str, error: NvmlError) -> Self {
        match error {
            NvmlError::FailedToLoadSymbol(reason) => Self::NoFunction { call, reason },
            NvmlError::LibloadingError(error) => Self::NoFunction { call, reason: error.to_string() },
            NvmlError::Utf8Error(_)
            | NvmlError::NulError(_)
            | NvmlError::StringTooLong { .. }
            | NvmlError::IncorrectBits(_)
            | NvmlError::SetReleaseFailed
            | NvmlError::GetPciInfoFailed
            | NvmlError::PciInfoToCFailed => Self::nonsense(call, error.to_string()),
            answered => {
                let number = nvml_wrapper_sys::bindings::nvmlReturn_t::from(answered);
                // Success is no error: the wrapper would not have called it one.
                let code = Code::check(number).err().unwrap_or(Code::Unknown);
                Self::Failed { call, code }
            }
        }
    }
}

/// What a call of the library answers.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of a function of the C interface.
pub(crate) fn check(call: &'static str, number: u32) -> Result<()> {
    Code::check(number).map_err(|code| Error::Failed { call, code })
}

/// What the loader says, without the library that it names first, as we do.
fn without_its_name<'a>(library: &Path, reason: &'a str) -> &'a str {
    let named = format!("{}: ", library.display());
    reason.strip_prefix(named.as_str()).unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_the_wrapper_leaves_as_numbers_get_their_names() {
        let error = Error::from_call("nvmlDeviceCreateGpuInstance", NvmlError::UnexpectedVariant(23));
        assert_eq!(error.code(), Some(Code::InsufficientResources));
        assert_eq!(
            error.to_string(),
            "nvmlDeviceCreateGpuInstance failed: Insufficient Resources (23): there is no room for it: what is there already overlaps it, or the most of this profile is reached"
        );
        assert_eq!(Error::from_call("f", NvmlError::UnexpectedVariant(77)).code(), Some(Code::Other(77)));
        assert_eq!(Error::from_call("f", NvmlError::NoPermission).code(), Some(Code::NoPermission));
    }

    #[test]
    fn what_is_no_answer_of_the_driver_has_no_code() {
        assert_eq!(Error::from_call("f", NvmlError::FailedToLoadSymbol("gone".to_owned())).code(), None);
        assert_eq!(Error::from_call("f", NvmlError::SetReleaseFailed).code(), None);
    }
}
