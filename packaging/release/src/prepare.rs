//! The next version, written into the checkout. Everything is decided before the first file is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use packaging::bundle::Image;
use packaging::project::{FILE, Project};
use packaging::values;
use release::bump::{self, PLACES};
use release::changelog;
use release::home::{self, Home};
use release::released;
use release::version::Version;

/// Writes the next version into the checkout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The version, such as 1.2.3
    version: Version,
    /// The day of the release [default: that of the last commit]
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
}

/// What git prints in the checkout.
pub(crate) fn git(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(words).current_dir(packaging::root()).output();
    let output = output.context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Refuses while a key of the project's file is a placeholder.
pub(crate) fn refuse_placeholders(project: &Project) -> anyhow::Result<()> {
    let placeholders = project.placeholders();
    if placeholders.is_empty() {
        return Ok(());
    }
    bail!(
        "{FILE} still has placeholders, so nothing can be released:\n  {}\nWrite the real values there, and take \
         their keys out of `placeholders`.",
        placeholders.join("\n  ")
    );
}

fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(packaging::root().join(file)).with_context(|| format!("cannot read {file}"))
}

/// The files that name the repository or the registry, with those of the project's file.
fn at_home(files: &mut BTreeMap<String, String>, project: &Project) -> anyhow::Result<()> {
    let manifest = read("Cargo.toml")?;
    let named = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    let old = named.and_then(|rest| rest.strip_suffix('"')).context("Cargo.toml names no repository")?;
    let unreleased = Image::unreleased().repository;
    let unreleased = unreleased.rsplit_once('/').map_or(unreleased.as_str(), |(registry, _)| registry);
    let before = values::publisher(&read(released::VALUES)?);
    let from = Home { repository: old, registry: before.as_deref().unwrap_or(unreleased) };
    let to = Home { repository: &project.repository, registry: &project.registry };
    let named = git(&["grep", "-I", "--files-with-matches", "--fixed-strings", home::owner(old)])?;
    let places = home::IMAGES.iter().map(|place| place.file);
    let places = places.chain(released::TOLD.iter().map(|told| told.file)).chain([released::VALUES]);
    // The project's file says it by hand.
    let all: BTreeSet<&str> = named.lines().chain(places).filter(|file| *file != FILE).collect();
    for file in all {
        let raised = files.get(file);
        let before = raised.map_or_else(|| read(file), |text| Ok(text.clone()))?;
        let moved = home::moved(file, &before, from, to)?;
        let moved = released::released(file, &moved, from, to)?;
        if raised.is_some() || moved != before {
            files.insert(file.to_owned(), moved);
        }
    }
    Ok(())
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { version, date } = args;
    let project = Project::read()?;
    refuse_placeholders(&project)?;
    let from = packaging::bundle::version()?;
    let before: Version = from.parse()?;
    // The version of a project that has released nothing is that of its first release.
    let tags = git(&["tag", "--list", "v*"])?;
    let is_next = *version > before || *version == before && tags.is_empty();
    ensure!(is_next, "version {version} does not follow {before}");
    let changes = git(&["status", "--porcelain"])?;
    ensure!(changes.is_empty(), "the checkout has changes that are not committed:\n{changes}");
    let date = match date {
        Some(date) => date.clone(),
        None => git(&["log", "-1", "--format=%cs"])?,
    };

    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let text = changelog::released(&read("CHANGELOG.md")?, *version, &date)?;
    files.insert("CHANGELOG.md".to_owned(), text);
    let to = version.to_string();
    for bump::Place { file, .. } in PLACES {
        if !files.contains_key(*file) {
            files.insert((*file).to_owned(), bump::raised(file, &read(file)?, &from, &to)?);
        }
    }
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        files.insert(lock.to_owned(), bump::locked(&read(lock)?, &from, &to));
    }
    let base = read("packaging/olm/base.yaml")?;
    let dated: Vec<String> = base
        .lines()
        .map(|line| match line.strip_prefix("createdAt: ") {
            Some(_) => format!("createdAt: \"{date}T00:00:00Z\""),
            None => line.to_owned(),
        })
        .collect();
    files.insert("packaging/olm/base.yaml".to_owned(), dated.join("\n") + "\n");
    at_home(&mut files, &project)?;

    let root = packaging::root();
    for (file, text) in &files {
        write(&root.join(file), text)?;
        writeln!(out, "{file}")?;
    }
    writeln!(out, "{} files say {version}", files.len())?;
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
