//! Which nodes may start, over all nodes; and how long it takes.

use std::collections::BTreeMap;

use crate::fake::{Caller, World, layout, start};
use jiff::{SignedDuration, Timestamp};
use planner::names::{NodeName, PolicyName};
use planner::policy::Drain;
use slicewright_rollout::fleet::{Member, PlannedChange, PolicyRollout, estimate, step};
use slicewright_rollout::window::Window;
use slicewright_rollout::{
    Listing, MaxUnavailable, NodeLayout, Outlook, PluginConfig, Progress, RolloutRules, Settings,
    SharingWanted, StartBlocker,
};

/// Nodes with their own worlds, stepped together.
struct Fleet {
    nodes: BTreeMap<NodeName, Caller>,
    policy: PolicyRollout,
    order: Vec<NodeName>,
    now: Timestamp,
    most_down: usize,
    outlooks: BTreeMap<NodeName, Outlook>,
}

impl Fleet {
    fn new(count: usize, max_unavailable: MaxUnavailable) -> Self {
        let nodes = (0..count)
            .map(|at| {
                let caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
                (NodeName(format!("n{at}")), caller)
            })
            .collect();
        let rules = RolloutRules { max_unavailable, ..RolloutRules::default() };
        Self {
            nodes,
            policy: PolicyRollout { rules, enforce: true },
            order: Vec::new(),
            now: start(),
            most_down: 0,
            outlooks: BTreeMap::new(),
        }
    }

    fn round(&mut self) {
        let wanted: BTreeMap<NodeName, Option<NodeLayout>> =
            self.nodes.iter().map(|(name, caller)| (name.clone(), caller.wanted.clone())).collect();
        let now = self.now;
        let seen: BTreeMap<_, _> = self
            .nodes
            .iter_mut()
            .map(|(name, caller)| (name.clone(), caller.world.observe(Listing::Consistent { at: now })))
            .collect();
        let policy = PolicyName::from("research");
        let members: Vec<_> = self
            .nodes
            .iter()
            .map(|(name, caller)| Member {
                node: name.clone(),
                policy: Some(policy.clone()),
                seen: &seen[name],
                wanted: wanted[name].as_ref(),
                slices: None,
                sharing: None,
                progress: &caller.progress,
                drain: Drain::Never,
            })
            .collect();
        let policies = BTreeMap::from([(policy, self.policy.clone())]);
        let steps = step(&members, &policies, &self.order, &Settings::default(), now);
        for (name, advance) in steps {
            let caller = self.nodes.get_mut(&name).unwrap();
            caller.progress = advance.progress;
            for action in &advance.actions {
                caller.world.apply(action);
            }
            self.outlooks.insert(name, advance.outlook);
        }
        let down =
            self.nodes.values().filter(|caller| caller.world.unschedulable || !caller.world.ready).count();
        self.most_down = self.most_down.max(down);
        self.now = now + SignedDuration::from_secs(5);
        for caller in self.nodes.values_mut() {
            caller.world.pass(self.now);
        }
    }

    fn run(&mut self, minutes: i64) {
        let end = self.now + SignedDuration::from_mins(minutes);
        while self.now < end {
            self.round();
        }
    }

    fn done(&self) -> usize {
        let wanted = layout("0:1g.10gb*7");
        self.nodes.values().filter(|c| c.world.hardware == wanted && !c.world.unschedulable).count()
    }
}

#[test]
fn ten_nodes_go_one_after_the_other() {
    let mut fleet = Fleet::new(10, MaxUnavailable::Nodes(1));
    fleet.order = vec![NodeName::from("n7")];
    fleet.run(3);
    // The one that the plan names first went first.
    assert!(fleet.nodes[&NodeName::from("n7")].world.unschedulable);
    let Outlook::Holding(hold) = &fleet.outlooks[&NodeName::from("n0")] else { panic!("n0 should hold") };
    assert_eq!(hold.to_string(), "at most 1 of the policy's nodes may be unavailable, and 1 are: n7");
    fleet.run(30);
    assert_eq!(fleet.done(), 10);
    assert_eq!(fleet.most_down, 1);
}

