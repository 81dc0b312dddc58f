//! The metrics for Prometheus. Each operator has a registry of its own. Labels are closed sets, except
//! nodes, policies, profiles, and Kueue's cluster queues and flavors, of which a cluster has a bounded
//! number; pods, GPUs and namespaces are never labels.

mod outcome;
mod table;

use std::collections::BTreeSet;
use std::sync::Mutex;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use outcome::Outcome;
pub use table::Described;
use table::{Number, Series, Table};

/// All metrics of one operator. What each says is said in [`Metrics::new`].
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    described: Vec<Described>,
    reconciles: Series<1, Counter>,
    reconcile_seconds: Histogram,
    last_round: Series<0, Number>,
    last_good_round: Series<0, Number>,
    leader: Gauge,
    actions: Series<2, Counter>,
    watch_failures: Series<1, Counter>,
    went_back: Series<0, Counter>,
    ready: Series<0, Gauge>,
    refused: Series<1, Gauge>,
    hardware_profiles: Series<1, Gauge>,
    quota_drift: Series<4, Gauge>,
    objects: Series<1, Gauge>,
    slices: Series<3, Gauge>,
    seats: Series<3, Gauge>,
    pending: Series<1, Gauge>,
    unserved: Series<3, Gauge>,
    oldest_unserved: Series<3, Number>,
    floors: Series<2, Gauge>,
    missing: Series<2, Gauge>,
    nodes: Series<2, Gauge>,
    phases: Series<3, Number>,
    holds: Series<3, Gauge>,
    conditions: Series<4, Gauge>,
    policy_info: Series<3, Gauge>,
    fragmentation: Series<1, Number>,
    plan_changes: Series<1, Gauge>,
    repartitions: Series<2, Counter>,
    repartition_seconds: Histogram,
    healed: Series<1, Counter>,
    healed_of: Mutex<BTreeSet<String>>,
    backlog: Gauge,
    oldest_change: Series<0, Number>,
    retrying: Series<0, Gauge>,
    oldest_retry: Series<0, Number>,
    events: Series<1, Counter>,
}

/// What of a policy is shown.
#[derive(Clone, Debug, Default)]
pub struct PolicyGauges {
    /// Type, status and reason of its conditions.
    pub conditions: Vec<[String; 3]>,
    /// Its nodes, by phase.
    pub nodes: std::collections::BTreeMap<String, i64>,
    /// Floors: the profile, how many slices are promised, how many of them are
    /// not there.
    pub floors: Vec<(String, i64, i64)>,
    /// Its mode and its type of layout.
    pub info: Option<(String, String)>,
    /// Of the compute slices that nobody holds, the share on GPUs of which
    /// somebody holds another; none where nothing is left.
    pub fragmentation: Option<f64>,
}

/// What of a node is shown.
#[derive(Clone, Debug, Default)]
pub struct NodeGauges {
    /// Its policy; empty without one.
    pub policy: String,
    /// Where it is on its way, and since when.
    pub phase: Option<(String, Timestamp)>,
    /// Why it does not start, or failed.
    pub hold: Option<&'static str>,
}

/// Requests of one kind that the plan does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub requests: i64,
    /// Since when the oldest waits.
    pub since: Timestamp,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Seconds since 1970.
fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

