//! From a checkout to images: everything that reads files and starts programs.

mod again;
mod agent;
mod build;
mod c_library;
mod licences;
mod machine;
mod must_gather;
mod operator;
mod simulator;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use image::labels::{self, Product};
use image::notices::{self, Credited};
use image::oci::{self, Architecture, Built, Image, Layout, Reference};
use image::packages::Package;
use image::sbom::{self, Other, Program, Subject};
use image::tree::{Entry, Tree};

use build::Workspace;

/// Builds OCI images without a container engine and without a base image.
///
/// For each product: a folder in the OCI layout, the same as one archive for
/// `docker load`, `podman load` and `kind load image-archive`, and its SBOM for
/// each architecture. Two builds of one commit have one digest.
///
/// `cargo xtask image` starts it with the linker that makes static programs for
/// every processor, and has the images read back.
#[derive(Debug, clap::Parser)]
#[command(name = "slicewright-image", bin_name = "cargo xtask image", max_term_width = 100)]
pub(crate) struct Args {
    /// Which images [default: all]
    #[arg(value_enum, value_name = "PRODUCT")]
    products: Vec<Product>,
    /// For which processors; more than one makes one image of all [default: this machine's]
    #[arg(long, value_enum, value_name = "ARCH", value_delimiter = ',')]
    arch: Vec<Architecture>,
    /// Where they go [default: `images` in the target folder, `images-quick` with --quick]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The registry and the organisation before the name, such as registry.example.com/gpu [default:
    /// localhost/slicewright, for images that are loaded into nodes and pulled by nobody]
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// The tag [default: the version]
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Build without optimisation, for a quick look
    #[arg(long)]
    quick: bool,
    /// Read them back, and check what they promise
    #[arg(long)]
    check: bool,
    /// Load them into a containerd as well, as a node does: it must be there, and wants to be root
    #[arg(long, requires = "check")]
    load: bool,
    /// Build what is committed once more, from a clone in another folder with nothing in common, and
    /// compare the digests with those of an earlier build (in --out, or its default)
    #[arg(long, conflicts_with_all = ["tree", "check"])]
    again: bool,
    /// Write the one product's files to this folder and no image: for a Containerfile, whose base image
    /// has the C library
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Seconds since 1970, for everything in the images [default: when the commit was made]
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH")]
    created: Option<u64>,
}

/// Where the C library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// There is no base image: what programs need is in them, or beside them.
    None,
    /// A base image has it.
    Image,
}

