//! `cargo xtask tools`: the real components that tests run against, built from the Go modules under
//! `tools/`, once, into a cache outside the checkout.
//!
//! A family of tools is one module of ours that pins published modules by name and version, with committed
//! checksums. What a build depends on (the module's files, the flags, the machine) is hashed into the name
//! of its folder, so an existing binary is never built again, and another checkout with other versions does
//! not replace it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

pub(crate) use crate::families::Use;
use crate::families::{FAMILIES, Family};
use crate::installing::Install;

/// Where ready-made binaries are, and where ours are kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Sources {
    /// A folder with binaries that are used instead of ours
    #[arg(long, value_name = "DIR", env = "KUBEBUILDER_ASSETS", value_parser = path())]
    assets: Option<PathBuf>,
    /// The folder that keeps what was built
    ///
    /// [default: slicewright/tools under $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", env = "SLICEWRIGHT_TOOLS", value_parser = path())]
    tools: Option<PathBuf>,
    #[arg(long, hide = true, env = "XDG_CACHE_HOME", value_parser = path())]
    cache_home: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_ETCD", value_parser = path())]
    etcd: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_KUBE_APISERVER", value_parser = path())]
    kube_apiserver: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_KUBE_CONTROLLER_MANAGER", value_parser = path())]
    kube_controller_manager: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_KUBE_SCHEDULER", value_parser = path())]
    kube_scheduler: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_KUBECTL", value_parser = path())]
    kubectl: Option<PathBuf>,
    #[arg(long, hide = true, env = "TEST_ASSET_HELM", value_parser = path())]
    helm: Option<PathBuf>,
}

/// Builds the real components that the tests run against
///
/// From the Go modules under tools/, in groups: the control plane of the
/// end-to-end tests, clients of NVML (these need a C compiler too), Helm, the
/// validators of OLM bundles, what the release check runs, and what a kind
/// cluster is made of. The first time takes some minutes; afterwards only what
/// changed is built. Prints where each is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The groups to build [default: what `cargo xtask test` needs]
    #[arg(value_enum, value_name = "GROUP")]
    groups: Vec<Use>,
    #[command(flatten)]
    pub(crate) sources: Sources,
}

impl Args {
    /// What is to be built.
    pub(crate) fn uses(&self) -> &[Use] {
        if self.groups.is_empty() { Use::GATE } else { &self.groups }
    }
}

/// A binary that can be run, or a file that came with one.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Its name, such as `kube-apiserver`.
    pub(crate) name: &'static str,
    /// Where it is.
    pub(crate) path: PathBuf,
}

impl Binary {
    /// The variable by which a test is told where this binary is, as
    /// controller-runtime's envtest names it.
    pub(crate) fn variable(&self) -> String {
        format!("TEST_ASSET_{}", self.name.to_uppercase().replace(['-', '.'], "_"))
    }
}

/// A path that may be empty: a variable that is set to nothing says nothing,
/// which is how a caller takes it away.
fn path() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    clap::builder::TypedValueParser::map(clap::builder::OsStringValueParser::new(), PathBuf::from)
}

/// What was said, if anything was.
fn said(path: &Option<PathBuf>) -> Option<&PathBuf> {
    path.as_ref().filter(|path| !path.as_os_str().is_empty())
}

impl Sources {
    /// A binary that is used instead of one of ours.
    pub(crate) fn given(&self, name: &str) -> Option<PathBuf> {
        let of_its_own = match name {
            "etcd" => &self.etcd,
            "kube-apiserver" => &self.kube_apiserver,
            "kube-controller-manager" => &self.kube_controller_manager,
            "kube-scheduler" => &self.kube_scheduler,
            "kubectl" => &self.kubectl,
            "helm" => &self.helm,
            _ => &None,
        };
        let in_the_folder = || said(&self.assets).map(|dir| dir.join(name)).filter(|path| path.exists());
        said(of_its_own).cloned().or_else(in_the_folder)
    }

    pub(crate) fn cache(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = said(&self.tools) {
            return Ok(dir.clone());
        }
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        let base = self.cache_home.clone().filter(|dir| dir.is_absolute()).or_else(home);
        let base = base.context("there is no home folder to keep the tools in: set SLICEWRIGHT_TOOLS")?;
        Ok(base.join("slicewright/tools"))
    }

