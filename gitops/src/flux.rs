//! Flux's health expressions: those of a Kustomization's `healthCheckExprs`,
//! evaluated in the order of kustomize-controller.

use cel::{Context, Program, Value as Cel};
use serde::Deserialize;
use serde_json::Value;

use crate::kstatus::{Verdict, is_behind};

/// What is wrong with expressions, or with an object for them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be parsed.
    #[error("the expression {expression:?} cannot be parsed: {why}")]
    Parse {
        /// Which.
        expression: String,
        /// What the parser says.
        why: String,
    },
    /// It cannot be evaluated. Flux takes that for "keep waiting".
    #[error("the expression {expression:?} cannot be evaluated: {why}")]
    Evaluate {
        /// Which.
        expression: String,
        /// What the interpreter says.
        why: String,
    },
    /// The Kustomization has none for a kind.
    #[error("the Kustomization has no healthCheckExprs for {0}")]
    None(String),
}

/// The expressions for one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expressions {
    /// Of which API. Only the group counts.
    pub api_version: String,
    /// Of which kind.
    pub kind: String,
    /// It is on its way.
    pub in_progress: String,
    /// A human has to act.
    pub failed: String,
    /// It is what was waited for.
    pub current: String,
}

impl Expressions {
    /// Those of a Kustomization for our policies.
    ///
    /// # Errors
    /// When it has none.
    pub fn from_kustomization(kustomization: &Value, kind: &str) -> Result<Self, Error> {
        let all = kustomization.pointer("/spec/healthCheckExprs").cloned().unwrap_or_default();
        let all: Vec<Self> = serde_json::from_value(all).unwrap_or_default();
        all.into_iter().find(|one| one.kind == kind).ok_or_else(|| Error::None(kind.to_owned()))
    }

    /// The verdict on an object.
    ///
    /// # Errors
    /// When an expression touches what the object lacks, or makes no sense.
    pub fn verdict(&self, object: &Value) -> Result<Verdict, Error> {
        // Flux's own rule comes before what users write.
        if is_behind(object) {
            return Ok(Verdict::InProgress);
        }
        let order = [
            (&self.in_progress, Verdict::InProgress),
            (&self.failed, Verdict::Failed),
            (&self.current, Verdict::Current),
        ];
        for (expression, verdict) in order {
            if holds(expression, object)? {
                return Ok(verdict);
            }
        }
        Ok(Verdict::InProgress)
    }
}

/// Whether an expression holds for an object, whose fields are its variables.
fn holds(expression: &str, object: &Value) -> Result<bool, Error> {
    let parsed = Program::compile(expression)
        .map_err(|error| Error::Parse { expression: expression.to_owned(), why: error.to_string() })?;
    let failed = |why: String| Error::Evaluate { expression: expression.to_owned(), why };
    let mut context = Context::default();
    for (name, field) in object.as_object().into_iter().flatten() {
        context.add_variable(name.clone(), field).map_err(|error| failed(error.to_string()))?;
    }
    match parsed.execute(&context) {
        Ok(Cel::Bool(holds)) => Ok(holds),
        Ok(other) => Err(failed(format!("it gives {other:?} and neither true nor false"))),
        Err(error) => Err(failed(error.to_string())),
    }
}
