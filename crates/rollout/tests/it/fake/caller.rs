//! Calls the state machine as the controller does, and checks the actions that it requests.

use super::*;

/// Where the caller dies, or an answer gets lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Before the progress is stored.
    BeforeStore,
    /// The progress is stored, and nothing is done.
    BeforeWrite,
    /// The first write is done, its answer is lost, and nothing more is done.
    DuringWrite,
}

/// A caller that observes, advances, stores and acts.
pub struct Caller {
    pub world: World,
    pub progress: Progress,
    pub wanted: Option<NodeLayout>,
    pub rules: NodeRules,
    pub transcript: Vec<String>,
    pub last: Option<Advance>,
    pub calls: u32,
    /// At which call the caller dies, and how.
    pub crash: Option<(u32, Crash)>,
    /// What is shown at the next call instead of what is.
    pub stale: Option<Observed>,
    listed: Option<Timestamp>,
}

pub fn rules() -> NodeRules {
    NodeRules {
        admission: Admission::Admitted,
        drain: Drain::Never,
        cooldown: SignedDuration::from_mins(10),
        cooldown_of_sharing: SignedDuration::from_mins(10),
        settings: Settings::default(),
    }
}

impl Caller {
    pub fn new(world: World, wanted: &str) -> Self {
        Self {
            world,
            progress: Progress::default(),
            wanted: Some(layout(wanted)),
            rules: rules(),
            transcript: Vec::new(),
            last: None,
            calls: 0,
            crash: None,
            stale: None,
            listed: None,
        }
    }

    /// What repeats itself is told once.
    fn note(&mut self, line: String) {
        if !self.transcript.iter().rev().take(2).any(|told| *told == line) {
            self.transcript.push(line);
        }
    }

    /// One round; time passes to the next moment at which something is due.
    pub fn round(&mut self) {
        let until = self.turn();
        self.world.pass(until);
    }

    /// One call and what it asks for; answers when the next is due.
    pub fn turn(&mut self) -> Timestamp {
        let now = self.world.now;
        let listing = self.listed.take().map_or(Listing::Cached, |at| Listing::Consistent { at });
        let seen = self.stale.take().unwrap_or_else(|| self.world.observe(listing));
        let result = advance(&seen, self.wanted.as_ref(), &self.rules, &self.progress, now);
        judge(&seen, &self.rules, &result, now);
        self.calls += 1;
        let crash = self.crash.filter(|(at, _)| *at == self.calls).map(|(_, crash)| crash);
        let Advance { progress, actions, outlook, wake_at, change: _ } = result.clone();
        if crash != Some(Crash::BeforeStore) {
            let stored = serde_json::to_string(&progress).unwrap();
            self.progress = serde_json::from_str(&stored).unwrap();
            assert_eq!(self.progress, progress, "progress survives its storage");
        }
        self.note(match &outlook {
            Outlook::Idle => "idle".to_owned(),
            Outlook::Holding(hold) => format!("holding: {hold}"),
            Outlook::Working { waits_for, .. } => format!("{:?}: waits for {waits_for}", progress.phase),
            Outlook::Failed(failure) => format!("failed: {}", failure.why),
        });
        let mut written = false;
        for action in &actions {
            if matches!(crash, Some(Crash::BeforeStore | Crash::BeforeWrite)) {
                break;
            }
            let done = self.world.apply(action);
            self.note(format!("  {}{}", action.name(), if done { "" } else { " (refused)" }));
            if *action == Action::ListPods {
                self.listed = Some(now);
            }
            written |= done;
            let refused = matches!(action, Action::Evict { .. });
            if !(done || refused) || crash == Some(Crash::DuringWrite) {
                break;
            }
        }
        self.last = Some(result);
        let wake = wake_at.unwrap_or(now + SignedDuration::from_hours(1));
        let next = self.world.next_event().map_or(wake, |event| event.min(wake));
        let soon = now + SignedDuration::from_millis(200);
        // A caller that died starts again, and looks at once.
        if written || crash.is_some() { soon } else { next.max(soon) }
    }

