//! What is counted, for Prometheus. Each operator has a registry of its own.
//! Labels are closed sets, apart from nodes, policies and profiles, of which a
//! cluster has a bounded number; no pod, no GPU, no namespace ever is one.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::class::Class;

type Labels<const N: usize> = [(&'static str, String); N];

/// What came of something that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not, for an error of this class.
    Failed(Class),
    /// It was not, since the lease is another replica's.
    LeaseLost,
    /// It was not, since the operator stops.
    Stopping,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(class) => class.name(),
            Self::LeaseLost => "lease_lost",
            Self::Stopping => "stopping",
        }
    }
}

/// All metrics of one operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    described: Vec<(String, &'static str, &'static str)>,
    /// Rounds, by result.
    reconciles: Family<Labels<1>, Counter>,
    /// How long a round thinks.
    reconcile_seconds: Histogram,
    /// Whether this replica writes.
    leader: Gauge,
    /// Actions, by name and result.
    actions: Family<Labels<2>, Counter>,
    /// Watches that broke, by kind.
    watch_failures: Family<Labels<1>, Counter>,
    /// Objects in the cache, by kind.
    objects: Family<Labels<1>, Gauge>,
    /// Slices of a node, by profile and state.
    slices: Family<Labels<3>, Gauge>,
    /// Slices that are asked for and not there.
    pending: Family<Labels<1>, Gauge>,
    /// Requests that the plan does not serve.
    unserved: Family<Labels<1>, Gauge>,
    /// Nodes, by policy and phase.
    nodes: Family<Labels<2>, Gauge>,
    /// Conditions of policies.
    conditions: Family<Labels<3>, Gauge>,
    /// Changes that the plan asks for.
    plan_changes: Family<Labels<1>, Gauge>,
    /// Node changes that ended, by result and reason.
    repartitions: Family<Labels<2>, Counter>,
    /// How long a node was away for a change.
    repartition_seconds: Histogram,
    /// Changes of objects that no round has looked at.
    backlog: Gauge,
    /// Policies as they are written.
    policy_info: Family<Labels<3>, Gauge>,
    /// How much of what nobody holds is in pieces.
    fragmentation: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    /// Events for people, by what came of them.
    events: Family<Labels<1>, Counter>,
    /// When the last round ended (seconds since 1970).
    last_round: Gauge<f64, AtomicU64>,
}

