//! The reset of a GPU, for the simulator's `nvidia-smi`.
//!
//! NVML's header has no function for it: NVIDIA's own tool gets one from a
//! private table, by a name that the library knows. Slicewright's simulated
//! library has a table of its own, with a name of its own, and this asks for
//! that one. A real library does not know the name, and nothing happens.

#![allow(unsafe_code, reason = "a function that the header does not have, found by name")]

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::device::Gpu;
use crate::code::Code;
use crate::error::{Error, Result, check};

/// The name of the simulated library's table.
static NAME: [u8; 16] = *b"slicewright-sim1";

/// The table: its own size in bytes, then the functions.
#[repr(C)]
struct Table {
    size: usize,
    reset: unsafe extern "C" fn(nvmlDevice_t) -> nvmlReturn_t,
}

type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> nvmlReturn_t;

impl Gpu<'_> {
    /// Resets a simulated GPU.
    ///
    /// # Errors
    /// [`Code::NotSupported`] by a real library; of the simulated one
    /// [`Code::InUse`] while anybody has the GPU open, [`Code::NoPermission`].
    pub fn reset_simulated(&self) -> Result<()> {
        const CALL: &str = "nvidia-smi --gpu-reset";
        let not_ours = || Error::Failed { call: CALL, code: Code::NotSupported };
        // SAFETY: the type is that of the function in every library that has it.
        let find = unsafe { self.sys().__library.get::<GetExportTable>(b"nvmlInternalGetExportTable\0") };
        let Ok(find) = find else { return Err(not_ours()) };
        let mut table: *const c_void = ptr::null();
        // SAFETY: both pointers are to values of ours that outlive the call; a library that does not know
        // the name leaves the table null, or answers with an error.
        let answer = unsafe { find(&raw mut table, &raw const NAME) };
        let table: *const Table = table.cast();
        if answer != 0 || table.is_null() {
            return Err(not_ours());
        }
        // SAFETY: only the simulated library knows the name; its table is static, and begins with its size.
        let size = unsafe { (&raw const (*table).size).read() };
        if size < size_of::<Table>() {
            return Err(not_ours());
        }
        // SAFETY: the table is at least as long as ours, whose layout the name stands for.
        let reset = unsafe { (&raw const (*table).reset).read() };
        // SAFETY: the handle is of this library, which is loaded and checks whether it still is one.
        check(CALL, unsafe { reset(self.handle()) })
    }
}
