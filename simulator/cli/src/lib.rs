//! The `slicewright-sim` command.
