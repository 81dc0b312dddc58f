//! Reads expectations from a file: every field is checked, and a wrong one is refused with its position and
//! what is allowed.

use std::sync::LazyLock;

use api::located::{Located, documents};
use api::schema::check;
use api::selector::Selector;
use api::spelling::nearest;
use mig::{Catalog, ProfileName};
use observe::problem::{Location, Problem, Severity};
use serde::Deserialize;
use serde_json::Value;

use super::{Check, Expectation};

/// The version that this release reads.
pub const API_VERSION: &str = "expectations.slicewright.io/v1";
const KIND: &str = "Expectations";

/// The same schema that editors use.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/reference/expectations.schema.json");
    serde_json::from_str(text).expect("a test reads it")
});

#[derive(Deserialize)]
struct File {
    expectations: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    why: Option<String>,
    policy: Option<String>,
    #[serde(default)]
    nodes: Selector,
    namespace: Option<String>,
    profile: Option<String>,
    min_slices: Option<u32>,
    min_free: Option<u32>,
    min_attainable: Option<u32>,
    served: Option<bool>,
    max_evictions: Option<u32>,
}

/// Whether a document is one of these.
#[must_use]
pub fn is_expectations(document: &Located) -> bool {
    let version = document.get("apiVersion").and_then(Located::as_str).unwrap_or_default();
    version.split('/').next() == API_VERSION.split('/').next()
}

/// Reads a file of expectations. What is wrong goes to `problems`.
#[must_use]
pub fn read(file: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<Expectation> {
    let mut all = Vec::new();
    let mut found = 0;
    for document in documents(text) {
        found += 1;
        match document {
            Ok(document) => all.extend(read_document(file, &document, problems)),
            Err(error) => problems.push(Problem {
                place: Some(Location::new(file, error.place)),
                ..Problem::new(Severity::Error, "", error.message)
            }),
        }
    }
    if found == 0 {
        let message = format!("the file is empty; one document of kind {KIND} ({API_VERSION}) is needed");
        problems.push(Problem::new(Severity::Error, file, message));
    }
    all
}

/// Reads one document of expectations.
#[must_use]
pub fn read_document(file: &str, document: &Located, problems: &mut Vec<Problem>) -> Vec<Expectation> {
    let findings = check(document, &SCHEMA);
    let wrong = !findings.is_empty();
    problems.extend(findings.into_iter().map(|finding| Problem::of_finding(finding, KIND, file)));
    if wrong {
        return Vec::new();
    }
    match serde_json::from_value::<File>(document.to_value()) {
        Ok(read) => read
            .expectations
            .into_iter()
            .enumerate()
            .filter_map(|(n, entry)| expectation(file, document, n, entry, problems))
            .collect(),
        // The schema admits what serde does not only in numbers beyond 32 bits.
        Err(error) => {
            problems.push(Problem {
                place: Some(Location::new(file, document.place)),
                ..Problem::new(Severity::Error, KIND, error.to_string())
            });
            Vec::new()
        }
    }
}

fn expectation(
    file: &str,
    document: &Located,
    index: usize,
    entry: Entry,
    problems: &mut Vec<Problem>,
) -> Option<Expectation> {
    let base = format!("expectations[{index}]");
    let place = |field: &str| {
        let path = if field.is_empty() { base.clone() } else { format!("{base}.{field}") };
        Location::new(file, document.place_of(&path))
    };
    let mut wrong = |field: &str, message: String| {
        let path = if field.is_empty() { base.clone() } else { format!("{base}.{field}") };
        let problem = Problem::new(Severity::Error, KIND, message).field(path);
        problems.push(Problem { place: Some(place(field)), ..problem });
    };
    let here = place("");
    let Entry { name, why, policy, nodes, namespace, profile, .. } = &entry;
    let counts = [
        ("minSlices", entry.min_slices.map(Check::MinSlices)),
        ("minFree", entry.min_free.map(Check::MinFree)),
        ("minAttainable", entry.min_attainable.map(Check::MinAttainable)),
    ];
    if profile.is_none()
        && let Some((field, _)) = counts.iter().find(|(_, check)| check.is_some())
    {
        wrong(field, "needs a profile to count; write for example `profile: 1g.10gb`".to_owned());
        return None;
    }
    let profile = match profile {
        None => None,
        Some(text) => match known(text) {
            Ok(profile) => Some(profile),
            Err(message) => {
                wrong("profile", message);
                return None;
            }
        },
    };
    let mut checks: Vec<Check> = counts.into_iter().filter_map(|(_, check)| check).collect();
    match entry.served {
        Some(true) => checks.push(Check::Served),
        Some(false) => {
            let message = "is false, which expects nothing; write true, or remove it";
            wrong("served", message.to_owned());
            return None;
        }
        None => {}
    }
    checks.extend(entry.max_evictions.map(Check::MaxEvictions));
    if checks.is_empty() {
        let message =
            "expects nothing; write at least one of minSlices, minFree, minAttainable, served, maxEvictions";
        wrong("", message.to_owned());
        return None;
    }
    Some(Expectation {
        name: name.clone(),
        why: why.clone(),
        place: here,
        policy: policy.clone(),
        nodes: observe::policy::expressions(nodes),
        namespace: namespace.clone(),
        profile,
        checks,
    })
}

/// A profile that some model has.
fn known(text: &str) -> Result<ProfileName, String> {
    let models = Catalog::builtin().models();
    let mut all: Vec<ProfileName> =
        models.iter().flat_map(|model| model.profiles.iter().map(|profile| profile.name)).collect();
    all.sort();
    all.dedup();
    if let Ok(profile) = text.parse::<ProfileName>()
        && all.contains(&profile)
    {
        return Ok(profile);
    }
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    let meant = nearest(text, all.iter().map(String::as_str))
        .map(|right| format!("; did you mean `{right}`?"))
        .unwrap_or_default();
    Err(format!("`{text}` is not a profile of any known model{meant}"))
}
