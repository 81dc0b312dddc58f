//! The dashboard for the console of OpenShift, which shows dashboards of Grafana's schema 14: rows of
//! panels of the types graph, singlestat and table. It queries its own Prometheus, so no data source is
//! named.

use serde_json::{Value, json};

use super::{POLICIES, Panel, Query, Row, Shape, TAGS, TITLE, heading, letter};

pub(super) fn dashboard(rows: impl Iterator<Item = &'static Row>) -> Value {
    let mut id = 0;
    let rows: Vec<_> = rows
        .map(|row| {
            let panels: Vec<_> = row
                .panels
                .iter()
                .map(|panel| {
                    id += 1;
                    draw(panel, id)
                })
                .collect();
            json!({"title": row.title, "showTitle": true, "collapse": false, "height": "250px", "panels": panels})
        })
        .collect();
    json!({
        "title": TITLE,
        "tags": TAGS,
        "schemaVersion": 14,
        "version": 1,
        "editable": false,
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": [{
            "name": "policy",
            "label": "Policy",
            "type": "query",
            "query": POLICIES,
            "includeAll": true,
            "multi": false,
            "refresh": 2,
            "sort": 1,
            "options": [],
            "hide": 0,
        }]},
        "rows": rows,
    })
}

fn draw(panel: &Panel, id: u32) -> Value {
    let Panel { title, says, shape, unit, width, queries } = panel;
    let mut value = json!({
        "id": id,
        "title": title,
        "description": says,
        "span": width,
        "targets": queries.iter().enumerate().map(|(at, query)| target(query, at, shape)).collect::<Vec<_>>(),
    });
    match shape {
        Shape::Figure { alarming_from: _ } => {
            value["type"] = json!("singlestat");
            value["format"] = json!(unit.name());
            value["decimals"] = json!(0);
            value["valueMaps"] = json!([{"op": "=", "value": "null", "text": "-"}]);
        }
        Shape::Lines | Shape::Stacked => {
            value["type"] = json!("graph");
            value["lines"] = json!(true);
            value["linewidth"] = json!(1);
            value["stack"] = json!(matches!(shape, Shape::Stacked));
            value["fill"] = json!(if matches!(shape, Shape::Stacked) { 6 } else { 0 });
            value["legend"] = json!({"show": true});
            let axis = |format: &str, show: bool| json!({"format": format, "min": 0, "show": show});
            value["yaxes"] = json!([axis(unit.name(), true), axis("short", false)]);
            value["xaxis"] = json!({"mode": "time", "show": true});
        }
        Shape::Table(labels) => {
            value["type"] = json!("table");
            value["transform"] = json!("table");
            let of_labels = labels
                .iter()
                .map(|label| json!({"alias": heading(label), "pattern": label, "type": "string"}));
            let of_values = queries.iter().enumerate().map(|(at, query)| {
                json!({
                    "alias": query.legend,
                    "pattern": format!("Value #{}", letter(at)),
                    "type": "number",
                    "unit": unit.name(),
                    "decimals": 0,
                })
            });
            let hidden = json!({"alias": "Time", "pattern": "Time", "type": "hidden"});
            value["styles"] = std::iter::once(hidden).chain(of_labels).chain(of_values).collect();
        }
    }
    value
}

fn target(query: &Query, at: usize, shape: &Shape) -> Value {
    let table = matches!(shape, Shape::Table(_));
    json!({
        "refId": letter(at),
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": if table { "table" } else { "time_series" },
        "instant": table,
        "intervalFactor": 1,
    })
}
