//! Writes the archives of the command, their sums, krew's manifest, and the script that installs it for a job.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use packaging::archives::{File, INSTALLER, Release, System, below, digest, packed};

/// Writes the archives of the command, their sums, krew's manifest, and the script that installs it for a job.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask archives")]
struct Args {
    /// A program, with the system that it is for: linux-amd64=target/…/slicewright
    #[arg(long, value_name = "SYSTEM=FILE", required = true, value_parser = program)]
    program: Vec<(System, PathBuf)>,
    /// The same program for this machine: it writes its manual pages and completions
    #[arg(long, value_name = "FILE")]
    here: PathBuf,
    /// The folder that gets all of it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

fn program(text: &str) -> Result<(System, PathBuf), String> {
    let (system, file) = text.split_once('=').ok_or("write SYSTEM=FILE")?;
    Ok((System::from_str(system, false)?, file.into()))
}

/// What the program prints when it is asked.
fn said(program: &Path, words: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(program).args(words).output().context("the program cannot be run")?;
    ensure!(output.status.success(), "{} {words:?} ended with {}", program.display(), output.status);
    Ok(output.stdout)
}

/// What lies beside every program.
fn beside(here: &Path) -> anyhow::Result<Vec<File>> {
    let folder = tempfile::tempdir()?;
    let pages = folder.path().join("man1");
    said(here, &["man", "--to", &pages.to_string_lossy()])?;
    let mut files = below(folder.path(), "man")?;
    for (shell, file) in [("bash", "slicewright.bash"), ("zsh", "_slicewright"), ("fish", "slicewright.fish")]
    {
        let content = said(here, &["completions", shell])?;
        files.push(File { path: format!("completions/{file}"), content, is_program: false });
    }
    let license = fs::read(packaging::root().join("LICENSE"))?;
    files.push(File { path: "LICENSE".to_owned(), content: license, is_program: false });
    Ok(files)
}

fn main() -> anyhow::Result<()> {
    let Args { program, here, out } = Args::parse();
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let version = env!("CARGO_PKG_VERSION");
    let beside = beside(&here)?;
    let mut stdout = std::io::stdout();
    let mut archives = Vec::new();
    for (system, file) in &program {
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        system.check(&content).with_context(|| format!("{} would not run", file.display()))?;
        let program = File { path: system.program().to_owned(), content, is_program: true };
        let files: Vec<File> = std::iter::once(program).chain(beside.clone()).collect();
        let bytes = packed(&files)?;
        let place = out.join(system.archive(version));
        fs::write(&place, &bytes).with_context(|| format!("cannot write {}", place.display()))?;
        writeln!(stdout, "{} ({} files, {} kB)", place.display(), files.len(), bytes.len() / 1000)?;
        archives.push((*system, digest(&bytes)));
    }
    let release = Release { version, repository: env!("CARGO_PKG_REPOSITORY"), archives };
    fs::write(out.join("SHA256SUMS"), release.sums())?;
    let example = fs::read_to_string(packaging::root().join(INSTALLER))
        .with_context(|| format!("cannot read {INSTALLER}"))?;
    let installer = out.join("install.sh");
    fs::write(&installer, release.installer(&example)?)?;
    writeln!(stdout, "{} installs the command for a job", installer.display())?;
    let manifest = out.join("slicewright.yaml");
    fs::write(&manifest, release.manifest())?;
    writeln!(stdout, "{} is krew's manifest", manifest.display())?;
    Ok(())
}
