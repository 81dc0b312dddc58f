//! Whether the chart grants exactly the permissions that are used: compares the records of the scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// How the scenarios are told where to write it down.
pub(crate) const VARIABLE: &str = "SLICEWRIGHT_E2E_RIGHTS";
/// What they wrote down, in the target folder.
const WRITTEN: &str = "e2e-rights.jsonl";
/// The rights that no scenario uses, each with its reason.
const EXCEPTIONS: &str = "e2e/unused-rights.txt";
/// What the chart's roles are made of.
const SOURCE: &str = "charts/slicewright/files/rights.yaml";

/// Where the scenarios of a whole run write it down.
///
/// # Errors
/// When this program does not stand in a target folder.
pub(crate) fn written() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).unwrap_or(Path::new("target"));
    Ok(target.join(WRITTEN))
}

/// What the last whole run of the scenarios says.
pub(crate) fn check() -> Result<(), String> {
    let first = "run cargo xtask e2e, all of it, first";
    let file = written().map_err(|error| error.to_string())?;
    let lines = std::fs::read_to_string(&file)
        .map_err(|_| format!("no whole run of the scenarios has left {}: {first}", file.display()))?;
    let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified());
    let older = changed(&file).ok() < changed(&crate::root().join(SOURCE)).ok();
    if older {
        return Err(format!("{SOURCE} was changed since the scenarios ran: {first}"));
    }
    let exceptions = std::fs::read_to_string(crate::root().join(EXCEPTIONS))
        .map_err(|error| format!("cannot read {EXCEPTIONS}: {error}"))?;
    judge(&lines, &exceptions)
}

/// Compares what scenarios wrote down, a line of JSON each, with what is
/// excused.
fn judge(lines: &str, exceptions: &str) -> Result<(), String> {
    let (mut granted, mut used) = (BTreeSet::new(), BTreeSet::new());
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let texts = |field: &str| {
            let all = line[field].as_array().cloned().unwrap_or_default();
            all.into_iter().filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        granted.extend(texts("granted"));
        used.extend(texts("used"));
        let scenario = line["scenario"].as_str().unwrap_or_default();
        refused.extend(texts("refused").into_iter().map(|request| (request, scenario.to_owned())));
    }
    let mut wrong = Vec::new();
    if granted.is_empty() {
        wrong.push("the scenarios wrote down no right at all".to_owned());
    }
    let mut excused = BTreeSet::new();
    let told = exceptions.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in told {
        let (right, why) = line.split_once(": ").unwrap_or((line, ""));
        if why.trim().is_empty() {
            wrong.push(format!("{EXCEPTIONS}: {right:?} has no reason"));
        }
        if used.contains(right) {
            wrong.push(format!("{EXCEPTIONS}: {right:?} is used: take the line out"));
        } else if !granted.contains(right) {
            wrong.push(format!("{EXCEPTIONS}: {right:?} is not granted: take the line out"));
        }
        excused.insert(right.to_owned());
    }
    let idle = granted.iter().filter(|right| !used.contains(*right) && !excused.contains(*right));
    wrong.extend(idle.map(|right| {
        format!("no scenario uses the right {right:?}: take it back, or tell a story that needs it")
    }));
    wrong.extend(refused.iter().map(|(request, by)| format!("{by} was refused: {request}")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"scenario":"a","granted":["list nodes","patch nodes"],"used":["list nodes"],"refused":[]}
{"scenario":"b","granted":["list nodes","patch nodes"],"used":["patch nodes"],"refused":[]}
"#;

    #[track_caller]
    fn complains(lines: &str, exceptions: &str, of: &str) {
        let error = judge(lines, exceptions).unwrap_err();
        assert!(error.contains(of), "{error}");
    }

    #[test]
    fn what_is_granted_is_used_by_somebody_or_excused_with_a_reason() {
        assert_eq!(judge(TWO, "# nothing\n"), Ok(()));
        let first = TWO.lines().next().unwrap();
        complains(first, "", r#"no scenario uses the right "patch nodes""#);
        assert_eq!(judge(first, "patch nodes: only in a year with 366 days"), Ok(()));
        complains(first, "patch nodes", r#""patch nodes" has no reason"#);
        complains(TWO, "patch nodes: who knows", r#""patch nodes" is used: take the line out"#);
        complains(TWO, "get nodes: who knows", r#""get nodes" is not granted"#);
        complains("", "", "no right at all");
    }

    #[test]
    fn who_was_refused_lacks_a_right() {
        let refused = TWO.replace(r#""refused":[]}"#, r#""refused":["get secrets a/b (403)"]}"#);
        complains(&refused, "", "b was refused: get secrets a/b (403)");
    }
}
