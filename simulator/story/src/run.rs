//! Executes a story: each command in turn, the passing of time, and at the end the checks of every story.

use api::node_agent::AgentMode;
use jiff::{SignedDuration, Timestamp};

use crate::agent_process::Process;
use crate::answers;
use crate::asked;
use crate::command::{Command, Step, Stopper, Story, Topic};
use crate::counters::Counters;
use crate::entry::{Entry, Who};
use crate::manifests::Files;
use crate::operator::{Operator, waits};
use crate::place::StoryError;
use crate::plan_round::{plan_round, progress};
use crate::webhook;
use crate::world::World;

/// When a story begins that does not say so: a Monday.
const BEGIN: &str = "2026-03-02T09:00:00Z";
/// How long the end of a story may take to become quiet.
const LAST_WAIT: SignedDuration = SignedDuration::from_hours(4);
/// How many rounds one moment may take: more is a loop, not work.
const ROUNDS: usize = 200;

/// What became of a story that was told to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How many expectations did not hold, those of every story included.
    pub missed: usize,
}

/// Lets a story happen. Every entry of the transcript is told as it comes.
///
/// # Errors
/// Where the story stopped half-way, and why.
pub fn run(story: &Story, files: &Files<'_>, tell: &mut dyn FnMut(&Entry)) -> Result<Ending, StoryError> {
    let now = BEGIN.parse().expect("it is a time");
    let mut teller = Teller {
        world: World::starting(now),
        operator: Operator::default(),
        counters: Counters::default(),
        files,
        tell,
        said: Vec::new(),
        missed: 0,
        acted: false,
    };
    for step in &story.steps {
        teller.step(step)?;
    }
    teller.end();
    Ok(Ending { missed: teller.missed })
}

/// The story on its way.
pub(crate) struct Teller<'a> {
    pub(crate) world: World,
    pub(crate) operator: Operator,
    pub(crate) counters: Counters,
    pub(crate) files: &'a Files<'a>,
    tell: &'a mut dyn FnMut(&Entry),
    /// What the last `plan` or `explain` answered.
    pub(crate) said: Vec<String>,
    missed: usize,
    /// Whether anything but remarks came since the last remark.
    acted: bool,
}

