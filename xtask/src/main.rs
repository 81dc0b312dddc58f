//! `cargo xtask`: what is done to the repository itself.
fn main() {}
