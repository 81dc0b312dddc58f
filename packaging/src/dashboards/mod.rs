//! The dashboards: one description of their content, and the two forms in which they are published. Grafana
//! needs its present schema; the console of OpenShift reads that of version 14, with rows, and fewer kinds
//! of panels.
//!
//! The chart has both as files; `cargo xtask codegen` writes them.

mod board;
mod dcgm;
mod grafana;
mod openshift;

use serde_json::Value;

/// A heading with what is under it.
struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

/// One picture.
struct Panel {
    title: &'static str,
    /// What it tells, and what to do about it: behind the (i) of Grafana.
    says: &'static str,
    shape: Shape,
    unit: Unit,
    /// Of twelve columns.
    width: u8,
    queries: &'static [Query],
}

enum Shape {
    /// One number: that of the only query.
    Figure {
        /// From which number on it wants to be looked at; none for what is neither good nor bad.
        alarming_from: Option<u8>,
    },
    /// Lines over time.
    Lines,
    /// The same, on top of each other.
    Stacked,
    /// What is now, a line for each of the same labels; a column for each of
    /// these labels, then one for each query.
    Table(&'static [&'static str]),
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Seconds,
    Share,
    Watts,
    Celsius,
}

impl Unit {
    /// As both of them call it.
    fn name(self) -> &'static str {
        match self {
            Self::Count => "short",
            Self::Seconds => "s",
            Self::Share => "percentunit",
            Self::Watts => "watt",
            Self::Celsius => "celsius",
        }
    }
}

struct Query {
    /// PromQL as it stands, but for `$policy`.
    expr: &'static str,
    /// What a line is called, with labels as `{{label}}`; of a table, the title of the column.
    legend: &'static str,
}

/// How both are found again, and what they are called.
const NAME: &str = "slicewright";
const TITLE: &str = "Slicewright / GPU slices";
const TAGS: [&str; 3] = ["slicewright", "gpu", "mig"];

/// What the policies are asked of.
const POLICIES: &str = "label_values(slicewright_policy_info, policy)";

/// A dashboard as a file of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Below the chart's folder.
    pub path: &'static str,
    /// JSON with a last line break.
    pub text: String,
}

/// Everything that is shown: what the operator says, and beside it what the hardware does.
fn rows() -> impl Iterator<Item = &'static Row> {
    let (ours, operator) = board::ROWS.split_at(board::ROWS.len() - 1);
    ours.iter().chain(std::iter::once(&dcgm::ROW)).chain(operator)
}

/// Both forms of the dashboard.
///
/// # Panics
/// Never: what is written is plain data.
#[must_use]
pub fn files() -> [File; 2] {
    let text = |value: Value| {
        let text = serde_json::to_string_pretty(&value).expect("plain data can be written as JSON");
        text + "\n"
    };
    [
        File { path: "files/dashboards/grafana.json", text: text(grafana::dashboard(rows())) },
        File { path: "files/dashboards/openshift.json", text: text(openshift::dashboard(rows())) },
    ]
}

/// The name by which a query of a panel is known: A, B, C.
fn letter(index: usize) -> String {
    char::from(b'A' + u8::try_from(index).expect("a panel has a few queries")).to_string()
}

/// A label as the title of a column.
fn heading(label: &str) -> String {
    let mut letters = label.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
