//! MIG manager: its steps when the label of the node changes, and the ways in which it hangs.

use jiff::{SignedDuration, Timestamp};

use crate::apply::{apply_geometry, apply_modes, is_applied, modes_are_applied};
use crate::change::What;
use crate::config::{Entry, MigConfigs};
use crate::fault::NodeFault;
use crate::operand::Operand;

use super::{MIG_CONFIG, MIG_CONFIG_STATE, Node, PAUSED, Task};

/// MIG manager's process: gone with its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manager {
    /// The value of its last run.
    pub(crate) last: Option<String>,
    /// What it works on.
    pub(crate) run: Option<Run>,
    /// Whether the label was taken away while it worked.
    removed: bool,
    /// Whether a full run completed in this process. From 0.13 on, a failure
    /// after that leaves the operands parked.
    completed: bool,
    runs: u64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    id: u64,
    name: String,
    entries: Vec<Entry>,
    changes_mode: bool,
    /// Until when it waits for the operand of the phase.
    deadline: Timestamp,
}

/// The steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Validate,
    /// Waits for the nth operand to be gone.
    Park(usize),
    Mode,
    Geometry,
    Cdi,
    Finish,
}

const NVSM: &str = "nvidia.com/gpu.deploy.nvsm";
const CLIENT: &str = "nvidia.com/gpu.deploy.client";

impl Node {
    /// The process starts: it takes whatever the label says.
    pub(crate) fn manager_started(&mut self, serial: u64) {
        self.manager = Manager { runs: self.manager.runs, ..Manager::default() };
        if self.labels.contains_key(MIG_CONFIG) {
            self.queue.push((self.now + self.setup.timings.manager_wakes, Task::StartRun(serial)));
        }
    }

    pub(crate) fn manager_stopped(&mut self) {
        self.manager = Manager { runs: self.manager.runs, ..Manager::default() };
    }

    /// The node's labels changed: if the configuration did, there is work.
    pub(crate) fn wake_manager(&mut self) {
        let Some(pod) = self.operands.get(&Operand::MigManager).filter(|pod| pod.is_ready()) else { return };
        let serial = pod.serial;
        let value = self.labels.get(MIG_CONFIG).filter(|value| !value.is_empty());
        if self.manager.run.is_some() {
            self.manager.removed = value.is_none();
            return;
        }
        match value {
            // Taken away while nothing runs: nothing happens, and it is
            // forgotten, so that the same value put back is an edge.
            None => self.manager.last = None,
            value if value == self.manager.last.as_ref() => {}
            Some(_) => {
                self.queue.push((self.now + self.setup.timings.manager_wakes, Task::StartRun(serial)));
            }
        }
    }

    pub(crate) fn start_run(&mut self, serial: u64) {
        if !self.is_current(Operand::MigManager, serial) || self.manager.run.is_some() {
            return;
        }
        let value = self.labels.get(MIG_CONFIG).cloned();
        let name = match value {
            Some(value) if Some(&value) == self.manager.last.as_ref() => return,
            Some(value) => value,
            None if self.manager.removed => String::new(),
            None => return,
        };
        self.manager.removed = false;
        self.manager.runs += 1;
        let run =
            Run { id: self.manager.runs, name, entries: Vec::new(), changes_mode: false, deadline: self.now };
        self.next(run.id, Step::Validate, self.setup.timings.validate);
        self.manager.run = Some(run);
    }

    fn next(&mut self, run: u64, step: Step, after: SignedDuration) {
        self.queue.push((self.now + after, Task::Step(run, step)));
    }

    pub(crate) fn step(&mut self, id: u64, step: Step) {
        let Some(run) = self.manager.run.clone().filter(|run| run.id == id) else { return };
        match step {
            Step::Validate => self.validate(run),
            Step::Park(phase) => self.park_phase(&run, phase),
            Step::Mode => self.change_mode(&run),
            Step::Geometry => {
                let result = apply_geometry(&mut self.machine, &run.entries);
                let Some(more) = self.stalled() else { return };
                match result {
                    Ok(()) => self.next(id, Step::Cdi, self.setup.timings.cdi + more),
                    Err(error) => self.fail(&error.to_string()),
                }
            }
            Step::Cdi if self.has_fault(&NodeFault::CdiFails) => {
                self.fail("failed to write the CDI specification");
            }
            Step::Cdi => self.restart_validator(&run),
            Step::Finish => self.finish_run(),
        }
    }

    fn validate(&mut self, mut run: Run) {
        let entries = MigConfigs::parse(&self.mounted).and_then(|c| c.get(&run.name).map(<[Entry]>::to_vec));
        match entries {
            Err(error) => return self.fail(&error.to_string()),
            Ok(entries) => run.entries = entries,
        }
        if is_applied(&self.machine, &run.entries) {
            if !self.leaves_parked() {
                self.unpark();
            }
            self.set_state("success");
            self.log("the configuration is already applied");
            return self.end_run();
        }
        run.changes_mode = !modes_are_applied(&self.machine, &run.entries);
        let rebooting = self.labels.get(MIG_CONFIG_STATE).is_some_and(|state| state == "rebooting");
        if run.changes_mode && rebooting {
            return self.fail("the MIG mode is still not what it should be after a reboot");
        }
        self.set_state("pending");
        self.park();
        run.deadline = self.now + self.setup.timings.phase_timeout;
        self.next(run.id, Step::Park(0), SignedDuration::ZERO);
        self.manager.run = Some(run);
    }

