//! What a fault is, in the words in which `fault` and `show` print it.

use gpu::{Behaviour, Fault, Times, Verb};

/// How a call misbehaves.
pub(super) fn behaviour(behaviour: Behaviour) -> String {
    match behaviour {
        Behaviour::Fail(error) => format!("fails with {}", error.name()),
        Behaviour::FailAfterEffect(error) => format!("does its work and fails with {}", error.name()),
        Behaviour::Ignore => "succeeds without effect".to_owned(),
        Behaviour::Slow(more) => format!("takes {more:#} longer"),
        Behaviour::Hang => "hangs".to_owned(),
    }
}

/// How often.
pub(super) fn times(times: Times) -> String {
    match times {
        Times::Count(1) => "once".to_owned(),
        Times::Count(n) => format!("{n} times"),
        Times::UntilCleared => "until cleared".to_owned(),
    }
}

/// A fault of the machine: what, on which GPU, how, and how often.
pub(super) fn describe(fault: &Fault) -> (String, Option<u16>, String, String) {
    let none = String::new;
    match fault {
        Fault::Call { verb, gpu, behaviour, times } => {
            let what = match verb {
                Verb::SetMigMode => "set MIG mode",
                Verb::Reset => "reset",
                Verb::SetPersistenceMode => "set persistence mode",
                Verb::SetPowerLimit => "set power limit",
                Verb::CreateGpuInstance => "create GPU instance",
                Verb::DestroyGpuInstance => "destroy GPU instance",
                Verb::CreateComputeInstance => "create compute instance",
                Verb::DestroyComputeInstance => "destroy compute instance",
                Verb::Query => "query",
            };
            (what.to_owned(), *gpu, self::behaviour(*behaviour), self::times(*times))
        }
        Fault::FallsOffTheBus { gpu } => ("falls off the bus".to_owned(), Some(*gpu), none(), none()),
        Fault::Xid { gpu, code } => (format!("Xid {code}"), Some(*gpu), none(), none()),
        Fault::Ecc { gpu, corrected, uncorrected } => {
            let how = format!("{corrected} corrected, {uncorrected} uncorrected");
            ("ECC errors".to_owned(), Some(*gpu), how, none())
        }
        Fault::Clear => ("faults end".to_owned(), None, none(), none()),
    }
}