    /// What was built, in this folder and nowhere else.
    #[cfg(test)]
    pub(crate) fn kept_in(folder: &Path) -> Self {
        Self { tools: Some(folder.to_owned()), ..Self::default() }
    }

    /// Lets another `cargo xtask` look in the same places.
    pub(crate) fn hand_on(&self, command: &mut Command) {
        let folders = [("KUBEBUILDER_ASSETS", &self.assets), ("SLICEWRIGHT_TOOLS", &self.tools)];
        command.envs(folders.into_iter().filter_map(|(name, folder)| Some((name, folder.as_ref()?))));
    }

    /// Whether something would have to be built for these uses, which needs Go.
    pub(crate) fn need_go(&self, uses: &[Use]) -> bool {
        let Ok(cache) = self.cache() else { return true };
        families(uses).any(|family| {
            let folder = family.pinned().map(|pinned| cache.join(pinned.folder()));
            family.names().any(|name| {
                self.given(name).is_none() && !folder.as_ref().is_ok_and(|folder| folder.join(name).exists())
            })
        })
    }
}

fn families(uses: &[Use]) -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().filter(move |family| uses.contains(&family.used_for))
}

/// Everything that is built for these uses, by name.
pub(crate) fn names(uses: &[Use]) -> impl Iterator<Item = &'static str> {
    families(uses).flat_map(Family::names)
}

/// Whether C is compiled for these uses.
pub(crate) fn compile_c(uses: &[Use]) -> bool {
    families(uses).any(|family| family.cgo)
}

/// What a missing Go means, in one sentence.
pub(crate) const GO: crate::steps::Tool = crate::steps::Tool {
    name: "Go",
    probe: &["go", "version"],
    install: Install::ByHand(
        "install Go 1.26 or newer from go.dev, or set KUBEBUILDER_ASSETS to a folder that has the programs which \
         `cargo xtask tools` would build",
    ),
};

/// What reads the history, and what of the checkout belongs to it.
pub(crate) const GIT: crate::steps::Tool = crate::steps::Tool {
    name: "git (and a checkout made with it)",
    probe: &["git", "rev-parse", "--is-inside-work-tree"],
    install: Install::ByHand("clone the repository with git"),
};

/// What the clients of NVML need beside Go.
pub(crate) const CC: crate::steps::Tool = crate::steps::Tool {
    name: "a C compiler",
    probe: &["cc", "--version"],
    install: Install::Debian("gcc libc6-dev"),
};

/// A family with all that its build depends on.
struct Pinned<'a> {
    family: &'a Family,
    module: PathBuf,
    flags: Vec<String>,
    key: String,
}

impl Family {
    /// The first tool that its build needs and that is not there.
    fn missing(&self) -> Option<crate::steps::Tool> {
        let needed: &[_] = if self.cgo { &[GO, CC] } else { &[GO] };
        needed.iter().find(|tool| !tool.is_present()).copied()
    }

    /// What it gives: binaries, then files.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.binaries.iter().map(|(name, _)| *name).chain(self.files.iter().map(|(name, ..)| *name))
    }

    fn pinned(&self) -> anyhow::Result<Pinned<'_>> {
        let module = crate::root().join("tools").join(self.module);
        let read = |file: &str| {
            let path = module.join(file);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
        let ours = crate::sources::of(&module)?;
        let mut linker = "-s -w".to_owned();
        if let Some((packages, of)) = self.stamped {
            let version = version_of(&go_mod, of)
                .with_context(|| format!("tools/{}/go.mod requires no {of}", self.module))?;
            let mut parts = version.trim_start_matches('v').split('.');
            let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            for package in packages {
                for (variable, value) in [
                    ("gitVersion", version),
                    ("gitMajor", major),
                    ("gitMinor", minor),
                    ("gitTreeState", "clean"),
                ] {
                    linker.push_str(&format!(" -X {package}.{variable}={value}"));
                }
            }
        }
        let mut flags = vec!["-trimpath".to_owned(), "-ldflags".to_owned(), linker];
        if !self.tags.is_empty() {
            flags.extend(["-tags".to_owned(), self.tags.join(",")]);
        }
        let machine = [std::env::consts::OS, std::env::consts::ARCH];
        let mut hash = Sha256::new();
        for part in [go_mod.as_str(), go_sum.as_str()]
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .chain(machine)
            .chain(ours.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]))
            .chain(self.cgo.then_some("cgo"))
        {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let key = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Pinned { family: self, module, flags, key })
    }
}

