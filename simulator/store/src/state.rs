//! The shared state: the machine, and data that only the programs around it need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpu::{Behaviour, ClientId, DriverBranch, Machine, Times};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::now;

/// Everything about a simulated node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The machine.
    pub machine: Machine,
    /// The whole version of its driver, such as `580.65.06`; the machine knows
    /// the branch only.
    pub driver_version: String,
    /// Functions of the C interface that misbehave, first armed first. The
    /// machine's own faults are about what it does, whoever asks.
    pub functions: Vec<FunctionFault>,
    /// Clients that are processes: each holds a lock on the file of this
    /// number for as long as it lives.
    pub processes: BTreeMap<ClientId, u64>,
    /// The number of the next such file.
    pub next_process: u64,
    /// Under which root the files are that the ecosystem reads beside the
    /// library; none are kept when absent.
    pub files: Option<PathBuf>,
    /// Who may change this.
    pub writers: Writers,
}

/// The version of a branch that came with a CUDA toolkit; what is not among
/// them is told apart by its number.
fn driver_version(branch: DriverBranch) -> String {
    let known = match branch.0 {
        450 => "450.80.02",
        460 => "460.32.03",
        470 => "470.57.02",
        510 => "510.47.03",
        515 => "515.65.01",
        520 => "520.61.05",
        525 => "525.60.13",
        530 => "530.30.02",
        535 => "535.104.05",
        545 => "545.23.08",
        550 => "550.54.15",
        555 => "555.42.06",
        560 => "560.35.03",
        565 => "565.57.01",
        570 => "570.86.15",
        575 => "575.51.03",
        580 => "580.65.06",
        590 => "590.44.01",
        595 => "595.45.04",
        other => return format!("{other}.00"),
    };
    known.to_owned()
}

/// Who may change a simulated node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writers {
    /// The user that set it up, and root. All others read.
    #[default]
    Owner,
    /// Everybody: for containers that run as any user.
    Everybody,
}

/// A function of the C interface that misbehaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionFault {
    /// Its name, such as `nvmlDeviceGetName`; `*` for all.
    pub function: String,
    /// On which GPU; on any, and for functions that name none, when absent.
    pub gpu: Option<u16>,
    /// How.
    pub behaviour: Behaviour,
    /// How often.
    pub times: Times,
    /// From when on; at once when absent.
    pub from: Option<Timestamp>,
}

impl State {
    /// A node around a machine, with nothing else.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self {
            driver_version: driver_version(machine.driver()),
            machine,
            functions: Vec::new(),
            processes: BTreeMap::new(),
            next_process: 1,
            files: None,
            writers: Writers::Owner,
        }
    }

    /// Whether any function misbehaves now or later: then a call must go
    /// through [`strike`](Self::strike), in an update.
    #[must_use]
    pub fn has_function_faults(&self) -> bool {
        !self.functions.is_empty()
    }

    /// What happens to a call of a function, if anything; uses up one of the
    /// times.
    pub fn strike(&mut self, function: &str, gpu: Option<u16>) -> Option<Behaviour> {
        // Whoever may not write asks a state to which nobody told the time.
        let now = self.machine.now().max(now());
        let i = self.functions.iter().position(|fault| {
            (fault.function == "*" || fault.function == function)
                && (fault.gpu.is_none() || fault.gpu == gpu)
                && fault.from.is_none_or(|from| from <= now)
        })?;
        let fault = &mut self.functions[i];
        let behaviour = fault.behaviour;
        if let Times::Count(left) = &mut fault.times {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.functions.remove(i);
            }
        }
        Some(behaviour)
    }

    /// Whether another state differs from this one in its time at most.
    #[must_use]
    pub fn equals_but_for_time(&self, other: &Self) -> bool {
        let Self { machine, driver_version, functions, processes, next_process, files, writers } = self;
        machine.equals_but_for_time(&other.machine)
            && (driver_version, functions) == (&other.driver_version, &other.functions)
            && (processes, next_process) == (&other.processes, &other.next_process)
            && (files, writers) == (&other.files, &other.writers)
    }
}