    /// Rounds until the node rests, holds or failed.
    #[track_caller]
    pub fn settle(&mut self) -> &Outlook {
        for _ in 0..3000 {
            let until = self.turn();
            let result = self.last.as_ref().unwrap();
            let working = matches!(result.outlook, Outlook::Working { .. });
            if !working && result.actions.is_empty() && self.world.next_event().is_none() {
                return &self.last.as_ref().unwrap().outlook;
            }
            self.world.pass(until);
        }
        panic!("did not settle:\n{}", self.transcript.join("\n"));
    }

    /// Rounds until a phase is reached.
    #[track_caller]
    pub fn until(&mut self, phase: Phase) {
        for _ in 0..3000 {
            if self.progress.phase == phase {
                return;
            }
            self.round();
        }
        panic!("never {phase:?}:\n{}", self.transcript.join("\n"));
    }

    pub fn did(&self, action: &str) -> usize {
        self.transcript.iter().filter(|line| line.trim() == action).count()
    }
}

/// What must hold of every answer, whatever happened before.
#[track_caller]
pub fn judge(seen: &Observed, rules: &NodeRules, result: &Advance, now: Timestamp) {
    let Advance { progress, actions, outlook, wake_at, change: _ } = result;
    match (outlook, wake_at) {
        (Outlook::Idle, _) => {}
        (_, None) => panic!("silent for ever: {outlook:?}"),
        (_, Some(at)) => assert!(*at > now, "spins: {outlook:?} at {at}, now {now}"),
    }
    if let Outlook::Working { waits_for, until } = outlook
        && *until <= now
    {
        // Our own writes have no other way on than to be tried again.
        let tried_again = matches!(waits_for, WaitsFor::Uncordon | WaitsFor::ForeignWork { .. });
        assert!(tried_again, "a limit that is over, and nothing follows: {outlook:?}");
    }
    let marked = seen.is_marked;
    let twice = actions.iter().enumerate().find(|(i, action)| actions[..*i].contains(action));
    assert!(twice.is_none(), "the same action twice in one call: {twice:?}");
    for action in actions {
        match action {
            Action::Evict { if_uid, .. } => {
                assert_eq!(rules.drain, Drain::Evict, "evicts where it may not");
                let target = progress.target.as_ref().expect("evicts for a target");
                let victim =
                    seen.pods.iter().find(|other| other.uid == *if_uid).expect("a pod that was seen");
                assert!(
                    victim.may_lose(target.from.as_ref(), &target.layout, seen.operator.strategy),
                    "evicts a pod that loses nothing"
                );
                assert!(!victim.daemon_set, "evicts a DaemonSet's pod");
            }
            Action::SetConfigLabel { value, if_version, .. } => {
                assert_eq!(*if_version, seen.resource_version);
                assert!(!value.is_empty(), "never an absent label");
                if seen.operands.config.as_ref() != Some(value) {
                    assert!(seen.unschedulable, "changes the label of an open node");
                    assert!(matches!(seen.listing, Listing::Consistent { .. }), "changes on a stale list");
                    let target = progress.target.as_ref().expect("writes for a target");
                    let strategy = seen.operator.strategy;
                    let newcomer = |pod: &&Pod| {
                        pod.may_lose(target.from.as_ref(), &target.layout, strategy)
                            && !target.bystanders.contains(&pod.uid)
                    };
                    assert!(!seen.pods.iter().any(|pod| newcomer(&pod)), "changes under a pod");
                    assert!(seen.map.entries.contains(value), "names an entry that is not there");
                }
            }
            Action::Cordon { .. } => assert!(!seen.unschedulable || !marked, "cordons twice"),
            Action::Uncordon { .. } => {
                let remembered = progress.target.as_ref().is_some_and(|t| t.cordoned_at.is_some());
                let ours = match seen.cordon_owner {
                    CordonOwner::Us => true,
                    CordonOwner::Other { .. } => false,
                    CordonOwner::Unknown => marked || remembered,
                };
                assert!(ours, "lifts somebody else's cordon");
                let upgrades = matches!(seen.work, Some(OtherWork::DriverUpgrade { .. }));
                assert!(!upgrades, "opens a node whose driver is being upgraded");
                assert!(
                    !matches!(seen.work, Some(OtherWork::MachineConfig { .. })),
                    "opens a node that the Machine Config Operator works on"
                );
            }
            Action::RemoveCordonedBy { .. } => {
                let theirs = matches!(seen.cordon_owner, CordonOwner::Other { .. });
                assert!(marked && (!seen.unschedulable || theirs));
            }
            Action::EnsureMapEntry { .. }
            | Action::ListPods
            | Action::DeletePod { .. }
            | Action::UnpauseOperands { .. } => {}
            Action::EnsurePluginConfig { .. } | Action::SetPluginConfigLabel { .. } => {
                panic!("nobody shares the GPUs of this node: {action:?}")
            }
            Action::HandBack { value, .. } => {
                assert!(seen.map.entries.contains(value), "names an entry that is not there");
            }
            Action::ResumeOperands { labels, .. } => assert_eq!(*labels, seen.operands.held),
            Action::HoldForAgent { .. } | Action::StandDownManager { .. } => {
                panic!("no agent changes this node: {action:?}")
            }
        }
    }
}

