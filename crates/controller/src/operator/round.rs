//! One round: decide, record, write the map, apply, publish. Each node is handled
//! separately; a failure on one node does not delay the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::GpuNode;
use jiff::{SignedDuration, Timestamp};
use observe::Objects;
use planner::names::NodeName;
use planner::policy::Mode;
use reconcile::{Input, MapWrite, PluginMapWrite, Repoint, Round};
use rollout::Action;

use super::Operator;
use super::look::{MOST_LOOKS, leave_out, suspects};
use super::refused::For;
use super::steps::{self, together};
use super::subject::{node_subject, policy_subject};
use crate::apply::map::Names;
use crate::apply::{ActionError, Done, map};
use crate::calls::CallError;
use crate::class::{Class, chain};
use crate::clock;
use crate::publish::{gpu_node, news};
use crate::store::awaited::Subject;
use crate::store::history::Read;
use crate::store::{Source, take_outdated};

/// The objects of one round, and what of them is no longer true.
struct View {
    objects: Objects,
    /// `GpuNode`s of nodes that are gone, while others have their names.
    outdated: Vec<Arc<GpuNode>>,
}

/// What was remembered, and what could not be.
#[derive(Default)]
struct Remembered {
    awaited: Vec<Subject>,
    /// Nodes whose progress is stored as the round wants it.
    stored: BTreeSet<NodeName>,
    failed: Vec<(String, CallError)>,
}

impl Operator {
    /// The objects as the round gets them.
    fn view(&self) -> View {
        let mut objects = self.store.objects.clone();
        let outdated = take_outdated(&mut objects);
        View { objects, outdated }
    }

    /// Runs a round, and notes what came of it.
    pub(super) async fn round(&mut self) {
        let start = clock::instant();
        let now = self.settings.clock.now();
        let mut failures = 0;
        let mut looks = 0;
        // Nobody is found to be late or wrong before we have looked for ourselves.
        let (objects, outdated, round, planning) = loop {
            self.batch.begin(clock::instant());
            self.wake = None;
            let View { objects, outdated } = self.view();
            let objects = Arc::new(objects);
            let Some((mut round, planning)) = self.plan_round(&objects, now).await else { return };
            let suspects = if looks < MOST_LOOKS { suspects(&round) } else { Vec::new() };
            if suspects.is_empty() {
                break (objects, outdated, round, planning);
            }
            looks += 1;
            let looked = Box::pin(self.look_at(suspects)).await;
            failures += looked.failures;
            if !looked.is_news {
                leave_out(&mut round, &looked.unseen);
                break (objects, outdated, round, planning);
            }
        };
        for local in self.local.values_mut() {
            local.refusals.clear();
        }
        self.wake = round.wake_at;
        self.store.objects.starting_since.clone_from(&round.planned.view.starting);
        self.store.objects.unserved_quota.clone_from(&round.unserved_quota);
        let unsound: Vec<String> = round.planned.plan.fatal().map(ToString::to_string).collect();
        for note in &unsound {
            tracing::error!(note, "the plan breaks a rule, so it is not carried out; please report this");
        }
        for gone in outdated {
            if !self.executor.may_write() {
                break;
            }
            let calls = Arc::clone(&self.calls);
            let what = format!("GpuNode {}", gone.metadata.name.as_deref().unwrap_or_default());
            let removed = self.pump(async move { gpu_node::remove(&calls, &gone).await }).await;
            failures += self.judge(&what, removed);
        }
        let remembered = self.remember(&objects, &round).await;
        self.moved_with_the_clock(&round, &remembered.stored);
        for (what, error) in remembered.failed {
            failures += self.judge(&what, Err(error));
        }
        // Once the promises are stored: people wait for the answers, and nothing that follows changes them.
        let mut awaited = remembered.awaited;
        failures += Box::pin(self.withdraw_checks(now)).await;
        failures += Box::pin(self.answer_checks(&objects, &round, now, &mut awaited)).await;
        let mapped = self.write_map(&round, now, &mut failures).await;
        let plugin_mapped = self.write_plugin_map(&round, &mut failures).await;
        failures += self.point(&objects, &round, now).await;
        let highest_before = self.store.highest(&Source::Pods);
        let done = self.apply(&round, &remembered.stored, mapped, plugin_mapped).await;
        for (node, done) in done {
            failures += self.note(node, done, highest_before, &mut awaited);
        }
        let untold = self.publish(&objects, &round, remembered.stored, now, &mut awaited).await;
        failures += untold;
        if untold == 0 {
            failures += self.point_device_plugin(&round, now).await;
        }
        failures += Box::pin(self.publish_menu(&round, now, &mut awaited)).await;
        let instant = clock::instant();
        for subject in awaited {
            self.store.wait_for(subject, instant);
        }
        self.retries.forget_before(start);
        self.count(&round);
        let result = match (unsound.is_empty(), failures) {
            (false, _) => "plan_unsound",
            (true, 0) => "ok",
            (true, _) => "write_failed",
        };
        self.metrics.round(result, planning, now);
    }

