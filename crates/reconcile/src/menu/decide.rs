//! What is due with each hardware profile: from the offers that should exist and the profiles that do.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{OFFERS, SPEC_DIGEST, WITHDRAWN};
use jiff::Timestamp;
use observe::objects::title;
use observe::problem::{Problem, Severity};
use observe::{ClusterView, Objects};

use super::card::{Card, spec_digest};
use super::offers::{Offers, offers};
use super::{MenuAct, MenuRound, MenuSettings, MenuWrite, Stand};
use crate::input::Input;
use crate::planned_round::PlannedRound;

/// Everything that should be offered, whatever is there: for whoever keeps the
/// profiles in Git.
#[must_use]
pub fn cards(view: &ClusterView, queues: &[String]) -> (Vec<Card>, Vec<Problem>) {
    let Offers { wanted, problems, .. } = offers(view, queues, &BTreeMap::new());
    (wanted, problems)
}

/// The menu of a round.
pub(crate) fn menu(input: &Input<'_>, planned: &PlannedRound) -> MenuRound {
    let Some(settings) = &input.settings.menu else { return MenuRound::default() };
    let Some(namespace) = namespace(input.objects) else { return MenuRound::default() };
    let there: BTreeMap<&str, &HardwareProfile> = input
        .objects
        .hardware_profiles
        .iter()
        .filter(|((within, _), _)| within == namespace)
        .map(|((_, name), profile)| (name.as_str(), profile))
        .collect();
    let mut offered: BTreeMap<&str, Vec<&HardwareProfile>> = BTreeMap::new();
    // Of what somebody has switched off by hand, another one that is switched on must not be made because a node has a little
    // more memory today.
    let is_offered = |profile: &HardwareProfile| !profile.is_disabled() || withdrawn(profile).is_none();
    for profile in there.values().filter(|profile| is_untouched(profile) && is_offered(profile)) {
        offered.entry(profile.annotation(OFFERS).unwrap_or_default()).or_default().push(profile);
    }
    let Offers { wanted, frozen, problems } = offers(&planned.view, &settings.queues, &offered);
    let was_there = &input.objects.menu_was_there;
    let wanted: BTreeMap<String, Card> = wanted.into_iter().map(|card| (card.name(), card)).collect();
    let named = named(input.objects);
    let mut menu = Menu {
        settings,
        namespace,
        now: input.now,
        before: &input.objects.menu_differs_since,
        was_there,
        offered: &offered,
        named: named
            .iter()
            .filter(|(within, _)| within == namespace)
            .map(|(_, name)| name.as_str())
            .collect(),
        round: MenuRound { namespace: Some(namespace.to_owned()), problems, ..MenuRound::default() },
    };
    let ours = there.iter().filter(|(_, profile)| profile.is_published()).map(|(name, _)| (*name).to_owned());
    let ours: BTreeSet<String> = ours.collect();
    let names: BTreeSet<String> = wanted.keys().chain(&ours).cloned().collect();
    for name in &names {
        let profile = there.get(name.as_str()).copied();
        let offers = profile.and_then(|profile| profile.annotation(OFFERS)).unwrap_or_default();
        // In preview and while it is paused a policy changes nothing.
        if wanted.contains_key(name) || !frozen.keeps(offers) {
            menu.look(name, wanted.get(name), profile);
        }
    }
    let mut round = menu.round;
    round.was_there.extend(ours);
    // A plan that breaks a rule, and data that went back in time, are no ground to act on.
    if input.obstacles.settling(input.now).is_some() || planned.plan.checked().is_none() {
        round.writes.clear();
    }
    round
}

/// Where OpenShift AI offers hardware profiles to all projects.
fn namespace(objects: &Objects) -> Option<&str> {
    let mut all = objects.installations.values().map(|found| found.spec.applications_namespace.as_str());
    all.find(|namespace| !namespace.is_empty())
}

/// Namespace and name of every hardware profile that something names, stopped
/// workbenches and what cannot be read included.
fn named(objects: &Objects) -> BTreeSet<(String, String)> {
    let workbenches = objects.notebooks.values().filter_map(|notebook| notebook.hardware_profile());
    let servers = objects.model_servers.values().filter_map(|server| server.hardware_profile());
    workbenches.chain(servers).chain(objects.unread_users.values().cloned()).collect()
}

/// Whether a profile is ours, and nobody has edited it.
fn is_untouched(profile: &HardwareProfile) -> bool {
    profile.is_published() && profile.annotation(SPEC_DIGEST) == Some(&spec_digest(&profile.spec))
}

