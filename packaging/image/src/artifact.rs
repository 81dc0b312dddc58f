//! Things that registries keep beside images: Helm charts, metadata for catalogs. A manifest with media types
//! of its own over blobs of bytes.

use std::collections::BTreeMap;

use serde_json::json;

use crate::oci::{Blob, INDEX, Layout, MANIFEST};

/// One artifact.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The configuration: media type and bytes.
    pub config: (&'static str, Vec<u8>),
    /// What it is: media type, the name of the file, and bytes.
    pub content: (&'static str, String, Vec<u8>),
    /// What registries show of it.
    pub annotations: BTreeMap<String, String>,
}

impl Artifact {
    /// As a layout: the same bytes for the same artifact, with no time in it.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let Self { config, content: (media_type, name, content), annotations } = self;
        let (config_type, config) = (config.0, Blob::new(config.1.clone()));
        let content = Blob::new(content.clone());
        let mut layer = content.descriptor(media_type);
        layer["annotations"] = json!({"org.opencontainers.image.title": name});
        let manifest = Blob::json(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(config_type),
            "layers": [layer],
            "annotations": annotations,
        }));
        let index =
            json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest.descriptor(MANIFEST)]});
        let mut files: BTreeMap<String, Vec<u8>> =
            [&manifest, &config, &content].map(|blob| (blob.path(), blob.content.clone())).into();
        files.insert("index.json".to_owned(), index.to_string().into_bytes());
        files
            .insert("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes());
        Layout { digest: manifest.digest, files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_artifact_has_one_digest_and_its_layout_has_every_blob() {
        let artifact = Artifact {
            config: ("application/vnd.cncf.helm.config.v1+json", b"{}".to_vec()),
            content: (
                "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "a-1.tgz".to_owned(),
                vec![1, 2],
            ),
            annotations: BTreeMap::from([("org.opencontainers.image.version".to_owned(), "1".to_owned())]),
        };
        let layout = artifact.layout();
        assert_eq!(layout.digest, artifact.clone().layout().digest);
        assert_eq!(layout.files.len(), 5);
        let index: serde_json::Value = serde_json::from_slice(&layout.files["index.json"]).unwrap();
        assert_eq!(index["manifests"][0]["digest"], layout.digest);
        let other = Artifact { content: (artifact.content.0, "a-2.tgz".to_owned(), vec![1, 2]), ..artifact };
        assert_ne!(other.layout().digest, layout.digest);
    }
}
