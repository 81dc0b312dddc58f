//! `mig -dgi` and `mig -dci`. The first failure ends the command; what was
//! destroyed before it is gone.

use std::io;

use super::{Out, code_of, failed};
use crate::ask::instances::{FoundCompute, FoundInstance};
use crate::exit::Exit;

/// Destroys GPU instances.
pub(crate) fn destroy_gpu_instances(out: Out<'_>, all: Vec<FoundInstance<'_>>) -> io::Result<Exit> {
    for FoundInstance { gpu, id, instance, .. } in all {
        if let Err(error) = instance.destroy() {
            let code = code_of(&error);
            writeln!(out, "Unable to destroy GPU instance ID {id:>2} from GPU {gpu:>2}: {}", code.words())?;
            return failed(out, "destroy GPU instances", code);
        }
        writeln!(out, "Successfully destroyed GPU instance ID {id:>2} from GPU {gpu:>2}")?;
    }
    Ok(Exit::SUCCESS)
}

/// Destroys compute instances.
pub(crate) fn destroy_compute_instances(out: Out<'_>, all: Vec<FoundCompute<'_>>) -> io::Result<Exit> {
    for FoundCompute { gpu, gpu_instance, id, instance, .. } in all {
        let place = format!("GPU {gpu:>2} GPU instance ID {gpu_instance:>2}");
        if let Err(error) = instance.destroy() {
            let code = code_of(&error);
            writeln!(out, "Unable to destroy compute instance ID {id:>2} from {place}: {}", code.words())?;
            return failed(out, "destroy compute instances", code);
        }
        writeln!(out, "Successfully destroyed compute instance ID {id:>2} from {place}")?;
    }
    Ok(Exit::SUCCESS)
}
