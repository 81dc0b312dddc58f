//! The state of simulated GPUs, shared by all processes that use one
//! directory, and kept when they end.
