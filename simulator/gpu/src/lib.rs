//! Simulated GPUs with the MIG semantics of NVML and its driver. Pure.
