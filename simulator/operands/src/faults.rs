//! The texts of a node's faults: those of a story, of the annotation `sim.slicewright.io/fault`, and of
//! commands. Several are separated by `;`.

use crate::fault::NodeFault;
use crate::operand::Operand;
use gpu::{Behaviour, Fault, NvmlError, Times, Verb};
use jiff::SignedDuration;

/// Every fault: its form, and what it does.
pub const FAULTS: &[(&str, &str)] = &[
    (
        "does-not-stop OPERAND",
        "its pods do not stop when they are deleted: MIG manager 0.15.0 waits five minutes and gives up without a message",
    ),
    ("does-not-start OPERAND", "its pods are not created"),
    ("validator-delete-fails", "MIG manager cannot delete the validator's pod"),
    ("validator-never-ready", "the validator never says that the toolkit is ready"),
    ("cdi-fails", "writing the CDI specification fails"),
    ("plugin-never-registers", "the device plugin runs and offers nothing"),
    (
        "plugin-counts RESOURCE BY",
        "the device plugin reports this number more of a resource; a negative number means fewer",
    ),
    (
        "dcgm-holds-slices",
        "DCGM and its exporter keep slices open, those that are there now and those that are there when they start: to destroy one answers `InUse` until their pods are gone, and no process is listed",
    ),
    (
        "list-forgets",
        "if the agent asks the kubelet for its `List` amid an allocation, and a pod has ended since the last one, the kubelet may give the same device to two pods (kubernetes#137534)",
    ),
    (
        "books-lag DURATION",
        "what the kubelet gives to a pod comes into its books, the pod-resources `List` and the checkpoint, this much later",
    ),
    (
        "kubelet-restarts",
        "the kubelet starts anew: no device is healthy until the device plugin, if it is there, has registered again; pods that run are left alone, and one with devices that does not run yet is refused; once",
    ),
    ("gfd-lags DURATION", "GFD's labels take this much longer"),
    (
        "create-fails [TIMES]",
        "creating a GPU instance fails, this number of times, or until the faults are cleared",
    ),
    ("mode-fails [TIMES]", "switching MIG mode fails, this number of times, or until the faults are cleared"),
    ("off-the-bus GPU", "the GPU no longer answers; a reboot brings it back"),
    ("xid GPU CODE", "the driver reports an Xid error"),
    ("crashes OPERAND", "its container exits again and again"),
    ("labels-vanish", "GFD's labels vanish, and come back with its next round; once"),
    (
        "driver-upgrade",
        "the Operator upgrades the driver: it cordons the node, pauses operands, reloads the driver, and uncordons the node; with pods that hold devices it fails; once",
    ),
    (
        "driver-upgrade-drains",
        "the same, but the Operator first deletes the pods that hold devices, as with `upgradePolicy.podDeletion`; once",
    ),
    ("map-mounts-after DURATION", "changes of a ConfigMap take this long to arrive in a pod"),
    ("uncordon", "another program uncordons the node without our knowledge, once"),
    ("clear", "all faults end"),
];

/// Why words are not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such fault.
    #[error("`{word}` is no fault; there are {}", forms())]
    Unknown {
        /// The word.
        word: String,
    },
    /// A word after it is missing or not what it has to be.
    #[error("`{text}`: write `{form}`, where {what}")]
    Form {
        /// What was written.
        text: String,
        /// How it has to be written.
        form: &'static str,
        /// What is special about it.
        what: String,
    },
}

fn forms() -> String {
    FAULTS.iter().map(|(form, _)| format!("`{form}`")).collect::<Vec<_>>().join(", ")
}

/// Reads faults, in the order in which they begin. Nothing is none.
///
/// # Errors
/// Which word is not understood, and what is.
pub fn parse(text: &str) -> Result<Vec<NodeFault>, FaultError> {
    let each = text.split(';').map(str::trim).filter(|one| !one.is_empty()).map(parse_one);
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}

