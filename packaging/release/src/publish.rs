//! Publishes what was built of this version: images, chart, bundle and catalog into a registry; everything that
//! people download, the notes, and what other catalogs take, into a folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use image::labels::Product;
use image::oci::{Built, Layout, Reference, layout};
use packaging::archives;
use packaging::bundle::{self, Files, Maintainer};
use packaging::project::Project;
use packaging::{Helm, catalog};
use release::changelog::{entries, section};
use release::community::pull_request;
use release::provenance::{Build, statement};
use release::version::Version;
use release::{chart, hub, images};

use crate::prepare::{git, refuse_placeholders};
use crate::registry::Registry;

/// Publishes what was built of this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the images, as `cargo xtask image` made them
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// The folder with the archives of the command, as `cargo xtask archives` made them
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
    /// Another registry and organisation than packaging/project.yaml says
    #[arg(long, value_name = "PREFIX")]
    registry: Option<String>,
    /// The registry speaks plain HTTP
    #[arg(long)]
    insecure: bool,
    /// Who builds this, as the provenance names it
    #[arg(long, value_name = "URL", default_value = "urn:slicewright:built-by-hand")]
    builder: String,
    /// The folder that gets everything else
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// What is published, by name and digest.
struct Published {
    all: Vec<(String, String)>,
}

impl Published {
    fn add(&mut self, reference: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let (name, digest) = reference.split_once('@').context("what is published has a digest")?;
        writeln!(out, "{reference}")?;
        self.all.push((name.to_owned(), digest.to_owned()));
        Ok(())
    }
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// The layout of an image that carries files.
fn laid_out(image: Built, repository: &str, tag: &str) -> anyhow::Result<Layout> {
    Ok(layout(&[image], &Reference::new(repository, tag)?))
}

/// Files that are published under their names: the archives, the chart, the inventories of the images.
fn downloads(args: &Args, out: &Path) -> anyhow::Result<()> {
    let mut from: Vec<&Path> = vec![&args.images];
    from.extend(args.archives.as_deref());
    for folder in from {
        for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let named = ["slicewright.yaml", "install.sh"].contains(&name.as_str());
            let wanted = named || name.ends_with(".cdx.json") || name.ends_with(".tar.gz");
            if wanted {
                write(&out.join(&name), &std::fs::read(&path)?)?;
            }
        }
    }
    Ok(())
}

/// The checksums of a folder's files, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            all.push((name, archives::digest(&std::fs::read(&path)?)));
        }
    }
    all.sort();
    Ok(all)
}

