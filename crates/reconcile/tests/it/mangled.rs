//! Objects of a fleet with a defect that no user would write: a field is missing, has another type, is far
//! too large, or is in the wrong place. A round over them terminates, and its plan breaks no rule.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use observe::Objects;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rollout::Phase;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;

/// A fleet in several moments of a change: machines with eight GPUs and one
/// with one, with network cards, people who hold slices and people who wait.
fn moments() -> &'static [(Objects, Timestamp)] {
    static MOMENTS: OnceLock<Vec<(Objects, Timestamp)>> = OnceLock::new();
    MOMENTS.get_or_init(|| {
        [None, Some(Phase::Mapping), Some(Phase::Quiescing), Some(Phase::Changing), Some(Phase::Verifying)]
            .map(|phase| {
                let mut cluster = Cluster::new();
                cluster.hgx("n1");
                cluster.hgx("n2");
                cluster.node("n3");
                cluster.pod("holds", "7g.80gb", Some("n2"));
                cluster.pod("asks", "1g.10gb", None);
                cluster.pod("asks-more", "3g.40gb", None);
                cluster.workbench("lab", "large");
                if let Some(phase) = phase {
                    cluster.until("n1", phase, |_, _, _| {});
                }
                (cluster.objects, cluster.now)
            })
            .into()
    })
}

/// Values that nobody expects.
fn odd() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!(""),
        json!("x"),
        json!("-1"),
        json!("0"),
        json!("4000000000"),
        json!("18446744073709551615"),
        json!("9e99"),
        json!("1Ei"),
        json!("0.0000001"),
        json!("true"),
        json!("2026-11-21T09:00:00Z"),
        json!("9999-12-31T23:59:59Z"),
        json!("nvidia.com/mig-1g.10gb"),
        json!("all-1g.10gb"),
        json!(
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 70}}]}"
        ),
        json!(-1),
        json!(0),
        json!(255),
        json!(70_000),
        json!(i32::MAX),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
    ])
}

/// What is done to one value.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Is(Value),
    /// Another value of the same object stands here.
    Like(Index),
    /// A list has its entries twice; a map has each under a longer name, too.
    Twice,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::Remove),
        6 => odd().prop_map(Change::Is),
        2 => any::<Index>().prop_map(Change::Like),
        1 => Just(Change::Twice),
    ]
}

/// Every place of an object but what it is called by.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    if ["/metadata/name", "/metadata/namespace", "/apiVersion", "/kind"].contains(&at) {
        return;
    }
    if !at.is_empty() && at != "/metadata" {
        found.push(at.to_owned());
    }
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| places(value, &format!("{at}/{}", escaped(key)), found));
        }
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(i, value)| places(value, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

/// The object after a change, if it can still be read: what cannot never comes
/// so far.
fn changed<T: Serialize + DeserializeOwned>(object: &T, place: Index, change: &Change) -> Option<T> {
    let mut value = serde_json::to_value(object).unwrap();
    let mut all = Vec::new();
    places(&value, "", &mut all);
    if all.is_empty() {
        return None;
    }
    let place = place.get(&all);
    match change {
        Change::Remove => {
            let (parent, key) = place.rsplit_once('/').unwrap();
            match value.pointer_mut(parent).unwrap() {
                Value::Object(fields) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Value::Array(entries) => drop(entries.remove(key.parse().unwrap())),
                _ => unreachable!("only these have places in them"),
            }
        }
        Change::Is(odd) => *value.pointer_mut(place).unwrap() = odd.clone(),
        Change::Like(other) => {
            let other: &String = other.get(&all);
            let other = value.pointer(other).unwrap().clone();
            *value.pointer_mut(place).unwrap() = other;
        }
        Change::Twice => match value.pointer_mut(place).unwrap() {
            Value::Array(entries) => entries.extend(entries.clone()),
            Value::Object(fields) => {
                let more: Map<_, _> =
                    fields.iter().map(|(key, value)| (format!("{key}x"), value.clone())).collect();
                fields.extend(more);
            }
            _ => {}
        },
    }
    serde_json::from_value(value).ok()
}

fn change_one<K: Ord + Clone, T: Serialize + DeserializeOwned>(
    objects: &mut BTreeMap<K, T>,
    (which, place, change): &(Index, Index, Change),
) {
    if objects.is_empty() {
        return;
    }
    let at = which.index(objects.len());
    let object = objects.values_mut().nth(at).unwrap();
    if let Some(other) = changed(object, *place, change) {
        *object = other;
    }
}

/// The same for objects that are shared with whoever holds them.
fn change_shared<K: Ord + Clone, T: Serialize + DeserializeOwned + Clone>(
    objects: &mut BTreeMap<K, Arc<T>>,
    (which, place, change): &(Index, Index, Change),
) {
    if objects.is_empty() {
        return;
    }
    let at = which.index(objects.len());
    let object = objects.values_mut().nth(at).unwrap();
    if let Some(other) = changed(object.as_ref(), *place, change) {
        *object = Arc::new(other);
    }
}

/// Which kind of objects, and what is changed of which of them.
type Changes = Vec<(u8, (Index, Index, Change))>;

fn changes() -> impl Strategy<Value = Changes> {
    vec((0_u8..8, (any::<Index>(), any::<Index>(), change())), 1..6)
}

fn mangled(moment: Index, changes: &Changes) -> Cluster {
    let (objects, now) = moment.get(moments());
    let mut cluster = Cluster::new();
    cluster.objects = objects.clone();
    cluster.now = *now;
    let all = &mut cluster.objects;
    for (kind, what) in changes {
        match kind {
            0 | 1 => change_shared(&mut all.nodes, what),
            2 => change_shared(&mut all.pods, what),
            3 | 4 => change_shared(&mut all.gpu_nodes, what),
            5 => change_one(&mut all.policies, what),
            6 => change_one(&mut all.config_maps, what),
            _ => change_one(&mut all.cluster_policies, what),
        }
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_round_over_whatever_was_written_ends_and_plans_nothing_that_breaks_a_rule(
        moment: Index,
        changes in changes(),
    ) {
        let round = mangled(moment, &changes).round();
        let fatal: Vec<String> = round.planned.plan.fatal().map(ToString::to_string).collect();
        prop_assert_eq!(fatal, Vec::<String>::new());
        prop_assert!(round.planned.report.gave_up.is_none());
        // Whoever shows it to people or programs can do so.
        for status in round.policies.values() {
            prop_assert!(serde_json::to_value(status).is_ok());
        }
    }
}

/// Changes that nobody notices would prove nothing.
#[test]
fn what_is_changed_is_read_and_makes_a_difference() {
    let mut runner = TestRunner::deterministic();
    let (mut others, mut told) = (0, 0);
    for _ in 0..200 {
        let case = (any::<Index>(), changes()).new_tree(&mut runner).expect("a case");
        let (moment, changes) = case.current();
        let (as_it_was, cluster) = (mangled(moment, &vec![]), mangled(moment, &changes));
        others += usize::from(cluster.objects != as_it_was.objects);
        let (before, after) = (as_it_was.round(), cluster.round());
        told += usize::from(before.gpu_nodes != after.gpu_nodes || before.policies != after.policies);
    }
    assert!(others >= 100 && told >= 50, "{others} of 200 fleets are others, {told} are told otherwise");
}
