//! What the agent does next: one safe step towards what the controller wants.
//!
//! The agent decides nothing. It refuses what is not as planned, waits for
//! permission, and turns back where the driver does not follow. The controller
//! decides whether to keep waiting, and can revert everything.

use std::collections::BTreeSet;

use crate::account::{Account, ChangeState, Outcome, Stage, Why};
use crate::act::Act;
use crate::gate::Gate;
use crate::names::{PodUid, SliceName};
use crate::observation::Observation;
use crate::position::Position;
use crate::remembered::Remembered;
use crate::report;
use crate::step::{Step, WaitsFor, Writes};
use crate::wish::Wish;

/// The next step of the agent. After a crash, a lost answer or a lost write the
/// next call comes to the same end, from what the hardware and the `GpuNode` say.
#[must_use]
pub fn next(observation: &Observation, remembered: &Remembered) -> Step {
    if !observation.look.is_good(remembered.acted()) {
        return Step::Look;
    }
    // Between its predecessor's last look and our first nobody looked: what was proved then is void.
    let told = observation.account.as_ref().filter(|told| remembered.reported() == Some(told.report));
    let Some(told) = told else { return write(observation, Writes::Report, report::renewed(observation)) };
    if let Some(step) = deserted(observation, told) {
        return step;
    }
    if report::is_due(observation, told) {
        return write(observation, Writes::Report, report::renewed(observation));
    }
    let Some(wish) = &observation.wish else { return Step::Rest };
    let change =
        Change { observation, told, wish, remembered, at: Position::new(wish, &observation.look.layout.is) };
    match told.stage(&wish.id) {
        None => change.unclaimed(),
        Some(Stage::Claimed) => change.forward(),
        Some(Stage::Restoring { why }) => change.back(why),
        Some(Stage::Ended(_)) => Step::Rest,
    }
}

fn write(observation: &Observation, what: Writes, account: Account) -> Step {
    Step::Write { what, account: Box::new(account), if_version: observation.version.clone() }
}

/// Ends a change that was claimed and that nobody wants any longer. The
/// controller does not do this; whoever deletes a `GpuNode` does.
fn deserted(observation: &Observation, told: &Account) -> Option<Step> {
    let claimed = told.change.as_ref()?;
    let wanted = observation.wish.as_ref().is_some_and(|wish| wish.id == claimed.id);
    if wanted || matches!(claimed.stage, Stage::Ended(_)) {
        return None;
    }
    let stage = Stage::Ended(Outcome::Left { why: Why::WishGone });
    let change = Some(ChangeState { stage, ..claimed.clone() });
    Some(write(observation, Writes::Outcome, Account { change, ..report::renewed(observation) }))
}

/// A change, and all that its next step depends on.
struct Change<'a> {
    observation: &'a Observation,
    told: &'a Account,
    wish: &'a Wish,
    remembered: &'a Remembered,
    at: Position,
}