/// What of a policy is shown.
#[derive(Clone, Debug, Default)]
pub struct PolicyGauges {
    /// Type and status of its conditions.
    pub conditions: Vec<(String, String)>,
    /// Its nodes, by phase.
    pub nodes: std::collections::BTreeMap<String, i64>,
    /// Requests that are not served.
    pub unserved: i64,
    /// Its mode and its type of layout.
    pub info: Option<(String, String)>,
    /// Of the compute slices that nobody holds, the share on GPUs of which
    /// somebody holds another; none where nothing is left.
    pub fragmentation: Option<f64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// A registry that knows what it was told.
struct Described {
    registry: Registry,
    all: Vec<(String, &'static str, &'static str)>,
}

impl Described {
    fn add(&mut self, kind: &'static str, name: &'static str, help: &'static str, metric: impl Metric) {
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        self.all.push((format!("slicewright_{name}{suffix}"), kind, help));
        self.registry.register(name, help, metric);
    }
}

impl Metrics {
    /// A registry with everything at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Described { registry: Registry::with_prefix("slicewright"), all: Vec::new() };
        let seconds = || Histogram::new(exponential_buckets(0.001, 4.0, 9));
        let minutes = || Histogram::new([15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0]);
        let mut metrics = Self {
            reconciles: Family::default(),
            reconcile_seconds: seconds(),
            leader: Gauge::default(),
            actions: Family::default(),
            watch_failures: Family::default(),
            objects: Family::default(),
            slices: Family::default(),
            pending: Family::default(),
            unserved: Family::default(),
            nodes: Family::default(),
            conditions: Family::default(),
            plan_changes: Family::default(),
            repartitions: Family::default(),
            repartition_seconds: minutes(),
            backlog: Gauge::default(),
            policy_info: Family::default(),
            fragmentation: Family::default(),
            events: Family::default(),
            last_round: Gauge::default(),
            registry: Mutex::new(Registry::default()),
            described: Vec::new(),
        };
        let version = Build { version: env!("CARGO_PKG_VERSION") };
        registry.add("info", "build", "The running release", Info::new(version));
        registry.add(
            "counter",
            "reconcile",
            "Rounds, by result (ok, plan_unsound, write_failed)",
            metrics.reconciles.clone(),
        );
        registry.add(
            "histogram",
            "reconcile_duration_seconds",
            "How long a round thinks, from the objects to what is due, without the writes",
            metrics.reconcile_seconds.clone(),
        );
        registry.add(
            "gauge",
            "leader",
            "1 where this replica has the lease and writes, else 0",
            metrics.leader.clone(),
        );
        registry.add(
            "counter",
            "actions",
            "Actions on nodes, by name and result (done, lease_lost, or the class of the error)",
            metrics.actions.clone(),
        );
        registry.add(
            "counter",
            "watch_failures",
            "Watches that broke and are tried again, by kind",
            metrics.watch_failures.clone(),
        );
        registry.add("gauge", "objects", "Objects in the cache, by kind", metrics.objects.clone());
        registry.add(
            "gauge",
            "slices",
            "Slices of a node, by profile and state (free, in_use, maybe_in_use)",
            metrics.slices.clone(),
        );
        registry.add(
            "gauge",
            "pending_slice_requests",
            "Slices that are asked for and not bound yet, by profile",
            metrics.pending.clone(),
        );
        registry.add(
            "gauge",
            "unserved_requests",
            "Requests that the plan in force does not serve, by policy",
            metrics.unserved.clone(),
        );
        registry.add("gauge", "nodes", "Nodes of a policy, by phase of their rollout", metrics.nodes.clone());
        registry.add(
            "gauge",
            "policy_condition",
            "1 for the status that a condition of a policy has",
            metrics.conditions.clone(),
        );
        registry.add(
            "gauge",
            "plan_changes",
            "What the plan in force asks for, by kind (nodes, gpus)",
            metrics.plan_changes.clone(),
        );
        registry.add(
            "counter",
            "gpu_repartition",
            "Node changes that ended, by result (verified, rolled_back, taken_back, failed) and reason (what went wrong; none)",
            metrics.repartitions.clone(),
        );
        registry.add(
            "histogram",
            "gpu_repartition_duration_seconds",
            "How long a node was cordoned for a change that was verified",
            metrics.repartition_seconds.clone(),
        );
        registry.add(
            "gauge",
            "workqueue_depth",
            "Changes of objects that were seen and that no round has looked at yet",
            metrics.backlog.clone(),
        );
        registry.add(
            "gauge",
            "policy_info",
            "1 for each policy, with its mode and its type of layout",
            metrics.policy_info.clone(),
        );
        registry.add(
            "gauge",
            "fragmentation_ratio",
            "Of the compute slices of a policy that nobody holds, the share on GPUs of which somebody holds (or may hold) another: they cannot become one full-size slice",
            metrics.fragmentation.clone(),
        );
        registry.add(
            "counter",
            "events",
            "Events for people, by result (sent, retried, refused, dropped)",
            metrics.events.clone(),
        );
        registry.add(
            "gauge",
            "last_round_timestamp_seconds",
            "When the last round ended, in seconds since 1970",
            metrics.last_round.clone(),
        );
        let Described { registry, all } = registry;
        metrics.described = all;
        *metrics.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = registry;
        metrics
    }

    /// Everything as OpenMetrics text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Every metric: name, kind and what it says.
    #[must_use]
    pub fn described(&self) -> &[(String, &'static str, &'static str)] {
        &self.described
    }

    /// A round ended.
    pub fn round(&self, result: &'static str, thinking: std::time::Duration, now: jiff::Timestamp) {
        self.reconciles.get_or_create(&[("result", result.to_owned())]).inc();
        self.reconcile_seconds.observe(thinking.as_secs_f64());
        self.last_round.set(now.as_duration().as_secs_f64());
    }

    /// Whether this replica writes.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// An action was tried.
    pub fn action(&self, action: &'static str, outcome: Outcome) {
        let labels = [("action", action.to_owned()), ("result", outcome.name().to_owned())];
        self.actions.get_or_create(&labels).inc();
    }

