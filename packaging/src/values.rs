//! The chart's values: what the comments in `values.yaml` say of each, the README that is made of them, and where the
//! images of a release are.

use std::fmt::Write as _;

use serde_json::Value;

/// One value: its path, its default, and what its comment says.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The path, with dots.
    pub path: String,
    /// What it is if nobody sets it.
    pub default: Value,
    /// What its comment says.
    pub says: String,
}

/// The values in the order of the file. A comment that begins with `# --`
/// belongs to the key below it; its further lines to the same.
#[must_use]
pub fn rows(text: &str, defaults: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut says: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix('#') {
            let comment = comment.trim();
            if let Some(first) = comment.strip_prefix("-- ") {
                says = Some(first.to_owned());
            } else if let Some(says) = &mut says {
                let _ = write!(says, " {comment}");
            }
            continue;
        }
        let Some((key, _)) = trimmed.split_once(':').filter(|_| !trimmed.starts_with('-')) else { continue };
        path.retain(|(at, _)| *at < indent);
        path.push((indent, key.to_owned()));
        if let Some(says) = says.take() {
            let default = path.iter().fold(defaults, |value, (_, key)| &value[key]).clone();
            let path = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
            rows.push(Row { path, default, says });
        }
    }
    rows
}

/// The chart's README, of `README.md.head` and `values.yaml`.
///
/// # Errors
/// When the values are no YAML.
pub fn readme(head: &str, values: &str) -> Result<String, serde_saphyr::Error> {
    let defaults: Value = serde_saphyr::from_str(values)?;
    let mut page = head.to_owned() + "\n## Values\n\n| value | default | what it is for |\n|---|---|---|\n";
    for Row { path, default, says } in rows(values, &defaults) {
        let default = default.to_string().replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | `{default}` | {} |", says.replace('|', "\\|"));
    }
    Ok(page)
}

/// No line begins so, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("values.yaml needs one line that begins with {0:?}")]
pub struct NoLine(pub &'static str);

/// Values in which the one line that begins so says this.
///
/// # Errors
/// When there is no such line, or more than one.
pub fn set(text: &str, begins: &'static str, says: &str) -> Result<String, NoLine> {
    let is_it = |line: &&str| line.starts_with(begins);
    if text.lines().filter(is_it).count() != 1 {
        return Err(NoLine(begins));
    }
    let lines = text.split_inclusive('\n').map(|line| match is_it(&line) {
        true => format!("{begins}{says}\n"),
        false => line.to_owned(),
    });
    Ok(lines.collect())
}

const REGISTRY: &str = "  registry: ";
const REPOSITORY: &str = "  repository: ";
/// The agent's; its registry is the operator's, so that a mirror is named once.
const REPOSITORY_OF_AGENT: &str = "    repository: ";

/// Values that name the images of whoever publishes under this registry and organisation, such as `quay.io/gpu`.
///
/// # Errors
/// When a line is not there.
pub fn published(text: &str, prefix: &str) -> Result<String, NoLine> {
    let (host, organisation) = prefix.split_once('/').unwrap_or((prefix, ""));
    let of = |name: &str| format!("{organisation}/{name}").trim_start_matches('/').to_owned();
    let text = set(text, REGISTRY, host)?;
    let text = set(&text, REPOSITORY, &of("slicewright"))?;
    set(&text, REPOSITORY_OF_AGENT, &of("agent"))
}

/// The registry and the organisation that the values name; nothing if they name none, as until the first release.
#[must_use]
pub fn publisher(text: &str) -> Option<String> {
    let says = |begins: &str| text.lines().find_map(|line| line.strip_prefix(begins));
    let host = says(REGISTRY).filter(|host| *host != "\"\"")?;
    let (organisation, _) = says(REPOSITORY)?.rsplit_once('/')?;
    Some(format!("{host}/{organisation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_publishes_is_read_as_it_was_written_and_a_line_that_is_not_there_is_named() {
        let text = std::fs::read_to_string(crate::chart().join("values.yaml")).unwrap();
        for prefix in ["quay.dev/gpu", "registry.dev:5000/gpu/team"] {
            assert_eq!(publisher(&published(&text, prefix).unwrap()).as_deref(), Some(prefix));
        }
        assert_eq!(publisher(&set(&text, REGISTRY, "\"\"").unwrap()), None);
        let twice = format!("{text}  registry: b\n");
        assert_eq!(published(&twice, "quay.dev/gpu"), Err(NoLine(REGISTRY)));
        let error = published("", "quay.dev/gpu").unwrap_err().to_string();
        assert_eq!(error, "values.yaml needs one line that begins with \"  registry: \"");
    }
}
