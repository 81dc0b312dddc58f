//! A plan together with the result of the checker. Only a [`CheckedPlan`] is carried out, and only the
//! checker can produce one.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::NodeName;
use crate::plan::{NodeStep, Plan};
use crate::policy::Policy;

use super::{Note, Severity, check, is_sound};

/// A plan and what the checker says of it. Anybody may read it, print it, and
/// say what it would do; whoever does it asks for [`JudgedPlan::checked`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedPlan {
    plan: Plan,
    notes: Vec<Note>,
}

impl JudgedPlan {
    /// Has a plan checked.
    #[must_use]
    pub fn new(plan: Plan, inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Self {
        let notes = check(&plan, inventory, requests, policies);
        Self { plan, notes }
    }

    /// A plan that nobody has checked, for tests of those who carry plans out:
    /// see [`crate::testing::as_if_checked`].
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn unchecked(plan: Plan) -> Self {
        Self { plan, notes: Vec::new() }
    }

    /// Everything that the checker says, fatal or not.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What forbids to act upon the plan: a mistake in the planner.
    pub fn fatal(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.severity == Severity::Fatal)
    }

    /// The plan, if it breaks no rule.
    #[must_use]
    pub fn checked(&self) -> Option<CheckedPlan<'_>> {
        is_sound(&self.notes).then_some(CheckedPlan(&self.plan))
    }

    /// Adds an objection. One that is fatal makes the plan one that nobody may
    /// act upon, and nothing takes that back.
    pub fn object(&mut self, note: Note) {
        self.notes.push(note);
    }
}

impl Deref for JudgedPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// A plan that breaks no rule: the only one that may be acted upon.
#[derive(Clone, Copy, Debug)]
pub struct CheckedPlan<'a>(&'a Plan);

impl<'a> CheckedPlan<'a> {
    /// Its steps, those that are worth more first.
    pub fn in_order(self) -> impl Iterator<Item = &'a NodeStep> {
        self.0.steps.iter()
    }

    /// Its steps, by node.
    #[must_use]
    pub fn steps(self) -> BTreeMap<&'a NodeName, &'a NodeStep> {
        self.in_order().map(|step| (&step.node, step)).collect()
    }

    /// Its nodes, those that are worth more first.
    #[must_use]
    pub fn order(self) -> Vec<NodeName> {
        self.in_order().map(|step| step.node.clone()).collect()
    }
}
