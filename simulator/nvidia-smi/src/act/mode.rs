//! `-mig 0|1`

use std::io;

use nvml::Code;
use nvml::library::{Activation, Mode};

use super::{Out, code_of};
use crate::ask::Found;
use crate::exit::Exit;

/// Switches MIG on or off.
pub(crate) fn set(out: Out<'_>, found: &[Found<'_>], on: bool) -> io::Result<Exit> {
    let (mode, did, verb) =
        if on { (Mode::Enabled, "Enabled", "enable") } else { (Mode::Disabled, "Disabled", "disable") };
    for Found { index: _, pci, gpu } in found {
        let bus = &pci.id;
        match gpu.set_mig_mode(mode) {
            Ok(Activation::Done) => {
                writeln!(out, "{did} MIG Mode for GPU {bus}")?;
                if gpu.device().is_in_persistent_mode().is_ok_and(|persistent| !persistent) {
                    writeln!(out, "\n{}", not_persistent(bus))?;
                }
            }
            Ok(Activation::Pending(Code::InUse)) => {
                let why = Code::InUse.words();
                writeln!(out, "Warning: MIG mode is in pending {verb} state for GPU {bus}:{why}")?;
                writeln!(
                    out,
                    "{bus} is currently being used by one or more other processes (e.g. CUDA application or a monitoring application such as another instance of nvidia-smi). Please first kill all processes using the device and retry the command or reboot the system to make MIG mode effective."
                )?;
            }
            Ok(Activation::Pending(why)) => {
                // The one capture, of a virtual machine, has these words where the status says that a reset
                // is required.
                let why = if why == Code::ResetRequired { Code::NotSupported } else { why };
                let why = why.words();
                writeln!(out, "Warning: MIG mode is in pending {verb} state for GPU {bus}:{why}")?;
                writeln!(
                    out,
                    "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {bus}"
                )?;
            }
            Err(error) => {
                let code = code_of(&error);
                writeln!(out, "Unable to {verb} MIG Mode for GPU {bus}: {}", code.words())?;
                if code != Code::NotSupported {
                    writeln!(out, "Terminating early due to previous errors.")?;
                    return Ok(Exit::from_code(code));
                }
                writeln!(out, "Treating as warning and moving on.")?;
            }
        }
    }
    writeln!(out, "All done.")?;
    Ok(Exit::SUCCESS)
}

fn not_persistent(bus: &str) -> String {
    format!(
        "Warning: persistence mode is disabled on device {bus}. See the Known Issues section of the nvidia-smi(1) man page for more information. Run with [--help | -h] switch to get more information on how to enable persistence mode."
    )
}
