//! The system: versions of the driver, of NVML and of CUDA; names of processes; units and excluded devices,
//! of which there are none.

use std::ffi::{c_int, c_uint};

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::{nvmlReturn_t, nvmlSystemDriverBranchInfo_v1_t, nvmlVgpuVersion_t};

use crate::argument::{Ignored, Out, OutText, Versioned, text};
use crate::entry::{Call, enter_early};
use crate::figures::Versions;

fn versions(call: &Call<'_>) -> Versions {
    Versions::from_state(call.session.state())
}

entries! {
    fn nvmlSystemGetDriverVersion(call, version: OutText, length: c_uint) {
        version.set(length, &versions(call).driver)?
    }

    fn nvmlSystemGetCudaDriverVersion | nvmlSystemGetCudaDriverVersion_v2(call, version: Out<c_int>) {
        version.set(versions(call).cuda)
    }

    fn nvmlSystemGetDriverBranch(call, info: Versioned, length: c_uint) {
        let info = info.must_be::<nvmlSystemDriverBranchInfo_v1_t>(1)?;
        let branch = versions(call).branch();
        if length as usize <= branch.len() {
            return Err(NvmlError::InsufficientSize);
        }
        info.update(|info| info.branch = text(&branch))?
    }

    /// The simulated clients' names; the real processes of this machine have
    /// nothing on a simulated GPU.
    fn nvmlSystemGetProcessName(call, pid: c_uint, name: OutText, length: c_uint) {
        let machine = call.session.machine();
        let found = machine.clients().find(|(_, client)| client.pid == pid);
        name.set(length, found.map(|(_, client)| client.name.as_str()).ok_or(NvmlError::NotFound)?)?
    }

    /// S-class boxes only.
    fn nvmlUnitGetCount(_call, count: Out<c_uint>) {
        count.set(0)
    }

    fn nvmlSystemGetHicVersion(_call, count: Out<c_uint>, _entries: Ignored) {
        count.set(0)
    }

    /// All of it.
    fn nvmlSystemGetNvlinkBwMode(call, mode: Out<c_uint>) {
        call.privileged()?;
        mode.set(0)
    }

    /// The versions of guests that a host of driver 580 takes; of others none was asked.
    fn nvmlGetVgpuVersion(call, supported: Out<nvmlVgpuVersion_t>, current: Out<nvmlVgpuVersion_t>) {
        if !(580..590).contains(&call.session.machine().driver().0) {
            return Err(NvmlError::NotSupported);
        }
        let range = nvmlVgpuVersion_t { minVersion: 0x12_0001, maxVersion: 0x1a_0001 };
        supported.set(range);
        current.set(range)
    }

    /// The second is the name of before 2020, which no header has any more and every library.
    fn nvmlGetExcludedDeviceCount | nvmlGetBlacklistDeviceCount(_call, count: Out<c_uint>) {
        count.set(0)
    }
}

/// The one question that is answered before the library is initialised, too (driver 580).
#[allow(unsafe_code, reason = "a name that C looks up; what C promises is in the arguments' types")]
#[allow(non_snake_case, reason = "the header's name")]
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(version: OutText, length: c_uint) -> nvmlReturn_t {
    enter_early("nvmlSystemGetNVMLVersion", &[&version, &length], |call| {
        version.set(length, &versions(call).nvml())
    })
}
