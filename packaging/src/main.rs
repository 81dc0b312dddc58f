//! Writes the OLM bundle and the catalog of a release: the ones in the
//! repository name an image that does not exist.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Parser;
use packaging::bundle::{self, Contact, Image, Maintainer};
use packaging::project::Project;
use packaging::{Helm, catalog};

/// Writes the OLM bundle and the catalog of a release.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bundle")]
struct Args {
    /// The operator's image, by digest: REGISTRY/REPOSITORY@sha256:DIGEST
    #[arg(long, value_name = "IMAGE")]
    image: Image,
    /// The image of the bundle, by digest, once it is published; the catalog that offers it is written then
    #[arg(long, value_name = "IMAGE")]
    bundle_image: Option<Image>,
    /// Where people write to who have installed it: an address that somebody reads
    #[arg(long, value_name = "EMAIL")]
    contact: Contact,
    /// The folder that gets olm-bundle and olm-catalog
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Args { image, bundle_image, contact, out } = Args::parse();
    if [Some(&image), bundle_image.as_ref()].into_iter().flatten().any(Image::is_unreleased) {
        bail!("{} is the digest of what is not released: say which image it is", image.digest);
    }
    let helm = Helm::find()?;
    let folder = out.join("olm-bundle");
    let maintainer = Maintainer { name: Project::read()?.maintainer.name, contact };
    bundle::generate(&helm, &image, &maintainer)?.write(&folder)?;
    let mut said = std::io::stdout();
    writeln!(said, "{} installs {image}", folder.display())?;
    let Some(bundle_image) = bundle_image else {
        writeln!(said, "Publish it (bundle.Dockerfile), then say --bundle-image to get the catalog.")?;
        return Ok(());
    };
    let before = bundle::read_folder(&packaging::root().join("olm-catalog/catalog"))?;
    let opm = tools::find("opm")?;
    let place = out.join("olm-catalog/catalog");
    catalog::generate(&opm, &folder, &bundle_image, &before)?.write(&place)?;
    catalog::opm(&opm, &["validate", &place.to_string_lossy()])?;
    writeln!(said, "{} offers {bundle_image}", place.display())?;
    Ok(())
}
