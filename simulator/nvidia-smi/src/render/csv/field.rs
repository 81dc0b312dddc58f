//! A field of a query, as data.

use crate::generation::{Driver, Form};

/// What `[N/A]` stands for: the library does not give it.
const ABSENT: &str = "[N/A]";

/// A field of a row about a `T`.
pub(crate) struct Field<T: 'static> {
    /// Its names; the first is its heading.
    pub(crate) names: &'static [&'static str],
    /// Its unit.
    pub(crate) unit: Option<&'static str>,
    value: fn(&T) -> Option<String>,
    /// What is printed where there is no value.
    absent: &'static str,
    /// From which change on there is a sentence instead of a value.
    deprecated: Option<Form>,
    /// The first driver whose help lists it, and the first whose help does not
    /// any more.
    listed: (Option<Form>, Option<Form>),
}

/// A field without a unit.
pub(super) const fn plain<T>(names: &'static [&'static str], value: fn(&T) -> Option<String>) -> Field<T> {
    Field { names, unit: None, value, absent: ABSENT, deprecated: None, listed: (None, None) }
}

/// A field with a unit.
pub(super) const fn measured<T>(
    names: &'static [&'static str],
    unit: &'static str,
    value: fn(&T) -> Option<String>,
) -> Field<T> {
    Field { names, unit: Some(unit), value, absent: ABSENT, deprecated: None, listed: (None, None) }
}

/// A field that the real program knows, and about which the library has no
/// answer.
pub(super) const fn unknown<T>(names: &'static [&'static str]) -> Field<T> {
    plain(names, |_| None)
}

/// The same, with a unit in its heading.
pub(super) const fn unmeasured<T>(names: &'static [&'static str], unit: &'static str) -> Field<T> {
    measured(names, unit, |_| None)
}

impl<T> Field<T> {
    /// Without a value it is printed without brackets.
    pub(super) const fn bare(self) -> Self {
        Self { absent: "N/A", ..self }
    }

    /// From this change on there is a sentence instead of a value.
    pub(super) const fn deprecated_from(self, form: Form) -> Self {
        Self { deprecated: Some(form), ..self }
    }

    /// The help lists it from this change on.
    pub(super) const fn listed_from(self, form: Form) -> Self {
        Self { listed: (Some(form), self.listed.1), ..self }
    }

    /// The help lists it before this change.
    pub(super) const fn listed_before(self, form: Form) -> Self {
        Self { listed: (self.listed.0, Some(form)), ..self }
    }

    /// Whether the help of a driver lists it. A query may name it with any.
    pub(crate) fn is_listed(&self, driver: Driver) -> bool {
        let (from, before) = self.listed;
        from.is_none_or(|form| driver.has(form)) && before.is_none_or(|form| !driver.has(form))
    }

    /// Its heading, with the unit, if units are asked for.
    pub(super) fn heading(&self) -> String {
        match self.unit {
            Some(unit) => format!("{} [{unit}]", self.names[0]),
            None => self.names[0].to_owned(),
        }
    }

    /// What is printed of a subject.
    pub(super) fn cell(&self, of: &T, driver: Driver, units: bool) -> String {
        if self.deprecated.is_some_and(|form| driver.has(form)) {
            return "[Requested functionality has been deprecated]".to_owned();
        }
        match ((self.value)(of), self.unit) {
            (Some(value), Some(unit)) if units => format!("{value} {unit}"),
            (Some(value), _) => value,
            (None, _) => self.absent.to_owned(),
        }
    }
}