    /// The pure part, on a thread where it keeps nobody from anything.
    async fn plan_round(&mut self, objects: &Arc<Objects>, now: Timestamp) -> Option<(Round, Duration)> {
        let (objects, settings) = (Arc::clone(objects), Arc::clone(&self.core));
        self.refused.tell(&mut self.local);
        self.undone.tell(&mut self.local);
        let (obstacles, local) = (self.obstacles(now), self.local.clone());
        let ours = self.core.observe.map.clone();
        let map = objects.config_maps.get(&(ours.namespace, ours.name));
        let map_changed = self.jumps.known(map::changed_at(map), now);
        let began = clock::instant();
        // A round that fails takes it along: the next one begins without.
        let mut session = std::mem::take(&mut self.session);
        let planning = tokio::task::spawn_blocking(move || {
            let input = Input {
                objects: &objects,
                local: &local,
                map_changed,
                obstacles: &obstacles,
                settings: &settings,
                now,
            };
            let round = reconcile::next_round(&input, &mut session);
            (round, session)
        });
        match self.pump(planning).await {
            Ok((round, session)) => {
                self.session = session;
                let took = clock::instant().duration_since(began);
                self.batch.planned(took);
                Some((round, took))
            }
            Err(error) => {
                tracing::error!(%error, "a round failed; please report this");
                self.retries.failed("round", Class::Bug, clock::instant());
                None
            }
        }
    }

    /// Says what went wrong, and when it is tried again. Counts it.
    pub(super) fn judge(&mut self, what: &str, outcome: Result<(), CallError>) -> usize {
        match outcome {
            Ok(()) => {
                self.retries.succeeded(what);
                0
            }
            Err(error) => {
                let class = error.class();
                let times = self.retries.failed(what, class, clock::instant());
                say(what, class, times, &chain(&error));
                1
            }
        }
    }

    /// Stores what has to be remembered, before anything of it is done.
    async fn remember(&mut self, objects: &Arc<Objects>, round: &Round) -> Remembered {
        let instant = clock::instant();
        let (undone, over) = self.undone.look(objects, round, instant);
        if over {
            // This round was planned while the status was still contested.
            self.touch();
        }
        let (mut outcomes, mut work) = (Vec::new(), Vec::new());
        for (node, wanted) in &round.gpu_nodes {
            if undone.contains(node) || !self.retries.may_try(&node_subject(node), instant) {
                continue;
            }
            match objects.gpu_nodes.get(&node.0) {
                Some(now) if steps::is_remembered(node, wanted, now) => {
                    outcomes.push((node.clone(), Some(Ok(None))));
                }
                now => {
                    let (executor, now) = (self.executor.clone(), now.cloned());
                    work.push(steps::remember(executor, node.clone(), wanted.clone(), now));
                }
            }
        }
        let at_once = self.settings.parallel_nodes;
        outcomes.extend(self.pump(together(at_once, work)).await);
        let mut remembered = Remembered::default();
        for (node, outcome) in outcomes {
            if let Some(outcome) = &outcome {
                self.refused.note(For::GpuNode(node.clone()), outcome);
            }
            match outcome {
                None => {}
                Some(Ok(written)) => {
                    if let Some(written) = written {
                        remembered.awaited.push(gpu_node::awaited(&written));
                        self.undone.wrote(&node, &written, instant);
                    }
                    if round.nodes.get(&node).is_none_or(|n| n.advance.actions.is_empty()) {
                        self.retries.succeeded(&node_subject(&node));
                    }
                    remembered.stored.insert(node);
                }
                Some(Err(error)) => remembered.failed.push((node_subject(&node), error)),
            }
        }
        remembered
    }

