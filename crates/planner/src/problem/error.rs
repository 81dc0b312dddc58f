//! What can be wrong with a file of a problem.

use mig::{GeometryError, LayoutError};

/// Why a file is not a planning problem.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not JSON, or not of this shape. The cause gives line and column.
    #[error("not a planning problem")]
    Json(#[from] serde_json::Error),
    /// A value is not possible.
    #[error("{place}: {problem}")]
    Value {
        /// Where, such as `gpus[3] (n0/gpu3).idle[0]`.
        place: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// A model's table is not a geometry.
    #[error("rules.geometry.{model}")]
    Geometry {
        /// The model.
        model: String,
        /// What is wrong with it.
        source: GeometryError,
    },
    /// The slices of a GPU cannot be on one GPU.
    #[error("{place}")]
    Layout {
        /// The GPU.
        place: String,
        /// Which slice, and what is allowed.
        source: LayoutError,
    },
}
