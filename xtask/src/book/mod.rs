//! `cargo xtask book`: the site made of docs/ and the README, by mdBook.
//!
//! The pages are written for readers of the repository. The site is made in three steps: they are prepared
//! for mdBook ([`pages`]), mdBook renders them, and every link of the result is followed ([`site`]).

mod mdbook;
mod pages;
mod site;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use crate::tools::Sources;

/// Builds the site from docs/ and checks all its links
///
/// mdBook renders it; the first time it is built, in about a minute and a
/// half, and kept beside the other tools. Fails on a page that docs/SUMMARY.md
/// does not name, on whatever mdBook warns of, and on a link that leads to no
/// file or to no heading of the site.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the site goes, a folder of its own
    ///
    /// [default: book in the build folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let wrong = pages::not_in_the_summary(crate::root())?;
    ensure!(wrong.is_empty(), "docs/SUMMARY.md and docs/ differ:\n{}", wrong.join("\n"));
    let mdbook = mdbook::ensure_built(&args.sources, out)?;
    let work = work()?;
    let site = args.out.clone().unwrap_or_else(|| work.join("site"));
    pages::lay_out(crate::root(), &work)?;
    render(&mdbook, &work, &std::path::absolute(&site)?)?;
    let found = site::follow(&site)?;
    ensure!(found.broken.is_empty(), "links of the site lead nowhere:\n{}", found.broken.join("\n"));
    writeln!(
        out,
        "{} pages, {} links, all of which lead somewhere: {}",
        found.pages,
        found.links,
        site.join("index.html").display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A folder of ours in the build folder, empty.
fn work() -> anyhow::Result<PathBuf> {
    // target/debug/xtask, or wherever cargo was told to build.
    let program = std::env::current_exe().context("cannot say where this program is")?;
    let target = program.ancestors().nth(2).context("this program is in no build folder")?;
    let work = target.join("book");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot empty {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    Ok(work)
}

fn render(mdbook: &Path, work: &Path, site: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(mdbook);
    command.arg("build").arg("--dest-dir").arg(site).arg(work);
    command.env("MDBOOK_LOG", "warn").env("NO_COLOR", "1").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {}", mdbook.display()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "mdbook ended with {}:\n{said}", output.status);
    // At this level it says nothing when all is well.
    if !said.trim().is_empty() {
        bail!("mdbook is not content:\n{said}");
    }
    Ok(())
}
