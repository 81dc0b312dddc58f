//! The GPUs of this machine. All of the product's `unsafe` is in this crate.
