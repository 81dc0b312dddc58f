//! Traces and fleets that read as sentences.

use std::collections::BTreeMap;

use mig::Catalog;
use planner::policy::{Drain, LayoutPolicy, Mode, Policy, Unrequested};
use replay::{Actuator, Fleet, Player, Replay, Rules, Trace};
use rollout::fleet::PolicyRollout;
use rollout::{RolloutRules, Settings};

pub(crate) fn fleet(text: &str) -> Fleet {
    Fleet::parse(text, Catalog::builtin()).unwrap()
}

/// Lines of `create_s,delete_s,pod,profile,count`.
pub(crate) fn trace(lines: &str, fleet: &Fleet) -> Trace {
    Trace::parse(&format!("create_s,delete_s,pod,profile,count\n{lines}"), &fleet.profiles(), None).unwrap()
}

/// Whatever is asked for; one node at a time, and no rest in between.
pub(crate) fn rules(actuator: Actuator) -> Rules {
    let layout = LayoutPolicy::DemandDriven {
        namespaces: vec![],
        slices: BTreeMap::new(),
        unrequested: Unrequested::Keep,
        order: planner::policy::Order::MostServed,
        shares: vec![],
        whole_gpus: None,
    };
    Rules {
        actuator,
        policy: Policy {
            name: "replay".into(),
            nodes: vec![],
            priority: 0,
            mode: Mode::Enforce,
            layout,
            drain: Drain::Never,
        },
        rollout: PolicyRollout {
            rules: RolloutRules { cooldown: Some(jiff::SignedDuration::ZERO), ..RolloutRules::default() },
            enforce: true,
        },
        settings: Settings::default(),
        away: None,
        scheduler: replay::Scheduler::Spread,
        spans: 10,
    }
}

/// Plays it, and has it checked by somebody else.
pub(crate) fn play(trace: &Trace, fleet: &Fleet, player: &Player, rules: &Rules) -> Replay {
    play_from(trace, fleet, player, rules, &BTreeMap::new())
}

pub(crate) fn play_from(
    trace: &Trace,
    fleet: &Fleet,
    player: &Player,
    rules: &Rules,
    cut: &BTreeMap<(usize, usize), Vec<(mig::ProfileName, u8)>>,
) -> Replay {
    let replay = replay::replay(trace, fleet, player, rules, cut, &mut |_, _| {}).unwrap();
    crate::audit::audit(trace, fleet, &replay);
    replay
}

/// Every GPU cut into as many of a profile as have room.
pub(crate) fn all(fleet: &Fleet, profile: &str) -> BTreeMap<(usize, usize), Vec<(mig::ProfileName, u8)>> {
    let profile: mig::ProfileName = profile.parse().unwrap();
    let mut cut = BTreeMap::new();
    for (node, spec) in fleet.nodes.iter().enumerate() {
        for (gpu, spec) in spec.gpus.iter().enumerate() {
            let index = spec.geometry.profile_named(profile).unwrap();
            let n = mig::remaining(&spec.geometry, mig::Layout::EMPTY, index);
            let counts = [(index, n)].into_iter().collect();
            let layout = mig::fit(&spec.geometry, &counts).unwrap().layout;
            cut.insert((node, gpu), layout.iter().map(|p| spec.geometry.describe(p)).collect());
        }
    }
    cut
}