#[test]
fn a_quarter_of_ten_is_two() {
    let mut fleet = Fleet::new(10, MaxUnavailable::Percent(25));
    fleet.run(20);
    assert_eq!((fleet.done(), fleet.most_down), (10, 2));
}

#[test]
fn a_node_that_is_down_anyway_uses_up_the_budget() {
    let mut fleet = Fleet::new(3, MaxUnavailable::Nodes(1));
    fleet.nodes.get_mut(&NodeName::from("n1")).unwrap().world.ready = false;
    fleet.run(10);
    assert_eq!(fleet.done(), 0);
    let Outlook::Holding(StartBlocker::Budget { nodes, .. }) = &fleet.outlooks[&NodeName::from("n0")] else {
        panic!("n0 should hold for the budget")
    };
    assert_eq!(*nodes, [NodeName::from("n1")]);
    fleet.nodes.get_mut(&NodeName::from("n1")).unwrap().world.ready = true;
    fleet.run(20);
    assert_eq!(fleet.done(), 3);
}

/// Whoever cordoned it works there, or is about to.
#[test]
fn a_node_that_somebody_cordoned_uses_up_the_budget() {
    let mut fleet = Fleet::new(4, MaxUnavailable::Nodes(1));
    fleet.nodes.get_mut(&NodeName::from("n2")).unwrap().world.unschedulable = true;
    fleet.run(10);
    assert_eq!((fleet.done(), fleet.most_down), (0, 1));
    let Outlook::Holding(StartBlocker::Budget { nodes, unavailable, allowed }) =
        &fleet.outlooks[&NodeName::from("n0")]
    else {
        panic!("n0 should hold for the budget: {:?}", fleet.outlooks)
    };
    assert_eq!((*unavailable, *allowed), (1, 1));
    assert_eq!(*nodes, [NodeName::from("n2")]);
    // With a budget of two one more goes at a time, and theirs stays as it is.
    fleet.policy.rules.max_unavailable = MaxUnavailable::Nodes(2);
    fleet.run(20);
    assert_eq!((fleet.done(), fleet.most_down), (3, 2));
    assert!(fleet.nodes[&NodeName::from("n2")].world.unschedulable);
}

#[test]
fn a_node_that_waits_for_a_pod_does_not_hold_back_the_others() {
    let mut fleet = Fleet::new(3, MaxUnavailable::Nodes(1));
    fleet.nodes.get_mut(&NodeName::from("n0")).unwrap().world.pod("train", "gpu", 0);
    fleet.run(20);
    assert_eq!(fleet.done(), 2);
    let held = fleet.outlooks[&NodeName::from("n0")].clone();
    assert!(matches!(held, Outlook::Holding(StartBlocker::PodsInTheWay { .. })), "{held:?}");
}

#[test]
fn a_window_that_closes_lets_what_changed_finish_and_starts_nothing() {
    let mut fleet = Fleet::new(6, MaxUnavailable::Nodes(1));
    // Opens at 22:00, five minutes: the map takes two, a node a minute and a half.
    fleet.policy.rules.windows = vec![Window::new("0 22 * * *", "5m", "UTC").unwrap()];
    fleet.run(60);
    let done = fleet.done();
    assert!((1..6).contains(&done), "{done}");
    assert!(fleet.nodes.values().all(|caller| !caller.world.unschedulable));
    let next =
        Outlook::Holding(StartBlocker::Window { opens: Some("2026-11-03T22:00:00Z".parse().unwrap()) });
    assert_eq!(fleet.outlooks.values().filter(|outlook| **outlook == next).count(), 6 - done);
}

#[test]
fn nothing_starts_under_a_paused_policy_or_a_budget_of_zero() {
    let mut fleet = Fleet::new(2, MaxUnavailable::Nodes(0));
    fleet.run(20);
    assert_eq!((fleet.done(), fleet.most_down), (0, 0));
    let mut fleet = Fleet::new(2, MaxUnavailable::Nodes(1));
    fleet.policy.enforce = false;
    fleet.run(20);
    assert_eq!((fleet.done(), fleet.most_down), (0, 0));
    assert!(fleet.nodes.values().all(|caller| caller.world.map.is_empty()), "not even the map");
}