impl Metrics {
    /// A registry with everything at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut t = Table::new();
        t.info("build", [("version", env!("CARGO_PKG_VERSION"))], "The running release");
        let short = Histogram::new(exponential_buckets(0.001, 4.0, 9));
        let long = Histogram::new([15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0]);
        Self {
            reconciles: t.counts("reconcile", ["result"], "Rounds, by result (ok, plan_unsound, write_failed)"),
            reconcile_seconds: t.histogram(
                "reconcile_duration_seconds",
                "Duration of a round, from the objects to the necessary actions, without the writes",
                short,
            ),
            last_round: t.numbers(
                "last_round_timestamp_seconds",
                [],
                "When the last round ended; without changes there is none for a long time",
            ),
            last_good_round: t.numbers(
                "last_successful_round_timestamp_seconds",
                [],
                "When the last round ended in which all writes succeeded",
            ),
            leader: t.figure("leader", "1 if this replica has the lease and writes, else 0"),
            actions: t.counts(
                "actions",
                ["action", "result"],
                "Actions on nodes, by name and result (done, lease_lost, stopping, went_back, or the class of the error)",
            ),
            watch_failures: t.counts("watch_failures", ["kind"], "Watches that broke and are retried, by kind"),
            went_back: t.counts(
                "data_went_back",
                [],
                "How often the data of the API went back in time, as after the restore of an older etcd backup",
            ),
            ready: t.figures("ready", [], "1 if everything is listed and the lease can be read and written, like /readyz; otherwise the operator cannot act"),
            refused: t.figures(
                "refused_writes",
                ["kind"],
                "Writes that the API server refuses until an administrator allows them (permissions, an admission policy or webhook), by kind of object",
            ),
            hardware_profiles: t.figures(
                "hardware_profiles",
                ["state"],
                "Hardware profiles that the operator publishes for OpenShift AI, or would publish, by state (offered, missing, outdated, withdrawn, in-use, set-by-hand, edited, name-taken)",
            ),
            quota_drift: t.figures(
                "queue_quota_drift",
                ["queue", "flavor", "profile", "kind"],
                "By how much the quota of a ClusterQueue of Kueue does not fit the fleet or the requests, by kind: not_covered (number of workloads and hardware profiles that ask for what the queue does not cover; no flavor), more_than_any_layout, more_together (with other queues for the same flavor) and less_than_held (in slices). Only with --kueue=report or admission-check",
            ),
            objects: t.figures("objects", ["kind"], "Objects in the cache, by kind"),
            slices: t.figures(
                "slices",
                ["node", "profile", "state"],
                "Slices of a node, by profile and state (free, in_use, maybe_in_use)",
            ),
            seats: t.figures(
                "seats",
                ["node", "profile", "state"],
                "Seats of a node, by what pods ask for and state (held, free): of GPUs that are not cut (gpu, gpu.shared; a GPU that is not shared is one seat), and of slices that several pods share (such as 1g.10gb.shared)",
            ),
            pending: t.figures(
                "pending_slice_requests",
                ["profile"],
                "Slices that are requested and not bound yet, by profile",
            ),
            unserved: t.figures(
                "unserved_requests",
                ["policy", "profile", "reason"],
                "Requests that the plan in force does not serve, by reason; a request for two profiles counts for both",
            ),
            oldest_unserved: t.numbers(
                "unserved_requests_oldest_timestamp_seconds",
                ["policy", "profile", "reason"],
                "Since when the oldest of those requests has been waiting",
            ),
            floors: t.figures(
                "floor_slices",
                ["policy", "profile"],
                "Slices that a policy guarantees (minCount), by profile",
            ),
            missing: t.figures(
                "floor_missing_slices",
                ["policy", "profile"],
                "Number of slices that a policy guarantees (minCount) and that do not exist",
            ),
            nodes: t.figures("nodes", ["policy", "phase"], "Nodes of a policy, by phase of their rollout"),
            phases: t.numbers(
                "node_phase_since_timestamp_seconds",
                ["node", "policy", "phase"],
                "Since when a node has been in its phase; idle nodes are omitted",
            ),
            holds: t.figures(
                "node_held",
                ["node", "policy", "reason"],
                "1 for each node that should change but cannot start, or that failed, with the reason (docs/reference/rollout.md)",
            ),
            conditions: t.figures(
                "policy_condition",
                ["policy", "type", "status", "reason"],
                "1 for the status and the reason of each condition of a policy",
            ),
            policy_info: t.figures(
                "policy_info",
                ["policy", "mode", "layout"],
                "1 for each policy, with its mode and its type of layout",
            ),
            fragmentation: t.numbers(
                "fragmentation_ratio",
                ["policy"],
                "Share of a policy's free compute slices that are on GPUs with another slice that is (or may be) in use: they cannot become one full-size slice",
            ),
            plan_changes: t.figures(
                "plan_changes",
                ["kind"],
                "Number of changes in the plan in force, by kind (nodes, gpus)",
            ),
            repartitions: t.counts(
                "gpu_repartition",
                ["result", "reason"],
                "Node changes that ended, by result (verified, rolled_back, taken_back, failed) and reason (what went wrong; none)",
            ),
            repartition_seconds: t.histogram(
                "gpu_repartition_duration_seconds",
                "How long a node was cordoned for a change that was verified",
                long,
            ),
            healed: t.counts(
                "mig_manager_healed",
                ["node"],
                "How often MIG manager was stuck or had failed on a node and its pod was replaced",
            ),
            healed_of: Mutex::default(),
            backlog: t.figure(
                "workqueue_depth",
                "Observed changes of objects that no round has handled yet",
            ),
            oldest_change: t.numbers(
                "workqueue_oldest_timestamp_seconds",
                [],
                "Since when the oldest change has been waiting for a round; absent if there is none",
            ),
            retrying: t.figures("retrying", [], "Number of failed operations that are retried: writes of objects, lists, the map"),
            oldest_retry: t.numbers(
                "retrying_oldest_timestamp_seconds",
                [],
                "Since when the longest of these failures has lasted; absent if there is none",
            ),
            events: t.counts("events", ["result"], "Events for users, by result (sent, retried, refused, dropped)"),
            described: t.all,
            registry: Mutex::new(t.registry),
        }
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

