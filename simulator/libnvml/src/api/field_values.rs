//! The field values that monitors read. Each value has its own code.

use std::ffi::{c_int, c_uint, c_ulonglong};

use gpu::{NvmlError, Reply, Subject};
use mig::Architecture;
use nvml_wrapper_sys::bindings::{self as sys, field_id as id, nvmlFieldValue_t, nvmlReturn_t};

use super::{history, power};
use crate::argument::OutArray;
use crate::boards;
use crate::c_handle::Device;

/// A field's value, and how C reads it.
enum Value {
    Int(c_uint),
    Signed(c_int),
    Long(c_ulonglong),
    Real(f64),
}

/// Fields of the driver's header that the bindings do not have, or have under
/// another number: an H100 and an H200 with driver 580.159.04 answer them under
/// these.
mod later {
    pub(super) const REASON_SW_THERM_SLOWDOWN: u32 = 269;
    pub(super) const REASON_HW_THERM_SLOWDOWN: u32 = 270;
    pub(super) const REASON_HW_POWER_BRAKE_SLOWDOWN: u32 = 271;
    pub(super) const REMAPPED_ROWS_COR_INACTIVE: u32 = 301;
    pub(super) const REMAPPED_ROWS_UNC_INACTIVE: u32 = 302;
}

/// The last field that the bindings have.
const LAST_OF_BINDINGS: c_uint = id::NVML_FI_MAX - 1;

/// Drivers from which on profiles are answered for with MIG off.
const QUERIES_WITHOUT_MIG: u16 = 536;

/// The scope of power fields that means the card: others are its memory's and its module's.
const OF_GPU: c_uint = sys::NVML_POWER_SCOPE_GPU;

/// The scope of power fields that means the card's memory.
const OF_MEMORY: c_uint = sys::NVML_POWER_SCOPE_MEMORY;