/// What one image is made of, before it is one.
struct Contents {
    /// What is there whatever the programs are: the C library, folders.
    base: Tree,
    /// The programs.
    programs: Tree,
    /// What each program is made of.
    linked: Vec<Program>,
    /// What cargo knows nothing of.
    others: Vec<Other>,
    /// Texts of licences beside those of crates: path under /licenses and text.
    licences: Vec<(String, Vec<u8>)>,
    environment: Vec<String>,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    // `image` is for what is published, `dev` for a quick look.
    let workspace = Workspace::find(if args.quick { "dev" } else { "image" })?;
    let commit = machine::commit(&workspace.root);
    let created = args.created.or(commit.as_ref().map(|commit| commit.time)).unwrap_or(0);
    let here = match std::env::consts::ARCH {
        "x86_64" => Architecture::Amd64,
        "aarch64" => Architecture::Arm64,
        other => bail!("no image is made for {other}; say --arch amd64 or --arch arm64"),
    };
    let mut wanted = if args.arch.is_empty() { vec![here] } else { args.arch.clone() };
    wanted.sort_unstable();
    wanted.dedup();
    let products = if args.products.is_empty() { Product::ALL.to_vec() } else { args.products.clone() };
    if let Some(tree) = &args.tree {
        let ([product], [architecture]) = (products.as_slice(), wanted.as_slice()) else {
            bail!("--tree is for one product and for this machine's processor");
        };
        return write_tree(&workspace, *product, *architecture, created, tree);
    }
    let folder = match &args.out {
        Some(folder) => std::path::absolute(folder).context("--out is no path")?,
        None => workspace.target.join(if args.quick { "images-quick" } else { "images" }),
    };
    if args.again {
        return again::compare(&workspace, args, &products, &folder, out);
    }
    for product in &products {
        let product = *product;
        if let Some(other) = wanted.iter().find(|arch| product != Product::Operator && **arch != here) {
            bail!(
                "the image {} has the C library of the machine that builds it: build it for {} on such a machine",
                product.name(),
                other.name()
            );
        }
        let repository = match &args.prefix {
            None => product.loaded(),
            Some(prefix) => {
                let name = product.repository().rsplit('/').next().unwrap_or_default();
                format!("{}/{name}", prefix.trim_end_matches('/'))
            }
        };
        let reference = Reference::new(&repository, args.tag.as_deref().unwrap_or(&workspace.version))?;
        let mut built = Vec::new();
        for architecture in &wanted {
            let contents = match product {
                Product::Operator => operator::contents(&workspace, *architecture, Base::None)?,
                Product::Simulator => simulator::contents(&workspace, *architecture, Base::None)?,
                Product::Agent => agent::contents(&workspace, *architecture, Base::None)?,
                Product::MustGather => must_gather::contents(&workspace, *architecture)?,
            };
            let (image, bill) =
                assemble(&workspace, product, *architecture, contents, created, commit.as_ref())?;
            let beside = folder.join(format!("{}-{}.cdx.json", product.name(), architecture.name()));
            write(&beside, bill.as_bytes())?;
            built.push(image);
        }
        let layout = oci::layout(&built, &reference);
        let place = folder.join(product.name());
        write_layout(&place, &layout)?;
        write(&folder.join(format!("{}.tar", product.name())), &layout.archive(created))?;
        write(&folder.join(format!("{}.digest", product.name())), format!("{}\n", layout.digest).as_bytes())?;
        let size: usize = layout.files.values().map(Vec::len).sum();
        writeln!(
            out,
            "{} {} ({:.1} MB) {}",
            reference.short(),
            layout.digest,
            size as f64 / 1e6,
            place.display()
        )?;
    }
    if args.check {
        out.flush()?;
        check(&folder, &products, args.load.then_some("1"))?;
    }
    Ok(())
}

/// Reads the images back in a program of its own, with other people's readers.
fn check(folder: &Path, products: &[Product], load: Option<&str>) -> anyhow::Result<()> {
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "--locked", "--package", env!("CARGO_PKG_NAME"), "--test", "image"]);
    let made: Vec<_> = products.iter().map(|product| product.name()).collect();
    test.env("SLICEWRIGHT_IMAGES", folder).env("SLICEWRIGHT_IMAGES_MADE", made.join(","));
    test.envs(load.map(|load| ("SLICEWRIGHT_IMAGES_LOAD", load)));
    let status = test.current_dir(env!("CARGO_MANIFEST_DIR")).status().context("cannot run cargo")?;
    ensure!(status.success(), "the images in {} do not keep their promises", folder.display());
    Ok(())
}

fn assemble(
    workspace: &Workspace,
    product: Product,
    architecture: Architecture,
    contents: Contents,
    created: u64,
    commit: Option<&machine::Commit>,
) -> anyhow::Result<(Built, String)> {
    let (legal, bill) = legal(workspace, product, &contents, created)?;
    let Contents { mut base, programs, linked: _, others: _, licences: _, environment } = contents;
    let at = rfc3339(created)?;
    base.file("etc/passwd", format!("slicewright:x:{0}:{0}::/:/sbin/nologin\n", image::USER));
    base.file("etc/group", format!("slicewright:x:{}:\n", image::USER));
    let build = labels::Build {
        version: &workspace.version,
        source: &workspace.repository,
        revision: commit.map(|commit| commit.name.as_str()),
        created: &at,
    };
    let image = Image {
        architecture,
        entrypoint: Some(product.entrypoint().to_owned()),
        environment,
        labels: labels::labels(product, &build),
        layers: vec![("what programs need", base), ("licences and SBOM", legal), ("programs", programs)],
        created,
    };
    Ok((image.build(), bill))
}