fn notes(
    version: Version,
    changes: &str,
    published: &Published,
    project: &Project,
    registry: &Registry,
) -> String {
    let mut text = format!(
        "# Slicewright {version}\n\n{changes}\n\n## What is published\n\n| name | digest |\n|---|---|\n"
    );
    for (name, digest) in &published.all {
        text.push_str(&format!("| `{name}` | `{digest}` |\n"));
    }
    let (repository, host) = (&project.repository, registry.repository(""));
    let who = format!(
        "--certificate-identity-regexp '^{repository}/' --certificate-oidc-issuer https://token.actions.githubusercontent.com"
    );
    text.push_str(&format!(
        "\n## Install\n\n```text\nhelm install slicewright oci://{host}charts/slicewright --version {version} \\\n    \
         --namespace slicewright-system --create-namespace\n```\n\n## Verify\n\nEverything in the table is signed by the \
         workflow of the release. For each name and digest:\n\n```text\ncosign verify NAME@DIGEST \\\n    {who}\ncosign \
         verify-attestation NAME@DIGEST --type slsaprovenance1 \\\n    {who}\nsha256sum --check SHA256SUMS\n```\n"
    ));
    text
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let project = Project::read()?;
    refuse_placeholders(&project)?;
    let version: Version = bundle::version()?.parse()?;
    let text = std::fs::read_to_string(packaging::root().join("CHANGELOG.md"))?;
    let changes = section(&text, version).with_context(|| {
        format!("CHANGELOG.md has no section of {version}: `cargo xtask release {version}` writes it")
    })?;
    let registry = Registry::new(args.registry.as_ref().unwrap_or(&project.registry), args.insecure)?;
    let maintainer =
        Maintainer { name: project.maintainer.name.clone(), contact: project.maintainer.email.parse()? };
    let created: u64 = git(&["log", "-1", "--format=%ct"])?.parse()?;
    let tag = format!("v{version}");
    let mut published = Published { all: Vec::new() };
    let layouts = args.out.join("layouts");

    let pushed = |product: Product| -> anyhow::Result<String> {
        let name = product.name();
        let digest = std::fs::read_to_string(args.images.join(format!("{name}.digest")))
            .with_context(|| format!("there is no image {name}: `cargo xtask image {name}` makes it"))?;
        let repository = product.repository().rsplit('/').next().unwrap_or_default();
        registry.push(&args.images.join(name), repository, &version.to_string(), digest.trim())
    };
    let operator = pushed(Product::Operator)?;
    published.add(&operator, out)?;
    let operator: bundle::Image = operator.parse()?;
    published.add(&pushed(Product::MustGather)?, out)?;
    let agent = pushed(Product::Agent)?;
    published.add(&agent, out)?;
    let agent: bundle::Image = agent.parse()?;

    let helm = Helm::find()?;
    let files = args.out.join("files");
    if files.exists() {
        std::fs::remove_dir_all(&files)?;
    }
    let chart = chart::chart(
        &packaging::chart(),
        chart::Images { operator: &operator, agent: &agent },
        &project,
        &entries(&changes),
    )?;
    write(&files.join(&chart.name), &chart.archive)?;
    let pushed = registry.publish(
        &chart.artifact.layout(),
        &layouts.join("chart"),
        "charts/slicewright",
        &version.to_string(),
    )?;
    published.add(&pushed, out)?;
    let hub = hub::artifact(&project).layout();
    published.add(&registry.publish(&hub, &layouts.join("hub"), "charts/slicewright", hub::TAG)?, out)?;

    let made = bundle::generate(&helm, &operator, &maintainer)?;
    let folder = args.out.join("olm-bundle");
    made.write(&folder)?;
    let name = registry.repository("slicewright-bundle");
    let image = laid_out(images::bundle(&made, created), &name, &tag)?;
    let pushed = registry.publish(&image, &layouts.join("bundle"), "slicewright-bundle", &tag)?;
    published.add(&pushed, out)?;
    let opm = tools::find("opm")?;
    let before = bundle::read_folder(&packaging::root().join("olm-catalog/catalog"))?;
    let offered = catalog::generate(&opm, &folder, &pushed.parse()?, &before)?;
    let place = args.out.join("olm-catalog/catalog");
    offered.write(&place)?;
    catalog::opm(&opm, &["validate", &place.to_string_lossy()])?;
    let name = registry.repository("slicewright-catalog");
    let image = laid_out(images::catalog(&offered, created), &name, &tag)?;
    published.add(&registry.publish(&image, &layouts.join("catalog"), "slicewright-catalog", &tag)?, out)?;

    community(&made, version, args)?;
    downloads(args, &files)?;
    write(&files.join("artifacthub-repo.yml"), hub::repository(&project).as_bytes())?;
    let commit = git(&["rev-parse", "HEAD"])?;
    let build = Build {
        repository: &project.repository,
        commit: &commit,
        builder: &args.builder,
        version: &version.to_string(),
    };
    let mut subjects = published.all.clone();
    subjects.extend(sums(&files)?);
    let statement = statement(&build, &subjects);
    write(&files.join("provenance.intoto.json"), serde_json::to_string_pretty(&statement)?.as_bytes())?;
    // The part that whoever signs attaches to each thing by itself.
    write(
        &args.out.join("predicate.json"),
        serde_json::to_string_pretty(&statement["predicate"])?.as_bytes(),
    )?;
    let sums: String = sums(&files)?.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    write(&files.join("SHA256SUMS"), sums.as_bytes())?;
    let notes = notes(version, &changes, &published, &project, &registry);
    write(&args.out.join("NOTES.md"), notes.as_bytes())?;
    let digests: String = published.all.iter().map(|(name, digest)| format!("{name}@{digest}\n")).collect();
    write(&args.out.join("digests.txt"), digests.as_bytes())?;
    ensure!(published.all.len() == 7, "a release has seven things in a registry");
    writeln!(
        out,
        "{} has the files, the notes and the pull request for community catalogs",
        args.out.display()
    )?;
    Ok(())
}

fn community(made: &Files, version: Version, args: &Args) -> anyhow::Result<()> {
    let place = args.out.join("community");
    pull_request(made, version).write(&place)?;
    Ok(())
}
