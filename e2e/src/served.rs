//! Kinds that are added and removed with their CRDs. The API server learns of a CRD in several places, one
//! after the other: the conditions of the CRD, the handler of its objects, and discovery. In between, these
//! disagree; code that adds or removes CRDs waits until all of them agree.

use std::time::Duration;

use anyhow::Context;
use kube::discovery::Discovery;
use kube::{Client, Error};
use serde_json::Value;

use crate::wait;

/// How long the API server may take until all of it knows of a CRD that came
/// or went. It is within a second, on a busy machine within some.
const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// Where a kind is served: once for each of its versions.
struct Kind {
    group: String,
    plural: String,
    versions: Vec<String>,
}

impl Kind {
    fn from_crd(crd: &Value) -> anyhow::Result<Self> {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let versions = spec["versions"].as_array().into_iter().flatten();
        Ok(Self {
            group: text(&spec["group"]).context("a CRD has a group")?,
            plural: text(&spec["names"]["plural"]).context("a CRD has a plural")?,
            versions: versions.filter(|v| v["served"] == true).filter_map(|v| text(&v["name"])).collect(),
        })
    }

    /// In which of its versions it is discovered, and in which its objects can
    /// be listed.
    async fn seen(&self, client: &Client) -> anyhow::Result<Vec<(bool, bool)>> {
        let mut seen = Vec::new();
        for version in &self.versions {
            let path = format!("{}/{version}", self.group);
            let resources = unless_gone(client.list_api_group_resources(&path).await)?;
            let discovered =
                resources.is_some_and(|list| list.resources.iter().any(|r| r.name == self.plural));
            let objects = http::Request::get(format!("/apis/{path}/{}?limit=1", self.plural));
            let listed = unless_gone(client.request::<Value>(objects.body(Vec::new())?).await)?;
            seen.push((discovered, listed.is_some()));
        }
        Ok(seen)
    }
}

/// Whether the API server says that there is no such thing, or not now.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Api(status) if [404, 503].contains(&status.code))
}

fn unless_gone<T>(answer: kube::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a kind, whose CRD was established, is discovered and its
/// objects can be listed.
///
/// # Errors
/// When time is up.
pub(crate) async fn appears(client: &Client, crd: &Value) -> anyhow::Result<()> {
    let kind = Kind::from_crd(crd)?;
    wait::asking(&format!("{}.{} is served", kind.plural, kind.group), SERVED_WITHIN, async || {
        let seen = kind.seen(client).await?;
        let all = seen.iter().all(|(discovered, listed)| *discovered && *listed);
        Ok(if all { Ok(()) } else { Err(format!("discovered and listed: {seen:?}")) })
    })
    .await
}

/// Waits until a kind, whose CRD is gone, is neither discovered nor served:
/// a CRD of the same name that comes too early would be taken for served.
///
/// # Errors
/// When time is up.
pub(crate) async fn vanishes(client: &Client, crd: &Value) -> anyhow::Result<()> {
    let kind = Kind::from_crd(crd)?;
    wait::asking(&format!("{}.{} is no longer served", kind.plural, kind.group), SERVED_WITHIN, async || {
        let seen = kind.seen(client).await?;
        let none = seen.iter().all(|(discovered, listed)| !*discovered && !*listed);
        Ok(if none { Ok(()) } else { Err(format!("discovered and listed: {seen:?}")) })
    })
    .await
}

/// What there is of these groups. A group of which the last CRD has just gone
/// is listed for a moment longer, and nothing answers for it: it is asked
/// again until the list and the answers agree.
///
/// # Errors
/// When they do not in time.
pub(crate) async fn discovered(client: &Client, groups: &[&str]) -> anyhow::Result<Discovery> {
    wait::asking("the API server answers for each group that it lists", SERVED_WITHIN, async || {
        match Discovery::new(client.clone()).filter(groups).run().await {
            Ok(found) => Ok(Ok(found)),
            Err(error) if is_gone(&error) => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    })
    .await
}
