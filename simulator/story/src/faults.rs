//! The faults that a story can ask for: the knobs of the operands and of the
//! hardware.

use gpu::{Behaviour, Fault, NvmlError, Times, Verb};
use operands::{Knob, Operand};

use crate::command::Usage;
use crate::place::StoryError;
use crate::words::Words;

/// Every fault, in the order of the reference.
pub const FAULTS: &[Usage] = &[
    Usage {
        word: "does-not-stop",
        form: "fault NODE does-not-stop OPERAND",
        meaning: "Pods of the operand do not stop when they are deleted: MIG manager 0.15.0 waits five minutes and gives up without a word.",
    },
    Usage {
        word: "does-not-start",
        form: "fault NODE does-not-start OPERAND",
        meaning: "Pods of the operand are not created.",
    },
    Usage {
        word: "validator-delete-fails",
        form: "fault NODE validator-delete-fails",
        meaning: "MIG manager cannot delete the validator's pod.",
    },
    Usage {
        word: "validator-never-ready",
        form: "fault NODE validator-never-ready",
        meaning: "The validator never says that the toolkit is ready.",
    },
    Usage {
        word: "cdi-fails",
        form: "fault NODE cdi-fails",
        meaning: "Writing the CDI specification fails.",
    },
    Usage {
        word: "plugin-never-registers",
        form: "fault NODE plugin-never-registers",
        meaning: "The device plugin runs and offers nothing.",
    },
    Usage {
        word: "create-fails",
        form: "fault NODE create-fails [TIMES]",
        meaning: "Creating a GPU instance fails, so often, or until the faults are cleared.",
    },
    Usage {
        word: "mode-fails",
        form: "fault NODE mode-fails [TIMES]",
        meaning: "Switching MIG mode fails, so often, or until the faults are cleared.",
    },
    Usage {
        word: "off-the-bus",
        form: "fault NODE off-the-bus GPU",
        meaning: "The GPU no longer answers; a reboot brings it back.",
    },
    Usage { word: "xid", form: "fault NODE xid GPU CODE", meaning: "The driver reports an Xid error." },
    Usage {
        word: "uncordon",
        form: "fault NODE uncordon",
        meaning: "Another program uncordons the node behind our back, once.",
    },
    Usage { word: "clear", form: "fault NODE clear", meaning: "Nothing misbehaves any more." },
];

/// Reads a fault: the knobs that are turned, in this order.
pub(crate) fn read(words: &mut Words) -> Result<Vec<Knob>, StoryError> {
    let known: Vec<&'static str> = FAULTS.iter().map(|f| f.word).collect();
    let call = |verb, times| {
        let behaviour = Behaviour::Fail(NvmlError::Unknown);
        Knob::Hardware(Fault::Call { verb, gpu: None, behaviour, times })
    };
    Ok(vec![match words.one_of(&known)?.0 {
        "does-not-stop" => Knob::DoesNotStop(operand(words)?),
        "does-not-start" => Knob::DoesNotStart(operand(words)?),
        "validator-delete-fails" => Knob::ValidatorDeleteFails,
        "validator-never-ready" => Knob::ValidatorNeverReady,
        "cdi-fails" => Knob::CdiFails,
        "plugin-never-registers" => Knob::PluginNeverRegisters,
        "create-fails" => call(Verb::CreateGpuInstance, times(words)?),
        "mode-fails" => call(Verb::SetMigMode, times(words)?),
        "off-the-bus" => Knob::Hardware(Fault::FallsOffTheBus { gpu: words.number("the index of a GPU")? }),
        "xid" => Knob::Hardware(Fault::Xid {
            gpu: words.number("the index of a GPU")?,
            code: words.number("a code")?,
        }),
        "uncordon" => Knob::Uncordon,
        _ => return Ok(vec![Knob::Hardware(Fault::Clear), Knob::Clear]),
    }])
}

fn operand(words: &mut Words) -> Result<Operand, StoryError> {
    let name = words.one_of(&Operand::names())?.0;
    Ok(Operand::named(name).expect("it is one of them"))
}

fn times(words: &mut Words) -> Result<Times, StoryError> {
    Ok(if words.peek().is_some() { Times::Count(words.number("how often")?) } else { Times::UntilCleared })
}
