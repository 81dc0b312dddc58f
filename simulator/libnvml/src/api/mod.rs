//! NVML's functions, one file for each topic. They read like the header's table of contents: name,
//! arguments, result.

mod board;
mod clocks;
mod compute_instances;
mod confidential;
mod device;
mod ecc;
mod enumeration;
mod event_sets;
mod field_values;
mod gpm;
mod gpu_instances;
mod health;
mod history;
mod init;
mod internal;
mod memory;
mod mig_devices;
mod mig_mode;
mod pci;
mod power;
mod processes;
mod sensors;
mod settings;
mod system;
mod system_events;
mod topology;
mod unsupported;
