//! The dashboards: both forms come from one source, the chart installs them at the right place, and they
//! are consistent. The check that their queries use existing metrics is with the alerts: `cargo test -p
//! xtask --test alerts`.

use std::collections::BTreeSet;

use packaging::dashboards;
use serde_json::{Value, json};

use super::{Bench, CONSOLE, the};

fn parsed(file: &dashboards::File) -> Value {
    serde_json::from_str(&file.text).unwrap()
}

/// Every panel, headings left out.
fn panels(dashboard: &Value) -> Vec<Value> {
    let rows = dashboard["rows"].as_array();
    let in_rows =
        rows.map(|rows| rows.iter().flat_map(|row| row["panels"].as_array().unwrap()).cloned().collect());
    let all: Vec<Value> = in_rows.unwrap_or_else(|| dashboard["panels"].as_array().unwrap().clone());
    all.into_iter().filter(|panel| panel["type"] != "row").collect()
}

#[test]
fn the_dashboards_are_up_to_date() {
    for file in dashboards::files() {
        let path = packaging::chart().join(file.path);
        #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
        if std::env::var("UPDATE").is_ok() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &file.text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == file.text,
            "{} is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`",
            file.path
        );
    }
}

#[test]
fn both_forms_show_the_same_questions_under_the_same_titles() {
    let [grafana, openshift] = dashboards::files();
    let shown = |file| {
        let asked = |panel: &Value| {
            let targets = panel["targets"].as_array().unwrap().clone();
            let asked = targets
                .into_iter()
                .map(|t| (t["refId"].clone(), t["expr"].clone(), t["legendFormat"].clone()));
            (panel["title"].clone(), panel["description"].clone(), asked.collect::<Vec<_>>())
        };
        panels(&parsed(file)).iter().map(asked).collect::<Vec<_>>()
    };
    assert_eq!(shown(&grafana), shown(&openshift));
    assert!(shown(&grafana).len() > 15);
}

#[test]
fn panels_have_a_place_of_their_own_and_say_what_they_tell() {
    for file in dashboards::files() {
        let dashboard = parsed(&file);
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in panels(&dashboard) {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}: two panels are one", panel["title"]);
            assert!(!panel["title"].as_str().unwrap().is_empty());
            assert!(panel["description"].as_str().unwrap().ends_with('.'), "{}", panel["title"]);
            let place = &panel["gridPos"];
            if let [Some(x), Some(y), Some(w), Some(h)] =
                ["x", "y", "w", "h"].map(|side| place[side].as_u64())
            {
                assert!(x + w <= 24, "{} hangs over the edge", panel["title"]);
                for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                    assert!(taken.insert(cell), "{} lies on another", panel["title"]);
                }
            }
        }
        assert_eq!(dashboard.get("rows").is_none(), !taken.is_empty(), "{}", file.path);
    }
}

/// What the console of OpenShift can show, and needs to show it.
#[test]
fn the_console_s_form_has_only_what_the_console_understands() {
    let [_, openshift] = dashboards::files();
    let dashboard = parsed(&openshift);
    assert_eq!(dashboard["schemaVersion"], 14);
    assert!(dashboard.get("panels").is_none(), "panels are in rows");
    for row in dashboard["rows"].as_array().unwrap() {
        let spans: u64 = row["panels"].as_array().unwrap().iter().map(|p| p["span"].as_u64().unwrap()).sum();
        assert_eq!(spans % 12, 0, "{} has a gap", row["title"]);
    }
    for panel in panels(&dashboard) {
        let title = &panel["title"];
        assert!(panel.get("datasource").is_none(), "{title}: the console asks its own Prometheus");
        match panel["type"].as_str().unwrap() {
            "graph" => assert!(panel["yaxes"][0]["format"].is_string(), "{title}"),
            "singlestat" => {
                assert!(panel["format"].is_string(), "{title}");
                assert_eq!(panel["targets"].as_array().unwrap().len(), 1, "{title}: it shows the first only");
            }
            // Rows of several queries are put together by all their labels, and titles come from the styles.
            "table" => {
                let patterns: Vec<_> = panel["styles"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|style| style["pattern"].clone())
                    .collect();
                for target in panel["targets"].as_array().unwrap() {
                    let value = json!(format!("Value #{}", target["refId"].as_str().unwrap()));
                    assert!(patterns.contains(&value), "{title} does not show {value}");
                }
            }
            other => panic!("{title}: the console shows no {other}"),
        }
    }
    // It turns label_values into a query by this form, with the blank.
    let query = dashboard["templating"]["list"][0]["query"].as_str().unwrap();
    assert_eq!(query, "label_values(slicewright_policy_info, policy)");
}

#[test]
fn the_chart_brings_dashboards_where_they_are_looked_for_and_none_by_itself() {
    let bench = Bench::new();
    let is_dashboard = |object: &&Value| object["kind"] == "ConfigMap";
    assert_eq!(bench.with(&[]).iter().filter(is_dashboard).count(), 0);

    let [grafana, openshift] = dashboards::files();
    let objects = bench.with(&[
        r#"metrics.dashboards.grafana={"enabled":true,"labels":{"grafana_dashboard":null,"show":"yes"}}"#,
    ]);
    let map = the(&objects, "ConfigMap", "slicewright-dashboard");
    assert_eq!(map["metadata"]["namespace"], "slicewright-system");
    assert_eq!(map["metadata"]["labels"]["show"], "yes");
    assert!(map["metadata"]["labels"].get("grafana_dashboard").is_none());
    assert!(map["data"] == json!({"slicewright.json": grafana.text}), "it is not {}", grafana.path);

    let objects = bench.watched(&["metrics.dashboards.openshift.enabled=true"], &[CONSOLE]);
    let map = the(&objects, "ConfigMap", "slicewright-dashboard");
    assert_eq!(map["metadata"]["namespace"], "openshift-config-managed");
    assert_eq!(map["metadata"]["labels"]["console.openshift.io/dashboard"], "true");
    assert!(map["data"] == json!({"slicewright.json": openshift.text}), "it is not {}", openshift.path);
}

#[test]
fn a_console_that_is_not_there_is_named_or_skipped() {
    let bench = Bench::new();
    let said = bench.refusal(&["metrics.dashboards.openshift.enabled=true"]);
    assert!(said.contains("no console of OpenShift") && said.contains("openshift.ifAbsent=skip"), "{said}");
    let skip = r#"metrics.dashboards.openshift={"enabled":true,"ifAbsent":"skip"}"#;
    assert_eq!(bench.with(&[skip]), bench.with(&[]));
}
