//! `slicewright`: arguments in, one call into the library.
fn main() {}
