//! Alerts and dashboards, without Prometheus: every query uses metrics and labels that exist, each alert
//! has the necessary texts and a runbook, and is tested for firing, not firing and resolving. promtool
//! tests that they fire when they should: `cargo xtask alerts`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use promql_parser::label::{MatchOp, Matchers};
use promql_parser::parser::{self, Expr, LabelModifier};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(file: &str) -> String {
    let path = root().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&read("charts/slicewright/files/rules.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap().clone();
    groups.into_iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn text<'a>(value: &'a Value, what: &str) -> &'a str {
    value.as_str().unwrap_or_else(|| panic!("{what} is no text: {value}"))
}

/// The metrics of the reference, each with its labels.
fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for line in read("docs/reference/metrics.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells.as_slice() else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let labels: BTreeSet<String> =
            labels.split(", ").filter(|l| !l.is_empty()).map(|l| l.trim_matches('`').to_owned()).collect();
        if *kind == "histogram" {
            let buckets = labels.iter().cloned().chain(["le".to_owned()]).collect();
            all.insert(format!("{name}_bucket"), buckets);
            all.insert(format!("{name}_sum"), labels.clone());
            all.insert(format!("{name}_count"), labels);
        } else {
            all.insert(name.to_owned(), labels);
        }
    }
    assert!(all.len() > 20, "{all:?}");
    all
}

/// The metrics of dcgm-exporter that it documents, each with its labels.
fn metrics_of_dcgm() -> BTreeMap<String, BTreeSet<String>> {
    let file: Value = serde_saphyr::from_str(&read("packaging/dcgm-exporter.yaml")).unwrap();
    let labels = |key: &str| -> Vec<String> { serde_json::from_value(file[key].clone()).unwrap() };
    let all = file["metrics"].as_object().unwrap().iter().map(|(name, metric)| {
        let slice = if metric["bySlice"] == true { labels("slice") } else { Vec::new() };
        (name.clone(), labels("labels").into_iter().chain(slice).collect())
    });
    all.collect()
}

/// What Prometheus adds to everything that it scrapes.
const OF_THE_TARGET: [&str; 4] = ["namespace", "pod", "instance", "job"];

/// What is wrong with a query: metrics that are not there, labels that none
/// of its metrics has.
fn problems(query: &str, metrics: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    match parser::parse(query) {
        Ok(expr) => {
            walk(&expr, metrics, &mut wrong);
        }
        Err(error) => wrong.push(format!("it is no PromQL: {error}")),
    }
    wrong
}

fn selector(
    name: Option<&String>,
    matchers: &Matchers,
    metrics: &BTreeMap<String, BTreeSet<String>>,
    wrong: &mut Vec<String>,
) -> BTreeSet<String> {
    let Some(labels) = name.and_then(|name| metrics.get(name)) else {
        wrong.push(format!("there is no metric {name:?}"));
        return BTreeSet::new();
    };
    let known: BTreeSet<String> =
        labels.iter().cloned().chain(OF_THE_TARGET.iter().map(|l| (*l).to_owned())).collect();
    let matchers = matchers.matchers.iter().chain(matchers.or_matchers.iter().flatten());
    for matcher in matchers {
        if !known.contains(&matcher.name) {
            wrong.push(format!("{} has no label {}", name.unwrap(), matcher.name));
        }
        values(&matcher.name, &matcher.op, &matcher.value, wrong);
    }
    known
}

