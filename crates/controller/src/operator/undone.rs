//! Handles another client that overwrites the status of a `GpuNode`, which only
//! the operator may write. A few times the operator writes it again at once, as
//! after a mistake. Against a client that continues, this would never end, so
//! from then on the operator waits longer each time, and reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::GpuNode;
use api::gpu_node::{GpuNodeStatus, ObservedBy};
use observe::Objects;
use planner::names::NodeName;
use reconcile::{LocalState, Round};

/// So often in a row we write at once what somebody else has changed. Enough for
/// a script that runs over everything twice, and too few for a load on anybody.
const AT_ONCE: u32 = 8;
/// The first pause after that; each is twice as long as the one before.
const FIRST: Duration = Duration::from_secs(1);

/// All nodes of which we wrote something.
#[derive(Debug)]
pub(super) struct Undone {
    longest: Duration,
    nodes: BTreeMap<NodeName, Contest>,
}

/// One that we wrote.
#[derive(Debug)]
struct Contest {
    /// As it was when we had written it.
    wrote: Option<GpuNodeStatus>,
    /// How often in a row we wrote anew what somebody else had changed.
    times: u32,
    /// Somebody else has changed it since.
    is_undone: bool,
    /// It is not written again before.
    not_before: Instant,
    /// What has lasted until then nobody contests any more.
    lasts_at: Instant,
}

impl Undone {
    /// Nothing yet; no pause gets longer than `longest`.
    pub(super) const fn new(longest: Duration) -> Self {
        Self { longest, nodes: BTreeMap::new() }
    }

    /// Looks at what became of what we wrote. Says which nodes are not written
    /// in this round, and whether something that was told is over.
    pub(super) fn look(
        &mut self,
        objects: &Objects,
        round: &Round,
        now: Instant,
    ) -> (BTreeSet<NodeName>, bool) {
        let (mut held, mut over) = (BTreeSet::new(), false);
        for (node, contest) in &mut self.nodes {
            let seen = objects.gpu_nodes.get(&node.0).map(Arc::as_ref);
            let was_told = contest.is_told();
            if contest.look(seen, round.gpu_nodes.contains_key(node), now) {
                held.insert(node.clone());
            }
            over |= was_told && !contest.is_told();
        }
        (held, over)
    }

    /// We wrote it, and this is what it was then.
    pub(super) fn wrote(&mut self, node: &NodeName, written: &GpuNode, now: Instant) {
        let before = self.nodes.get(node);
        let times = before.map_or(0, |before| before.times.saturating_add(u32::from(before.is_undone)));
        let pause = times
            .checked_sub(AT_ONCE)
            .map_or(Duration::ZERO, |more| FIRST.saturating_mul(1 << more.min(16)).min(self.longest));
        let contest = Contest {
            wrote: written.status.clone(),
            times,
            is_undone: false,
            not_before: now + pause,
            lasts_at: now + self.longest,
        };
        self.nodes.insert(node.clone(), contest);
    }

    /// When to look again even if nothing changes.
    pub(super) fn next(&self) -> Option<Instant> {
        let told = self.nodes.values().filter(|contest| contest.is_told());
        told.map(|c| if c.is_undone { c.not_before } else { c.lasts_at }).min()
    }

    /// Tells of each node whether what is remembered of it is contested.
    pub(super) fn tell(&self, local: &mut BTreeMap<NodeName, LocalState>) {
        local.values_mut().for_each(|local| local.undone = None);
        for (node, contest) in self.nodes.iter().filter(|(_, contest)| contest.is_told()) {
            local.entry(node.clone()).or_default().undone = Some(contest.times);
        }
    }

    /// Forgets nodes that are gone.
    pub(super) fn keep<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeName>) {
        let nodes: BTreeSet<&NodeName> = nodes.collect();
        self.nodes.retain(|node, _| nodes.contains(node));
    }
}

impl Contest {
    const fn is_told(&self) -> bool {
        self.times >= AT_ONCE
    }

    /// What became of it. Says whether it must not be written yet.
    fn look(&mut self, seen: Option<&GpuNode>, wanted: bool, now: Instant) -> bool {
        let stands = seen.is_some_and(|seen| seen.status.as_ref().map(ours) == self.wrote.as_ref().map(ours));
        let lasted = now >= self.lasts_at;
        if stands || !wanted {
            // Nobody changed it, or it was put back, or what they made of it is what
            // we want.
            self.is_undone = false;
            if lasted || !stands {
                self.times = 0;
            }
            return false;
        }
        if lasted && !self.is_undone {
            self.times = 0;
        }
        self.is_undone = true;
        now < self.not_before
    }
}

