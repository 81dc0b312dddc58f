//! Two annotations of a policy state the inputs for which its plan was reviewed, so that the operator can
//! report whether it plans the same. `slicewright plan` prints them; people or their pipelines commit them
//! with the policies. They decide nothing: an invalid annotation only changes what is reported.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The annotation with the digests of a plan and of what it was made from.
pub const REVIEWED_PLAN: &str = "slicewright.io/reviewed-plan";
/// The annotation with the nodes that a plan was made for, each with a digest
/// of its GPUs: with it the operator can name what moved.
pub const REVIEWED_NODES: &str = "slicewright.io/reviewed-nodes";

/// How long the annotations may be; longer ones are not read.
const MOST_BYTES: usize = 16_384;

/// The digests of a plan that was reviewed, written
/// `plan=…,policies=…,nodes=…,demand=…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// Of the plan: which GPU of which node gets what.
    pub plan: String,
    /// Of the specs of all policies.
    pub policies: String,
    /// Of the GPUs of all nodes that a policy has.
    pub nodes: String,
    /// Of what is asked for.
    pub demand: String,
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// Something is not written as `key=digest`.
    #[error("`{0}` is not written as key=digest with 1 to 64 hexadecimal digits")]
    NoDigest(String),
    /// An unknown or repeated key.
    #[error("`{0}` is unknown or stands twice; keys: plan, policies, nodes, demand")]
    Key(String),
    /// A key that is not there.
    #[error("`{0}` is missing; write plan=…,policies=…,nodes=…,demand=… as `slicewright plan` prints it")]
    Missing(&'static str),
    /// More than anybody prints.
    #[error("it is longer than {MOST_BYTES} bytes; write what `slicewright plan` prints")]
    TooLong,
}

impl fmt::Display for Reviewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, policies, nodes, demand } = self;
        write!(f, "plan={plan},policies={policies},nodes={nodes},demand={demand}")
    }
}

impl FromStr for Reviewed {
    type Err = ReviewError;

    fn from_str(text: &str) -> Result<Self, ReviewError> {
        let mut found = pairs(text)?;
        let mut take = |key: &'static str| found.remove(key).ok_or(ReviewError::Missing(key));
        let reviewed = Self {
            plan: take("plan")?,
            policies: take("policies")?,
            nodes: take("nodes")?,
            demand: take("demand")?,
        };
        match found.into_keys().next() {
            Some(other) => Err(ReviewError::Key(other)),
            None => Ok(reviewed),
        }
    }
}

/// The nodes of [`REVIEWED_NODES`], each with its digest.
///
/// # Errors
/// When it is not written as `node=digest,node=digest`.
pub fn nodes(text: &str) -> Result<BTreeMap<String, String>, ReviewError> {
    pairs(text)
}

/// How [`REVIEWED_NODES`] is written.
#[must_use]
pub fn list(nodes: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = nodes.iter().map(|(node, digest)| format!("{node}={digest}")).collect();
    pairs.join(",")
}

fn pairs(text: &str) -> Result<BTreeMap<String, String>, ReviewError> {
    if text.len() > MOST_BYTES {
        return Err(ReviewError::TooLong);
    }
    let mut pairs = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let digits = |digest: &str| {
            (1..=64).contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let pair = part.split_once('=').filter(|(key, digest)| !key.is_empty() && digits(digest));
        let Some((key, digest)) = pair else {
            return Err(ReviewError::NoDigest(part.chars().take(80).collect()));
        };
        if pairs.insert(key.to_owned(), digest.to_ascii_lowercase()).is_some() {
            return Err(ReviewError::Key(key.to_owned()));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = text.parse::<Reviewed>().expect_err("it makes no sense");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn what_is_printed_is_read() {
        let reviewed: Reviewed = " demand=4d,plan=A1,policies=b2,nodes=c3\n".parse().expect("any order");
        assert_eq!(reviewed.to_string(), "plan=a1,policies=b2,nodes=c3,demand=4d");
        assert_eq!(reviewed.to_string().parse(), Ok(reviewed));
        let known = nodes("gpu-1=a1,gpu-2.example.com=b2").expect("a list");
        assert_eq!(list(&known), "gpu-1=a1,gpu-2.example.com=b2");
        assert_eq!(nodes(""), Ok(BTreeMap::new()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_write() {
        let missing =
            "`plan` is missing; write plan=…,policies=…,nodes=…,demand=… as `slicewright plan` prints it";
        refused("", missing);
        refused("yes", "`yes` is not written as key=digest with 1 to 64 hexadecimal digits");
        refused("plan=", "`plan=` is not written as key=digest with 1 to 64 hexadecimal digits");
        let twice = "`plan` is unknown or stands twice; keys: plan, policies, nodes, demand";
        refused("plan=a,plan=b", twice);
        let other = "`who` is unknown or stands twice; keys: plan, policies, nodes, demand";
        refused("plan=a,policies=b,nodes=c,demand=d,who=e", other);
        let long = "it is longer than 16384 bytes; write what `slicewright plan` prints";
        refused(&"a".repeat(16_385), long);
    }
}
