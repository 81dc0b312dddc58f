//! From layers to an OCI layout, and to an archive for `docker load`, `podman load` and `kind load
//! image-archive`.
//!
//! The documents are written here and not by `oci-spec`: its labels are a hash map, so the same image would
//! get a different digest each time. The tests use it to read the result.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use oci_spec::distribution::{ParseError, Reference as Distributed};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use crate::tree::Tree;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A processor, as images name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Architecture {
    /// Go's name for it, which images use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's name for it.
    #[must_use]
    pub fn rust(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// Everything that an image is.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it runs on.
    pub architecture: Architecture,
    /// What is started; nothing where the image only carries files.
    pub entrypoint: Option<String>,
    /// Variables, as `NAME=value`.
    pub environment: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Each with a line that says what it is; first to last.
    pub layers: Vec<(&'static str, Tree)>,
    /// Seconds since 1970: of the image and of all in it.
    pub created: u64,
}

/// A document or a layer by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:` and 64 digits.
    pub digest: String,
    /// The bytes.
    pub content: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(content: Vec<u8>) -> Self {
        Self { digest: digest(&content), content }
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    pub(crate) fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.content.len()})
    }

    pub(crate) fn path(&self) -> String {
        format!("blobs/{}", self.digest.replacen(':', "/", 1))
    }
}

/// `sha256:` and 64 digits.
#[must_use]
pub fn digest(content: &[u8]) -> String {
    let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash}")
}

/// An image with all its blobs.
#[derive(Clone, Debug)]
pub struct Built {
    architecture: Architecture,
    /// What the image is known by.
    pub manifest: Blob,
    config: Blob,
    layers: Vec<Blob>,
}

impl Image {
    /// As blobs.
    ///
    /// # Panics
    /// When it was created after the year 9999.
    #[must_use]
    pub fn build(&self) -> Built {
        let created = i64::try_from(self.created).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
        let created = created.expect("an image is made before the year 9999").to_string();
        let mut layers = Vec::new();
        let mut diff_ids = Vec::new();
        let mut history = Vec::new();
        for (what, tree) in &self.layers {
            let tar = tree.tar(self.created);
            diff_ids.push(digest(&tar));
            history.push(json!({"created": created, "created_by": what}));
            layers.push(Blob::new(gzip(&tar)));
        }
        let config = Blob::json(&json!({
            "architecture": self.architecture.name(),
            "os": "linux",
            "created": created,
            "config": {
                "User": format!("{0}:{0}", crate::USER),
                "Entrypoint": self.entrypoint.iter().collect::<Vec<_>>(),
                "Env": self.environment,
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }));
        let annotations: BTreeMap<_, _> =
            self.labels.iter().filter(|(name, _)| name.starts_with("org.opencontainers.")).collect();
        let manifest = Blob::json(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(CONFIG),
            "layers": layers.iter().map(|layer| layer.descriptor(LAYER)).collect::<Vec<_>>(),
            "annotations": annotations,
        }));
        Built { architecture: self.architecture, manifest, config, layers }
    }
}

/// The same bytes everywhere: no name, no time, no operating system.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let never = "compressing in memory does not fail";
    let mut writer =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    writer.write_all(bytes).expect(never);
    writer.finish().expect(never)
}

/// What an image is called: `slicewright/slicewright` and `0.1.0`.
#[derive(Clone, Debug)]
pub struct Reference {
    repository: String,
    tag: String,
    full: String,
}

/// A name that no runtime would look for.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is no name of an image, such as registry.example.com/gpu/slicewright:0.1.0")]
pub struct NoName {
    name: String,
    #[source]
    why: ParseError,
}

impl Reference {
    /// A repository, with its registry if it has one, and a tag.
    ///
    /// # Errors
    /// When they are not written as such.
    pub fn new(repository: &str, tag: &str) -> Result<Self, NoName> {
        let name = format!("{repository}:{tag}");
        let full = Distributed::try_from(name.as_str()).map_err(|why| NoName { name, why })?.whole();
        Ok(Self { repository: repository.to_owned(), tag: tag.to_owned(), full })
    }

    /// As people write it, and the chart.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{}:{}", self.repository, self.tag)
    }

    /// As container runtimes write it out, which is under what an image that
    /// was loaded is found by who asks for `slicewright/slicewright:0.1.0`: a
    /// repository without a registry is the default registry's.
    #[must_use]
    pub fn full(&self) -> &str {
        &self.full
    }
}

/// The files of a layout, by path, and the digest by which it is pulled.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Of the image, or of the index over the images of several processors.
    pub digest: String,
    /// Path and content.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The layout of one image, or of the same image for several processors.
///
/// # Panics
/// When there is no image.
#[must_use]
pub fn layout(images: &[Built], name: &Reference) -> Layout {
    let platform = |image: &Built| {
        let mut descriptor = image.manifest.descriptor(MANIFEST);
        descriptor["platform"] = json!({"architecture": image.architecture.name(), "os": "linux"});
        descriptor
    };
    let mut files = BTreeMap::new();
    for image in images {
        for blob in [&image.manifest, &image.config].into_iter().chain(&image.layers) {
            files.insert(blob.path(), blob.content.clone());
        }
    }
    let (mut top, digest) = match images {
        [] => panic!("a layout has an image"),
        [one] => (platform(one), one.manifest.digest.clone()),
        several => {
            let index = Blob::json(&json!({
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": several.iter().map(platform).collect::<Vec<_>>(),
            }));
            files.insert(index.path(), index.content.clone());
            (index.descriptor(INDEX), index.digest.clone())
        }
    };
    top["annotations"] = json!({
        "org.opencontainers.image.ref.name": name.tag,
        "io.containerd.image.name": name.full(),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]});
    files.insert("index.json".to_owned(), index.to_string().into_bytes());
    files.insert("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes());
    if let [image] = images {
        // What Docker before 25 reads instead of index.json, beside it, as `docker save` writes it today.
        let docker = json!([{
            "Config": image.config.path(),
            "RepoTags": [name.short()],
            "Layers": image.layers.iter().map(Blob::path).collect::<Vec<_>>(),
        }]);
        files.insert("manifest.json".to_owned(), docker.to_string().into_bytes());
    }
    Layout { digest, files }
}

impl Layout {
    /// In one file, in which everything has this time.
    #[must_use]
    pub fn archive(&self, time: u64) -> Vec<u8> {
        let never = "an archive in memory takes every entry";
        let mut archive = Builder::new(Vec::new());
        for (path, content) in &self.files {
            let mut header = Header::new_gnu();
            header.set_mtime(time);
            header.set_mode(0o644);
            header.set_size(u64::try_from(content.len()).expect("a file in memory has a size"));
            archive.append_data(&mut header, path, content.as_slice()).expect(never);
        }
        archive.into_inner().expect(never)
    }
}