/// Values that a query names are values that the code has.
fn values(label: &str, op: &MatchOp, value: &str, wrong: &mut Vec<String>) {
    let sources: &[&str] = match label {
        "phase" => &["crates/rollout/src/progress.rs"],
        "reason" => {
            &["docs/reference/rollout.md", "crates/api/src/condition.rs", "crates/reconcile/src/why_name.rs"]
        }
        "type" => &["crates/api/src/condition.rs"],
        "mode" => &["crates/planner/src/policy.rs"],
        "state" => &["crates/controller/src/gauges.rs"],
        _ => &[],
    };
    let regex = matches!(op, MatchOp::Re(_) | MatchOp::NotRe(_));
    let named: Vec<&str> = if regex { value.split('|').collect() } else { vec![value] };
    for name in named.into_iter().filter(|_| !sources.is_empty()) {
        let quoted =
            [format!("`{name}`"), format!("\"{name}\""), format!("{name},"), format!("Self::{name}")];
        let known = sources.iter().any(|file| quoted.iter().any(|q| read(file).contains(q)));
        if !known {
            wrong.push(format!("no {label} is called {name:?}"));
        }
    }
}

/// The labels that the result may have.
fn walk(
    expr: &Expr,
    metrics: &BTreeMap<String, BTreeSet<String>>,
    wrong: &mut Vec<String>,
) -> BTreeSet<String> {
    let mut walk = |expr: &Expr| walk(expr, metrics, wrong);
    match expr {
        Expr::Aggregate(aggregate) => {
            let found = walk(&aggregate.expr);
            if let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = &aggregate.modifier
            {
                for label in labels.labels.iter().filter(|label| !found.contains(*label)) {
                    wrong.push(format!("nothing that is summed up has the label {label}"));
                }
            }
            match &aggregate.modifier {
                Some(LabelModifier::Include(labels)) => labels.labels.iter().cloned().collect(),
                Some(LabelModifier::Exclude(labels)) => {
                    found.into_iter().filter(|l| !labels.labels.contains(l)).collect()
                }
                None => BTreeSet::new(),
            }
        }
        Expr::Binary(binary) => {
            let (left, right) = (walk(&binary.lhs), walk(&binary.rhs));
            if let Some(LabelModifier::Include(on)) =
                binary.modifier.as_ref().and_then(|m| m.matching.as_ref())
            {
                for label in on.labels.iter().filter(|l| !left.contains(*l) || !right.contains(*l)) {
                    wrong.push(format!("both sides are compared by {label}, which one of them lacks"));
                }
            }
            left.union(&right).cloned().collect()
        }
        Expr::Call(call) => {
            let mut found: BTreeSet<String> = call.args.args.iter().flat_map(|arg| walk(arg)).collect();
            let text = |at: usize| match call.args.args.get(at).map(|arg| &**arg) {
                Some(Expr::StringLiteral(text)) => Some(text.val.clone()),
                _ => None,
            };
            // What a label is made of has to be there, and what is made is there then.
            if let ("label_replace", Some(made), Some(of)) = (call.func.name, text(1), text(3)) {
                if !found.contains(&of) {
                    wrong.push(format!("nothing has the label {of}, of which {made} is made"));
                }
                found.insert(made);
            }
            found
        }
        Expr::Paren(paren) => walk(&paren.expr),
        Expr::Unary(unary) => walk(&unary.expr),
        Expr::Subquery(subquery) => walk(&subquery.expr),
        Expr::VectorSelector(vector) => selector(vector.name.as_ref(), &vector.matchers, metrics, wrong),
        Expr::MatrixSelector(matrix) => {
            selector(matrix.vs.name.as_ref(), &matrix.vs.matchers, metrics, wrong)
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => BTreeSet::new(),
    }
}

/// The labels that a text for people asks for.
fn asked_for(text: &str) -> Vec<&str> {
    text.split("$labels.").skip(1).map(|rest| rest.split([' ', '}']).next().unwrap()).collect()
}

/// The guide has a row for each alert, in the order of the rules, with its severity.
#[test]
fn the_guide_names_every_alert() {
    let told: Vec<[String; 2]> = read("docs/guides/monitoring.md")
        .lines()
        .filter(|line| line.starts_with("| [Slicewright"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let (name, link) = cells[1].strip_prefix('[').and_then(|cell| cell.split_once("](")).unwrap();
            assert_eq!(link, format!("../runbooks/{name}.md)"));
            [name.to_owned(), cells[3].to_owned()]
        })
        .collect();
    let all = rules();
    let alerts = all.iter().filter(|rule| !rule["alert"].is_null());
    let alerts: Vec<[String; 2]> = alerts
        .map(|rule| {
            let severity = text(&rule["labels"]["severity"], "a severity");
            [text(&rule["alert"], "an alert").to_owned(), severity.to_owned()]
        })
        .collect();
    assert_eq!(told, alerts);
}

#[test]
fn every_alert_asks_for_metrics_and_labels_that_exist() {
    let metrics = metrics();
    for rule in rules() {
        let alert = text(&rule["alert"], "alert");
        let query = text(&rule["expr"], alert);
        assert_eq!(problems(query, &metrics), [""; 0], "{alert}: {query}");
        let labels = walk(&parser::parse(query).unwrap(), &metrics, &mut Vec::new());
        for (_, annotation) in rule["annotations"].as_object().unwrap() {
            for label in asked_for(text(annotation, alert)) {
                assert!(labels.contains(label), "{alert} tells people {label}, and its query has {labels:?}");
            }
        }
    }
}

#[test]
fn a_query_that_asks_for_what_is_not_there_is_found() {
    let metrics = metrics();
    for (query, says) in [
        ("slicewright_leeder == 1", "there is no metric"),
        ("slicewright_leader{node=\"a\"} == 1", "has no label node"),
        ("sum by (policy) (slicewright_leader)", "has the label policy"),
        ("slicewright_nodes and on (profile) slicewright_policy_info", "compared by profile"),
        ("slicewright_node_held{reason=\"Boredom\"}", "no reason is called"),
        ("rate(slicewright_reconcile_total[5m)", "it is no PromQL"),
    ] {
        let found = problems(query, &metrics);
        assert!(found.iter().any(|problem| problem.contains(says)), "{query}: {found:?}");
    }
}

/// Every panel of a dashboard, in whichever form.
fn panels(dashboard: &Value) -> Vec<Value> {
    let list = |of: &Value, what: &str| of[what].as_array().cloned().unwrap_or_default();
    let in_rows = list(dashboard, "rows").into_iter().flat_map(|row| list(&row, "panels"));
    in_rows.chain(list(dashboard, "panels")).filter(|panel| panel["type"] != "row").collect()
}

/// The labels that a legend asks for.
fn of_legend(legend: &str) -> Vec<&str> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()).collect()
}

