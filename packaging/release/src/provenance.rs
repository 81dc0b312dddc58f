//! Where what is published comes from, as in-toto and SLSA write it: subjects, the commit, and who built it. The
//! statement is signed by whoever publishes; unsigned it proves nothing.

use serde_json::{Value, json};

/// What was built from what.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// The repository.
    pub repository: &'a str,
    /// The commit.
    pub commit: &'a str,
    /// Who built it: an address that names the builder.
    pub builder: &'a str,
    /// The version.
    pub version: &'a str,
}

/// The statement for these subjects: each a name and `sha256:` with its digest.
#[must_use]
pub fn statement(build: &Build<'_>, subjects: &[(String, String)]) -> Value {
    let Build { repository, commit, builder, version } = build;
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest.trim_start_matches("sha256:")}}))
        .collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{repository}/blob/main/docs/guides/releasing.md"),
                "externalParameters": {"version": version},
                "resolvedDependencies": [{
                    "uri": format!("git+{repository}@refs/tags/v{version}"),
                    "digest": {"gitCommit": commit},
                }],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    })
}