#[test]
fn a_share_of_nodes_is_rounded_down_and_at_least_one() {
    assert_eq!(MaxUnavailable::Nodes(3).scaled_to(10), 3);
    assert_eq!(MaxUnavailable::Percent(25).scaled_to(10), 2);
    assert_eq!(MaxUnavailable::Percent(10).scaled_to(3), 1, "a small pool can change too");
    assert_eq!(MaxUnavailable::Percent(0).scaled_to(3), 0);
    assert_eq!(MaxUnavailable::Percent(100).scaled_to(3), 3);
}

#[test]
fn the_estimate_counts_waves_windows_and_the_map() {
    let policy = PolicyName::from("research");
    let change = |node: &str, mode_change, evicts| PlannedChange {
        node: NodeName::from(node),
        policy: policy.clone(),
        mode_change,
        evicts,
    };
    let changes = [change("a", false, 0), change("b", true, 2), change("c", false, 0)];
    let rules = RolloutRules { max_unavailable: MaxUnavailable::Nodes(2), ..RolloutRules::default() };
    let mut policies = BTreeMap::from([(policy.clone(), PolicyRollout { rules, enforce: true })]);
    let nodes = BTreeMap::from([(policy.clone(), 5)]);
    let settings = Settings::default();
    let at = |policies: &_, down| {
        let down = BTreeMap::from([(policy.clone(), down)]);
        estimate(&changes, policies, &nodes, &down, &settings, start())[&policy].clone()
    };
    let waves = at(&policies, 0);
    assert_eq!(waves.iter().map(|wave| wave.nodes.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(waves[0].starts, Some(start() + settings.map_settle));
    // b: 5 s to settle, 60 to evict, 40 to park, 60 to switch, 60 + 70 to show, 20 to hold.
    assert_eq!(waves[0].ends, waves[0].starts.map(|at| at + SignedDuration::from_secs(315)));
    assert_eq!(waves[1].starts, waves[0].ends);
    // c: nobody is evicted, and cutting takes 5 s.
    assert_eq!(waves[1].ends, waves[1].starts.map(|at| at + SignedDuration::from_secs(200)));
    // One node down: one at a time; two down: never.
    assert_eq!(at(&policies, 1).len(), 3);
    assert_eq!(at(&policies, 2)[0].starts, None);
    policies.get_mut(&policy).unwrap().rules.windows = vec![Window::new("0 23 * * *", "4m", "UTC").unwrap()];
    let waves = at(&policies, 0);
    assert_eq!(waves[0].starts, Some("2026-11-02T23:00:00Z".parse().unwrap()));
    assert_eq!(waves[1].starts, Some("2026-11-03T23:00:00Z".parse().unwrap()));
}

/// That its policy shares GPUs makes a layout no cheaper for whoever was on the node.
#[test]
fn a_node_whose_policy_shares_rests_after_its_layout_as_long_as_any_other() {
    let mut caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
    let seen = caller.world.observe(Listing::Consistent { at: start() });
    let sharing = SharingWanted::As(PluginConfig::default());
    let policy = PolicyName::from("research");
    let rollout = PolicyRollout { rules: RolloutRules::default(), enforce: true };
    let policies = BTreeMap::from([(policy.clone(), rollout)]);
    let rests_until = |progress: &Progress| {
        let member = Member {
            node: NodeName::from("n1"),
            policy: Some(policy.clone()),
            seen: &seen,
            wanted: caller.wanted.as_ref(),
            slices: None,
            sharing: Some(&sharing),
            progress,
            drain: Drain::Never,
        };
        let steps = step(&[member], &policies, &[], &Settings::default(), start());
        match &steps[&NodeName::from("n1")].outlook {
            Outlook::Holding(StartBlocker::Cooldown { until }) => *until,
            other => panic!("{other:?}"),
        }
    };
    let ended = start() - SignedDuration::from_secs(10);
    let layout = Progress { changed_at: Some(ended), ..Progress::default() };
    assert_eq!(rests_until(&layout), ended + SignedDuration::from_mins(10));
    let sharing = Progress { shared_at: Some(ended), ..Progress::default() };
    assert_eq!(rests_until(&sharing), ended + SignedDuration::from_secs(30));
}