    /// Every metric: name, kind, labels and what it says.
    #[must_use]
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// A round ended.
    pub fn round(&self, result: &'static str, planning: std::time::Duration, now: Timestamp) {
        self.reconciles.with_labels([result.to_owned()]).inc();
        self.reconcile_seconds.observe(planning.as_secs_f64());
        self.last_round.with_labels([]).set(seconds(now));
        if result == "ok" {
            self.last_good_round.with_labels([]).set(seconds(now));
        }
    }

    /// Whether this replica writes. One that does not shows nothing of nodes,
    /// policies and requests: what it saw last is not what is so.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
        if !leads {
            self.slices([]);
            self.seats([]);
            self.pending([]);
            self.unserved([]);
            self.policies([]);
            self.nodes([]);
            self.quota_drift([]);
            self.plan_changes.clear();
            self.waiting(None, 0, None);
        }
    }

    /// An action was tried.
    pub fn action(&self, action: &'static str, outcome: Outcome) {
        self.actions.with_labels([action.to_owned(), outcome.name().to_owned()]).inc();
    }

    /// A watch broke.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_failures.with_labels([kind.to_owned()]).inc();
    }

    /// The API's data went back in time.
    pub fn went_back(&self) {
        self.went_back.with_labels([]).inc();
    }

    /// Whether anything can be done.
    pub fn ready(&self, ready: bool) {
        self.ready.with_labels([]).set(i64::from(ready));
    }

    /// How many writes are refused, by kind of object.
    pub fn refused(&self, all: impl Iterator<Item = (&'static str, usize)>) {
        for (kind, n) in all {
            self.refused.with_labels([kind.to_owned()]).set(i64::try_from(n).unwrap_or(i64::MAX));
        }
    }

    /// How many hardware profiles stand where.
    pub fn hardware_profiles(&self, all: impl Iterator<Item = (&'static str, usize)>) {
        for (state, n) in all {
            self.hardware_profiles.with_labels([state.to_owned()]).set(i64::try_from(n).unwrap_or(i64::MAX));
        }
    }

    /// By how much the quota of queues is wrong: queue, flavor, profile and kind.
    pub fn quota_drift(&self, all: impl IntoIterator<Item = ([String; 4], i64)>) {
        self.quota_drift.clear();
        for (labels, by) in all {
            self.quota_drift.with_labels(labels).set(by);
        }
    }

    /// How many objects are in the cache.
    pub fn cached(&self, kind: &'static str, n: usize) {
        self.objects.with_labels([kind.to_owned()]).set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// The slices of all nodes: node, profile, state and number.
    pub fn slices(&self, all: impl IntoIterator<Item = (String, String, &'static str, i64)>) {
        self.slices.clear();
        for (node, profile, state, n) in all {
            self.slices.with_labels([node, profile, state.to_owned()]).set(n);
        }
    }

    /// The seats of all nodes: node, what pods ask for, state and number.
    pub fn seats(&self, all: impl IntoIterator<Item = (String, String, &'static str, i64)>) {
        self.seats.clear();
        for (node, profile, state, n) in all {
            self.seats.with_labels([node, profile, state.to_owned()]).set(n);
        }
    }

    /// Slices that are asked for: profile and number.
    pub fn pending(&self, all: impl IntoIterator<Item = (String, i64)>) {
        self.pending.clear();
        for (profile, n) in all {
            self.pending.with_labels([profile]).set(n);
        }
    }

    /// Requests that are not served: policy (empty where none counts them),
    /// profile and reason.
    pub fn unserved(&self, all: impl IntoIterator<Item = ([String; 3], Waiting)>) {
        self.unserved.clear();
        self.oldest_unserved.clear();
        for (labels, Waiting { requests, since }) in all {
            self.unserved.with_labels(labels.clone()).set(requests);
            self.oldest_unserved.with_labels(labels).set(seconds(since));
        }
    }

    /// What of each policy is shown.
    pub fn policies(&self, all: impl IntoIterator<Item = (String, PolicyGauges)>) {
        self.conditions.clear();
        self.nodes.clear();
        self.floors.clear();
        self.missing.clear();
        self.policy_info.clear();
        self.fragmentation.clear();
        for (policy, PolicyGauges { conditions, nodes, floors, info, fragmentation }) in all {
            if let Some((mode, layout)) = info {
                self.policy_info.with_labels([policy.clone(), mode, layout]).set(1);
            }
            if let Some(ratio) = fragmentation {
                self.fragmentation.with_labels([policy.clone()]).set(ratio);
            }
            for [kind, status, reason] in conditions {
                self.conditions.with_labels([policy.clone(), kind, status, reason]).set(1);
            }
            for (phase, n) in nodes {
                self.nodes.with_labels([policy.clone(), phase]).set(n);
            }
            for (profile, promised, missing) in floors {
                self.floors.with_labels([policy.clone(), profile.clone()]).set(promised);
                self.missing.with_labels([policy.clone(), profile]).set(missing);
            }
        }
    }

    /// What of each node is shown. Healings are counted from zero, so that the
    /// first is seen as an increase; those of nodes that are gone are no
    /// longer shown.
    pub fn nodes(&self, all: impl IntoIterator<Item = (String, NodeGauges)>) {
        self.phases.clear();
        self.holds.clear();
        let mut known = BTreeSet::new();
        for (node, NodeGauges { policy, phase, hold }) in all {
            if let Some((phase, since)) = phase {
                self.phases.with_labels([node.clone(), policy.clone(), phase]).set(seconds(since));
            }
            if let Some(reason) = hold {
                self.holds.with_labels([node.clone(), policy, reason.to_owned()]).set(1);
            }
            drop(self.healed.with_labels([node.clone()]));
            known.insert(node);
        }
        let mut counted = self.healed_of.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for gone in counted.difference(&known) {
            self.healed.forget([gone.clone()]);
        }
        *counted = known;
    }

    /// MIG manager's pod was replaced on a node, and is back.
    pub fn healed(&self, node: String) {
        self.healed.with_labels([node]).inc();
    }

    /// How many changes wait for a round.
    pub fn backlog(&self, n: usize) {
        self.backlog.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Since when something waits for a round; how many things fail and are
    /// tried again, and since when the first of them.
    pub fn waiting(&self, change: Option<Timestamp>, retrying: usize, failing: Option<Timestamp>) {
        self.retrying.with_labels([]).set(i64::try_from(retrying).unwrap_or(i64::MAX));
        for (series, since) in [(&self.oldest_change, change), (&self.oldest_retry, failing)] {
            match since {
                Some(since) => drop(series.with_labels([]).set(seconds(since))),
                None => series.clear(),
            }
        }
    }

    /// What came of events.
    pub fn events(&self, result: &'static str, n: usize) {
        if n > 0 {
            self.events.with_labels([result.to_owned()]).inc_by(n as u64);
        }
    }

    /// What the plan asks for.
    pub fn plan(&self, nodes: usize, gpus: usize) {
        for (kind, n) in [("nodes", nodes), ("gpus", gpus)] {
            self.plan_changes.with_labels([kind.to_owned()]).set(i64::try_from(n).unwrap_or(i64::MAX));
        }
    }

    /// A node's change ended.
    pub fn repartitioned(
        &self,
        result: &'static str,
        reason: &'static str,
        away: Option<std::time::Duration>,
    ) {
        self.repartitions.with_labels([result.to_owned(), reason.to_owned()]).inc();
        if let Some(away) = away {
            self.repartition_seconds.observe(away.as_secs_f64());
        }
    }
}

/// The page that explains each metric.
#[must_use]
pub fn page() -> String {
    table::page(Metrics::new().described())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Prometheus and the Operator SDK's best practices want names:
    /// `promtool check metrics` in the form of a test.
    #[test]
    fn every_metric_has_the_prefix_a_unit_where_it_has_one_and_a_description() {
        let metrics = Metrics::new();
        let described = metrics.described();
        assert!(described.len() > 20, "{described:?}");
        for Described { name, kind, labels, help } in described {
            assert!(name.starts_with("slicewright_"), "{name}");
            assert!(help.len() > 10 && !help.ends_with('.'), "{name}: {help:?}");
            assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
            assert_eq!(*kind == "histogram", name.ends_with("_duration_seconds"), "{name}");
            assert_eq!(
                help.contains("ince when") || help.contains("When "),
                name.ends_with("_timestamp_seconds"),
                "{name}: {help}"
            );
            for text in [name.as_str()].iter().chain(labels) {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(text.chars().all(plain) && !text.contains("__"), "{name}: {text}");
            }
            for unit in
                ["minutes", "milliseconds", "percent", "bytes_count", "_count", "_sum", "_bucket", "_gauge"]
            {
                assert!(!name.ends_with(unit), "{name} ends in {unit}");
            }
            for label in labels {
                let closed = [
                    "action", "kind", "layout", "mode", "phase", "reason", "result", "state", "status",
                    "type", "version",
                ];
                // Queues and flavors of the whole cluster are made by administrators.
                let bounded = ["node", "policy", "profile", "queue", "flavor"];
                assert!(
                    closed.contains(label) || bounded.contains(label),
                    "{name}: may {label} grow without bound?"
                );
            }
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
    fn a_replica_that_no_longer_leads_shows_nothing_of_the_fleet() {
        let metrics = Metrics::new();
        metrics.leads(true);
        let at = Timestamp::from_second(1_800_000_000).expect("a moment");
        let phase = Some(("Changing".to_owned(), at));
        metrics
            .nodes([("n1".to_owned(), NodeGauges { policy: "p".to_owned(), phase, hold: Some("Budget") })]);
        metrics.waiting(Some(at), 2, Some(at));
        let text = metrics.render();
        for line in [
            r#"slicewright_node_phase_since_timestamp_seconds{node="n1",policy="p",phase="Changing"} 1800000000.0"#,
            r#"slicewright_node_held{node="n1",policy="p",reason="Budget"} 1"#,
            r#"slicewright_mig_manager_healed_total{node="n1"} 0"#,
            "slicewright_workqueue_oldest_timestamp_seconds{} 1800000000.0",
            "slicewright_retrying{} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
        }
        metrics.leads(false);
        let text = metrics.render();
        assert!(!text.contains("node=") && !text.contains("oldest_timestamp_seconds{}"), "{text}");
    }

    #[test]
    fn each_operator_counts_for_itself() {
        let (one, other) = (Metrics::new(), Metrics::new());
        one.leads(true);
        assert!(one.render().contains("slicewright_leader 1"));
        assert!(other.render().contains("slicewright_leader 0"));
    }
}