impl Teller<'_> {
    fn flush(&mut self) {
        for entry in self.world.take_log() {
            (self.tell)(&entry);
        }
    }

    fn answer(&mut self, lines: Vec<String>) {
        self.flush();
        (self.tell)(&Entry::Answer { lines: lines.clone() });
        self.said = lines;
    }

    fn step(&mut self, step: &Step) -> Result<(), StoryError> {
        if let Command::Remark(text) = &step.command {
            (self.tell)(&Entry::Remark { text: text.clone(), paragraph: std::mem::take(&mut self.acted) });
            return Ok(());
        }
        self.acted = true;
        if let Command::Clock(at) = &step.command {
            self.world.now = *at;
        }
        (self.tell)(&Entry::Command { text: step.text.clone(), at: self.world.now });
        self.perform(step)?;
        // What people do is noticed at once; what follows takes its time.
        self.moment();
        self.flush();
        Ok(())
    }

    fn perform(&mut self, step: &Step) -> Result<(), StoryError> {
        match &step.command {
            Command::Remark(_) | Command::Clock(_) => {}
            Command::Advance(duration) => self.advance(self.world.now + *duration),
            Command::RunUntilQuiet(max) => {
                let until = self.world.now + *max;
                if !self.run_until_quiet(until) {
                    let text = format!(
                        "it is not quiet after {max:#}; go on with `run until quiet max …`, or `expect` what is there"
                    );
                    self.world.say(Who::Cluster, text);
                }
            }
            Command::Crash => {
                self.operator = Operator::default();
                self.world.say(Who::Cluster, "the operator's process dies, and another starts");
            }
            Command::Plan => {
                let planned = plan_round(&self.world);
                let waits = self.waits(&planned);
                self.answer(answers::plan(&planned.plan, &planned.report, &waits));
            }
            Command::Explain(topic) => self.explain(topic, step)?,
            Command::Fleet => {
                let picture = self.world.picture();
                self.flush();
                (self.tell)(&Entry::Fleet { picture });
            }
            Command::Expect(expectation) => {
                self.moment();
                if let Err(found) = self.check(expectation) {
                    self.miss(
                        Some(step.place),
                        format!("{}, but {found}", step.text.trim_start_matches("expect ")),
                    );
                }
            }
            other => self.happen(other, step)?,
        }
        Ok(())
    }

    fn miss(&mut self, place: Option<crate::place::Place>, text: String) {
        self.flush();
        self.missed += 1;
        (self.tell)(&Entry::Missed { place, text });
    }

    /// Why nodes of the plan do not start, as far as they do not.
    fn waits(
        &self,
        planned: &reconcile::PlannedRound,
    ) -> std::collections::BTreeMap<planner::names::NodeName, String> {
        let objects = crate::objects::objects(&self.world);
        let advances = reconcile::advance::advance(&self.operator.input(&self.world, &objects), planned);
        advances.into_iter().filter_map(|(name, advance)| Some((name, waits(&advance.outlook)?))).collect()
    }

    fn explain(&mut self, topic: &Topic, step: &Step) -> Result<(), StoryError> {
        let planned = plan_round(&self.world);
        let lines = match topic {
            Topic::Request((namespace, name)) => {
                let mine = |id: &planner::names::RequestId| id.namespace == *namespace && id.name == *name;
                let request = planned.view.requests.iter().find(|r| mine(&r.id));
                let answer = planned.report.requests.iter().find(|r| mine(&r.id));
                let key = self.world.pod_of(&(namespace.clone(), name.clone()));
                let pod = self.world.pods.get(&key);
                if pod.is_none()
                    && answer.is_none()
                    && self.world.notebooks.get(&format!("{namespace}/{name}")).is_none()
                {
                    let what = format!("there is no workbench and no pod {namespace}/{name}");
                    return Err(StoryError::new(step.place, what));
                }
                let bound = pod
                    .filter(|p| !crate::asks::is_over(p))
                    .and_then(|p| p.spec.as_ref()?.node_name.as_deref());
                answers::request(&format!("{namespace}/{name}"), request, answer, bound)
            }
            Topic::Node(name) => {
                let Some(node) = self.world.nodes.get(name) else {
                    return Err(self.no_node(name, step));
                };
                let labels = node.metadata.labels.clone().unwrap_or_default();
                let key = planner::names::NodeName(name.clone());
                let outlook = self.operator.outlooks.get(&key).and_then(waits);
                let seen = planned.view.inventory.nodes.get(&key);
                let shared = planned.view.node(&key).and_then(observe::NodeView::sharing_in_words);
                let policy = planned.policy_of.get(&key);
                let mut lines = answers::node(name, seen, policy, outlook.as_deref(), shared.as_deref());
                let advice = observe::sharing::advice(&labels, seen);
                lines.extend(advice.into_iter().map(|line| format!("  {line}")));
                lines
            }
            Topic::Policy(name) => {
                let Some(report) = planned.report.policies.iter().find(|r| r.policy.0 == *name) else {
                    return Err(StoryError::new(step.place, format!("there is no policy `{name}`")));
                };
                let mut lines = answers::policy(report, &planned.view.inventory);
                let title = format!("GpuPartitionPolicy {name}");
                lines.extend(
                    planned
                        .view
                        .problems
                        .iter()
                        .filter(|p| p.object == title)
                        .map(|p| format!("  {}: {}", p.severity, p.message)),
                );
                lines
            }
        };
        self.answer(lines);
        Ok(())
    }

    /// The end of every story.
    fn end(&mut self) {
        (self.tell)(&Entry::Command { text: "the end".to_owned(), at: self.world.now });
        let until = self.world.now + LAST_WAIT;
        let quiet = self.run_until_quiet(until);
        self.flush();
        let planned = plan_round(&self.world);
        if !quiet {
            self.miss(None, format!("something is on its way even after {LAST_WAIT:#}"));
        }
        let waiting = self.waits(&planned);
        if planned.plan.steps.is_empty() {
            (self.tell)(&Entry::End { text: "plan again: no changes".to_owned() });
        }
        for step in &planned.plan.steps {
            match waiting.get(&step.node).filter(|_| quiet) {
                Some(why) => {
                    (self.tell)(&Entry::End {
                        text: format!("plan again: {} still has to change; it {why}", step.node),
                    });
                }
                None if self.world.hosts.get(&step.node.0).is_some_and(|h| h.agent.is_some()) && quiet => {
                    let text = format!(
                        "plan again: {} still has to change; its policy does not let it now",
                        step.node
                    );
                    (self.tell)(&Entry::End { text });
                }
                None => self
                    .miss(None, format!("planning again changes {}, and nothing is waited for", step.node)),
            }
        }
        for name in self.world.nodes.keys() {
            let ours = self
                .world
                .nodes
                .get(&name)
                .and_then(|n| n.metadata.labels.as_ref()?.get(rollout::names::CORDONED_BY))
                .is_some();
            let failed = progress(&self.world, &name).phase == rollout::Phase::Failed;
            if failed {
                (self.tell)(&Entry::End {
                    text: format!("{name} is left to a human: it failed, and says so"),
                });
            } else if ours {
                self.miss(None, format!("{name} is still cordoned by us, and not failed"));
            }
        }
        let mut fatal: Vec<String> = planned.plan.notes().iter().map(ToString::to_string).collect();
        fatal.extend(self.counters.fatal.iter().cloned());
        match fatal.is_empty() {
            true => (self.tell)(&Entry::End { text: "plan is clean according to check".to_owned() }),
            false => {
                self.miss(None, format!("check finds something wrong with the plan: {}", fatal.join("; ")));
            }
        }
        let breaches = self.world.breaches();
        match breaches.is_empty() {
            true => {
                (self.tell)(&Entry::End { text: "no slice was taken from a pod (invariant 1)".to_owned() });
            }
            false => self.miss(None, format!("invariant 1 is broken: {}", breaches.join("; "))),
        }
    }

    /// Everything that can happen at this moment happens. Says whether
    /// anything did.
    fn moment(&mut self) -> bool {
        let before = self.world.revision;
        for _ in 0..ROUNDS {
            let round = self.world.revision;
            self.world.settle();
            self.operator.reconcile(&mut self.world, &mut self.counters);
            self.world.settle();
            if self.world.revision == round {
                break;
            }
        }
        self.world.revision != before
    }

    /// When something happens next: in the cluster, or because the operator
    /// wants to look again.
    fn next(&self) -> Option<Timestamp> {
        let wake = self.operator.wake.map(|at| at.max(self.world.now + SignedDuration::from_secs(1)));
        [self.world.next_event(), wake].into_iter().flatten().min()
    }

    fn advance(&mut self, to: Timestamp) {
        self.moment();
        while let Some(next) = self.next().filter(|at| *at <= to) {
            self.world.advance(next);
            self.moment();
            self.flush();
        }
        self.world.advance(to);
        self.moment();
    }

    /// Says whether it became quiet: nothing changed for a while, and nothing
    /// is on its way.
    fn run_until_quiet(&mut self, until: Timestamp) -> bool {
        self.moment();
        let mut last = self.world.now;
        // Twice the longest silence of a rollout that is on its way.
        let silence = SignedDuration::from_mins(5);
        loop {
            let busy = self.busy();
            if !busy && self.world.now >= last + silence {
                return true;
            }
            let Some(next) = self.next().filter(|at| *at <= until) else {
                return !busy;
            };
            if !busy && next > last + silence {
                self.world.advance(last + silence);
                self.moment();
                return !self.busy();
            }
            self.world.advance(next);
            if self.moment() {
                last = self.world.now;
            }
            self.flush();
        }
    }

    /// Whether a rollout is on its way, or a node is down.
    fn busy(&self) -> bool {
        let rolling = self.operator.outlooks.values().any(|o| matches!(o, rollout::Outlook::Working { .. }));
        rolling || self.world.hosts.values().any(|h| !h.node.ready()) || self.world.pods_going()
    }

    pub(crate) fn no_node(&self, name: &str, step: &Step) -> StoryError {
        let known: Vec<&String> = self.world.hosts.keys().collect();
        let hint = crate::place::did_you_mean(name, known.iter().map(|k| k.as_str()));
        StoryError::new(step.place, format!("there is no node `{name}`{hint}"))
    }
}

