//! `-pl WATTS`

use std::io;

use nvml::{Code, Error, Library};

use super::{Out, code_of};
use crate::ask::Found;
use crate::exit::Exit;

/// Sets the power limit.
pub(crate) fn set(out: Out<'_>, library: &Library, found: &[Found<'_>], milliwatts: u32) -> io::Result<Exit> {
    for Found { index, pci, gpu } in found {
        let bus = &pci.id;
        let before = gpu.device().power_management_limit();
        if let Ok(range) = gpu.device().power_management_limit_constraints()
            && !(range.min_limit..=range.max_limit).contains(&milliwatts)
        {
            let (asked, min, max) = (watts(milliwatts), watts(range.min_limit), watts(range.max_limit));
            writeln!(
                out,
                "Provided power limit {asked} W is not a valid power limit which should be between {min} W and {max} W for GPU {bus}"
            )?;
            writeln!(out, "Terminating early due to previous errors.")?;
            return Ok(Exit::INVALID_ARGUMENT);
        }
        match limit(library, *index, milliwatts) {
            Ok(()) => {
                let from = before.map_or_else(|_| "N/A".to_owned(), watts);
                writeln!(out, "Power limit for GPU {bus} was set to {} W from {from} W.", watts(milliwatts))?;
            }
            Err(error) if code_of(&error) == Code::NotSupported => {
                writeln!(out, "Changing power management limit is not supported for GPU: {bus}.")?;
                writeln!(out, "Treating as warning and moving on.")?;
            }
            Err(error) => {
                let code = code_of(&error);
                writeln!(out, "Failed to set power management limit for GPU {bus}: {}", code.words())?;
                writeln!(out, "Terminating early due to previous errors.")?;
                return Ok(Exit::from_code(code));
            }
        }
    }
    writeln!(out, "All done.")?;
    Ok(Exit::SUCCESS)
}

fn limit(library: &Library, index: u32, milliwatts: u32) -> Result<(), Error> {
    let device = library.nvml().device_by_index(index);
    let set = device.and_then(|mut device| device.set_power_management_limit(milliwatts));
    set.map_err(|error| Error::from_call("nvmlDeviceSetPowerManagementLimit", error))
}

fn watts(milliwatts: u32) -> String {
    format!("{}.{:02}", milliwatts / 1000, milliwatts % 1000 / 10)
}
