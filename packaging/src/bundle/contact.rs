//! The contact address for administrators who installed the operator.

use std::fmt;
use std::str::FromStr;

/// The address in a bundle that is not of a release. The domain is one that
/// nobody can ever have (RFC 2606), so that no letter reaches a stranger.
const NOBODY: &str = "maintainers@slicewright.invalid";
/// Domains that are for examples, and have no mail.
const RESERVED: [&str; 7] =
    ["invalid", "example", "test", "localhost", "example.com", "example.net", "example.org"];

/// An address that somebody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact(String);

/// Who answers for a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintainer {
    /// The name of a person or a group.
    pub name: String,
    /// Where they are written to.
    pub contact: Contact,
}

/// An address that nobody reads.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no address that somebody reads: write one of the maintainers', such as NAME@DOMAIN")]
pub struct NoContact(String);

impl Contact {
    /// What the bundle in the repository says, since nothing is released.
    #[must_use]
    pub fn unreleased() -> Self {
        Self(NOBODY.to_owned())
    }
}

impl FromStr for Contact {
    type Err = NoContact;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NoContact(text.to_owned());
        let (name, domain) = text.split_once('@').ok_or_else(wrong)?;
        let reserved = RESERVED.iter().any(|end| {
            domain == *end || domain.strip_suffix(end).is_some_and(|before| before.ends_with('.'))
        });
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c))
        };
        if !plain(name) || !plain(domain) || !domain.contains('.') || reserved {
            return Err(wrong());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_nobody_can_have_is_none() {
        for bad in [NOBODY, "gpu@example.com", "a@mail.example.org", "someone", "@b.io", "a@b", "a b@c.io"] {
            let error = bad.parse::<Contact>().unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
        assert_eq!(
            "gpu-team@maintained.dev".parse::<Contact>().unwrap().to_string(),
            "gpu-team@maintained.dev"
        );
    }
}