/// The value of a field. Rows are not remapped.
fn value(of: Subject<'_>, field: c_uint, scope: c_uint) -> Reply<Value> {
    let gpu = of.whole(NvmlError::NotSupported)?;
    let mig = || gpu.mig().ok_or(NvmlError::NotSupported);
    let captured = || boards::board(gpu).map(drop).ok_or(NvmlError::NotSupported);
    let limit = |one: fn(boards::Limits) -> Option<i32>| {
        let limit = boards::relative_limits(of).and_then(one);
        limit.map(Value::Signed).ok_or(NvmlError::NotSupported)
    };
    let asked = boards::asked(gpu);
    let ecc = || if gpu.model.ecc { Ok(()) } else { Err(NvmlError::NotSupported) };
    let long = |count| ecc().map(|()| Value::Long(count));
    let late = gpu.model.compute_capability.is_some_and(|(major, _)| major >= 8);
    match field {
        id::NVML_FI_DEV_ECC_CURRENT | id::NVML_FI_DEV_ECC_PENDING => long(1),
        // From Ampere on there is one counter for all SRAM, which has no field here; the memory has the totals.
        id::NVML_FI_DEV_ECC_SBE_VOL_L1..=id::NVML_FI_DEV_ECC_DBE_AGG_CBU if late => {
            Err(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL | id::NVML_FI_DEV_ECC_SBE_VOL_DEV => long(gpu.ecc.corrected),
        id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL | id::NVML_FI_DEV_ECC_DBE_VOL_DEV => long(gpu.ecc.uncorrected),
        id::NVML_FI_DEV_ECC_SBE_AGG_TOTAL | id::NVML_FI_DEV_ECC_SBE_AGG_DEV => long(gpu.ecc.corrected_ever),
        id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL | id::NVML_FI_DEV_ECC_DBE_AGG_DEV => long(gpu.ecc.uncorrected_ever),
        id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL..=id::NVML_FI_DEV_ECC_DBE_AGG_CBU => long(0),
        id::NVML_FI_DEV_REMAPPED_COR..=id::NVML_FI_DEV_REMAPPED_FAILURE => {
            super::ecc::remaps(of)?;
            if gpu.instances.is_empty() { Ok(Value::Long(0)) } else { Err(NvmlError::NotSupported) }
        }
        later::REMAPPED_ROWS_COR_INACTIVE | later::REMAPPED_ROWS_UNC_INACTIVE => {
            super::ecc::remaps(of)?;
            asked.map(|_| Value::Long(0)).ok_or(NvmlError::NotSupported)
        }
        // What a link counts; that of a simulated card makes no mistakes.
        id::NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER
        | id::NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS..=id::NVML_FI_DEV_PCIE_COUNT_LANE_ERROR
        | id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES
        | id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES
        | id::NVML_FI_DEV_RESET_STATUS
        | id::NVML_FI_DEV_DRAIN_AND_RESET_STATUS
        | id::NVML_FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK
        | id::NVML_FI_DEV_PCIE_INBOUND_ATOMICS_MASK => {
            asked.map(|_| Value::Int(0)).ok_or(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT => {
            asked.map(|_| Value::Real(0.0)).ok_or(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_PERF_POLICY_THERMAL
        | id::NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT
        | id::NVML_FI_DEV_PERF_POLICY_RELIABILITY => {
            asked.map(|_| Value::Long(0)).ok_or(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION => history::without_work_ns(of).map(Value::Long),
        id::NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS | id::NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS => {
            history::with_low_clocks_ns(of).map(Value::Long)
        }
        id::NVML_FI_DEV_MEMORY_TEMP => {
            boards::memory_temperature(of).map(Value::Int).ok_or(NvmlError::NotSupported)
        }
        // An average alone, as captured.
        id::NVML_FI_DEV_POWER_AVERAGE if scope == OF_MEMORY => {
            boards::memory_power(of).map(Value::Int).ok_or(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_POWER_AVERAGE..=id::NVML_FI_DEV_POWER_REQUESTED_LIMIT if scope != OF_GPU => {
            Err(NvmlError::NotSupported)
        }
        id::NVML_FI_DEV_ENERGY if asked.is_none() => Err(NvmlError::NotSupported),
        id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | id::NVML_FI_DEV_ENERGY => {
            power::energy(of).map(Value::Long)
        }
        id::NVML_FI_DEV_POWER_MIN_LIMIT => power::limits(of).map(|(least, _)| Value::Int(least)),
        id::NVML_FI_DEV_PCIE_REPLAY_COUNTER | id::NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER => {
            Ok(Value::Int(0))
        }
        id::NVML_FI_DEV_POWER_AVERAGE | id::NVML_FI_DEV_POWER_INSTANT => power::draw(of).map(Value::Int),
        id::NVML_FI_DEV_POWER_MAX_LIMIT | id::NVML_FI_DEV_POWER_DEFAULT_LIMIT => {
            power::default_limit(of).map(Value::Int)
        }
        id::NVML_FI_DEV_POWER_CURRENT_LIMIT | id::NVML_FI_DEV_POWER_REQUESTED_LIMIT => {
            power::limit(of).map(Value::Int)
        }
        id::NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT => limit(|limits| Some(limits.shutdown)),
        id::NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT => limit(|limits| Some(limits.slowdown)),
        id::NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT => limit(|limits| Some(limits.gpu_max)),
        id::NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT => limit(|limits| limits.memory_max),
        // Nothing slows a simulated card down.
        id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP
        | id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST
        | later::REASON_SW_THERM_SLOWDOWN
        | later::REASON_HW_THERM_SLOWDOWN
        | later::REASON_HW_POWER_BRAKE_SLOWDOWN => captured().map(|()| Value::Long(0)),
        id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION => {
            captured().map(|()| Value::Int(sys::nvmlDeviceGpuRecoveryAction_s_NVML_GPU_RECOVERY_ACTION_NONE))
        }
        id::NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED => {
            mig().map(|mig| Value::Int((mig.architecture != Architecture::Ampere).into()))
        }
        id::NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE => {
            mig().map(|_| Value::Int((of.machine.driver().0 >= QUERIES_WITHOUT_MIG).into()))
        }
        1..=LAST_OF_BINDINGS | 275..=288 | 294 | 295 => Err(NvmlError::NotSupported),
        _ => Err(NvmlError::InvalidArgument),
    }
}

fn put(field: &mut nvmlFieldValue_t, value: Reply<Value>) {
    field.timestamp = store::now().as_microsecond();
    field.latencyUsec = 0;
    field.nvmlReturn = value.as_ref().err().map_or(0, |error| *error as nvmlReturn_t);
    match value {
        Ok(Value::Int(value)) => {
            field.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
            field.value = sys::nvmlValue_t { ullVal: value.into() };
        }
        Ok(Value::Signed(value)) => {
            field.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT;
            field.value = sys::nvmlValue_t { ullVal: value.cast_unsigned().into() };
        }
        Ok(Value::Long(value)) => {
            field.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            field.value = sys::nvmlValue_t { ullVal: value };
        }
        Ok(Value::Real(value)) => {
            field.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE;
            field.value = sys::nvmlValue_t { ullVal: value.to_bits() };
        }
        Err(_) => {}
    }
}

entries! {
    fn nvmlDeviceGetFieldValues(call, device: Device, count: c_int, values: OutArray<nvmlFieldValue_t>) {
        let count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(NvmlError::InvalidArgument)?;
        call.ask(device, |_| Ok(()))?;
        values.update_each(count, |field| {
            let (id, scope) = (field.fieldId, field.scopeId);
            put(field, call.ask(device, |of| value(of, id, scope)));
        })?
    }

    /// The counters are at zero already.
    fn nvmlDeviceClearFieldValues(call, device: Device, count: c_int, values: OutArray<nvmlFieldValue_t>) {
        let count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(NvmlError::InvalidArgument)?;
        call.privileged()?;
        call.ask(device, |_| Ok(()))?;
        values.update_each(count, |field| {
            let (id, scope) = (field.fieldId, field.scopeId);
            let code = call.ask(device, |of| value(of, id, scope).map(drop)).err();
            field.nvmlReturn = code.map_or(0, |error| error as nvmlReturn_t);
        })?
    }
}
