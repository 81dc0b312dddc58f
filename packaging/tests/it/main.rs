//! The integration tests of this crate, one program: the chart and the bundle, each with its own tools.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod helm_chart;
mod olm_bundle;
