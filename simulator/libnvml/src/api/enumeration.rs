//! The GPUs of the machine, and their handles: by index, UUID, PCI bus id.

use std::ffi::{c_uint, c_void};

use gpu::{NvmlError, Reply};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{InText, Out, Versioned};
use crate::entry::Call;
use crate::figures::PciAddress;
use crate::handle::Handle;

type Pointer = *mut c_void;

fn by_uuid(call: &mut Call<'_>, uuid: &str, device: Out<Pointer>) -> Reply<()> {
    let found = call.query(|nvml| nvml.device_handle_by_uuid(uuid))?;
    device.set(call.give(Handle::Device(found)));
    Ok(())
}

entries! {
    fn nvmlDeviceGetCount | nvmlDeviceGetCount_v2(call, count: Out<c_uint>) {
        count.set(call.query(|nvml| nvml.device_count().map(c_uint::from))?)
    }

    fn nvmlDeviceGetHandleByIndex | nvmlDeviceGetHandleByIndex_v2(call, index: c_uint, device: Out<Pointer>) {
        let index = u16::try_from(index).map_err(|_| NvmlError::InvalidArgument)?;
        let found = call.query(|nvml| nvml.device_handle_by_index(index))?;
        device.set(call.give(Handle::Device(found)))
    }

    fn nvmlDeviceGetHandleByUUID(call, uuid: InText, device: Out<Pointer>) {
        by_uuid(call, &uuid.get()?, device)?
    }

    /// The UUID as text (type 1); the binary form (type 2) is not simulated.
    fn nvmlDeviceGetHandleByUUIDV(call, uuid: Versioned, device: Out<Pointer>) {
        let uuid = uuid.must_be::<sys::nvmlUUID_v1_t>(1)?.get()?;
        if uuid.type_ != sys::nvmlUUIDType_t_NVML_UUID_TYPE_ASCII {
            return Err(NvmlError::NotSupported);
        }
        by_uuid(call, &crate::argument::ascii(uuid.value), device)?
    }

    /// Any spelling of the address: `0000:01:00.0`, `00000000:01:00.0`, `01:00.0`.
    fn nvmlDeviceGetHandleByPciBusId | nvmlDeviceGetHandleByPciBusId_v2(call, bus: InText, device: Out<Pointer>) {
        let wanted = PciAddress::parse(&bus.get()?).ok_or(NvmlError::InvalidArgument)?;
        let mut gpus = call.session.machine().gpus().iter();
        let at = gpus.position(|gpu| PciAddress::parse(&gpu.bus_id) == Some(wanted));
        let index = at.and_then(|at| u16::try_from(at).ok()).ok_or(NvmlError::NotFound)?;
        let found = call.query(|nvml| nvml.device_handle_by_index(index))?;
        device.set(call.give(Handle::Device(found)))
    }

    /// The serial numbers that [`nvmlDeviceGetSerial`](super::device) gives.
    fn nvmlDeviceGetHandleBySerial(call, serial: InText, device: Out<Pointer>) {
        let wanted = serial.get()?;
        let mut gpus = call.session.machine().gpus().iter();
        let at = gpus.position(|gpu| crate::figures::serial(gpu) == wanted);
        let index = at.and_then(|at| u16::try_from(at).ok()).ok_or(NvmlError::NotFound)?;
        let found = call.query(|nvml| nvml.device_handle_by_index(index))?;
        device.set(call.give(Handle::Device(found)))
    }
}