    /// What is remembered has moved with a clock that was put forward, where it
    /// is stored now or nothing was to be stored.
    fn moved_with_the_clock(&mut self, round: &Round, stored: &BTreeSet<NodeName>) {
        for (node, local) in &mut self.local {
            if stored.contains(node) || !round.gpu_nodes.contains_key(node) {
                local.put_forward = SignedDuration::ZERO;
            }
        }
    }

    /// Writes our map if that is due. Says whether the entries that this round
    /// asks for are in it, or on their way.
    async fn write_map(&mut self, round: &Round, now: Timestamp, failures: &mut usize) -> bool {
        let what = "map";
        if let Some(problem) = &round.map.problem {
            let times = self.retries.failed(what, Class::UserInput, clock::instant());
            say(what, Class::UserInput, times, problem);
            *failures += 1;
        }
        let Some(MapWrite { map: at, text, entries, if_version, is_ours }) = round.map.write.clone() else {
            if round.map.problem.is_none() {
                self.retries.succeeded(what);
            }
            return true;
        };
        // What people have to mend does not keep back what we have to write.
        let may = round.map.problem.is_some() || self.retries.may_try(what, clock::instant());
        if !may || !self.executor.may_write() {
            return false;
        }
        let calls = Arc::clone(&self.calls);
        let place = map::Place { map: at, if_version, is_ours };
        let written = self.pump(async move { map::write(&calls, &place, &text, now).await }).await;
        self.refused.note(For::Map, &written);
        match written {
            Ok(subject) => {
                tracing::info!(entries, "the map of layouts is written");
                self.store.wait_for(subject, clock::instant());
                *failures += self.judge(what, Ok(()));
                true
            }
            Err(error) => {
                *failures += self.judge(what, Err(error));
                false
            }
        }
    }

    /// Keys in use whose texts nobody knows: said where no policy has a condition for it, too, and not in every round.
    fn say_what_is_lost(&mut self, round: &Round) {
        let lost = &round.plugin_map.lost;
        if self.said_lost == *lost {
            return;
        }
        match lost {
            Some(lost) => tracing::warn!(lost, "the device plugin does not start again on some nodes"),
            None => tracing::info!("the map of the device plugin's configurations has every key in use"),
        }
        self.said_lost.clone_from(lost);
    }

    /// Writes our map of the device plugin's configurations if that is due. Says
    /// whether what this round asks for is in it, or on its way.
    async fn write_plugin_map(&mut self, round: &Round, failures: &mut usize) -> bool {
        self.say_what_is_lost(round);
        let what = "plugin map";
        if let Some(problem) = &round.plugin_map.problem {
            let times = self.retries.failed(what, Class::UserInput, clock::instant());
            say(what, Class::UserInput, times, problem);
            *failures += 1;
            return false;
        }
        let Some(PluginMapWrite { map, data, if_version, is_ours }) = round.plugin_map.write.clone() else {
            self.retries.succeeded(what);
            return true;
        };
        if !self.retries.may_try(what, clock::instant()) || !self.executor.may_write() {
            return false;
        }
        let calls = Arc::clone(&self.calls);
        let keys = data.len();
        let place = map::Place { map, if_version, is_ours };
        let write = async move { map::write_plugin_map(&calls, &place, &data).await };
        let written = self.pump(write).await;
        self.refused.note(For::PluginMap, &written);
        match written {
            Ok(subject) => {
                tracing::info!(keys, "the map of the device plugin's configurations is written");
                self.store.wait_for(subject, clock::instant());
                *failures += self.judge(what, Ok(()));
                true
            }
            Err(error) => {
                *failures += self.judge(what, Err(error));
                false
            }
        }
    }

