//! `-pm 0|1`

use std::io;

use nvml::Error;
use nvml_wrapper::Device;

use super::{Out, code_of};
use crate::ask::Found;
use crate::exit::Exit;

/// Switches persistence mode on or off.
pub(crate) fn set(out: Out<'_>, library: &nvml::Library, found: &[Found<'_>], on: bool) -> io::Result<Exit> {
    let state = if on { "Enabled" } else { "Disabled" };
    for Found { index, pci, gpu } in found {
        let bus = &pci.id;
        if gpu.device().is_in_persistent_mode().is_ok_and(|is| is == on) {
            writeln!(out, "Persistence mode is already {state} for GPU {bus}.")?;
            continue;
        }
        match switch(library, *index, on) {
            Ok(()) => writeln!(out, "{state} persistence mode for GPU {bus}.")?,
            Err(error) => {
                let code = code_of(&error);
                writeln!(out, "Unable to set persistence mode for GPU {bus}: {}", code.words())?;
                writeln!(out, "Terminating early due to previous errors.")?;
                return Ok(Exit::from_code(code));
            }
        }
    }
    writeln!(out, "All done.")?;
    Ok(Exit::SUCCESS)
}

fn switch(library: &nvml::Library, index: u32, on: bool) -> Result<(), Error> {
    let device = library.nvml().device_by_index(index);
    let set = device.and_then(|mut device: Device<'_>| device.set_persistent(on));
    set.map_err(|error| Error::from_call("nvmlDeviceSetPersistenceMode", error))
}
