//! The image that a bundle installs: by digest only.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// The digest in a bundle that is not of a release. No image has it, so it
/// cannot be mistaken for one.
const NO_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// An image by digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it is, with the registry.
    pub repository: String,
    /// What it is: `sha256:` and 64 digits.
    pub digest: String,
}

impl Image {
    /// What the bundle in the repository names, since nothing is released: a
    /// registry that does not exist, and a digest that no image has.
    #[must_use]
    pub fn unreleased() -> Self {
        Self {
            repository: "registry.example.com/slicewright/slicewright".to_owned(),
            digest: NO_DIGEST.to_owned(),
        }
    }

    /// The same for the image with the bundle itself.
    #[must_use]
    pub fn unreleased_bundle() -> Self {
        Self {
            repository: "registry.example.com/slicewright/slicewright-bundle".to_owned(),
            ..Self::unreleased()
        }
    }

    /// Whether it is that one, or has its digest.
    #[must_use]
    pub fn is_unreleased(&self) -> bool {
        self.digest == NO_DIGEST
    }
}

impl FromStr for Image {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Image { image: text.to_owned() };
        let (repository, digest) = text.split_once('@').ok_or_else(wrong)?;
        let digits = digest.strip_prefix("sha256:").ok_or_else(wrong)?;
        let good = digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        // Without a registry in front the cluster's default decides, and a mirror rule matches nothing.
        let host = repository.split_once('/').map(|(host, _)| host).unwrap_or_default();
        // A tag beside a digest is allowed by registries and refused by mirrors.
        let tagged = repository.rsplit('/').next().is_some_and(|last| last.contains(':'));
        if !good || tagged || !(host.contains('.') || host.contains(':') || host == "localhost") {
            return Err(wrong());
        }
        Ok(Self { repository: repository.to_owned(), digest: digest.to_owned() })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repository, digest } = self;
        write!(f, "{repository}@{digest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_registry_and_a_digest_and_no_tag() {
        let digest = format!("sha256:{}", "1f".repeat(32));
        let good = format!("registry.example.com:5000/tools/slicewright@{digest}");
        assert_eq!(good.parse::<Image>().unwrap().to_string(), good);
        for bad in [
            "registry.example.com/slicewright:v1".to_owned(),
            format!("registry.example.com/slicewright:v1@{digest}"),
            format!("slicewright/slicewright@{digest}"),
            "registry.example.com/slicewright@sha256:12".to_owned(),
            format!("registry.example.com/slicewright@{}", digest.to_uppercase()),
        ] {
            let error = bad.parse::<Image>().unwrap_err().to_string();
            assert!(error.contains(&bad) && error.contains("@sha256:"), "{error}");
        }
    }

    #[test]
    fn the_image_of_what_is_not_released_says_so() {
        assert!(Image::unreleased().is_unreleased());
        assert_eq!(Image::unreleased().to_string().parse::<Image>().unwrap(), Image::unreleased());
    }
}
