//! Scenarios on a real control plane.
