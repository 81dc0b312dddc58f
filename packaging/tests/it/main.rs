//! The integration tests of this crate, one program: the archives, the chart and the bundle, each with its own tools.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod archives;
mod helm_chart;
mod olm_bundle;
mod project;
