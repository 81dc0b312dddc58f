//! Interfaces of NVIDIA's own tools outside the header: tables of functions without names. NVIDIA's tables
//! do not exist here. There is one of ours, for our `nvidia-smi`, whose `--gpu-reset` has no function in
//! the header.

use std::ffi::c_void;

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::argument::Argument;
use crate::argument::{In, Out};
use crate::c_handle::Device;
use crate::entry::{enter, guarded};
use crate::handle::Handles;

/// How a caller names our table.
const NAME: [u8; 16] = *b"slicewright-sim1";

/// Our table: its own size in bytes, then the functions.
#[repr(C)]
struct Table {
    size: usize,
    reset: extern "C" fn(Device) -> nvmlReturn_t,
}

static TABLE: Table = Table { size: size_of::<Table>(), reset };

/// Resets a GPU, as `nvidia-smi --gpu-reset` does.
extern "C" fn reset(device: Device) -> nvmlReturn_t {
    enter(Some("nvidia-smi --gpu-reset"), &[&device], |call| {
        let device = call.device(device)?;
        call.change(|nvml| nvml.reset_gpu(device))
    })
}

#[allow(unsafe_code, reason = "a name that C looks up; what C promises is in the arguments' types")]
#[allow(non_snake_case, reason = "NVIDIA's name")]
#[unsafe(no_mangle)]
extern "C" fn nvmlInternalGetExportTable(table: Out<*const c_void>, name: In<[u8; 16]>) -> nvmlReturn_t {
    guarded(|| {
        let (nobody, arguments): (_, [&dyn Argument; 2]) = (Handles::new(), [&table, &name]);
        arguments.iter().try_for_each(|argument| argument.check(&nobody))?;
        let found = name.get()? == NAME;
        table.set(if found { (&raw const TABLE).cast() } else { std::ptr::null() });
        if found { Ok(()) } else { Err(NvmlError::NotFound) }
    })
}