/// The version at which a `go.mod` requires a module, replacements apart.
fn version_of<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require ").trim_start())
        .filter(|line| !line.contains("=>"))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' ')?.split_whitespace().next())
}

impl Pinned<'_> {
    fn folder(&self) -> String {
        format!("{}-{}", self.family.name, self.key)
    }

    /// Makes what has this name beside its place, and moves it there when it is whole.
    fn make(&self, name: &str, into: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
        for (_, package) in self.family.binaries.iter().filter(|(binary, _)| *binary == name) {
            self.build(name, package, into, out)?;
        }
        for (_, module, path) in self.family.files.iter().filter(|(file, ..)| *file == name) {
            self.take(module, path, into)?;
        }
        Ok(())
    }

    /// Copies a file of a published module.
    fn take(&self, module: &str, path: &str, into: &Path) -> anyhow::Result<()> {
        let mut go = Command::new("go");
        go.args(["mod", "download", "-json", module]).env("GOWORK", "off");
        let output = go.current_dir(&self.module).stdin(Stdio::null()).output().context("cannot run go")?;
        ensure!(output.status.success(), "`go mod download {module}` ended with {}", output.status);
        let said: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("cannot read where go keeps a module")?;
        let folder = said["Dir"].as_str().with_context(|| format!("go does not say where {module} is"))?;
        let from = Path::new(folder).join(path);
        ensure!(from.exists(), "{module} has no {path} any more");
        let partial = into.with_extension("partial");
        if partial.is_dir() {
            fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        }
        copy(&from, &partial)
            .and_then(|()| fs::rename(&partial, into))
            .with_context(|| format!("cannot write {}", into.display()))
    }

    /// `go` in the module, as it says and nothing else: no workspace, no
    /// changed sums, C only where it is asked for.
    fn go(&self, verb: &str) -> Command {
        let mut go = Command::new("go");
        let cgo = if self.family.cgo { "1" } else { "0" };
        go.arg(verb).envs([("CGO_ENABLED", cgo), ("GOFLAGS", "-mod=readonly"), ("GOWORK", "off")]);
        go.current_dir(&self.module).stdin(Stdio::null());
        go
    }

    /// Of how many packages a program is made; nothing where go does not say.
    fn packages(&self, package: &str) -> Option<usize> {
        let output = self.go("list").args(["-deps", package]).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| output.stdout.iter().filter(|byte| **byte == b'\n').count())
    }

    fn build(&self, name: &str, package: &str, into: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
        let partial = into.with_extension("partial");
        let mut go = self.go("build");
        // Not stamped with this repository's commit: the same sources give the same binary.
        go.args(["-v", "-buildvcs=false"]).args(&self.flags).arg("-o").arg(&partial).arg(package);
        let mut building = go.stderr(Stdio::piped()).spawn().context("cannot run go")?;
        if let Some(said) = building.stderr.take() {
            follow(name, self.packages(package), BufReader::new(said), out)?;
        }
        let status = building.wait().context("cannot wait for go")?;
        ensure!(status.success(), "`go build {package}` in tools/{} ended with {status}", self.family.module);
        fs::rename(&partial, into).with_context(|| format!("cannot write {}", into.display()))
    }
}

