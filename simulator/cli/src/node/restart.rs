//! `slicewright-sim node reboot` and `reload-driver`.

use std::io::Write;

use anyhow::bail;
use gpu::Machine;
use store::Store;

/// Reboots the node: every client and every instance is gone, lost GPUs are back, and the MIG mode
/// stays where the board keeps it (Ampere).
///
/// Processes of `node run` go on, without what they had open.
#[derive(Debug, clap::Args)]
pub(super) struct RebootArgs {}

/// Unloads the driver and loads it again: instances are gone, and handles that programs have are
/// stale.
///
/// As on a real machine it is refused while anybody has a GPU open.
#[derive(Debug, clap::Args)]
pub(super) struct ReloadArgs {}

pub(super) fn reboot(store: &Store, _: &RebootArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (slices, clients, boots) = store.update(|state| {
        let clients = state.machine.clients().count();
        let slices = slices(&state.machine);
        state.machine.reboot();
        (slices, clients, state.machine.boots())
    })?;
    writeln!(out, "boot {boots}; gone: {slices} GPU instances, {clients} clients")?;
    Ok(())
}

pub(super) fn reload(store: &Store, _: &ReloadArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let reloaded = store.update(|state| {
        let slices = slices(&state.machine);
        let clients = state.machine.clients().count();
        state.machine.reload_driver().map(|()| slices).map_err(|error| (error, clients))
    })?;
    match reloaded {
        Ok(slices) => writeln!(out, "the driver is loaded anew; gone: {slices} GPU instances")?,
        Err((error, clients)) => bail!(
            "{error}: {} open; end what has it first (`slicewright-sim node client end --all`)",
            if clients == 1 {
                "a client has a GPU".to_owned()
            } else {
                format!("{clients} clients have GPUs")
            }
        ),
    }
    Ok(())
}

fn slices(machine: &Machine) -> usize {
    machine.gpus().iter().map(|gpu| gpu.instances.len()).sum()
}
