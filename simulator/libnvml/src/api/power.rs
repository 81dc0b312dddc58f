//! The power, energy and power limits of a card. A card without a data sheet answers NOT_SUPPORTED.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{Gpu, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, Versioned};
use crate::c_handle::Device;
use crate::entry::Call;

/// Power is measured and limited on a card: a MIG device has none.
fn card(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

/// What it draws now, in mW.
pub(super) fn draw(of: Subject<'_>) -> Reply<c_uint> {
    card(of)?.power_mw(of.load()).ok_or(NvmlError::NotSupported)
}

/// The limit in force, in mW.
pub(super) fn limit(of: Subject<'_>) -> Reply<c_uint> {
    card(of)?.power_limit_mw().ok_or(NvmlError::NotSupported)
}

/// The limit that it is delivered with, in mW: the highest, too.
pub(super) fn default_limit(of: Subject<'_>) -> Reply<c_uint> {
    card(of)?.default_power_limit_mw().ok_or(NvmlError::NotSupported)
}

/// The lowest and the highest limit that it takes, in mW.
pub(super) fn limits(of: Subject<'_>) -> Reply<(c_uint, c_uint)> {
    card(of)?.power_limits_mw().ok_or(NvmlError::NotSupported)
}

/// Energy since its driver was loaded, in mJ.
pub(super) fn energy(of: Subject<'_>) -> Reply<c_ulonglong> {
    card(of)?;
    of.energy_mj(store::now())
}

fn set(call: &mut Call<'_>, device: Device, milliwatts: c_uint) -> Reply<()> {
    let device = call.device(device)?;
    call.change(|nvml| nvml.set_power_limit(device, milliwatts))
}

entries! {
    fn nvmlDeviceGetPowerUsage(call, device: Device, milliwatts: Out<c_uint>) {
        milliwatts.set(call.ask(device, draw)?)
    }

    fn nvmlDeviceGetTotalEnergyConsumption(call, device: Device, millijoules: Out<c_ulonglong>) {
        millijoules.set(call.ask(device, energy)?)
    }

    fn nvmlDeviceGetPowerManagementMode(call, device: Device, mode: Out<sys::nvmlEnableState_t>) {
        call.ask(device, |of| default_limit(of).map(drop))?;
        mode.set(sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetPowerManagementLimit | nvmlDeviceGetEnforcedPowerLimit(
        call, device: Device, milliwatts: Out<c_uint>
    ) {
        milliwatts.set(call.ask(device, limit)?)
    }

    fn nvmlDeviceGetPowerManagementDefaultLimit(call, device: Device, milliwatts: Out<c_uint>) {
        milliwatts.set(call.ask(device, default_limit)?)
    }

    fn nvmlDeviceGetPowerManagementLimitConstraints(call, device: Device, least: Out<c_uint>, most: Out<c_uint>) {
        let (low, high) = call.ask(device, limits)?;
        least.set(low);
        most.set(high)
    }

    fn nvmlDeviceSetPowerManagementLimit(call, device: Device, milliwatts: c_uint) {
        set(call, device, milliwatts)?
    }

    /// Of the card: its module and its memory have no limit here.
    fn nvmlDeviceSetPowerManagementLimit_v2(call, device: Device, value: Versioned) {
        let value = value.must_be::<sys::nvmlPowerValue_v2_t>(2)?.get()?;
        if c_uint::from(value.powerScope) != sys::NVML_POWER_SCOPE_GPU {
            return Err(NvmlError::NotSupported);
        }
        set(call, device, value.powerValueMw)?
    }
}
