//! `slicewright completions`.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use crate::Outcome;
use crate::exit::Status;

/// Prints a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright completions bash > \\
    ~/.local/share/bash-completion/completions/slicewright
  slicewright completions zsh > \"${fpath[1]}/_slicewright\"
  slicewright completions fish > ~/.config/fish/completions/slicewright.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
pub fn run(args: &Args, mut command: Command, out: &mut dyn Write) -> Outcome {
    let name = command.get_name().to_owned();
    // It panics where it cannot write; whoever goes away meanwhile had enough.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    Ok(Status::Success)
}