/// What of a status nobody but us writes. Every node is asked for it in every round, so nothing is copied.
fn ours(status: &GpuNodeStatus) -> impl PartialEq {
    let GpuNodeStatus { observed_generation, conditions, slices, observed, agent: _, rollout } = status;
    let observed = observed.as_ref().filter(|observed| observed.by != ObservedBy::Agent);
    (rollout, conditions, slices, observed_generation, observed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn gpu_node(slices: &str) -> GpuNode {
        let status = serde_json::json!({"slices": slices});
        let mut node = GpuNode::new("n1", api::GpuNodeSpec::default());
        node.status = serde_json::from_value(status).ok();
        node
    }

    fn n1() -> NodeName {
        NodeName("n1".to_owned())
    }

    /// Somebody changes it a second after each of our writes, for so many
    /// seconds. When we wrote, in seconds from the first.
    fn fight(undone: &mut Undone, start: Instant, seconds: u64) -> Vec<u64> {
        let mut writes = Vec::new();
        let mut theirs = true;
        for second in 0..seconds {
            let now = start + Duration::from_secs(second);
            let seen = gpu_node(if theirs { "theirs" } else { "ours" });
            let held =
                undone.nodes.get_mut(&n1()).is_some_and(|contest| contest.look(Some(&seen), theirs, now));
            if theirs && !held {
                undone.wrote(&n1(), &gpu_node("ours"), now);
                writes.push(second);
            }
            theirs = held || !theirs;
        }
        writes
    }

    #[test]
    fn somebody_who_goes_on_is_answered_ever_more_slowly() {
        let start = clock::instant();
        let mut undone = Undone::new(Duration::from_secs(60));
        let writes = fight(&mut undone, start, 400);
        let pauses: Vec<u64> = writes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses[..9], [2, 2, 2, 2, 2, 2, 2, 2, 2], "at once, which is when they have changed it");
        assert_eq!(pauses[9..15], [2, 4, 8, 16, 32, 60], "and then ever more slowly");
        assert!(pauses[15..].iter().all(|pause| *pause == 60), "{pauses:?}");
        let mut local = BTreeMap::new();
        undone.tell(&mut local);
        assert!(local[&n1()].undone.is_some_and(|times| times > AT_ONCE));
        assert!(undone.next().is_some());
    }

    #[test]
    fn who_stops_is_forgotten_when_what_we_wrote_has_lasted() {
        let start = clock::instant();
        let mut undone = Undone::new(Duration::from_secs(60));
        let last = *fight(&mut undone, start, 30).last().expect("we wrote");
        assert!(undone.nodes[&n1()].is_told());
        let stands = gpu_node("ours");
        let look = |undone: &mut Undone, at| {
            let contest = undone.nodes.get_mut(&n1()).expect("we wrote it");
            assert!(!contest.look(Some(&stands), false, at), "there is nothing to hold back");
            contest.is_told()
        };
        assert!(look(&mut undone, start + Duration::from_secs(last + 1)));
        let until = undone.next().expect("it is looked at again");
        assert_eq!(until, start + Duration::from_secs(last + 60));
        assert!(!look(&mut undone, until));
        assert_eq!(undone.next(), None);
        let mut local = BTreeMap::from([(n1(), LocalState { undone: Some(9), ..LocalState::default() })]);
        undone.tell(&mut local);
        assert_eq!(local[&n1()].undone, None);
    }

    #[test]
    fn our_own_writes_are_no_contest_and_neither_is_a_mistake_now_and_then() {
        let start = clock::instant();
        let mut undone = Undone::new(Duration::from_secs(60));
        for step in 0..40 {
            let now = start + Duration::from_secs(step);
            let held =
                undone.nodes.get_mut(&n1()).is_some_and(|c| c.look(Some(&gpu_node("ours")), true, now));
            assert!(!held);
            undone.wrote(&n1(), &gpu_node("ours"), now);
        }
        for step in 0..40 {
            let now = start + Duration::from_secs(100 * (step + 1));
            let contest = undone.nodes.get_mut(&n1()).expect("we wrote it");
            assert!(!contest.look(Some(&gpu_node("theirs")), true, now));
            undone.wrote(&n1(), &gpu_node("ours"), now);
        }
        assert_eq!(undone.next(), None);
    }

    #[test]
    fn what_an_agent_reports_is_no_contest_and_what_we_saw_is_one() {
        let start = clock::instant();
        let seen = |by: &str, at: &str| {
            let mut node = gpu_node("ours");
            let observed = serde_json::json!({"by": by, "at": at, "gpus": []});
            node.status.as_mut().expect("it has one").observed = serde_json::from_value(observed).ok();
            node
        };
        for (by, contested) in [("Agent", false), ("Controller", true)] {
            let mut undone = Undone::new(Duration::from_secs(60));
            undone.wrote(&n1(), &seen(by, "2026-11-28T09:00:00Z"), start);
            let contest = undone.nodes.get_mut(&n1()).expect("we wrote it");
            contest.look(Some(&seen(by, "2026-11-28T09:00:01Z")), true, start);
            assert_eq!(contest.is_undone, contested, "{by}");
        }
    }

    #[test]
    fn a_write_that_fails_counts_once_however_often_it_is_tried() {
        let start = clock::instant();
        let mut undone = Undone::new(Duration::from_secs(60));
        undone.wrote(&n1(), &gpu_node("ours"), start);
        for second in 1..50 {
            let contest = undone.nodes.get_mut(&n1()).expect("we wrote it");
            let now = start + Duration::from_secs(second);
            assert!(!contest.look(Some(&gpu_node("theirs")), true, now), "it is tried again by its own rule");
        }
        undone.wrote(&n1(), &gpu_node("ours"), start + Duration::from_secs(50));
        assert_eq!(undone.nodes[&n1()].times, 1);
    }
}
