//! The metrics of a running operator match the alerts: every situation of an alert is brought about, and
//! every selector of every alert finds a series in a scrape. promtool tests when each of them fires.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use e2e::objects::GPU_OPERATOR_NAMESPACE;
use e2e::{POOL, TEAM, a100, mig, pod, policy, scenario, wait};
use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, VectorSelector};
use serde_json::{Value, json};

/// Alerts about what this fleet does not have happen to it, and the scenarios that show their series.
const SHOWN_ELSEWHERE: [(&str, &str); 2] =
    [("SlicewrightDataWentBack", "restored_etcd"), ("SlicewrightWritesRefused", "refused_writes")];

/// Every selector of every alert, with the alert's name.
fn selectors() -> anyhow::Result<Vec<(String, VectorSelector)>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/slicewright/files/rules.yaml");
    let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    let mut all = Vec::new();
    for rule in rules["groups"][0]["rules"].as_array().context("no rules")? {
        let query = rule["expr"].as_str().context("no query")?;
        let expr = parser::parse(query).map_err(anyhow::Error::msg)?;
        let mut found = Vec::new();
        walk(&expr, &mut found);
        let alert = rule["alert"].as_str().unwrap_or_default();
        all.extend(found.into_iter().map(|selector| (alert.to_owned(), selector)));
    }
    Ok(all)
}

fn walk(expr: &Expr, found: &mut Vec<VectorSelector>) {
    match expr {
        Expr::Aggregate(of) => walk(&of.expr, found),
        Expr::Unary(of) => walk(&of.expr, found),
        Expr::Binary(of) => {
            walk(&of.lhs, found);
            walk(&of.rhs, found);
        }
        Expr::Paren(of) => walk(&of.expr, found),
        Expr::Subquery(of) => walk(&of.expr, found),
        Expr::Call(of) => of.args.args.iter().for_each(|arg| walk(arg, found)),
        Expr::VectorSelector(selector) => found.push(selector.clone()),
        Expr::MatrixSelector(of) => found.push(of.vs.clone()),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

/// The series of a scrape: name and labels.
fn series(text: &str) -> BTreeSet<(String, BTreeMap<String, String>)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (series, _) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels =
                labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once("=\""));
            let labels =
                labels.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()));
            Some((name.to_owned(), labels.collect()))
        })
        .collect()
}

/// A label that is not there is an empty one, as for Prometheus.
fn matches(Matchers { matchers, .. }: &Matchers, labels: &BTreeMap<String, String>) -> bool {
    matchers.iter().all(|m| m.is_match(labels.get(&m.name).map_or("", String::as_str)))
}

#[test]
fn every_selector_of_every_alert_finds_what_a_running_operator_shows() {
    scenario(async |scene| {
        let pool = |node: &str, pool: &str| a100(node, "all-1g.10gb").label(POOL, pool);
        scene
            .nodes_are([
                pool("n1", "foreign"),
                pool("n2", "broken"),
                pool("n3", "wedged"),
                pool("n4", "draining"),
                pool("n5", "floors"),
            ])
            .await?;
        // A map of the administrators that nobody can read is tried again and again.
        let map = |text: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": text},
                "metadata": {"name": "layouts", "namespace": GPU_OPERATOR_NAMESPACE},
            })
        };
        scene.apply(map("version: v1\nmig-configs: seven of each\n")).await?;
        scene
            .operator_with(|settings| {
                settings.batch_delay = std::time::Duration::from_millis(500);
                settings.administrators_map = Some(controller::MapRef {
                    namespace: GPU_OPERATOR_NAMESPACE.to_owned(),
                    name: "layouts".to_owned(),
                });
            })
            .await?;
        // Somebody writes another layout on the first.
        let label = |value: &str| json!({"metadata": {"labels": {"nvidia.com/mig.config": value}}});
        scene.apply(policy("foreign", "foreign").always(&[("3g.40gb", 2)])).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        let node = scene.phase("n1", "Idle").await?;
        let ours = node.status.and_then(|s| s.rollout).and_then(|r| r.applied).unwrap_or_default();
        scene.patch_node("n1", label("all-2g.20gb")).await?;
        // The second cannot be cut, on the third MIG manager gets stuck.
        scene.simulator().turn("n2", "create-fails")?;
        scene.apply(policy("broken", "broken").always(&[("3g.40gb", 2)])).await?;
        scene.simulator().turn("n3", "does-not-stop dcgm-exporter")?;
        scene.apply(policy("wedged", "wedged").always(&[("3g.40gb", 2)])).await?;
        // On the fourth somebody is in the way and may not be evicted.
        let train = pod("train", &mig("1g.10gb"), 1).labelled("app", "train");
        scene.apply(train.with("/spec/nodeSelector", json!({POOL: "draining"}))).await?;
        scene.runs("train").await?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "train", "namespace": TEAM},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "train"}}},
        });
        scene.apply(budget.clone()).await?;
        scene.apply(policy("draining", "draining").always(&[("3g.40gb", 2)]).evicts()).await?;
        // The fifth cannot have what is promised, and somebody asks for more.
        scene.apply(policy("floors", "floors").bounds("3g.40gb", &json!({"minCount": 3}))).await?;
        let ask = pod("ask", &mig("7g.80gb"), 1);
        scene.apply(ask.clone()).await?;

        let mut unseen = selectors()?;
        unseen.retain(|(alert, _)| !SHOWN_ELSEWHERE.iter().any(|(known, _)| known == alert));
        assert!(unseen.len() > 8, "{unseen:?}");
        let operator = scene.operators().first().context("it was started")?;
        wait::asking("each selector has found a series", wait::PATIENCE * 2, async || {
            let shown = series(&operator.metrics().await?);
            unseen.retain(|(_, selector)| {
                let name = selector.name.as_deref().unwrap_or_default();
                !shown.iter().any(|(shown, labels)| shown == name && matches(&selector.matchers, labels))
            });
            let left: Vec<String> = unseen.iter().map(|(alert, s)| format!("{alert}: {s}")).collect();
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(format!("nothing was found for {}", left.join("; ")))
            })
        })
        .await?;

        // All is put right again, apart from the node that waits for a human.
        scene.simulator().clear("n3")?;
        scene.stays_cordoned("n2");
        scene.delete(ask).await?;
        scene.delete(budget).await?;
        scene.apply(map("version: v1\nmig-configs: {}\n")).await?;
        scene.patch_node("n1", label(&ours)).await?;
        for node in ["n1", "n3", "n4"] {
            scene.offers(node, &[("3g.40gb", 2)]).await?;
        }
        scene.phase("n2", "Failed").await?;
        Ok(())
    });
}