/// How often it is told how far a build is.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Tells how far a build is, by what `go build -v` says: a package a line, and
/// whatever else it says as it is.
fn follow(
    name: &str,
    packages: Option<usize>,
    said: impl BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let start = clock();
    let (mut told, mut compiled) = (start, 0);
    for line in said.lines() {
        let line = line.context("cannot read what go says")?;
        let is_package = !line.is_empty() && !line.contains([' ', '#']);
        if !is_package {
            writeln!(out, "{line}")?;
            continue;
        }
        compiled += 1;
        if told.elapsed() >= TOLD_EVERY {
            told = clock();
            let of = packages.map(|packages| format!(" of {packages}")).unwrap_or_default();
            writeln!(out, "tools: {name}: {compiled}{of} packages, {} s", start.elapsed().as_secs())?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Copies a file or a folder. The modules' own files may not be written to; copies may.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::write(to, fs::read(from)?);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long a build took is told to people and decides nothing")]
fn clock() -> Instant {
    Instant::now()
}

/// What of these uses is not built yet, and not given.
///
/// # Errors
/// When a module cannot be read.
pub(crate) fn unbuilt(sources: &Sources, uses: &[Use]) -> anyhow::Result<Vec<&'static str>> {
    let cache = sources.cache()?;
    let mut missing = Vec::new();
    for family in families(uses) {
        let folder = cache.join(family.pinned()?.folder());
        missing.extend(
            family.names().filter(|name| sources.given(name).is_none() && !folder.join(name).exists()),
        );
    }
    Ok(missing)
}

/// Every binary for these uses, built where it is not there yet.
///
/// # Errors
/// When Go (or the C compiler) is missing and something has to be built, and
/// when a build fails.
pub(crate) fn ensure_built(
    sources: &Sources,
    uses: &[Use],
    out: &mut dyn Write,
) -> anyhow::Result<Vec<Binary>> {
    let cache = sources.cache()?;
    let mut found = Vec::new();
    for family in families(uses) {
        let pinned = family.pinned()?;
        let folder = cache.join(pinned.folder());
        for (index, name) in family.names().enumerate() {
            if let Some(path) = sources.given(name) {
                ensure!(path.exists(), "{} is given for {name}, and it is not there", path.display());
                found.push(Binary { name, path });
                continue;
            }
            let path = folder.join(name);
            if !path.exists() {
                if let Some(tool) = family.missing() {
                    bail!("{} is missing, and {name} is not built yet: {}", tool.name, tool.install);
                }
                fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make the folder {}", folder.display()))?;
                let lock = File::create(folder.join(".lock")).context("cannot make the lock of the build")?;
                lock.lock().context("cannot wait for another build of the same tools")?;
                // Another may have built it while we waited.
                if !path.exists() {
                    let many = family.names().count();
                    writeln!(out, "tools: building {name} ({} of {many} of {})", index + 1, family.name)?;
                    out.flush()?;
                    let start = clock();
                    pinned.make(name, &path, out)?;
                    writeln!(out, "tools: {name} is built, in {} s", start.elapsed().as_secs())?;
                }
            }
            found.push(Binary { name, path });
        }
        // Family by family: whoever waits for one does not wait for the rest.
        link(&cache.join("bin"), &found).context("cannot link the tools")?;
    }
    Ok(found)
}

/// `bin/` has what was asked for last under its plain name: for a shell's
/// `PATH`, and for tests that are started without `cargo xtask`.
fn link(bin: &Path, found: &[Binary]) -> anyhow::Result<()> {
    fs::create_dir_all(bin)?;
    for Binary { name, path } in found {
        let path = std::path::absolute(path)?;
        let at = bin.join(name);
        if fs::read_link(&at).is_ok_and(|old| old == path) {
            continue;
        }
        // Beside and renamed, so that there is no moment without it.
        let beside = bin.join(format!(".{name}-{}", std::process::id()));
        std::os::unix::fs::symlink(&path, &beside)?;
        fs::rename(&beside, &at)?;
    }
    Ok(())
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let found = ensure_built(&args.sources, args.uses(), out)?;
    for Binary { name, path } in &found {
        writeln!(out, "{name:<24} {}", path.display())?;
    }
    writeln!(out, "All of them are linked in {}.", args.sources.cache()?.join("bin").display())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every use there is.
    fn all() -> Vec<Use> {
        clap::ValueEnum::value_variants().to_vec()
    }

    #[test]
    fn the_version_is_read_where_the_module_requires_it() {
        let text = "module m\nrequire k8s.io/kubernetes v1.2.3\nrequire (\n\tk8s.io/api v0.0.0 // indirect\n)\nreplace k8s.io/api => k8s.io/api v0.2.3\n";
        assert_eq!(version_of(text, "k8s.io/kubernetes"), Some("v1.2.3"));
        assert_eq!(version_of(text, "k8s.io/api"), Some("v0.0.0"));
        assert_eq!(version_of(text, "k8s.io/kube"), None);
    }

    /// A first demo takes ten minutes; Kueue and the controllers of groups would take as many again.
    #[test]
    fn whoever_does_not_run_the_scenarios_does_not_wait_for_what_only_they_run() {
        const FOR_SCENARIOS: [&str; 3] = ["etcdutl", "jobset-controller", "lws-controller"];
        let control_plane =
            ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];
        assert!(names(Use::DEMO).eq(control_plane));
        for uses in [Use::CLUSTER, Use::STORY] {
            let built: Vec<_> = names(uses).collect();
            assert!(control_plane.iter().all(|name| built.contains(name)), "{built:?}");
            assert!(!FOR_SCENARIOS.iter().any(|name| built.contains(name)), "{built:?}");
        }
        for uses in [Use::SCENARIOS, Use::GATE, Use::RELEASE] {
            let built: Vec<_> = names(uses).collect();
            assert!(FOR_SCENARIOS.iter().all(|name| built.contains(name)), "{built:?}");
        }
    }

    #[test]
    fn whatever_go_says_that_is_no_package_is_told_as_it_is() {
        let said = "go: downloading k8s.io/api v0.1.0\nk8s.io/api/core/v1\n# k8s.io/broken\nx.go:1:2: undefined: y\n";
        let mut out = Vec::new();
        follow("kubectl", Some(2), said.as_bytes(), &mut out).unwrap();
        let told = "go: downloading k8s.io/api v0.1.0\n# k8s.io/broken\nx.go:1:2: undefined: y\n";
        assert_eq!(String::from_utf8(out).unwrap(), told);
    }

    #[test]
    fn every_family_is_pinned_and_kubernetes_knows_its_version() {
        for family in FAMILIES {
            let pinned = family.pinned().unwrap();
            assert_eq!(pinned.key.len(), 16);
            assert_eq!(pinned.key, family.pinned().unwrap().key);
            assert_eq!(
                family.stamped.is_some(),
                pinned.flags[2].contains("k8s.io/component-base/version.gitVersion=v1."),
                "{:?}",
                pinned.flags
            );
        }
    }

    #[test]
    fn what_is_given_is_used_and_nothing_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let (assets, cache) = (dir.path().join("assets"), dir.path().join("cache"));
        fs::create_dir(&assets).unwrap();
        let names: Vec<_> = FAMILIES.iter().flat_map(Family::names).collect();
        for name in &names {
            fs::write(assets.join(name), "").unwrap();
        }
        let own = dir.path().join("my-etcd");
        fs::write(&own, "").unwrap();
        let sources = Sources {
            assets: Some(assets.clone()),
            tools: Some(cache.clone()),
            etcd: Some(own.clone()),
            ..Sources::default()
        };
        assert!(!sources.need_go(&all()));
        let mut said = Vec::new();
        let found = ensure_built(&sources, &all(), &mut said).unwrap();
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
        assert_eq!(found.iter().map(|binary| binary.name).collect::<Vec<_>>(), names);
        assert_eq!(found[0].path, own);
        assert_eq!(found[1].path, assets.join(names[1]));
        assert_eq!(fs::read_link(cache.join("bin/etcd")).unwrap(), own);

        let wrong = Sources { etcd: Some(dir.path().join("none")), ..sources };
        let error = ensure_built(&wrong, &[Use::ControlPlane], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.ends_with("none is given for etcd, and it is not there"), "{error}");
    }

    #[test]
    fn a_folder_that_is_set_to_nothing_is_not_set() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Sources::augment_args(clap::Command::new("x"));
        let matches = command.try_get_matches_from(["x", "--assets", "", "--tools", ""]).unwrap();
        let sources = Sources::from_arg_matches(&matches).unwrap();
        assert_eq!((said(&sources.assets), said(&sources.tools)), (None, None));
        assert_eq!(sources.given("etcd"), None);
    }

    #[test]
    fn the_variable_is_envtests() {
        let binary = Binary { name: "kube-apiserver", path: PathBuf::new() };
        assert_eq!(binary.variable(), "TEST_ASSET_KUBE_APISERVER");
    }
}