struct Menu<'a> {
    settings: &'a MenuSettings,
    namespace: &'a str,
    now: Timestamp,
    before: &'a BTreeMap<String, Timestamp>,
    was_there: &'a BTreeSet<String>,
    offered: &'a BTreeMap<&'a str, Vec<&'a HardwareProfile>>,
    named: BTreeSet<&'a str>,
    round: MenuRound,
}

impl Menu<'_> {
    fn look(&mut self, name: &str, wanted: Option<&Card>, there: Option<&HardwareProfile>) {
        let (stand, act) = match (wanted, there) {
            (None, None) => return,
            (Some(card), None) => {
                // Another profile offers the same until this one takes its place; or somebody has deleted it, and will do
                // so again.
                let was_there = self.was_there.contains(name);
                let waits = was_there || self.offered.contains_key(card.offers().as_str());
                self.round.was_there.extend(was_there.then(|| name.to_owned()));
                let is_due = !waits || self.is_over(name);
                (Stand::Missing, is_due.then(|| MenuAct::Create(card.manifest(self.namespace))))
            }
            (_, Some(profile)) if !profile.is_published() => {
                let message = "has the name of a profile that the operator would publish, and is somebody else's, so it is left alone; delete or rename it if the operator should publish its own";
                self.warn(profile, message);
                (Stand::NameTaken, None)
            }
            (_, Some(profile)) if !is_untouched(profile) => {
                let message = "was published by the operator and has been edited, so the operator leaves it alone; give your version another name without the label app.kubernetes.io/managed-by, and delete this one once nothing names it";
                self.warn(profile, message);
                (Stand::Edited, None)
            }
            (Some(_), Some(profile)) => self.wanted(name, profile),
            (None, Some(profile)) => self.unwanted(name, profile),
        };
        self.round.stands.insert(name.to_owned(), stand);
        self.round.writes.extend(act.map(|act| MenuWrite { name: name.to_owned(), act }));
    }

    /// What is due with a profile that should be offered.
    fn wanted(&mut self, name: &str, profile: &HardwareProfile) -> (Stand, Option<MenuAct>) {
        match (profile.is_disabled(), withdrawn(profile)) {
            (false, _) => (Stand::Offered, None),
            (true, None) => (Stand::SetByHand, None),
            (true, Some(_)) => {
                let if_version = version(profile);
                let act = self.is_over(name).then_some(MenuAct::OfferAgain { if_version });
                (Stand::Missing, act)
            }
        }
    }

    /// What is due with a profile that should not be offered any more.
    fn unwanted(&mut self, name: &str, profile: &HardwareProfile) -> (Stand, Option<MenuAct>) {
        let if_version = version(profile);
        match (profile.is_disabled(), withdrawn(profile)) {
            (false, None) => {
                let act = self.is_over(name).then_some(MenuAct::Withdraw { if_version });
                (Stand::Outdated, act)
            }
            // Somebody wants it to be offered.
            (false, Some(_)) => (Stand::SetByHand, None),
            (true, _) if self.named.contains(name) => (Stand::InUse, None),
            (true, since) => {
                let uid = profile.metadata.uid.clone().unwrap_or_default();
                // Who has an old page open may still choose it for a while.
                let over = match since {
                    Some(since) => self.is_past(since),
                    None => self.is_over(name),
                };
                (Stand::Withdrawn, over.then_some(MenuAct::Delete { if_version, uid }))
            }
        }
    }

    /// Whether a profile has been otherwise than it should be for long enough.
    fn is_over(&mut self, name: &str) -> bool {
        let since = self.before.get(name).copied().unwrap_or(self.now).min(self.now);
        self.round.differs_since.insert(name.to_owned(), since);
        self.is_past(since)
    }

    fn is_past(&mut self, since: Timestamp) -> bool {
        let due = since.checked_add(self.settings.hold).unwrap_or(Timestamp::MAX);
        if due <= self.now {
            return true;
        }
        self.round.wake_at = Some(self.round.wake_at.map_or(due, |at| at.min(due)));
        false
    }

    fn warn(&mut self, profile: &HardwareProfile, message: &str) {
        let object = title("HardwareProfile", &profile.metadata);
        self.round.problems.push(Problem::new(Severity::Warning, object, message));
    }
}

/// When we disabled it, if we did. A time that cannot be read is long ago.
fn withdrawn(profile: &HardwareProfile) -> Option<Timestamp> {
    Some(profile.annotation(WITHDRAWN)?.parse().unwrap_or(Timestamp::UNIX_EPOCH))
}

fn version(profile: &HardwareProfile) -> String {
    profile.metadata.resource_version.clone().unwrap_or_default()
}
