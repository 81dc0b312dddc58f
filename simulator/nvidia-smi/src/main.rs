//! `nvidia-smi`.

fn main() {}