fn rfc3339(seconds: u64) -> anyhow::Result<String> {
    let at = jiff::Timestamp::from_second(i64::try_from(seconds)?);
    Ok(at.context("the time of the image is beyond the year 9999")?.to_string())
}

/// Licences and the SBOM, and the SBOM once more.
fn legal(
    workspace: &Workspace,
    product: Product,
    contents: &Contents,
    created: u64,
) -> anyhow::Result<(Tree, String)> {
    let Contents { base: _, programs: _, linked, others, licences, environment: _ } = contents;
    let at = rfc3339(created)?;
    let subject = Subject { name: product.repository(), version: &workspace.version, created: &at };
    let bill = sbom::cyclonedx(subject, linked, others);
    let mut legal = Tree::new();
    legal.file("licenses/LICENSE", fs::read(workspace.root.join("LICENSE")).context("cannot read LICENSE")?);
    legal.file("licenses/THIRD-PARTY.txt", third_party(product, linked, others)?);
    for (path, text) in licences {
        legal.file(&format!("licenses/{path}"), text.as_slice());
    }
    legal.file(&format!("usr/share/sbom/{}.cdx.json", product.name()), bill.as_bytes());
    Ok((legal, bill))
}

/// What a Containerfile copies over its base image.
fn write_tree(
    workspace: &Workspace,
    product: Product,
    architecture: Architecture,
    created: u64,
    place: &Path,
) -> anyhow::Result<()> {
    let contents = match product {
        Product::Operator => operator::contents(workspace, architecture, Base::Image)?,
        Product::Simulator => simulator::contents(workspace, architecture, Base::Image)?,
        Product::Agent => agent::contents(workspace, architecture, Base::Image)?,
        Product::MustGather => {
            bail!("packaging/containers/must-gather.Containerfile takes its files from the operator's image")
        }
    };
    let (legal, _) = legal(workspace, product, &contents, created)?;
    for tree in [&contents.base, &contents.programs, &legal] {
        unpack(tree, place).with_context(|| format!("cannot write to {}", place.display()))?;
    }
    Ok(())
}

/// The notices of all programs of an image, each package once.
fn third_party(product: Product, programs: &[Program], others: &[Other]) -> anyhow::Result<String> {
    let mut packages: Vec<&Package> = programs.iter().flat_map(|program| &program.packages).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let mut credited = Vec::new();
    for package in packages {
        let folder = Path::new(&package.manifest).parent().context("a package has a folder")?;
        credited.push(Credited { package, texts: licences::texts(folder)? });
    }
    let beside: Vec<_> = others.iter().map(|other| format!("{} {}", other.name, other.version)).collect();
    let title = format!(
        "Third-party software in the image {}\n\nBeside what is listed here: {}. Their licences are in folders of \
         their own.",
        product.repository(),
        beside.join(", ")
    );
    Ok(notices::notices(&title, &credited)?)
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a tree as files; owners are the business of who copies them.
fn unpack(tree: &Tree, place: &Path) -> std::io::Result<()> {
    fs::create_dir_all(place)?;
    for (path, entry) in tree.entries() {
        let path = place.join(path);
        match entry {
            Entry::Folder { .. } => fs::create_dir_all(path)?,
            Entry::File { mode, content } => {
                fs::write(&path, content)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
            }
            Entry::Link(target) => std::os::unix::fs::symlink(target, path)?,
        }
    }
    Ok(())
}

/// Replaces the folder: blobs of an earlier image must not stay in it.
fn write_layout(place: &Path, layout: &Layout) -> anyhow::Result<()> {
    if place.exists() {
        if !place.join("oci-layout").is_file() {
            bail!("{} is there and no OCI layout: give another folder with --out", place.display());
        }
        fs::remove_dir_all(place).with_context(|| format!("cannot replace {}", place.display()))?;
    }
    for (path, content) in &layout.files {
        write(&place.join(path), content)?;
    }
    Ok(())
}