    /// Points `ClusterPolicy` to our map, where the flag allows it: once the
    /// map is there, so that MIG manager never lacks one.
    async fn point(&mut self, objects: &Objects, round: &Round, now: Timestamp) -> usize {
        let ours = self.core.observe.map.clone();
        let there = objects.config_maps.contains_key(&(ours.namespace, ours.name.clone()));
        let in_force = round.planned.view.policies.iter().any(|policy| policy.mode == Mode::Enforce);
        let what = "ClusterPolicy";
        let settles = self.settling.lasts();
        if !self.settings.patch_cluster_policy || settles || !there || !in_force || !self.may_write(what) {
            return 0;
        }
        let Some((name, policy)) = objects.cluster_policies.iter().next() else { return 0 };
        let named = policy.spec.mig_manager.config.as_ref().map(|config| config.name.as_str());
        if named == Some(ours.name.as_str()) {
            return 0;
        }
        // Somebody points it elsewhere each time: the policies' conditions say until when it is left so.
        if self.layouts_pointed.rests_until().is_some_and(|until| until > now) {
            return 0;
        }
        let if_version = policy.metadata.resource_version.clone().unwrap_or_default();
        let repoint = Repoint { cluster_policy: name.clone(), if_version, map: ours.name };
        let failures = self.repoint(what, For::ClusterPolicy, Names::Layouts, repoint).await;
        if failures == 0 {
            self.layouts_pointed.done(now);
        }
        failures
    }

    /// Points the device plugin to our map of its configurations, where a round
    /// says that this is due: the policies' conditions have said so.
    async fn point_device_plugin(&mut self, round: &Round, now: Timestamp) -> usize {
        let what = "ClusterPolicy's device plugin";
        let Some(repoint) = round.plugin_map.repoint.clone() else {
            self.retries.succeeded(what);
            return 0;
        };
        if !self.may_write(what) {
            return 0;
        }
        let failures = self.repoint(what, For::DevicePlugin, Names::PluginConfigs, repoint).await;
        if failures == 0 {
            self.pointed.done(now);
        }
        failures
    }

    /// Writes to `ClusterPolicy` which map of ours one of its operands reads.
    async fn repoint(&mut self, what: &str, of: For, field: Names, repoint: Repoint) -> usize {
        let calls = Arc::clone(&self.calls);
        let point = async move {
            let Repoint { cluster_policy, if_version, map } = repoint;
            map::point_to(&calls, &cluster_policy, field, &map, &if_version).await
        };
        let pointed = self.pump(point).await;
        self.refused.note(of, &pointed);
        match pointed {
            Ok(subject) => {
                tracing::info!(?field, "ClusterPolicy now names the operator's map, as the flag allows");
                self.store.wait_for(subject, clock::instant());
                self.judge(what, Ok(()))
            }
            Err(error) => self.judge(what, Err(error)),
        }
    }

    /// Does what is due for each node whose progress is stored.
    async fn apply(
        &mut self,
        round: &Round,
        stored: &BTreeSet<NodeName>,
        mapped: bool,
        plugin_mapped: bool,
    ) -> Vec<(NodeName, Done)> {
        let instant = clock::instant();
        let due: Vec<(&NodeName, &[Action])> = round
            .nodes
            .iter()
            .filter(|(name, node)| {
                let needs_map =
                    node.advance.actions.iter().any(|a| matches!(a, Action::EnsureMapEntry { .. }));
                let needs_plugin_map =
                    node.advance.actions.iter().any(|a| matches!(a, Action::EnsurePluginConfig { .. }));
                !node.advance.actions.is_empty()
                    && (plugin_mapped || !needs_plugin_map)
                    && stored.contains(*name)
                    && (mapped || !needs_map)
                    && self.retries.may_try(&node_subject(name), instant)
            })
            .map(|(name, node)| (name, node.advance.actions.as_slice()))
            .collect();
        let mut work = Vec::new();
        for (name, actions) in due {
            work.push(steps::apply(self.executor.clone(), name.clone(), actions.to_vec()));
        }
        let at_once = self.settings.parallel_nodes;
        self.pump(together(at_once, work)).await
    }

