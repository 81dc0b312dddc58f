//! The packages of a program, from cargo's messages during the build.
//!
//! `cargo metadata` alone lists too much: it includes every feature that any member of the workspace
//! enables. So a package counts when this build had an artifact of it, and as linked when that artifact is
//! for the target: macros, build scripts and what they need are compiled for the machine that builds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One package of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether the program contains it.
    pub kind: Kind,
    /// Its licences as an SPDX expression, if it says so.
    pub licence: Option<String>,
    /// Where it is developed, if it says so.
    pub repository: Option<String>,
    /// The SHA-256 of what the registry serves.
    pub checksum: Option<String>,
    /// The path of its Cargo.toml on the machine that builds.
    pub manifest: String,
    /// Places in the list of packages.
    pub dependencies: Vec<usize>,
    /// Whether this is the program itself.
    pub root: bool,
}

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This repository.
    Local,
    /// Rust's own registry: `deny.toml` refuses every other.
    Registry,
    /// A git repository.
    Git,
}

/// Whether a program contains a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It does.
    Linked,
    /// It was needed to build it: a macro, a build script, or what these need.
    Build,
}

/// What of cargo's answers makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON.
    #[error("cargo's answer is not JSON")]
    Json(#[from] serde_json::Error),
    /// A field is missing.
    #[error("cargo's answer has no {field}")]
    Field {
        /// Which.
        field: &'static str,
    },
    /// The program was not built.
    #[error("cargo built no package {name:?} for {target}")]
    NotBuilt {
        /// The package.
        name: String,
        /// The target.
        target: String,
    },
}

/// What cargo built: the packages, the program first by nothing but `root`,
/// sorted by name and version.
///
/// `metadata` is what `cargo metadata --format-version 1` prints, `messages`
/// what `cargo build --message-format json` printed for this one program, `lock`
/// the text of Cargo.lock.
///
/// # Errors
/// When these are not what they should be.
pub fn packages(
    metadata: &str,
    messages: &str,
    lock: &str,
    target: &str,
    program: &str,
) -> Result<Vec<Package>, Error> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let built = built(messages, target)?;
    let sums = checksums(lock);
    let all = metadata["packages"].as_array().ok_or(Error::Field { field: "packages" })?;
    let mut found = Vec::new();
    for package in all {
        let text = |field: &'static str| package[field].as_str().ok_or(Error::Field { field });
        let Some(kind) = built.get(text("id")?) else { continue };
        let (name, version) = (text("name")?.to_owned(), text("version")?.to_owned());
        let origin = match package["source"].as_str() {
            None => Origin::Local,
            Some(source) if source.starts_with("git+") => Origin::Git,
            Some(_) => Origin::Registry,
        };
        found.push((
            text("id")?,
            Package {
                root: name == program,
                checksum: sums.get(&(name.as_str(), version.as_str())).map(|sum| (*sum).to_owned()),
                origin,
                kind: *kind,
                licence: package["license"].as_str().map(str::to_owned),
                repository: package["repository"].as_str().map(str::to_owned),
                manifest: text("manifest_path")?.to_owned(),
                dependencies: Vec::new(),
                name,
                version,
            },
        ));
    }
    found.sort_by(|(_, a), (_, b)| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let place: BTreeMap<&str, usize> = found.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or(Error::Field { field: "resolve.nodes" })?;
    let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for node in nodes {
        let Some(from) = node["id"].as_str().and_then(|id| place.get(id)) else { continue };
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            let only_tests = kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"));
            let to = dependency["pkg"].as_str().and_then(|id| place.get(id));
            if let Some(to) = to.filter(|_| !only_tests) {
                edges.entry(*from).or_default().insert(*to);
            }
        }
    }
    // What cargo built on the way for something that is not part of this program (a build script's own tools on
    // another platform, for instance) hangs from nothing: it is no part of it.
    let mut reached: BTreeSet<usize> = BTreeSet::new();
    let mut next: Vec<usize> = (0..found.len()).filter(|at| found[*at].1.root).collect();
    while let Some(at) = next.pop() {
        if reached.insert(at) {
            next.extend(edges.get(&at).into_iter().flatten());
        }
    }
    let moved: BTreeMap<usize, usize> = reached.iter().enumerate().map(|(to, from)| (*from, to)).collect();
    let mut packages: Vec<Package> = Vec::new();
    for (at, (_, mut package)) in found.into_iter().enumerate().filter(|(at, _)| moved.contains_key(at)) {
        package.dependencies =
            edges.get(&at).into_iter().flatten().filter_map(|to| moved.get(to)).copied().collect();
        packages.push(package);
    }
    if !packages.iter().any(|package| package.root && package.kind == Kind::Linked) {
        return Err(Error::NotBuilt { name: program.to_owned(), target: target.to_owned() });
    }
    Ok(packages)
}

