//! Initialisation, shutdown, and the texts of codes.

use std::ffi::{CStr, c_char, c_uint};

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::entry::enter_counted;
use crate::process::Process;

/// What the header knows as `NVML_INIT_FLAG_*`.
const KNOWN_FLAGS: c_uint =
    nvml_wrapper_sys::bindings::NVML_INIT_FLAG_NO_GPUS | nvml_wrapper_sys::bindings::NVML_INIT_FLAG_NO_ATTACH;

macro_rules! initialisers {
    ($( $name:ident($($argument:ident: $type:ty)?) $check:expr; )*) => {$(
        #[allow(unsafe_code, reason = "a name that C looks up")]
        #[allow(non_snake_case, reason = "the header's names")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type)?) -> nvmlReturn_t {
            if $check { enter_counted(stringify!($name), Process::open, |uses| uses + 1) } else { NvmlError::InvalidArgument as nvmlReturn_t }
        }
    )*};
}

initialisers! {
    nvmlInit() true;
    nvmlInit_v2() true;
    nvmlInitWithFlags(flags: c_uint) flags & !KNOWN_FLAGS == 0;
}

#[allow(unsafe_code, reason = "a name that C looks up")]
#[allow(non_snake_case, reason = "the header's names")]
#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    enter_counted("nvmlShutdown", |_| Ok(()), |uses| uses - 1)
}

#[allow(unsafe_code, reason = "a name that C looks up")]
#[allow(non_snake_case, reason = "the header's names")]
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    words(result).as_ptr()
}

/// What NVML calls a code. The engine's errors have the same words; a test
/// compares them.
const fn words(code: nvmlReturn_t) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"vGPU ECC not supported",
        23 => c"Insufficient Resources",
        24 => c"Invalid Frequency",
        25 => c"Argument version mismatch",
        26 => c"Requested functionality has been deprecated",
        27 => c"System is not in ready state",
        28 => c"No supported GPUs were found",
        29 => c"Resource not in correct state to perform requested operation",
        30 => c"Reset type is not supported for given device",
        _ => c"Unknown Error",
    }
}
