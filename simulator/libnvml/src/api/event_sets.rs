//! Events: Xid errors and changes of the MIG configuration.

use std::ffi::{c_uint, c_ulonglong, c_void};

use gpu::{Device as Known, NvmlError, Reply};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::Out;
use crate::c_handle::{Device, EventSet};
use crate::entry::Call;
use crate::events::{self, Delivery};
use crate::first_versions::EventDataV1;
use crate::handle::Handle;

type Pointer = *mut c_void;

/// What stands in place of an instance's id: the whole device is meant.
const NONE: c_uint = c_uint::MAX;

/// What is there to deliver, if anything.
fn next(call: &mut Call<'_>, set: EventSet) -> Reply<Option<sys::nvmlEventData_t>> {
    let set = set.find(call.handles)?;
    let machine = call.session.machine();
    let set = call.sets.get(set).ok_or(NvmlError::InvalidArgument)?;
    let Some(Delivery { gpu, event, data }) = set.next(machine) else {
        let lost = set.gpus().any(|gpu| machine.gpu(gpu).is_some_and(|gpu| gpu.lost));
        return if lost { Err(NvmlError::GpuIsLost) } else { Ok(None) };
    };
    let device: Known = call.query(|nvml| nvml.device_handle_by_index(gpu))?;
    Ok(Some(sys::nvmlEventData_t {
        device: call.give(Handle::Device(device)).cast(),
        eventType: event,
        eventData: data,
        gpuInstanceId: NONE,
        computeInstanceId: NONE,
    }))
}

entries! {
    fn nvmlEventSetCreate(call, set: Out<Pointer>) {
        let number = call.sets.create();
        set.set(call.give(Handle::Events(number)))
    }

    fn nvmlEventSetFree(call, set: EventSet) {
        let number = set.find(call.handles)?;
        call.sets.free(number);
        call.handles.take(Handle::Events(number))
    }

    fn nvmlDeviceGetSupportedEventTypes(call, device: Device, types: Out<c_ulonglong>) {
        types.set(call.ask(device, |of| of.whole(NvmlError::NotSupported).map(|_| events::supported(of)))?)
    }

    /// Events of before are not recorded. Types that the card does not name are
    /// refused, and then none is registered.
    fn nvmlDeviceRegisterEvents(call, device: Device, types: c_ulonglong, set: EventSet) {
        let number = set.find(call.handles)?;
        if types & !c_ulonglong::from(sys::nvmlEventTypeAll) != 0 {
            return Err(NvmlError::InvalidArgument);
        }
        let (gpu, supported) =
            call.ask(device, |of| of.whole(NvmlError::NotSupported).map(|_| (of.index, events::supported(of))))?;
        if types & !supported != 0 {
            return Err(NvmlError::NotSupported);
        }
        let machine = call.session.machine();
        call.sets.get(number).ok_or(NvmlError::InvalidArgument)?.register(gpu, types, machine)
    }
}

waits! {
    fn nvmlEventSetWait(call, set: EventSet, data: Out<EventDataV1>; timeout) {
        next(call, set)?.map(|event| {
            data.set(EventDataV1 { device: event.device, event_type: event.eventType, event_data: event.eventData });
        })
    }

    fn nvmlEventSetWait_v2(call, set: EventSet, data: Out<sys::nvmlEventData_t>; timeout) {
        next(call, set)?.map(|event| data.set(event))
    }
}