    /// Notes what came of the actions of a node.
    fn note(&mut self, node: NodeName, done: Done, highest_before: u64, awaited: &mut Vec<Subject>) -> usize {
        let Done { awaited: subjects, listed, refusals, stopped } = done;
        awaited.extend(subjects);
        if let Some((began, pods)) = listed {
            let read = Read { version: pods.version, highest_before };
            self.store.take_pods_of(&node.0, pods.found, read);
            self.notice();
            self.local.entry(node.clone()).or_default().listed = Some(began);
            self.touch();
        }
        if !refusals.is_empty() {
            self.local.entry(node.clone()).or_default().refusals.extend(refusals);
            self.touch();
        }
        let what = node_subject(&node);
        match stopped {
            None => {
                self.refused.note(For::Node(node), &Ok(()));
                self.judge(&what, Ok(()))
            }
            Some(ActionError::Call { action, source }) => {
                let class = source.class();
                let outcome: Result<(), CallError> = Err(source);
                self.refused.note(For::Node(node.clone()), &outcome);
                let Err(source) = outcome else { return 0 };
                if class == Class::Blocked {
                    self.touch();
                }
                if source.is_conflict() {
                    self.outdated.insert(node);
                }
                let times = self.retries.failed(&what, class, clock::instant());
                say(&format!("{what}: {action}"), class, times, &chain(&source));
                1
            }
            Some(
                error @ (ActionError::Lost { .. }
                | ActionError::Stopping { .. }
                | ActionError::WentBack { .. }),
            ) => {
                tracing::info!(
                    node = node.0,
                    why = chain(&error),
                    "the remaining actions are left to the next round or replica"
                );
                self.touch();
                0
            }
        }
    }

    /// Statuses of policies, and news for people.
    async fn publish(
        &mut self,
        objects: &Arc<Objects>,
        round: &Round,
        stored: BTreeSet<NodeName>,
        now: Timestamp,
        awaited: &mut Vec<Subject>,
    ) -> usize {
        let mut failures = 0;
        let mut news_of = news::Written { nodes: stored, ..news::Written::default() };
        let mut work = Vec::new();
        for (name, status) in &round.policies {
            let Some(object) = objects.policies.get(&name.0) else { continue };
            if self.may_write(&policy_subject(name)) {
                work.push(steps::publish(
                    self.executor.clone(),
                    name.clone(),
                    object.clone(),
                    status.clone(),
                ));
            }
        }
        let at_once = self.settings.parallel_nodes;
        for (name, written) in self.pump(together(at_once, work)).await {
            let Some(written) = written else { continue };
            self.refused.note(For::Policy(name.clone()), &written);
            match written {
                Ok(subject) => {
                    awaited.extend(subject);
                    self.retries.succeeded(&policy_subject(&name));
                    news_of.policies.insert(name);
                }
                Err(error) => failures += self.judge(&policy_subject(&name), Err(error)),
            }
        }
        let drafts = news::drafts(&mut self.told, self.settings.tell_names, objects, round, &news_of, now);
        failures + self.tell(drafts, now).await
    }

    pub(super) fn may_write(&self, what: &str) -> bool {
        self.retries.may_try(what, clock::instant()) && self.executor.may_write()
    }

    /// Counts what the round found.
    fn count(&mut self, round: &Round) {
        self.local.retain(|node, _| round.nodes.contains_key(node));
        self.refused.keep_up_with(round);
        self.undone.keep(round.gpu_nodes.keys().chain(round.nodes.keys()));
        self.metrics.refused(self.refused.count());
        crate::gauges::set(&self.metrics, &self.store.objects, round);
    }
}

/// Says that something failed: once when it begins, and then seldom.
pub(super) fn say(what: &str, class: Class, times: u32, error: &str) {
    if !times.is_power_of_two() {
        return;
    }
    match class {
        Class::Transient | Class::UserInput => {
            tracing::warn!(
                what,
                class = class.name(),
                times,
                error,
                "an operation failed; it will be retried"
            );
        }
        Class::Blocked | Class::Bug => {
            tracing::error!(
                what,
                class = class.name(),
                times,
                error,
                "an operation failed; it will be retried"
            );
        }
    }
}
