//! Problems of the objects, and notes about them.

use std::fmt;

use api::located::{Located, Place};
use api::schema::Finding;
use serde::Serialize;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Severity {
    /// The input is wrong or contradicts itself: a preview refuses it.
    Error,
    /// It works, but somebody should look.
    Warning,
    /// Worth knowing.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One problem. Sorts by severity, then object, then field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The object, such as `Node gpu-1` or `Notebook vision/mnist`.
    pub object: String,
    /// The field, such as `spec.nodeSelector`; empty for the whole object.
    pub field: String,
    /// What is wrong, the value, and what is allowed.
    pub message: String,
    /// File, line and column, where the object came from a file.
    pub place: Option<Location>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
}

impl Location {
    /// A place in a file.
    #[must_use]
    pub fn new(file: &str, place: Place) -> Self {
        Self { file: file.to_owned(), line: place.line, column: place.column }
    }
}

/// Where an object came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file.
    pub file: String,
    /// The document, with the place of every value.
    pub document: Located,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.document.place == other.document.place
    }
}

impl Source {
    /// Where a field stands.
    #[must_use]
    pub fn place(&self, path: &str) -> Location {
        Location::new(&self.file, self.document.place_of(path))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column } = self;
        write!(f, "{file}:{line}:{column}")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl Problem {
    /// A problem of an object.
    pub fn new(severity: Severity, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity, object: object.into(), field: String::new(), message: message.into(), place: None }
    }

    /// The same, of one field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// A finding of the strict reader, in a file.
    #[must_use]
    pub fn of_finding(finding: Finding, object: &str, file: &str) -> Self {
        let Finding { path, place, message } = finding;
        Self {
            severity: Severity::Error,
            object: object.to_owned(),
            field: path,
            message,
            place: place.map(|place| Location::new(file, place)),
        }
    }

    /// The same, of a policy, with the place of the field where the policy
    /// came from a file.
    #[must_use]
    pub(crate) fn of_policy(self, name: &str, source: Option<&Source>) -> Self {
        Self {
            object: format!("GpuPartitionPolicy {name}"),
            place: source.map(|source| source.place(&self.field)),
            ..self
        }
    }
}
