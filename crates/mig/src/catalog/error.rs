//! What can be wrong with a table of models.

use crate::geometry::GeometryError;
use crate::lattice::TooManyStates;
use crate::name::ProfileName;

/// A table that contradicts itself or the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place(file, model.as_deref(), *profile, *field))]
pub struct CatalogError {
    /// The data file.
    pub file: String,
    /// The model, where it got that far.
    pub model: Option<String>,
    /// The profile, if it is about one.
    pub profile: Option<ProfileName>,
    /// The field, if it is about one.
    pub field: Option<&'static str>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not YAML, or not the fields that there are.
    #[error("{message}")]
    Syntax {
        /// What the reader says, with line and column.
        message: String,
    },
    /// A profile that the grid does not allow.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Placements without end.
    #[error(transparent)]
    States(#[from] TooManyStates),
    /// A text that is not what the field holds.
    #[error("`{text}` is not {expected}")]
    Text {
        /// What is there.
        text: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// Two of something that is there once.
    #[error("{value} is there twice; the other is in {other}")]
    Duplicate {
        /// The value.
        value: String,
        /// Where it is too.
        other: String,
    },
    /// A count of instances that the placements do not give.
    #[error("{given} at once are not what the placements allow: {possible} are")]
    Count {
        /// What the table says.
        given: u8,
        /// What the starts, sizes and rules allow.
        possible: u8,
    },
    /// A number that the name contradicts.
    #[error("{given} is not what the name says: {named}")]
    Named {
        /// What the table says.
        given: u32,
        /// What the name says.
        named: u32,
    },
    /// Memory from which NVIDIA's rounding makes another name.
    #[error(
        "{memory_mib} MiB of {total_mib} MiB are called {rounded} GB by the rounding rule, and the name says {named}"
    )]
    Rounding {
        /// Memory of the instance.
        memory_mib: u32,
        /// Memory of the GPU.
        total_mib: u32,
        /// What the rule makes of them.
        rounded: u32,
        /// What the name says.
        named: u32,
    },
    /// Memory in MiB and in GiB that differ.
    #[error("{gib} GiB is not how {mib} MiB are printed")]
    Gib {
        /// What the table says in GiB.
        gib: String,
        /// What it says in MiB; 0 if it does not.
        mib: u32,
    },
    /// A slice with more than the GPU.
    #[error("{given} is more than the {whole} of the whole GPU")]
    MoreThanWhole {
        /// What the slice has.
        given: u32,
        /// What the GPU has.
        whole: u32,
    },
    /// A value that comes from nowhere.
    #[error("the value has no source; add one under `sources`")]
    NoSource,
    /// A gap that nobody explains.
    #[error("the value is absent and `unverified` does not say why")]
    NoReason,
    /// A source for nothing.
    #[error("there is a source and no value")]
    NoValue,
}

fn place(
    file: &str,
    model: Option<&str>,
    profile: Option<ProfileName>,
    field: Option<&'static str>,
) -> String {
    let parts = [model.map(str::to_owned), profile.map(|p| p.to_string()), field.map(str::to_owned)];
    let mut text = format!("{file}: ");
    for part in parts.into_iter().flatten() {
        text.push_str(&part);
        text.push_str(": ");
    }
    text
}