    /// A watch broke.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_failures.get_or_create(&[("kind", kind.to_owned())]).inc();
    }

    /// How many objects are in the cache.
    pub fn cached(&self, kind: &'static str, n: usize) {
        self.objects.get_or_create(&[("kind", kind.to_owned())]).set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// The slices of all nodes: node, profile, state and number.
    pub fn slices(&self, all: impl IntoIterator<Item = (String, String, &'static str, i64)>) {
        self.slices.clear();
        for (node, profile, state, n) in all {
            let labels = [("node", node), ("profile", profile), ("state", state.to_owned())];
            self.slices.get_or_create(&labels).set(n);
        }
    }

    /// Slices that are asked for: profile and number.
    pub fn pending(&self, all: impl IntoIterator<Item = (String, i64)>) {
        self.pending.clear();
        for (profile, n) in all {
            self.pending.get_or_create(&[("profile", profile)]).set(n);
        }
    }

    /// What of each policy is shown.
    pub fn policies(&self, all: impl IntoIterator<Item = (String, PolicyGauges)>) {
        self.conditions.clear();
        self.nodes.clear();
        self.unserved.clear();
        self.policy_info.clear();
        self.fragmentation.clear();
        for (policy, PolicyGauges { conditions, nodes, unserved, info, fragmentation }) in all {
            if let Some((mode, layout)) = info {
                let labels = [("policy", policy.clone()), ("mode", mode), ("layout", layout)];
                self.policy_info.get_or_create(&labels).set(1);
            }
            if let Some(ratio) = fragmentation {
                self.fragmentation.get_or_create(&[("policy", policy.clone())]).set(ratio);
            }
            for (kind, status) in conditions {
                let labels = [("policy", policy.clone()), ("type", kind), ("status", status)];
                self.conditions.get_or_create(&labels).set(1);
            }
            for (phase, n) in nodes {
                self.nodes.get_or_create(&[("policy", policy.clone()), ("phase", phase)]).set(n);
            }
            self.unserved.get_or_create(&[("policy", policy)]).set(unserved);
        }
    }

    /// How many changes wait for a round.
    pub fn backlog(&self, n: usize) {
        self.backlog.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// What came of events.
    pub fn events(&self, result: &'static str, n: usize) {
        if n > 0 {
            self.events.get_or_create(&[("result", result.to_owned())]).inc_by(n as u64);
        }
    }

    /// What the plan asks for.
    pub fn plan(&self, nodes: usize, gpus: usize) {
        for (kind, n) in [("nodes", nodes), ("gpus", gpus)] {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            self.plan_changes.get_or_create(&[("kind", kind.to_owned())]).set(n);
        }
    }

    /// A node's change ended.
    pub fn repartitioned(
        &self,
        result: &'static str,
        reason: &'static str,
        away: Option<std::time::Duration>,
    ) {
        let labels = [("result", result.to_owned()), ("reason", reason.to_owned())];
        self.repartitions.get_or_create(&labels).inc();
        if let Some(away) = away {
            self.repartition_seconds.observe(away.as_secs_f64());
        }
    }
}

/// The page that explains each metric.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics of the operator\n\n\
         Served at `/metrics` in OpenMetrics text; made from the code. Labels are closed sets, apart from nodes,\n\
         policies and profiles, of which a cluster has a bounded number; no pod, no GPU and no namespace is one.\n\
         Gauges are those of the replica that has the lease (`slicewright_leader` is 1 there).\n\n\
         | metric | kind | what it says |\n|---|---|---|\n",
    );
    for (name, kind, help) in Metrics::new().described() {
        page.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_the_prefix_a_unit_where_it_has_one_and_a_description() {
        let metrics = Metrics::new();
        let described = metrics.described();
        assert!(described.len() > 12, "{described:?}");
        for (name, kind, help) in described {
            assert!(name.starts_with("slicewright_"), "{name}");
            assert!(!help.is_empty(), "{name} says nothing of itself");
            assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
            assert_eq!(*kind == "histogram", name.ends_with("_duration_seconds"), "{name}");
        }
    }

    #[test]
    fn what_is_gone_is_no_longer_shown() {
        let metrics = Metrics::new();
        let slice = |node: &str| [(node.to_owned(), "1g.10gb".to_owned(), "free", 7)];
        metrics.slices(slice("a1"));
        assert!(metrics.render().contains("node=\"a1\""));
        metrics.slices(slice("b2"));
        let text = metrics.render();
        assert!(text.contains("node=\"b2\"") && !text.contains("node=\"a1\""), "{text}");
    }

    #[test]
    fn each_operator_counts_for_itself() {
        let (one, other) = (Metrics::new(), Metrics::new());
        one.leads(true);
        assert!(one.render().contains("slicewright_leader 1"));
        assert!(other.render().contains("slicewright_leader 0"));
    }
}
