//! Reads an OCI layout with the readers of other projects: they must understand what was written here.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use image::oci::digest;
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout};

/// Something of an image's file system.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) kind: tar::EntryType,
    pub(crate) mode: u32,
    pub(crate) owner: u64,
    pub(crate) time: u64,
    pub(crate) content: Vec<u8>,
    pub(crate) target: Option<PathBuf>,
}

/// An image for one processor.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) architecture: String,
    pub(crate) manifest: ImageManifest,
    pub(crate) config: ImageConfiguration,
    /// By path; a later layer wins.
    pub(crate) things: BTreeMap<String, Thing>,
}

impl Read {
    pub(crate) fn file(&self, path: &str) -> &Thing {
        self.things.get(path).unwrap_or_else(|| panic!("the image has no {path}"))
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.file(path).content.clone()).unwrap()
    }

    /// Writes the file system to a folder, without owners.
    pub(crate) fn unpack(&self, into: &Path) {
        use std::os::unix::fs::PermissionsExt;
        for (path, thing) in &self.things {
            let path = into.join(path);
            if let Some(target) = &thing.target {
                std::os::unix::fs::symlink(target, path).unwrap();
            } else if thing.kind.is_dir() {
                std::fs::create_dir_all(path).unwrap();
            } else {
                std::fs::write(&path, &thing.content).unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(thing.mode)).unwrap();
            }
        }
    }
}

/// Everything under a layout, and the digest that index.json leads to. Each
/// blob is checked against its digest and its size.
pub(crate) fn read(files: &BTreeMap<String, Vec<u8>>) -> (String, Vec<Read>) {
    let layout = OciLayout::from_reader(&files["oci-layout"][..]).unwrap();
    assert_eq!(layout.image_layout_version(), "1.0.0");
    let blob = |descriptor: &Descriptor| {
        let content = &files[&format!("blobs/{}", descriptor.digest().to_string().replace(':', "/"))];
        assert_eq!(descriptor.digest().to_string(), digest(content));
        assert_eq!(descriptor.size(), content.len() as u64);
        content.as_slice()
    };
    let index = ImageIndex::from_reader(&files["index.json"][..]).unwrap();
    let [top] = index.manifests().as_slice() else { panic!("index.json has one entry") };
    let manifests = match top.media_type() {
        MediaType::ImageIndex => ImageIndex::from_reader(blob(top)).unwrap().manifests().clone(),
        MediaType::ImageManifest => vec![top.clone()],
        other => panic!("index.json leads to {other}"),
    };
    let images = manifests.iter().map(|descriptor| {
        let manifest = ImageManifest::from_reader(blob(descriptor)).unwrap();
        let config = ImageConfiguration::from_reader(blob(manifest.config())).unwrap();
        let mut things = BTreeMap::new();
        assert_eq!(manifest.layers().len(), config.rootfs().diff_ids().len());
        for (layer, diff_id) in manifest.layers().iter().zip(config.rootfs().diff_ids()) {
            let mut tar = Vec::new();
            GzDecoder::new(blob(layer)).read_to_end(&mut tar).unwrap();
            assert_eq!(*diff_id, digest(&tar));
            let mut archive = tar::Archive::new(&tar[..]);
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                let header = entry.header();
                assert_eq!(header.uid().unwrap(), header.gid().unwrap(), "{path}");
                let thing = Thing {
                    kind: header.entry_type(),
                    mode: header.mode().unwrap(),
                    owner: header.uid().unwrap(),
                    time: header.mtime().unwrap(),
                    target: entry.link_name().unwrap().map(std::borrow::Cow::into_owned),
                    content,
                };
                things.insert(path.trim_end_matches('/').to_owned(), thing);
            }
        }
        let architecture = descriptor.platform().as_ref().unwrap().architecture().to_string();
        assert_eq!(architecture, config.architecture().to_string());
        Read { architecture, manifest, config, things }
    });
    (top.digest().to_string(), images.collect())
}

/// The files of a folder, by their paths below it.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The files of an archive.
pub(crate) fn archived(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        found.insert(entry.path().unwrap().display().to_string(), content);
    }
    found
}