/// A node that we changed before: verified, open, and out of its cooldown.
#[track_caller]
pub fn settled(hardware: &str, has: &str) -> Caller {
    let mut caller = Caller::new(World::new(hardware), has);
    let outlook = caller.settle().clone();
    assert_eq!(outlook, Outlook::Idle, "{}", caller.transcript.join("\n"));
    let later = caller.world.now + SignedDuration::from_mins(11);
    caller.world.pass(later);
    caller.round();
    caller.transcript.clear();
    caller.world.runs = 0;
    caller
}

impl Caller {
    /// Wants another layout from now on.
    pub fn want(&mut self, text: &str) -> &mut Self {
        self.wanted = Some(layout(text));
        self
    }

    /// Lets minutes pass, round by round.
    pub fn run(&mut self, minutes: i64) -> &mut Self {
        let end = self.world.now + SignedDuration::from_mins(minutes);
        while self.world.now < end {
            let until = self.turn();
            self.world.pass(until.min(end));
        }
        self
    }

    /// The node has this layout, nobody lost a slice, it is open, and planning
    /// again changes nothing.
    #[track_caller]
    pub fn check_open_with(&mut self, text: &str) {
        let story = self.transcript.join("\n");
        assert_eq!(self.world.hardware, layout(text), "{story}");
        assert!(!self.world.unschedulable, "still cordoned:\n{story}");
        assert!(!self.world.labels.contains_key(names::CORDONED_BY), "{story}");
        assert_eq!(self.world.breaches, 0, "{story}");
        let (version, progress) = (self.world.version, self.progress.clone());
        self.turn();
        let again = self.last.as_ref().unwrap();
        assert!(again.actions.is_empty(), "acts again: {:?}\n{story}", again.actions);
        assert_eq!(version, self.world.version);
        assert_eq!(progress.phase, again.progress.phase);
    }

    #[track_caller]
    pub fn check_said(&self, part: &str) {
        let story = self.transcript.join("\n");
        assert!(story.contains(part), "`{part}` was not said:\n{story}");
    }

    #[track_caller]
    pub fn check_never(&self, action: &str) {
        assert_eq!(self.did(action), 0, "{}", self.transcript.join("\n"));
    }
}

pub fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

/// A node with two GPUs of which the first is to be cut anew, on its way to a
/// phase. Somebody trains on the second.
pub fn on_its_way(phase: Phase) -> Caller {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.world.pod("train", "mig-3g.40gb", 1);
    caller.want("0:3g.40gb*1,1g.10gb*3 1:3g.40gb*2");
    if matches!(phase, Phase::Relabelling) {
        caller.world.faults = vec![Fault::Fail];
    }
    if matches!(phase, Phase::Healing) {
        caller.world.faults = vec![Fault::WedgePending];
    }
    caller.until(phase);
    caller.transcript.clear();
    caller
}

/// What the state machine answers to something seen now.
pub fn answer(caller: &Caller, seen: &Observed) -> Advance {
    advance(seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, caller.world.now)
}

pub fn writes_label(advance: &Advance) -> bool {
    advance.actions.iter().any(|action| matches!(action, Action::SetConfigLabel { .. }))
}

#[track_caller]
pub fn waits_for(answer: &Advance) -> &WaitsFor {
    let Outlook::Working { waits_for, .. } = &answer.outlook else { panic!("{:?}", answer.outlook) };
    waits_for
}
