//! `slicewright fit`.

use std::io::Write;

use crate::Outcome;
use crate::exit::Failure;

/// Says whether slices fit one GPU together, and where
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: &Args, _out: &mut dyn Write) -> Outcome {
    Err(Failure::Usage("this command is being written".to_owned()))
}
