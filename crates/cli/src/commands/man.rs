//! `slicewright man`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use crate::Outcome;
use crate::exit::{Failure, Status};

/// Prints the manual page of this command, or writes all of them into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright man | man -l -
  slicewright man plan | man -l -
  slicewright man --to ~/.local/share/man/man1")]
pub struct Args {
    /// The page of this subcommand, such as `plan` or `profiles export`
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    of: Vec<String>,
    /// Write the page of every command into this folder, which is made
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args, command: Command, out: &mut dyn Write) -> Outcome {
    let pages = pages(command);
    if let Some(folder) = &args.to {
        let cannot = |error| Failure::Data(format!("cannot write into {}: {error}", folder.display()));
        fs::create_dir_all(folder).map_err(cannot)?;
        for (name, page) in &pages {
            fs::write(folder.join(format!("{name}.1")), page).map_err(cannot)?;
        }
        writeln!(out, "{} pages were written into {}", pages.len(), folder.display())?;
        return Ok(Status::Success);
    }
    let wanted = [&[ROOT.to_owned()], args.of.as_slice()].concat().join("-");
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known = pages.iter().filter_map(|(name, _)| name.strip_prefix("slicewright-"));
        let known: Vec<&str> = known.collect();
        return Err(Failure::Usage(format!(
            "there is no page for `{}`; the pages are: {}",
            args.of.join(" "),
            known.join(", ")
        )));
    };
    out.write_all(page)?;
    Ok(Status::Success)
}

/// The page of everything, after which the others are called.
const ROOT: &str = "slicewright";

/// The pages of the command and of its subcommands, by name.
fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut all = vec![(ROOT.to_owned(), page(command.clone()))];
    pages_below(&command, ROOT, &mut all);
    all
}

/// The pages of all subcommands, however deep: the page of each names those below it.
fn pages_below(command: &Command, above: &str, all: &mut Vec<(String, Vec<u8>)>) {
    for sub in command.get_subcommands() {
        let name = format!("{above}-{}", sub.get_name());
        all.push((name.clone(), page(sub.clone().display_name(&name).version(env!("CARGO_PKG_VERSION")))));
        pages_below(sub, &name, all);
    }
}

fn page(command: Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).expect("a vector takes everything");
    page
}
