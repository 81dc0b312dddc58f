//! Whether the machine computes confidentially, and could.

#![allow(unsafe_code, reason = "calls that nvml-wrapper does not have")]

use nvml_wrapper_sys::bindings as sys;

use super::{Library, function};
use crate::error::{Result, check};

/// Whether GPUs compute confidentially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfidentialState {
    /// It is on.
    pub enabled: bool,
    /// Debuggers may look in.
    pub dev_tools: bool,
    /// 0 where there is none, 1 a simulation, 2 production.
    pub environment: u32,
}

/// What processor and GPUs could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfidentialCapabilities {
    /// By the header's numbers; 0 is nothing.
    pub cpu: u32,
    /// The GPUs can.
    pub gpus: bool,
}

impl Library {
    /// Whether GPUs compute confidentially.
    ///
    /// # Errors
    /// The library's.
    pub fn confidential_state(&self) -> Result<ConfidentialState> {
        const CALL: &str = "nvmlSystemGetConfComputeState";
        let ask = function(CALL, &self.nvml.lib().nvmlSystemGetConfComputeState)?;
        let mut state = sys::nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 };
        // SAFETY: the place is ours, and of the type that the header names.
        check(CALL, unsafe { ask(&raw mut state) })?;
        Ok(ConfidentialState {
            enabled: state.ccFeature != sys::NVML_CC_SYSTEM_FEATURE_DISABLED,
            dev_tools: state.devToolsMode != sys::NVML_CC_SYSTEM_DEVTOOLS_MODE_OFF,
            environment: state.environment,
        })
    }

    /// What processor and GPUs could do.
    ///
    /// # Errors
    /// The library's.
    pub fn confidential_capabilities(&self) -> Result<ConfidentialCapabilities> {
        const CALL: &str = "nvmlSystemGetConfComputeCapabilities";
        let ask = function(CALL, &self.nvml.lib().nvmlSystemGetConfComputeCapabilities)?;
        let mut found = sys::nvmlConfComputeSystemCaps_t { cpuCaps: 0, gpusCaps: 0 };
        // SAFETY: the place is ours, and of the type that the header names.
        check(CALL, unsafe { ask(&raw mut found) })?;
        let gpus = found.gpusCaps != sys::NVML_CC_SYSTEM_GPUS_CC_NOT_CAPABLE;
        Ok(ConfidentialCapabilities { cpu: found.cpuCaps, gpus })
    }

    /// Whether the GPUs were told that they may take confidential work.
    ///
    /// # Errors
    /// The library's.
    pub fn confidential_gpus_ready(&self) -> Result<bool> {
        const CALL: &str = "nvmlSystemGetConfComputeGpusReadyState";
        let ask = function(CALL, &self.nvml.lib().nvmlSystemGetConfComputeGpusReadyState)?;
        let mut ready = sys::NVML_CC_ACCEPTING_CLIENT_REQUESTS_FALSE;
        // SAFETY: the place is ours, and of the type that the header names.
        check(CALL, unsafe { ask(&raw mut ready) })?;
        Ok(ready != sys::NVML_CC_ACCEPTING_CLIENT_REQUESTS_FALSE)
    }
}
