//! Facts about the machine that builds: the commit of the checkout, and the C library.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use image::elf;
use image::oci::Architecture;
use image::sbom::Other;

/// A commit.
pub(crate) struct Commit {
    /// Its name, with `-modified` when the checkout is not what was committed.
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) time: u64,
}

/// What a program prints, if it is there and ends well.
fn asked(program: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()?;
    Some(text.trim().to_owned())
}

/// The commit that is checked out; none in sources without git.
pub(crate) fn commit(root: &Path) -> Option<Commit> {
    let name = asked("git", &["rev-parse", "HEAD"], root)?;
    let changed = asked("git", &["status", "--porcelain", "--untracked-files=no"], root)?;
    let time = asked("git", &["log", "-1", "--format=%ct"], root)?.parse().ok()?;
    Some(Commit { name: if changed.is_empty() { name } else { format!("{name}-modified") }, time })
}

/// A shared library of this machine and what it belongs to.
pub(crate) struct Library {
    /// Where the loader looks for it.
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
}

/// The loader and every library that these programs ask for, and those that
/// these ask for; `also` by name, and what is in the image itself (`own`) is
/// left out.
pub(crate) fn libraries(
    programs: &[&[u8]],
    also: &[&str],
    own: &[&str],
    architecture: Architecture,
) -> anyhow::Result<Vec<Library>> {
    let mut found: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut names: BTreeSet<String> = also.iter().map(|name| (*name).to_owned()).collect();
    for program in programs {
        let needs = elf::needs(program)?;
        names.extend(needs.libraries);
        if let Some(loader) = needs.loader {
            let content = fs::read(&loader).with_context(|| format!("cannot read the loader {loader}"))?;
            found.insert(PathBuf::from(loader), content);
        }
    }
    let mut done: BTreeSet<String> = own.iter().map(|name| (*name).to_owned()).collect();
    done.extend(found.keys().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())));
    while let Some(name) = names.pop_first() {
        if !done.insert(name.clone()) {
            continue;
        }
        let places = places(architecture);
        let Some(path) = places.iter().map(|place| Path::new(place).join(&name)).find(|path| path.is_file())
        else {
            bail!("a program asks for {name}, which is in none of {}", places.join(", "));
        };
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        names.extend(elf::needs(&content)?.libraries);
        found.insert(path, content);
    }
    Ok(found.into_iter().map(|(path, content)| Library { path, content }).collect())
}

/// Where a loader without a cache looks, Debian's folders first.
fn places(architecture: Architecture) -> Vec<String> {
    let debian = format!("{}-linux-gnu", architecture.rust());
    let places = [format!("/lib/{debian}"), format!("/usr/lib/{debian}")];
    places.into_iter().chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned)).collect()
}

/// What files of this machine belong to, for the SBOM, with the licences: by
/// Debian's or Red Hat's package manager.
pub(crate) fn owners(paths: &[PathBuf]) -> anyhow::Result<Vec<Owner>> {
    let mut owners = BTreeMap::new();
    for path in paths {
        let Some((other, texts)) = debian(path)?.map_or_else(|| red_hat(path), |found| Ok(Some(found)))?
        else {
            bail!(
                "no package of this machine has {}, so that its licence is not known: build on Debian, Ubuntu, \
                 Fedora or RHEL, or use the Containerfiles in packaging/containers",
                path.display()
            );
        };
        owners.insert(other, texts);
    }
    Ok(owners.into_iter().collect())
}

/// A package, and its licences by their paths under `/licenses`.
pub(crate) type Owner = (Other, Vec<(String, Vec<u8>)>);

fn debian(path: &Path) -> anyhow::Result<Option<Owner>> {
    let here = Path::new("/");
    // Since /lib is a link to /usr/lib, a file may be known under either name.
    let real = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
    let without =
        real.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_else(|_| real.clone());
    let owner = [path, real.as_path(), without.as_path()].into_iter().find_map(|name| {
        let line = asked("dpkg-query", &["--search", name.to_str()?], here)?;
        Some(line.lines().next()?.split(": ").next()?.split(", ").next()?.to_owned())
    });
    let Some(package) = owner else { return Ok(None) };
    let version = asked("dpkg-query", &["--show", "--showformat=${Version}", &package], here)
        .with_context(|| format!("dpkg does not know the version of {package}"))?;
    let name = package.split(':').next().unwrap_or(&package).to_owned();
    let file = format!("/usr/share/doc/{name}/copyright");
    let copyright = fs::read(&file).with_context(|| format!("cannot read {file}"))?;
    let mut texts = Vec::new();
    let words = String::from_utf8_lossy(&copyright).into_owned();
    for rest in words.split("/usr/share/common-licenses/").skip(1) {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c))).unwrap_or(rest.len());
        let common = rest[..end].trim_end_matches('.');
        let text = fs::read(format!("/usr/share/common-licenses/{common}"));
        texts.extend(text.ok().map(|text| (format!("{name}/{common}"), text)));
    }
    texts.push((format!("{name}/copyright"), copyright));
    texts.sort();
    texts.dedup();
    let purl = format!("pkg:deb/debian/{name}@{}", version.replace('+', "%2B").replace(':', "%3A"));
    Ok(Some((Other { name, version, licence: None, purl: Some(purl) }, texts)))
}

fn red_hat(path: &Path) -> anyhow::Result<Option<Owner>> {
    let here = Path::new("/");
    let path = path.to_str().context("a library's path is text")?;
    let format = "%{NAME}\t%{VERSION}-%{RELEASE}";
    let Some(line) = asked("rpm", &["--query", "--file", "--queryformat", format, path], here) else {
        return Ok(None);
    };
    let (name, version) = line.split_once('\t').context("rpm does not say name and version")?;
    let files = asked("rpm", &["--query", "--licensefiles", name], here).unwrap_or_default();
    let mut texts = Vec::new();
    for file in files.lines() {
        let end = Path::new(file).file_name().and_then(|end| end.to_str()).unwrap_or("LICENSE");
        texts.push((format!("{name}/{end}"), fs::read(file).with_context(|| format!("cannot read {file}"))?));
    }
    let purl = format!("pkg:rpm/redhat/{name}@{version}");
    let (name, version) = (name.to_owned(), version.to_owned());
    Ok(Some((Other { name, version, licence: None, purl: Some(purl) }, texts)))
}
