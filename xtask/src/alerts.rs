//! `cargo xtask alerts`: the alerts and the dashboards, read by Prometheus' own
//! promtool.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::needs;
use crate::tools::{self, Sources};

/// What it runs.
pub(crate) const USES: &[tools::Use] = &[tools::Use::Alerts];

/// Where the alerts are, and when each fires.
const FOLDER: &str = "charts/slicewright/files";

/// Checks the alerts and the dashboards with Prometheus' own promtool
///
/// Lints the rules, runs the tests beside them (each alert fires, does not
/// fire, and is over), reads every query of the dashboards, and evaluates those
/// that need care. That queries use metrics that exist, and that each alert has
/// a runbook, is checked by `cargo test -p xtask --test it alerts`, without
/// promtool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    needs::require("cargo xtask alerts", &needs::components(&args.sources, USES))?;
    let built = tools::ensure_built(&args.sources, USES, out)?;
    let promtool = built.iter().find(|b| b.name == "promtool").context("promtool was not built")?;
    let folder = crate::root().join(FOLDER);
    let queries = queries(&folder.join("dashboards"))?;
    let as_rules = std::env::temp_dir().join(format!("slicewright-dashboards-{}.yaml", std::process::id()));
    fs::write(&as_rules, rules(&queries).to_string())
        .context("cannot write the queries of the dashboards")?;
    let file = as_rules.to_str().context("the folder for temporary files has a name that is text")?;
    let checks: [&[&str]; 4] = [
        &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        &["test", "rules", "rules.test.yaml"],
        &["check", "rules", file],
        &["test", "rules", "dashboards.test.yaml"],
    ];
    let code = run_all(&promtool.path, &folder, &checks, out);
    fs::remove_file(&as_rules).context("cannot remove the queries of the dashboards")?;
    code
}

fn run_all(
    promtool: &Path,
    folder: &Path,
    checks: &[&[&str]],
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    for check in checks {
        let mut command = Command::new(promtool);
        command.args(*check).current_dir(folder);
        writeln!(out, "promtool {}", check.join(" "))?;
        out.flush()?;
        if !command.status().context("cannot run promtool")?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every query of the dashboards: whatever is called `expr` in them.
fn queries(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let dashboard =
            serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
        let mut asked = BTreeSet::new();
        collect(&dashboard, &mut asked);
        ensure!(!asked.is_empty(), "{} asks for nothing", path.display());
        found.extend(asked);
    }
    Ok(found)
}

fn collect(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        _ => {}
    }
}

/// As recording rules, which promtool reads; JSON is YAML.
fn rules(queries: &BTreeSet<String>) -> Value {
    let rules: Vec<_> = queries
        .iter()
        .enumerate()
        .map(|(number, query)| json!({"record": format!("dashboard:query:{number}"), "expr": query}))
        .collect();
    json!({"groups": [{"name": "dashboards", "rules": rules}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_found_wherever_it_stands() {
        let dashboard = json!({"rows": [{"panels": [{"targets": [{"expr": "a"}, {"expr": "b"}]}]}], "panels": [{"expr": "a"}]});
        let mut found = BTreeSet::new();
        collect(&dashboard, &mut found);
        assert_eq!(found, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!(
            rules(&found)["groups"][0]["rules"][1],
            json!({"record": "dashboard:query:1", "expr": "b"})
        );
    }
}