/// The packages that have an artifact, by id.
fn built(messages: &str, target: &str) -> Result<BTreeMap<String, Kind>, Error> {
    let for_target = format!("/{target}/");
    let mut built = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)?;
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let id = message["package_id"].as_str().ok_or(Error::Field { field: "package_id" })?;
        let files = message["filenames"].as_array().ok_or(Error::Field { field: "filenames" })?;
        let linked = files.iter().filter_map(Value::as_str).any(|file| file.contains(&for_target));
        let kind = if linked { Kind::Linked } else { Kind::Build };
        built
            .entry(id.to_owned())
            .and_modify(|known| {
                if kind == Kind::Linked {
                    *known = kind;
                }
            })
            .or_insert(kind);
    }
    Ok(built)
}

/// The checksums of Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| {
            let field = |name: &str| {
                let value = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
                value.and_then(|value| value.strip_suffix('"'))
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> String {
        let package = |name: &str, source: Option<&str>| {
            json!({"id": format!("{name}#1"), "name": name, "version": "1.0.0", "source": source,
                   "license": "MIT", "repository": null, "manifest_path": format!("/src/{name}/Cargo.toml")})
        };
        let theirs = Some("registry+https://registry.example.com/index");
        let dep = |name: &str, kind: Option<&str>| json!({"pkg": format!("{name}#1"), "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                package("program", None),
                package("linked", theirs),
                package("macro", theirs),
                package("switched-off", theirs),
                package("tested-with", theirs),
            ],
            "resolve": {"nodes": [
                {"id": "program#1", "deps": [dep("linked", None), dep("macro", None),
                                              dep("switched-off", None), dep("tested-with", Some("dev"))]},
                {"id": "linked#1", "deps": []},
            ]},
        })
        .to_string()
    }

    fn artifact(name: &str, file: &str) -> String {
        json!({"reason": "compiler-artifact", "package_id": format!("{name}#1"), "filenames": [file]})
            .to_string()
    }

    fn messages() -> String {
        [
            artifact("linked", "/target/x-musl/image/deps/liblinked.rlib"),
            artifact("linked", "/target/image/build/linked/build-script-build"),
            artifact("macro", "/target/image/deps/libmacro.so"),
            artifact("tested-with", "/target/image/deps/libtested.rlib"),
            artifact("program", "/target/x-musl/image/program"),
            json!({"reason": "build-finished", "success": true}).to_string(),
        ]
        .join("\n")
    }

    const LOCK: &str =
        "version = 4\n\n[[package]]\nname = \"linked\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";

    #[test]
    fn what_was_compiled_counts_and_what_is_for_the_target_is_linked() {
        let packages = packages(&metadata(), &messages(), LOCK, "x-musl", "program").unwrap();
        let seen: Vec<_> = packages.iter().map(|p| (p.name.as_str(), p.kind, p.root)).collect();
        assert_eq!(
            seen,
            [("linked", Kind::Linked, false), ("macro", Kind::Build, false), ("program", Kind::Linked, true),],
            "what was compiled and hangs from nothing is no part of it"
        );
        assert_eq!(packages[2].dependencies, [0, 1], "not what only tests need, nor what was switched off");
        assert_eq!(packages[0].checksum.as_deref(), Some("abc"));
        assert_eq!((packages[0].origin, packages[2].origin), (Origin::Registry, Origin::Local));
    }

    #[test]
    fn a_program_that_was_not_built_is_told() {
        let error = packages(&metadata(), "", LOCK, "x-musl", "program").unwrap_err();
        assert_eq!(error.to_string(), "cargo built no package \"program\" for x-musl");
    }
}
