//! The slicewright command.
