//! `-r`

use std::io;

use nvml::Code;

use super::{Out, code_of};
use crate::ask::Found;
use crate::exit::Exit;

/// Resets GPUs.
pub(crate) fn reset(out: Out<'_>, found: &[Found<'_>]) -> io::Result<Exit> {
    let mut failed = Vec::new();
    for Found { index: _, pci, gpu } in found {
        match gpu.reset_simulated() {
            Ok(()) => writeln!(out, "GPU {} was successfully reset.", pci.id)?,
            Err(error) => failed.push((&pci.id, code_of(&error))),
        }
    }
    if failed.is_empty() {
        writeln!(out, "All done.")?;
        return Ok(Exit::SUCCESS);
    }
    writeln!(out, "\nThe following GPUs could not be reset:")?;
    for (bus, code) in &failed {
        writeln!(out, "  GPU {bus}: {}", code.words())?;
    }
    let (devices, using) = match failed.iter().filter(|(_, code)| *code == Code::InUse).count() {
        0 => return Ok(Exit::OTHER),
        1 => ("1 device is".to_owned(), "this device"),
        more => (format!("{more} devices are"), "these devices"),
    };
    writeln!(
        out,
        "\n{devices} currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, or a monitoring application such as another instance of nvidia-smi). Please first kill all processes using {using} and all compute applications running in the system.\n"
    )?;
    Ok(Exit::OTHER)
}