#[test]
fn every_dashboard_asks_for_metrics_and_labels_that_exist() {
    let mut metrics = metrics();
    metrics.extend(metrics_of_dcgm());
    let mut used = BTreeSet::new();
    for form in ["grafana", "openshift"] {
        let text = read(&format!("charts/slicewright/files/dashboards/{form}.json"));
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let panels = panels(&dashboard);
        assert!(panels.len() > 15, "{form} has {} panels", panels.len());
        for panel in panels {
            let title = text_of(&panel["title"]);
            let mut of_all: Option<BTreeSet<String>> = None;
            for target in panel["targets"].as_array().unwrap() {
                let query = text_of(&target["expr"]);
                assert_eq!(problems(&query, &metrics), [""; 0], "{title}: {query}");
                used.extend(metrics.keys().filter(|metric| query.contains(*metric)).cloned());
                let labels = walk(&parser::parse(&query).unwrap(), &metrics, &mut Vec::new());
                let legend = text_of(&target["legendFormat"]);
                for label in of_legend(&legend) {
                    assert!(labels.contains(label), "{title}: a line is called {legend}, and has {labels:?}");
                }
                if panel["type"] == "table" {
                    // Their rows are put together by all labels, so that they must be the same.
                    assert_eq!(*of_all.get_or_insert_with(|| labels.clone()), labels, "{title}");
                    for style in panel["styles"].as_array().into_iter().flatten() {
                        let column = text_of(&style["pattern"]);
                        let shown = style["type"] != "string" || labels.contains(&column);
                        assert!(shown, "{title}: there is no label {column}");
                    }
                }
            }
        }
        let policies = dashboard["templating"]["list"].as_array().unwrap();
        let query = text_of(&policies.iter().find(|v| v["name"] == "policy").unwrap()["query"]);
        assert!(query.contains("slicewright_policy_info, policy") || form == "grafana", "{query}");
    }
    // What people asked for: supply and demand, who waits and why, nodes, changes, healings, errors, rounds.
    for metric in [
        "slicewright_slices",
        "slicewright_pending_slice_requests",
        "slicewright_unserved_requests",
        "slicewright_floor_missing_slices",
        "slicewright_nodes",
        "slicewright_gpu_repartition_total",
        "slicewright_gpu_repartition_duration_seconds_bucket",
        "slicewright_mig_manager_healed_total",
        "slicewright_actions_total",
        "slicewright_watch_failures_total",
        "slicewright_reconcile_duration_seconds_bucket",
    ] {
        assert!(used.contains(metric), "no panel shows {metric}");
    }
    // What dcgm-exporter is said to have is there because it is shown.
    for metric in metrics_of_dcgm().keys() {
        assert!(used.contains(metric), "no panel shows {metric}");
    }
}