fn parse_one(text: &str) -> Result<Vec<NodeFault>, FaultError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (first, rest) = words.split_first().expect("it is not empty");
    let (form, _) = FAULTS
        .iter()
        .find(|(form, _)| form.split_whitespace().next() == Some(first))
        .ok_or_else(|| FaultError::Unknown { word: (*first).to_owned() })?;
    let wrong = |what: &str| FaultError::Form { text: text.to_owned(), form, what: what.to_owned() };
    let most = form.split_whitespace().count() - 1;
    if rest.len() > most {
        return Err(wrong("nothing follows"));
    }
    let number = |i: usize| {
        rest.get(i).and_then(|w| w.parse::<u16>().ok()).ok_or_else(|| wrong("GPU and CODE are numbers"))
    };
    let duration = || {
        let said = rest.first().and_then(|word| word.parse::<SignedDuration>().ok());
        said.ok_or_else(|| wrong("DURATION is such as `90s`"))
    };
    let operand = || {
        let found = rest.first().and_then(|word| Operand::named(word));
        found.ok_or_else(|| wrong(&format!("OPERAND is one of {}", Operand::names().join(", "))))
    };
    let call = |verb| {
        let times = match rest.first() {
            None => Times::UntilCleared,
            Some(word) => Times::Count(word.parse().map_err(|_| wrong("TIMES is a number"))?),
        };
        let behaviour = Behaviour::Fail(NvmlError::Unknown);
        Ok(NodeFault::Hardware(Fault::Call { verb, gpu: None, behaviour, times }))
    };
    Ok(vec![match *first {
        "does-not-stop" => NodeFault::DoesNotStop(operand()?),
        "does-not-start" => NodeFault::DoesNotStart(operand()?),
        "validator-delete-fails" => NodeFault::ValidatorDeleteFails,
        "validator-never-ready" => NodeFault::ValidatorNeverReady,
        "cdi-fails" => NodeFault::CdiFails,
        "plugin-never-registers" => NodeFault::PluginNeverRegisters,
        "plugin-counts" => {
            let by = rest.get(1).and_then(|word| word.parse().ok());
            let by = by.ok_or_else(|| wrong("BY is a number such as `-1`"))?;
            NodeFault::PluginCounts { resource: rest[0].to_owned(), by }
        }
        "dcgm-holds-slices" => NodeFault::DcgmHoldsSlices,
        "list-forgets" => NodeFault::ListForgets,
        "books-lag" => NodeFault::BooksLag(duration()?),
        "kubelet-restarts" => NodeFault::KubeletRestarts,
        "gfd-lags" => NodeFault::GfdLags(duration()?),
        "create-fails" => call(Verb::CreateGpuInstance)?,
        "mode-fails" => call(Verb::SetMigMode)?,
        "off-the-bus" => NodeFault::Hardware(Fault::FallsOffTheBus { gpu: number(0)? }),
        "xid" => NodeFault::Hardware(Fault::Xid { gpu: number(0)?, code: u32::from(number(1)?) }),
        "crashes" => NodeFault::Crashes(operand()?),
        "labels-vanish" => NodeFault::LabelsVanish,
        "driver-upgrade" => NodeFault::DriverUpgrade,
        "driver-upgrade-drains" => NodeFault::DriverUpgradeDrains,
        "map-mounts-after" => NodeFault::MapMountsAfter(duration()?),
        "uncordon" => NodeFault::Uncordon,
        "clear" => return Ok(vec![NodeFault::Hardware(Fault::Clear), NodeFault::Clear]),
        other => unreachable!("`{other}` is in the table and has no meaning"),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_the_table_is_understood() {
        let samples = FAULTS.iter().map(|(form, _)| {
            form.replace("OPERAND", "device-plugin")
                .replace("RESOURCE", "nvidia.com/gpu")
                .replace("BY", "-1")
                .replace("DURATION", "90s")
                .replace("[TIMES]", "3")
                .replace("GPU", "0")
                .replace("CODE", "79")
        });
        let all = samples.collect::<Vec<_>>().join("; ");
        // What is cleared is cleared in the hardware and above it.
        assert_eq!(parse(&all).map(|faults| faults.len()), Ok(FAULTS.len() + 1));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[track_caller]
    fn refused(text: &str, expect: &str) {
        assert_eq!(parse(text).expect_err("it is not understood").to_string(), expect);
    }

    #[test]
    fn what_is_not_understood_is_told_with_what_is() {
        refused(
            "does-not-stop plugin",
            "`does-not-stop plugin`: write `does-not-stop OPERAND`, where OPERAND is one of mig-manager, \
             device-plugin, gpu-feature-discovery, dcgm-exporter, dcgm, operator-validator, mps-control-daemon",
        );
        refused("xid 0", "`xid 0`: write `xid GPU CODE`, where GPU and CODE are numbers");
        refused("cdi-fails now", "`cdi-fails now`: write `cdi-fails`, where nothing follows");
        assert!(
            parse("explode")
                .expect_err("no")
                .to_string()
                .starts_with("`explode` is no fault; there are `does-not-stop OPERAND`")
        );
    }
}
