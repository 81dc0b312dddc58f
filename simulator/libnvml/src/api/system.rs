//! The system: versions of the driver, of NVML and of CUDA; names of processes; units and excluded devices,
//! of which there are none.

use std::ffi::{c_int, c_uint};

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::nvmlSystemDriverBranchInfo_v1_t;

use crate::argument::{Out, OutText, Versioned, text};
use crate::entry::Call;
use crate::figures::Versions;

fn versions(call: &Call<'_>) -> Versions {
    Versions::from_state(call.session.state())
}

entries! {
    fn nvmlSystemGetDriverVersion(call, version: OutText, length: c_uint) {
        version.set(length, &versions(call).driver)?
    }

    fn nvmlSystemGetNVMLVersion(call, version: OutText, length: c_uint) {
        version.set(length, &versions(call).nvml())?
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

    fn nvmlGetExcludedDeviceCount(_call, count: Out<c_uint>) {
        count.set(0)
    }
}