impl Change<'_> {
    /// Nothing has been done, and all can be taken back.
    fn unclaimed(&self) -> Step {
        if let Err(malformed) = self.wish.check() {
            return self.end(Outcome::Refused { why: Why::Malformed(malformed) });
        }
        if self.at.is_after() {
            return self.end(Outcome::Done);
        }
        if let Some(why) = self.not_as_it_was() {
            return self.end(Outcome::Refused { why });
        }
        if self.wish.destroys() {
            let goes = self.at.goes.iter();
            if let Some(waits) = goes.filter_map(|slice| self.may_destroy(slice).err()).next() {
                return Step::Wait(waits);
            }
        }
        self.stage(Writes::Claim, Stage::Claimed)
    }

    fn not_as_it_was(&self) -> Option<Why> {
        let Position { silent, differs, goes: _, lacks: _, extras: _, missing: _ } = &self.at;
        if let Some(gpu) = silent {
            return Some(Why::Silent { gpu: gpu.clone() });
        }
        if let Some(difference) = differs {
            return Some(Why::Differs(difference.clone()));
        }
        let moved = self.at.extras.first().or(self.at.missing.first())?;
        let found =
            if self.at.extras.is_empty() { "is gone, or nothing can open it" } else { "is there already" };
        let found = format!("{} {found}", moved.place);
        Some(Why::Differs(crate::position::Difference { gpu: moved.gpu.clone(), found }))
    }

    /// The last moment before a slice goes. Each of these holds by itself; what
    /// each of them is for is in `docs/adr/0013-node-agent.md`.
    fn may_destroy(&self, slice: &SliceName) -> Result<(), WaitsFor> {
        let look = &self.observation.look;
        let said = self.told.gate_for(&self.wish.id);
        if said != Some(Gate::Closed) || look.gate.is != Gate::Closed {
            return Err(WaitsFor::Gate);
        }
        let permit = self.wish.permit.as_ref().filter(|permit| permit.report == self.told.report);
        let Some(permit) = permit else { return Err(WaitsFor::Permit { report: self.told.report }) };
        let gone: &BTreeSet<PodUid> = &permit.gone;
        match look.books.is.blocker(slice, &look.layout.is, gone) {
            Some(blocker) => Err(WaitsFor::Free { slice: slice.clone(), blocker: Box::new(blocker) }),
            None => Ok(()),
        }
    }

    /// What ends a claimed change whichever way it goes, or makes it wait.
    fn interrupted(&self) -> Option<Step> {
        if self.told.change.as_ref().is_some_and(|change| change.boot != self.observation.boot) {
            return Some(self.end(Outcome::Left { why: Why::Rebooted }));
        }
        let gpu = self.at.silent.clone()?;
        Some(Step::Wait(WaitsFor::Driver { gpu }))
    }

    /// From `before` to `after`: first all that goes, then all that comes.
    fn forward(&self) -> Step {
        if let Some(step) = self.interrupted() {
            return step;
        }
        if self.at.is_after() {
            return self.end(Outcome::Done);
        }
        if let Some(difference) = &self.at.differs {
            return self.turn_back(Why::Differs(difference.clone()));
        }
        if let Some(slice) = self.at.goes.first() {
            if self.wish.permit.is_none() {
                return self.turn_back(Why::CalledBack);
            }
            return match self.may_destroy(slice) {
                Err(waits) => Step::Wait(waits),
                Ok(()) => self.drive(Act::Destroy, slice),
            };
        }
        match self.at.lacks.first() {
            Some(slice) => self.drive(Act::Create, slice),
            None => self.end(Outcome::Done),
        }
    }

    fn drive(&self, act: Act, slice: &SliceName) -> Step {
        match self.remembered.gave_up(act, slice) {
            None => Step::Drive { act, slice: slice.clone() },
            Some(said) => self.turn_back(Why::Driver { act, slice: slice.clone(), said: said.to_owned() }),
        }
    }

    fn turn_back(&self, why: Why) -> Step {
        if self.at.is_before() {
            return self.end(Outcome::Refused { why });
        }
        self.stage(Writes::Restoring, Stage::Restoring { why })
    }

    /// From wherever it is to `before`: what came goes first, as far as it may,
    /// since it is in the way.
    fn back(&self, why: &Why) -> Step {
        let why = why.clone();
        if let Some(step) = self.interrupted() {
            return step;
        }
        if self.at.is_before() {
            return self.end(Outcome::Restored { why });
        }
        let mine = self.at.extras.iter().filter(|_| self.at.is_planned());
        for slice in mine.filter(|slice| self.remembered.gave_up(Act::Destroy, slice).is_none()) {
            match self.may_destroy(slice) {
                Ok(()) => return Step::Drive { act: Act::Destroy, slice: slice.clone() },
                Err(waits) if self.wish.permit.is_some() => return Step::Wait(waits),
                // Called back: nobody will prove it free, so it stays.
                Err(_) => {}
            }
        }
        let open = |slice: &&SliceName| self.remembered.gave_up(Act::Create, slice).is_none();
        match self.at.missing.iter().find(open) {
            Some(slice) => Step::Drive { act: Act::Create, slice: slice.clone() },
            None => self.end(Outcome::Left { why }),
        }
    }

    fn state(&self, stage: Stage) -> Option<ChangeState> {
        let boot = self.observation.boot.clone();
        Some(ChangeState { id: self.wish.id.clone(), boot, stage })
    }

    /// Says how far the change is. That is no new account: the proof stands.
    fn stage(&self, what: Writes, stage: Stage) -> Step {
        write(self.observation, what, Account { change: self.state(stage), ..self.told.clone() })
    }

    fn end(&self, outcome: Outcome) -> Step {
        let change = self.state(Stage::Ended(outcome));
        write(self.observation, Writes::Outcome, Account { change, ..report::renewed(self.observation) })
    }
}