    fn park(&mut self) {
        let keys = Operand::PARKED.map(Operand::deploy_label);
        for key in keys.into_iter().chain([NVSM, CLIENT]) {
            if self.labels.get(key).is_some_and(|value| value != "false") {
                self.set_label(key, Some(PAUSED.to_owned()));
            }
        }
        self.labels_changed();
    }

    fn unpark(&mut self) {
        let keys = Operand::PARKED.map(Operand::deploy_label);
        for key in keys.into_iter().chain([NVSM, CLIENT]) {
            if self.labels.get(key).is_some_and(|value| value != "false") {
                self.set_label(key, Some("true".to_owned()));
            }
        }
        self.labels_changed();
    }

    fn park_phase(&mut self, run: &Run, phase: usize) {
        let Some(operand) = Operand::PARKED.get(phase) else {
            let (step, takes) = if run.changes_mode {
                (Step::Mode, self.setup.timings.mode)
            } else {
                (Step::Geometry, self.setup.timings.geometry)
            };
            return self.next(run.id, step, takes);
        };
        let opted_out = self.labels.get(operand.deploy_label()).is_some_and(|v| v == "false");
        let gone = opted_out || !self.operands.contains_key(operand);
        let late = self.now >= run.deadline;
        if late && !gone {
            let text = format!("timed out waiting for pods of {operand} to be gone");
            if !self.setup.manager.is_the_script() {
                return self.give_up(&text);
            }
            self.log(&text);
        }
        if gone || late {
            let deadline = self.now + self.setup.timings.phase_timeout;
            self.manager.run = Some(Run { deadline, ..run.clone() });
            self.next(run.id, Step::Park(phase + 1), SignedDuration::ZERO);
        } else {
            self.next(run.id, Step::Park(phase), SignedDuration::from_secs(1));
        }
    }

    fn change_mode(&mut self, run: &Run) {
        let result = apply_modes(&mut self.machine, &run.entries);
        let Some(more) = self.stalled() else { return };
        if result.is_ok() && modes_are_applied(&self.machine, &run.entries) {
            return self.next(run.id, Step::Geometry, self.setup.timings.geometry + more);
        }
        if let Err(error) = result {
            self.log(&error.to_string());
        }
        if self.setup.with_reboot {
            self.set_state("rebooting");
            self.reboot();
        } else {
            // The error is swallowed here; the next step runs into it.
            self.next(run.id, Step::Geometry, self.setup.timings.geometry + more);
        }
    }

    fn restart_validator(&mut self, run: &Run) {
        if self.has_fault(&NodeFault::ValidatorDeleteFails) {
            let text = "failed to delete the validator's pod";
            if !self.setup.manager.is_the_script() {
                return self.give_up(text);
            }
            self.log(text);
        } else {
            self.delete_operand(Operand::OperatorValidator);
        }
        self.next(run.id, Step::Finish, SignedDuration::from_secs(1));
    }

    fn finish_run(&mut self) {
        if !self.labels.contains_key(NVSM) {
            self.set_label(NVSM, Some("true".to_owned()));
        }
        self.unpark();
        self.set_state("success");
        self.manager.completed = true;
        self.end_run();
    }

    /// Whether a failure, in this process, leaves the operands parked.
    fn leaves_parked(&self) -> bool {
        self.manager.completed && self.setup.manager.leaves_parked()
    }

    fn fail(&mut self, why: &str) {
        self.log(why);
        if !self.leaves_parked() {
            self.unpark();
        }
        self.set_state("failed");
        self.end_run();
    }

    /// The operands did not stop in time, or the validator's pod could not be
    /// deleted. Up to 0.15.0 it is a wedge: the run ends and nobody is told.
    fn give_up(&mut self, why: &str) {
        if self.setup.manager.gives_up_in_silence() {
            self.log(why);
            self.end_run();
        } else {
            self.fail(why);
        }
    }

    fn end_run(&mut self) {
        let Some(run) = self.manager.run.take() else { return };
        self.manager.last = Some(run.name);
        let removed = std::mem::take(&mut self.manager.removed);
        let serial = self.operands.get(&Operand::MigManager).map(|pod| pod.serial);
        let value = self.labels.get(MIG_CONFIG);
        let again = removed || value.is_some_and(|value| Some(value) != self.manager.last.as_ref());
        if let Some(serial) = serial.filter(|_| again) {
            self.manager.removed = removed;
            self.queue.push((self.now + self.setup.timings.manager_wakes, Task::StartRun(serial)));
        }
    }

    fn set_state(&mut self, state: &str) {
        self.set_label(MIG_CONFIG_STATE, Some(state.to_owned()));
    }

    fn log(&mut self, text: &str) {
        self.changed(What::ManagerLog { text: text.to_owned() });
    }

    /// How long the hardware kept the caller; `None` when a call hangs, and
    /// the run with it, until the pod is deleted.
    fn stalled(&mut self) -> Option<SignedDuration> {
        match self.machine.take_stall() {
            gpu::Stall::None => Some(SignedDuration::ZERO),
            gpu::Stall::For(more) => Some(more),
            gpu::Stall::Forever => {
                self.log("a call to the driver does not come back");
                None
            }
        }
    }
}
