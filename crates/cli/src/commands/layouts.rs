//! `slicewright layouts`.

use std::io::Write;

use crate::Outcome;
use crate::exit::Failure;

/// Lists and draws the layouts of a GPU model
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: &Args, _out: &mut dyn Write) -> Outcome {
    Err(Failure::Usage("this command is being written".to_owned()))
}
