//! The operator's requests to the API server, from its audit log.

use std::fmt;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

/// The group of our own kinds.
const OUR_GROUP: &str = "slicewright.io";
/// How much of a body is shown.
const SHOWN: usize = 400;

/// The audit log from some moment on.
#[derive(Clone, Debug)]
pub struct Audit {
    file: PathBuf,
    from: u64,
}

/// One request that was answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// What was done: `get`, `patch`, …
    pub verb: String,
    /// To what.
    #[serde(default)]
    pub object_ref: Object,
    /// The body, of a write.
    #[serde(default)]
    pub request_object: Option<Value>,
    /// The answer.
    #[serde(default)]
    pub response_status: Status,
    /// The object as it was after the write, of our own kinds.
    #[serde(default)]
    pub response_object: Option<Value>,
    /// With path and arguments.
    #[serde(rename = "requestURI", default)]
    pub uri: String,
    /// Which program.
    #[serde(default)]
    pub user_agent: String,
}

/// What a request was about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// Such as `nodes`.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// Empty for what belongs to the cluster.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
    /// Such as `slicewright.io`.
    pub api_group: String,
}

/// The answer of the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// 200, 403, …
    pub code: u16,
    /// Why not, where it was not.
    pub message: String,
}

/// What the API server says of an object whose kind is just being removed. It
/// calls that forbidden, and it is no lack of rights.
const GOING: &str = "not allowed while custom resource definition is terminating";

impl Request {
    /// Whether it could change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it was refused for want of a right, or by an admission policy.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.response_status.code == 403 && !self.response_status.message.contains(GOING)
    }

    /// Whether it is about a lease, which its holder renews always.
    #[must_use]
    pub fn is_about_a_lease(&self) -> bool {
        self.object_ref.resource == "leases"
    }

    /// Whether it asks only what the operator may do.
    fn is_a_question(&self) -> bool {
        self.object_ref.api_group == "authorization.k8s.io"
            || self.object_ref.api_group == "authentication.k8s.io"
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object { resource, subresource, namespace, name, api_group: _ } = &self.object_ref;
        write!(f, "{} {resource}", self.verb)?;
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        if !name.is_empty() {
            let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            write!(f, " {namespace}{name}")?;
        }
        write!(f, " ({})", self.response_status.code)?;
        if let Some(body) = &self.request_object {
            let mut body = body.to_string();
            if body.len() > SHOWN {
                body.truncate((0..=SHOWN).rev().find(|i| body.is_char_boundary(*i)).unwrap_or_default());
                body.push('…');
            }
            write!(f, ": {body}")?;
        }
        Ok(())
    }
}

impl Audit {
    /// The log from now on.
    ///
    /// # Errors
    /// When there is no log.
    pub fn from_now(file: PathBuf) -> anyhow::Result<Self> {
        let from = match std::fs::metadata(&file) {
            Ok(meta) => meta.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", file.display())),
        };
        Ok(Self { file, from })
    }

    /// The log from its beginning.
    #[must_use]
    pub const fn whole(file: PathBuf) -> Self {
        Self { file, from: 0 }
    }

    /// Every request since then that has been answered.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        let mut file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot open {}", self.file.display())),
        };
        file.seek(SeekFrom::Start(self.from))?;
        let text = std::io::read_to_string(file)?;
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).context("a line of the audit log")).collect()
    }

    /// What changed, or could have changed, something; leases apart.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn writes(&self) -> anyhow::Result<Vec<Request>> {
        let mut requests = self.requests()?;
        requests.retain(|r| r.is_write() && !r.is_about_a_lease() && !r.is_a_question());
        Ok(requests)
    }

    /// Our own objects, each as it was after each write, in order.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let written = self.writes()?.into_iter().filter(|write| write.object_ref.api_group == OUR_GROUP);
        let objects = written.filter_map(|write| write.response_object);
        Ok(objects.filter(|object| object["kind"] != "Status").collect())
    }

    /// What the operator's rights did not allow.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn refused(&self) -> anyhow::Result<Vec<Request>> {
        let mut requests = self.requests()?;
        requests.retain(Request::was_refused);
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_leases_are_no_writes_and_a_line_on_its_way_waits() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("audit.log");
        std::fs::write(&file, "before\n").unwrap();
        let audit = Audit::from_now(file.clone()).unwrap();
        let lines = [
            r#"{"verb":"list","objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}"#,
            r#"{"verb":"update","objectRef":{"resource":"leases","name":"l"},"responseStatus":{"code":200}}"#,
            r#"{"verb":"patch","objectRef":{"resource":"nodes","name":"n1"},"responseStatus":{"code":409},"requestObject":{"spec":{"unschedulable":true}}}"#,
            r#"{"verb":"get","objectRef":{"resource":"secrets"},"responseStatus":{"code":403}}"#,
            r#"{"verb":"patch","obj"#,
        ];
        let text = format!("before\n{}", lines.join("\n"));
        std::fs::write(&file, text).unwrap();
        let shown = |requests: Vec<Request>| requests.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            shown(audit.writes().unwrap()),
            [r#"patch nodes n1 (409): {"spec":{"unschedulable":true}}"#]
        );
        assert_eq!(shown(audit.refused().unwrap()), ["get secrets (403)"]);
    }
}
