//! For Grafana, in the schema of its versions 10 and newer.

use serde_json::{Value, json};

use super::{NAME, POLICIES, Panel, Query, Row, Shape, TAGS, TITLE, Unit, heading, letter};

/// Grafana's grid has 24 columns.
const COLUMNS: u64 = 24;

/// Heights of a heading, of a number, and of a picture.
const HEADING: u64 = 1;
const FIGURE: u64 = 4;
const PICTURE: u64 = 8;

pub(super) fn dashboard(rows: impl Iterator<Item = &'static Row>) -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in rows {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": HEADING},
        }));
        y += HEADING;
        let (mut x, mut tallest) = (0, 0);
        for panel in row.panels {
            let (width, height) = (u64::from(panel.width) * COLUMNS / 12, height(&panel.shape));
            if x + width > COLUMNS {
                (x, y, tallest) = (0, y + tallest, 0);
            }
            let place = json!({"x": x, "y": y, "w": width, "h": height});
            panels.push(draw(panel, panels.len() + 1, place));
            (x, tallest) = (x + width, tallest.max(height));
        }
        y += tallest;
    }
    json!({
        "uid": NAME,
        "title": TITLE,
        "tags": TAGS,
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0},
            {
                "name": "policy",
                "label": "Policy",
                "type": "query",
                "datasource": datasource(),
                "definition": POLICIES,
                "query": {"query": POLICIES, "refId": "policies"},
                "refresh": 2,
                "sort": 1,
                "multi": true,
                "includeAll": true,
                "allValue": ".+",
                "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
                "hide": 0,
            },
        ]},
        "panels": panels,
    })
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn height(shape: &Shape) -> u64 {
    match shape {
        Shape::Figure { .. } => FIGURE,
        Shape::Lines | Shape::Stacked | Shape::Table(_) => PICTURE,
    }
}

fn draw(panel: &Panel, id: usize, place: Value) -> Value {
    let Panel { title, says, shape, unit, width: _, queries } = panel;
    let mut value = json!({
        "id": id,
        "title": title,
        "description": says,
        "datasource": datasource(),
        "gridPos": place,
        "targets": queries.iter().enumerate().map(|(at, query)| target(query, at, shape)).collect::<Vec<_>>(),
    });
    let (kind, fields, options) = match shape {
        Shape::Figure { alarming_from } => (
            "stat",
            figure(*alarming_from),
            json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "colorMode": if alarming_from.is_some() { "value" } else { "none" },
                "graphMode": "area",
            }),
        ),
        Shape::Lines => ("timeseries", lines("none", 10), graph()),
        Shape::Stacked => ("timeseries", lines("normal", 60), graph()),
        Shape::Table(labels) => {
            value["transformations"] = columns(labels, queries);
            ("table", json!({}), json!({"showHeader": true, "cellHeight": "sm"}))
        }
    };
    value["type"] = json!(kind);
    value["options"] = options;
    let mut defaults = fields;
    defaults["unit"] = json!(unit.name());
    if matches!((unit, shape), (Unit::Count, Shape::Figure { .. } | Shape::Table(_))) {
        defaults["decimals"] = json!(0);
    }
    value["fieldConfig"] = json!({"defaults": defaults, "overrides": []});
    value
}

fn target(query: &Query, at: usize, shape: &Shape) -> Value {
    let table = matches!(shape, Shape::Table(_));
    json!({
        "refId": letter(at),
        "datasource": datasource(),
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": if table { "table" } else { "time_series" },
        "instant": table,
        "range": !table,
    })
}

fn figure(alarming_from: Option<u8>) -> Value {
    let mut steps = vec![json!({"color": "green", "value": null})];
    steps.extend(alarming_from.map(|from| json!({"color": "orange", "value": from})));
    json!({"thresholds": {"mode": "absolute", "steps": steps}})
}

fn lines(stacking: &str, fill: u8) -> Value {
    json!({
        "min": 0,
        "custom": {
            "drawStyle": "line",
            "lineInterpolation": "stepAfter",
            "lineWidth": 1,
            "fillOpacity": fill,
            "showPoints": "never",
            "stacking": {"mode": stacking, "group": "A"},
        },
    })
}

fn graph() -> Value {
    json!({
        "legend": {"showLegend": true, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    })
}

/// One table of all queries: a column for each label, then their values.
fn columns(labels: &[&str], queries: &[Query]) -> Value {
    let mut names: serde_json::Map<String, Value> =
        labels.iter().map(|label| ((*label).to_owned(), json!(heading(label)))).collect();
    let mut order: serde_json::Map<String, Value> =
        labels.iter().enumerate().map(|(at, label)| ((*label).to_owned(), json!(at))).collect();
    for (at, query) in queries.iter().enumerate() {
        // Grafana numbers the columns of values only where there are several.
        let column = if queries.len() == 1 { "Value".to_owned() } else { format!("Value #{}", letter(at)) };
        names.insert(column.clone(), json!(query.legend));
        order.insert(column, json!(labels.len() + at));
    }
    json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {
            "excludeByName": {"Time": true}, "indexByName": order, "renameByName": names,
        }},
    ])
}
