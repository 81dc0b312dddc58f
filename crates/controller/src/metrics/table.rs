//! The table of metrics: each is named, described and given its labels where it is created, so that the
//! page about them always agrees with the code.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

/// A number that is no whole one, such as a moment in seconds since 1970.
pub(super) type Number = Gauge<f64, AtomicU64>;

type Labels<const N: usize> = [(&'static str, String); N];

/// A metric with labels: their names are said once, their values each time.
#[derive(Debug)]
pub(super) struct Series<const N: usize, M> {
    names: [&'static str; N],
    family: Family<Labels<N>, M>,
}

impl<const N: usize, M: Default + Clone> Series<N, M> {
    /// The one with these values, in the order of the names.
    pub(super) fn with_labels(&self, values: [String; N]) -> M {
        self.family.get_or_create_owned(&self.labels(values))
    }

    /// No longer shows the one with these values.
    pub(super) fn forget(&self, values: [String; N]) {
        self.family.remove(&self.labels(values));
    }

    /// No longer shows any.
    pub(super) fn clear(&self) {
        self.family.clear();
    }

    fn labels(&self, values: [String; N]) -> Labels<N> {
        let mut values = values.into_iter();
        self.names.map(|name| (name, values.next().unwrap_or_default()))
    }
}

/// One metric, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name, as queries say it.
    pub name: String,
    /// counter, gauge, histogram or info.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
    /// What it says.
    pub help: &'static str,
}

/// A registry that knows what it was told.
pub(super) struct Table {
    pub(super) registry: Registry,
    pub(super) all: Vec<Described>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { registry: Registry::with_prefix("slicewright"), all: Vec::new() }
    }

    fn add(
        &mut self,
        kind: &'static str,
        name: &'static str,
        labels: &[&'static str],
        help: &'static str,
        metric: impl Metric,
    ) {
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let (name_of, labels) = (format!("slicewright_{name}{suffix}"), labels.to_vec());
        self.all.push(Described { name: name_of, kind, labels, help });
        self.registry.register(name, help, metric);
    }

    fn series<const N: usize, M>(
        &mut self,
        kind: &'static str,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Series<N, M>
    where
        M: Default + Clone + EncodeMetric + prometheus_client::metrics::TypedMetric + Send + Sync + 'static,
        M: std::fmt::Debug,
        Family<Labels<N>, M>: Metric,
    {
        let family = Family::default();
        self.add(kind, name, &names, help, family.clone());
        Series { names, family }
    }

    /// A whole number without labels; it is 0 until it is set.
    pub(super) fn figure(&mut self, name: &'static str, help: &'static str) -> Gauge {
        let metric = Gauge::default();
        self.add("gauge", name, &[], help, metric.clone());
        metric
    }

    /// A whole number for each set of labels.
    pub(super) fn figures<const N: usize>(
        &mut self,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Series<N, Gauge> {
        self.series("gauge", name, names, help)
    }

    /// A number, or a moment, for each set of labels; nothing is shown of one
    /// that was not set.
    pub(super) fn numbers<const N: usize>(
        &mut self,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Series<N, Number> {
        self.series("gauge", name, names, help)
    }

    /// A count for each set of labels.
    pub(super) fn counts<const N: usize>(
        &mut self,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Series<N, Counter> {
        self.series("counter", name, names, help)
    }

    /// A histogram.
    pub(super) fn histogram(&mut self, name: &'static str, help: &'static str, of: Histogram) -> Histogram {
        self.add("histogram", name, &[], help, of.clone());
        of
    }

    /// What never changes while the process runs: labels with their values.
    pub(super) fn info<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [(&'static str, &'static str); N],
        help: &'static str,
    ) {
        self.add("info", name, &labels.map(|(name, _)| name), help, Info::new(labels));
    }
}

/// The page that explains each metric.
pub(super) fn page(all: &[Described]) -> String {
    let mut page = String::from(
        "# Metrics of the operator\n\n\
         The operator serves these metrics at `/metrics` in OpenMetrics text; this page is generated from the code.\n\
         Labels are closed sets, except nodes, policies, profiles and Kueue's cluster queues and flavors, of which a\n\
         cluster has a bounded number; pods, GPUs and namespaces are not labels. A profile that no GPU model has is `other`, and whole GPUs are `gpu`.\n\
         Gauges about nodes, policies and requests are exported only by the replica that has the lease\n\
         (`slicewright_leader` is 1 there). Times are seconds since 1970, so that queries do the arithmetic:\n\
         `time() - slicewright_node_phase_since_timestamp_seconds`. [The guide](../guides/monitoring.md) says how to\n\
         use the metrics.\n\n\
         | metric | kind | labels | meaning |\n|---|---|---|---|\n",
    );
    for Described { name, kind, labels, help } in all {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
    }
    page
}