/// Power and temperature have no series of a slice: a query that asks for one would show nothing, for ever.
#[test]
fn a_query_that_asks_dcgm_for_what_it_does_not_have_is_found() {
    let metrics = metrics_of_dcgm();
    for (query, says) in [
        ("DCGM_FI_DEV_POWER_USAGE{GPU_I_PROFILE!=\"\"}", "has no label GPU_I_PROFILE"),
        ("max by (GPU_I_ID) (DCGM_FI_DEV_GPU_TEMP)", "has the label GPU_I_ID"),
        ("DCGM_FI_DEV_GPU_UTIL", "there is no metric"),
        (
            "label_replace(DCGM_FI_DEV_GPU_TEMP, \"profile\", \"$1\", \"GPU_I_PROFILE\", \"(.*)\")",
            "of which profile is made",
        ),
    ] {
        let found = problems(query, &metrics);
        assert!(found.iter().any(|problem| problem.contains(says)), "{query}: {found:?}");
    }
}

/// What promtool evaluates is what the dashboards ask, with every policy chosen.
#[test]
fn the_numbers_that_are_tested_are_those_of_the_dashboards() {
    let mut asked = BTreeSet::new();
    for form in ["grafana", "openshift"] {
        let text = read(&format!("charts/slicewright/files/dashboards/{form}.json"));
        for panel in panels(&serde_json::from_str(&text).unwrap()) {
            let targets = panel["targets"].as_array().unwrap();
            asked.extend(targets.iter().map(|target| text_of(&target["expr"]).replace("$policy", ".+")));
        }
    }
    let file: Value = serde_saphyr::from_str(&read("charts/slicewright/files/dashboards.test.yaml")).unwrap();
    let tests: Vec<&Value> = file["tests"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|test| test["promql_expr_test"].as_array().unwrap())
        .collect();
    let evaluated: BTreeSet<String> = tests.iter().map(|test| text_of(&test["expr"])).collect();
    assert!(evaluated.len() > 30, "{}", evaluated.len());
    for query in &evaluated {
        assert!(asked.contains(query), "no panel asks {query}");
    }
    for query in &asked {
        assert!(
            evaluated.contains(query),
            "a panel asks {query}, and dashboards.test.yaml does not say what it shows"
        );
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn every_alert_says_what_people_need_and_there_are_few() {
    let rules = rules();
    // Each is somebody woken at night: these ten, two of which (refused writes, an API that went back in
    // time) nothing else in a cluster would tell. An eleventh has to replace one.
    assert!((5..=10).contains(&rules.len()), "{} alerts", rules.len());
    for rule in &rules {
        let alert = text(&rule["alert"], "alert");
        assert!(alert.starts_with("Slicewright"), "{alert}");
        let severity = text(&rule["labels"]["severity"], alert);
        assert!(["critical", "warning", "info"].contains(&severity), "{alert}: {severity}");
        for annotation in ["summary", "description", "runbook_url"] {
            assert!(!text(&rule["annotations"][annotation], alert).is_empty());
        }
        assert!(
            asked_for(text(&rule["annotations"]["summary"], alert)).is_empty(),
            "{alert}: a summary is for all"
        );
        let minutes =
            rule["for"].as_str().map_or(0, |t| t.strip_suffix('m').unwrap().parse::<u32>().unwrap());
        assert!(severity == "info" || minutes >= 5, "{alert} is told after {minutes} minutes");
        // The namespace comes from the series, or from the rule where there is none.
        let labels = walk(&parser::parse(text(&rule["expr"], alert)).unwrap(), &metrics(), &mut Vec::new());
        let absent = text(&rule["expr"], alert).starts_with("absent(");
        let given = rule["labels"].get("namespace").is_some();
        assert!(if absent { given } else { labels.contains("namespace") }, "{alert} says no namespace");
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut alerts = BTreeSet::new();
    for rule in rules() {
        let alert = text(&rule["alert"], "alert").to_owned();
        let url = text(&rule["annotations"]["runbook_url"], &alert);
        assert_eq!(
            url,
            format!("https://github.com/slicewright/slicewright/blob/main/docs/runbooks/{alert}.md")
        );
        let page = read(&format!("docs/runbooks/{alert}.md"));
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {alert}");
        let expected = [title.as_str(), "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];
        assert_eq!(headings, expected, "{alert}");
        alerts.insert(format!("{alert}.md"));
    }
    let pages: BTreeSet<String> = std::fs::read_dir(root().join("docs/runbooks"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(pages, alerts);
}

/// Commands of ours in runbooks are ones that there are, and so are metrics.
#[test]
fn runbooks_name_commands_and_metrics_that_exist() {
    let (cli, metrics) = (read("docs/reference/cli.md"), metrics());
    for entry in std::fs::read_dir(root().join("docs/runbooks")).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        for (_, rest) in page.match_indices("slicewright ").map(|(at, found)| (at, &page[at + found.len()..]))
        {
            let command = rest.split([' ', '`', '\n', '.']).next().unwrap();
            let known = cli.contains(&format!("\n## slicewright {command}\n"));
            assert!(
                known || !page.contains(&format!("`slicewright {command}")),
                "{}: slicewright {command}",
                path.display()
            );
        }
        for word in page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if word.starts_with("slicewright_") {
                assert!(metrics.contains_key(word), "{}: {word}", path.display());
            }
        }
    }
}

/// An evaluation of promtool's test file: when, and whether anything is expected.
fn minutes(time: &str) -> u32 {
    let (number, unit) = time.split_at(time.len() - 1);
    number.parse::<u32>().unwrap() * if unit == "h" { 60 } else { 1 }
}

#[test]
fn every_alert_is_tested_for_firing_not_firing_and_being_over() {
    let file: Value = serde_saphyr::from_str(&read("charts/slicewright/files/rules.test.yaml")).unwrap();
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for test in file["tests"].as_array().unwrap() {
        let mut evaluations: Vec<(u32, &str, bool)> = test["alert_rule_test"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                let fires = !e["exp_alerts"].as_array().unwrap().is_empty();
                (minutes(text(&e["eval_time"], "eval_time")), text(&e["alertname"], "alertname"), fires)
            })
            .collect();
        evaluations.sort_unstable();
        let mut fired = false;
        for (_, alert, fires) in evaluations {
            let what = match (fires, fired) {
                (true, _) => "fires",
                (false, true) => "is over",
                (false, false) => "does not fire",
            };
            fired |= fires;
            seen.entry(alert.to_owned()).or_default().insert(what);
        }
    }
    for rule in rules() {
        let alert = text(&rule["alert"], "alert");
        let found = seen.remove(alert).unwrap_or_default();
        assert_eq!(found, BTreeSet::from(["fires", "is over", "does not fire"]), "{alert}");
    }
    assert!(seen.is_empty(), "tests of no alert: {seen:?}");
}