impl Teller<'_> {
    /// What people and machines do.
    fn happen(&mut self, command: &Command, step: &Step) -> Result<(), StoryError> {
        let wrong = |what: String| StoryError::new(step.place, what);
        let world = &mut self.world;
        match command {
            Command::Nodes(names, spec) => {
                for name in names {
                    world.add_node(name, spec).map_err(|(word, what)| {
                        StoryError::new(word.map_or(step.place, |w| w.place), what)
                    })?;
                }
            }
            Command::Namespace(name, labels) => world.namespace(name, labels),
            Command::Policy(manifest) | Command::Apply(manifest) => {
                let policies_only = matches!(command, Command::Policy(_));
                for object in crate::manifests::read(manifest, self.files)? {
                    world.take_in(object, policies_only).map_err(wrong)?;
                }
            }
            Command::Delete(kind, name) => {
                world.delete(kind, &name.text).map_err(|e| StoryError::new(name.place, e))?;
            }
            Command::Workbench(key, asks) => {
                let mut notebook = asked::notebook(key, asks);
                webhook::inject(&mut notebook, &world.profiles).map_err(wrong)?;
                world.namespace(&key.0, &std::collections::BTreeMap::new());
                let what = match &asks.profile {
                    Some(profile) => format!("starts, with hardware profile {}", profile.text),
                    None => {
                        format!("starts, and asks for {}", asked::asks_in_words(asks))
                    }
                };
                world.say(Who::Person(format!("{}/{}", key.0, key.1)), what);
                world.notebooks.put(notebook, world.now, &mut world.revision);
            }
            Command::Pod(key, spec) => {
                world.namespace(&key.0, &std::collections::BTreeMap::new());
                let path = format!("{}/{}", key.0, key.1);
                world.behaves(&path, spec.works, spec.opens);
                world.say(
                    Who::Person(path),
                    format!("comes, and asks for {}", asked::asks_in_words(&spec.asks)),
                );
                world.create_pod(asked::pod(key, spec));
            }
            Command::Budget(key, labels, min) => {
                let budget = asked::budget(key, labels, *min);
                world.budgets.put(budget, world.now, &mut world.revision);
            }
            Command::Start(key) => world.start(key, true, Stopper::User).map_err(wrong)?,
            Command::Stop(key, who) => world.start(key, false, *who).map_err(wrong)?,
            Command::End(key) => world.end(key).map_err(wrong)?,
            Command::Open(key) => world.open(key, true).map_err(wrong)?,
            Command::Close(key) => world.open(key, false).map_err(wrong)?,
            Command::Cordon(node, _)
            | Command::Uncordon(node)
            | Command::Label(node, _)
            | Command::Foreign(node, _)
            | Command::Agent(node, _)
            | Command::Reboot(node)
            | Command::Fault(node, _)
            | Command::Release(node) => {
                if world.hosts.contains_key(node) {
                    self.at_node(node, command);
                } else {
                    return Err(self.no_node(node, step));
                }
            }
            Command::Remark(_)
            | Command::Clock(_)
            | Command::Crash
            | Command::Advance(_)
            | Command::RunUntilQuiet(_)
            | Command::Plan
            | Command::Explain(_)
            | Command::Fleet
            | Command::Expect(_) => {}
        }
        Ok(())
    }

    fn at_node(&mut self, name: &str, command: &Command) {
        let world = &mut self.world;
        match command {
            Command::Cordon(_, who) => {
                world.say(Who::Person(who.clone()), format!("cordons {name}"));
                world.patch_node(name, Vec::new(), Some(true));
            }
            Command::Uncordon(_) => {
                world.say(Who::Person("somebody".to_owned()), format!("uncordons {name}"));
                world.patch_node(name, Vec::new(), Some(false));
            }
            Command::Label(_, labels) => world.patch_node(name, labels.clone().into_iter().collect(), None),
            Command::Foreign(_, entry) => {
                world.say(
                    Who::Person("somebody".to_owned()),
                    format!("writes nvidia.com/mig.config={entry} onto {name}"),
                );
                world.patch_node(
                    name,
                    vec![(rollout::names::MIG_CONFIG.to_owned(), Some(entry.clone()))],
                    None,
                );
            }
            Command::Agent(_, mode) => {
                let text = match mode {
                    Some(AgentMode::Change) => "may change slices from now on",
                    Some(AgentMode::Report) => "only reports from now on",
                    None => "is uninstalled",
                };
                world.say(Who::Person("the agent of the node".to_owned()), text);
                if let Some(host) = world.hosts.get_mut(name) {
                    host.agent = *mode;
                    host.process = Process::default();
                }
                world.revision.0 += 1;
            }
            Command::Reboot(_) => {
                world.say(Who::Node(name.to_owned()), "reboots");
                world.reboot(name);
            }
            Command::Fault(_, faults) => {
                for fault in faults {
                    if let Some(host) = world.hosts.get_mut(name) {
                        host.node.turn(fault.clone());
                    }
                }
            }
            Command::Release(_) => self.release(name),
            _ => {}
        }
    }

    fn release(&mut self, name: &str) {
        let node = planner::names::NodeName(name.to_owned());
        let Some(seen) = self.operator.look(&self.world, &node) else {
            return;
        };
        let released = rollout::release::release(&seen, &progress(&self.world, name));
        crate::tell::store(&mut self.world, name, &released.progress);
        self.world.say(Who::Person("administrator".to_owned()), format!("slicewright release {name}"));
        let mark = (rollout::names::CORDONED_BY.to_owned(), None);
        let uncordon = released.actions.iter().any(|a| matches!(a, rollout::Action::Uncordon { .. }));
        if !released.actions.is_empty() {
            self.world.patch_node(name, vec![mark], uncordon.then_some(false));
        }
        for left in released.left {
            self.world.say(Who::Tells("administrator".to_owned()), left);
        }
    }
}

#[cfg(test)]
mod reads;
