//! Small traces for which every figure can be calculated by hand.
//!
//! The times: a layout that no node has takes 120 s to come to the node; then
//! the node is cordoned, and with MIG manager it is open again 200 s later,
//! with an agent for single slices after 80 s (and no wait for the map).

use replay::{Actuator, Figures, Player, Replay};

use crate::support::{all, fleet, play, play_from, rules, trace};

fn waited(replay: &Replay) -> Vec<(usize, i64)> {
    let mut bound: Vec<(usize, i64)> = replay.journal.holdings.iter().map(|h| (h.request, h.from)).collect();
    bound.dedup();
    bound
}

/// Five requests on one GPU of 80 GB, which is one slice of full size at first.
const FIVE: &str = "\
0,1000,a,7g.80gb,1
100,3000,b,3g.40gb,1
200,3000,c,3g.40gb,1
2000,2500,d,1g.10gb,1
2900,4000,e,7g.80gb,1
";

#[test]
fn five_requests_on_one_gpu_that_is_cut_as_a_whole() {
    let fleet = fleet("1x1xA100-80GB");
    let trace = trace(FIVE, &fleet);
    let replay = play(&trace, &fleet, &Player::Slicewright, &rules(Actuator::IdleGpus));
    // a has its slice at once. b and c wait until it goes at 1000: 120 s for the map, and 200 s
    // closed, so they begin at 1320. d needs the GPU to be idle, and goes at 2500. b and c go at
    // 3000; e waits for them, and since no node has the layout any more, for 120 s and 200 s more.
    assert_eq!(waited(&replay), [(0, 0), (1, 1320), (2, 1320), (4, 3320)]);
    let Figures { asked, served, never, waited, held_slice_seconds, gpus_changed, .. } = replay.figures;
    assert_eq!((asked, served, never), (5, 4, 1));
    // 0, 1220, 1120, 500 (never served), 420.
    assert_eq!((waited.p50, waited.p90, waited.max, waited.sum), (500, 1220, 1220, 3260));
    assert_eq!(held_slice_seconds, 7 * 1000 + 2 * 3 * 1680 + 7 * 680);
    assert_eq!(gpus_changed, 2);
    assert_eq!(replay.figures.closed_node_seconds, 400);
}

#[test]
fn the_same_five_where_single_slices_can_be_made() {
    let fleet = fleet("1x1xA100-80GB");
    let trace = trace(FIVE, &fleet);
    let replay = play(&trace, &fleet, &Player::Slicewright, &rules(Actuator::SingleSlices));
    // b and c: at 1000 the cut begins, at 1080 they begin. d finds no room: both halves of the
    // memory are taken. e waits until 3000, and 80 s.
    assert_eq!(waited(&replay), [(0, 0), (1, 1080), (2, 1080), (4, 3080)]);
}

#[test]
fn beside_a_slice_in_use_only_single_slices_help() {
    let fleet = fleet("1x1xA100-80GB");
    let trace = trace("0,2000,a,3g.40gb,1\n500,2000,b,2g.20gb,1\n", &fleet);
    let cut = all(&fleet, "3g.40gb");
    let of = |actuator| play_from(&trace, &fleet, &Player::Slicewright, &rules(actuator), &cut);
    assert_eq!(waited(&of(Actuator::SingleSlices)), [(0, 0), (1, 580)]);
    assert_eq!(waited(&of(Actuator::IdleGpus)), [(0, 0)]);
}

#[test]
fn where_nobody_looks_an_idle_gpu_is_not_provably_idle() {
    // Two GPUs of one node in halves; one half of one of them is in use, and
    // nobody can tell of which.
    let fleet = fleet("1x2xA100-80GB");
    let trace = trace("0,2000,a,3g.40gb,1\n500,2000,b,7g.80gb,1\n", &fleet);
    let cut = all(&fleet, "3g.40gb");
    let of = |actuator| play_from(&trace, &fleet, &Player::Slicewright, &rules(actuator), &cut);
    // 120 s for the map and 200 s closed.
    assert_eq!(waited(&of(Actuator::IdleGpus)), [(0, 0), (1, 820)]);
    assert_eq!(waited(&of(Actuator::ProvablyIdle)), [(0, 0)]);
}

#[test]
fn one_node_is_closed_at_a_time_and_rests_as_the_policy_says() {
    let fleet = fleet("2x1xA100-80GB");
    let lines = "0,5000,a,3g.40gb,1\n0,5000,b,3g.40gb,1\n0,5000,c,3g.40gb,1\n";
    let trace = trace(lines, &fleet);
    let replay = play(&trace, &fleet, &Player::Slicewright, &rules(Actuator::IdleGpus));
    let changes: Vec<(usize, i64, i64)> =
        replay.journal.changes.iter().map(|c| (c.node, c.from, c.until)).collect();
    // Both come to the same layout, which is in the map for both at 120.
    assert_eq!(changes, [(0, 120, 320), (1, 320, 520)]);
    assert_eq!(waited(&replay), [(0, 320), (1, 320), (2, 520)]);
    // With a budget of none nothing ever starts.
    let mut none = rules(Actuator::IdleGpus);
    none.rollout.rules.max_unavailable = rollout::MaxUnavailable::Nodes(0);
    assert_eq!(play(&trace, &fleet, &Player::Slicewright, &none).figures.never, 3);
    // With two, both are closed at once.
    let mut two = rules(Actuator::IdleGpus);
    two.rollout.rules.max_unavailable = rollout::MaxUnavailable::Nodes(2);
    assert_eq!(waited(&play(&trace, &fleet, &Player::Slicewright, &two)), [(0, 320), (1, 320), (2, 320)]);
}

#[test]
fn a_node_that_changed_rests_before_it_changes_again() {
    let fleet = fleet("1x1xA100-80GB");
    let trace = trace("0,400,a,3g.40gb,1\n500,3000,b,7g.80gb,1\n", &fleet);
    let mut rests = rules(Actuator::IdleGpus);
    rests.rollout.rules.cooldown = Some(jiff::SignedDuration::from_mins(10));
    for player in [Player::Slicewright, Player::FirstFit, Player::BestFit] {
        // a: 120 and 200. b: the node rests until 320 + 600; then 120 and 200 again.
        assert_eq!(waited(&play(&trace, &fleet, &player, &rests)), [(0, 320), (1, 1240)], "{player:?}");
        let at_once = rules(Actuator::IdleGpus);
        assert_eq!(waited(&play(&trace, &fleet, &player, &at_once)), [(0, 320), (1, 820)], "{player:?}");
    }
}

#[test]
fn a_change_that_nobody_wants_any_more_is_taken_back_before_it_begins() {
    let fleet = fleet("1x1xA100-80GB");
    // a goes while the node is cordoned (120 to 125), b before the map has come.
    let trace = trace("0,122,a,3g.40gb,1\n1000,1050,b,3g.40gb,1\n1100,1200,c,7g.80gb,1\n", &fleet);
    let replay = play(&trace, &fleet, &Player::Slicewright, &rules(Actuator::IdleGpus));
    assert_eq!(waited(&replay), [(2, 1100)]);
    let Figures { gpus_changed, taken_back, closed_node_seconds, .. } = replay.figures;
    assert_eq!((gpus_changed, taken_back, closed_node_seconds), (0, 1, 2));
}

#[test]
fn layouts_that_never_change_serve_what_they_have() {
    let fleet = fleet("1x2xA100-80GB");
    let trace =
        trace("0,100,a,3g.40gb,1\n0,100,b,1g.10gb,1\n10,100,c,3g.40gb,4\n20,100,d,3g.40gb,3\n", &fleet);
    let cut = all(&fleet, "3g.40gb");
    let replay = play_from(&trace, &fleet, &Player::Static, &rules(Actuator::IdleGpus), &cut);
    assert_eq!(waited(&replay), [(0, 0), (3, 20)]);
    // 14 compute slices, of which 12 are cut: a holds 3 for 100 s, d 9 for 80 s.
    let level = replay.figures.fleet;
    assert_eq!((level.held, level.idle, level.away, level.uncut), (1020, 180, 0, 200));
    assert_eq!(replay.figures.gpus_changed, 0);
}

#[test]
fn first_fit_takes_the_first_gpu_and_best_fit_the_tightest() {
    let fleet = fleet("1x2xA100-80GB");
    // Single slices: a takes 3g of GPU 0 under either. Then b asks for 1g.
    let trace = trace("0,900,a,3g.40gb,1\n200,900,b,1g.10gb,1\n400,900,c,3g.40gb,1\n", &fleet);
    for player in [Player::FirstFit, Player::BestFit] {
        let replay = play(&trace, &fleet, &player, &rules(Actuator::SingleSlices));
        assert_eq!(waited(&replay), [(0, 80), (1, 280), (2, 480)], "{player:?}");
    }
    // Whole GPUs: b waits for the second GPU, which is cut into seven; c uses what a's has left.
    for player in [Player::FirstFit, Player::BestFit] {
        let replay = play(&trace, &fleet, &player, &rules(Actuator::IdleGpus));
        // a: 120 + 200, though b comes meanwhile, whose change waits for its turn: the node is one.
        assert_eq!(waited(&replay)[0], (0, 320), "{player:?}");
        assert_eq!(replay.figures.served, 3, "{player:?}");
    }
}

#[test]
fn a_scheduler_that_packs_leaves_a_node_whole_for_who_needs_all_of_it() {
    let fleet = fleet("2x2xA100-80GB");
    let trace = trace("0,100,a,7g.80gb,1\n10,100,b,7g.80gb,1\n20,100,c,7g.80gb,2\n", &fleet);
    let mut packs = rules(Actuator::IdleGpus);
    assert_eq!(waited(&play(&trace, &fleet, &Player::Slicewright, &packs)), [(0, 0), (1, 10)]);
    packs.scheduler = replay::Scheduler::Pack;
    assert_eq!(waited(&play(&trace, &fleet, &Player::Slicewright, &packs)), [(0, 0), (1, 10), (2, 20)]);
}

#[test]
fn outside_of_a_window_no_node_starts() {
    let fleet = fleet("1x1xA100-80GB");
    let trace = trace("0,9000,a,3g.40gb,1\n", &fleet);
    let mut by_night = rules(Actuator::IdleGpus);
    // Second 0 is midnight in UTC: the window opens an hour later, and the map is long there.
    let window = rollout::window::Window::new("0 1 * * *", "1h", "UTC").unwrap();
    by_night.rollout.rules.windows = vec![window];
    assert_eq!(waited(&play(&trace, &fleet, &Player::Slicewright, &by_night)), [(0, 3800)]);
}

#[test]
fn a_spare_slice_is_there_before_anybody_asks() {
    let fleet = fleet("1x2xA100-80GB");
    // The first request comes when the fleet has had time to make a spare.
    let trace = trace("0,10,early,7g.80gb,1\n1000,2000,a,1g.10gb,1\n", &fleet);
    let mut spare = rules(Actuator::IdleGpus);
    let bounds = planner::policy::Bounds { min: 0, spare: 1, max: None };
    let planner::policy::LayoutPolicy::DemandDriven { slices, .. } = &mut spare.policy.layout else {
        unreachable!()
    };
    slices.insert("1g.10gb".parse().unwrap(), bounds);
    let replay = play(&trace, &fleet, &Player::Slicewright, &spare);
    assert_eq!(waited(&replay), [(0, 0), (1, 1000)]);
}

/// Small slices go with the GPU that is emptied for a large one, and come back with it.
const TWELVE: &str = "\
0,2112,p0,2g.20gb,2
141,142,p1,1g.10gb,1
427,428,p2,1g.10gb,1
548,549,p3,1g.10gb,1
722,723,p4,1g.10gb,1
810,2234,p5,4g.40gb,1
1197,1198,p6,1g.10gb,1
1373,1374,p7,1g.10gb,1
1454,2234,p8,3g.40gb,1
1793,1794,p9,1g.10gb,1
1931,2234,p10,2g.20gb,1
2233,2234,p11,2g.20gb,1
";

/// Found by chance in one of six hundred random traces: who came last waits for a slice that is
/// there, is taken away in the cut that was begun for p8, and comes back at the same place.
#[test]
fn who_waits_for_a_slice_that_is_made_again_is_served_by_the_cut() {
    let fleet = fleet("1x2xA100-80GB");
    let trace = trace(TWELVE, &fleet);
    let replay = play(&trace, &fleet, &Player::Slicewright, &rules(Actuator::IdleGpus));
    let Figures { asked, served, never, .. } = replay.figures;
    assert_eq!((asked, served, never), (12, 3, 9));
}

/// A node that changes for two people is promised to them. Without that the plan gives what it comes to, while it
/// changes, to somebody who came later and asks for both slices, and cuts a GPU of another node for one of the two.
#[test]
fn what_a_node_changes_to_is_kept_for_those_for_whom_it_changes() {
    let fleet = fleet("2x8xA100-80GB");
    // Fifteen GPUs are taken, and half of the sixteenth, on the second node. The whole one is on the first.
    let trace = trace(
        "0,9000,half,3g.40gb,1\n0,9000,train-a,7g.80gb,7\n0,9000,train-b,7g.80gb,7\n\
         10,9000,b,3g.40gb,1\n10,9000,b,3g.40gb,1\n50,500,c,3g.40gb,2\n",
        &fleet,
    );
    let cut = [((1, 7), vec![("3g.40gb".parse().unwrap(), 0)])].into();
    let mut two = rules(Actuator::SingleSlices);
    two.rollout.rules.max_unavailable = rollout::MaxUnavailable::Nodes(2);
    let replay = play_from(&trace, &fleet, &Player::Slicewright, &two, &cut);
    assert_eq!(waited(&replay), [(0, 0), (1, 0), (2, 0), (3, 90), (4, 90)]);
    let changes: Vec<_> = replay.journal.changes.iter().map(|c| (c.node, c.from, c.until)).collect();
    assert_eq!(changes, [(0, 10, 90)]);
}

#[test]
fn a_higher_priority_comes_before_an_older_request() {
    let fleet = fleet("1x1xA100-80GB");
    // b and c ask for as many compute slices, and one GPU has not enough for both.
    let mut trace = trace("0,1000,a,7g.80gb,1\n100,3000,b,4g.40gb,1\n200,3000,c,1g.10gb,4\n", &fleet);
    for player in [Player::Slicewright, Player::FirstFit, Player::BestFit] {
        let played = play(&trace, &fleet, &player, &rules(Actuator::IdleGpus));
        assert_eq!(waited(&played), [(0, 0), (1, 1320)], "{player:?}");
    }
    trace.requests[2].asker.priority = 100;
    for player in [Player::Slicewright, Player::FirstFit, Player::BestFit] {
        let played = play(&trace, &fleet, &player, &rules(Actuator::IdleGpus));
        assert_eq!(waited(&played), [(0, 0), (2, 1320)], "{player:?}");
    }
}

/// Two namespaces of one team, to which the policy gives seven compute slices together. When the second asks, the
/// first holds them.
#[test]
fn a_share_counts_what_the_namespaces_of_its_label_hold() {
    let fleet = fleet("2x8xA100-80GB");
    let line = |i: i64| format!("{},9000,p{i},1g.10gb,1\n", i / 7 * 5000);
    let mut trace = trace(&(0..14).map(line).collect::<String>(), &fleet);
    for (i, asked) in trace.requests.iter_mut().enumerate() {
        let namespace = if i < 7 { "speech" } else { "vision" }.to_owned();
        let labels = [("team".to_owned(), "sound-and-sight".to_owned())].into();
        asked.asker = replay::Asker { namespace, labels, ..replay::Asker::default() };
    }
    let mut shared = rules(Actuator::IdleGpus);
    assert_eq!(play(&trace, &fleet, &Player::Slicewright, &shared).figures.served, 14);
    let planner::policy::LayoutPolicy::DemandDriven { shares, .. } = &mut shared.policy.layout else {
        unreachable!()
    };
    let of_the_team = planner::demand::Expression {
        key: "team".to_owned(),
        operator: planner::demand::Operator::Exists,
        values: vec![],
    };
    let (namespaces, max) = (vec![of_the_team], Some(7));
    shares.push(planner::policy::Share { namespaces, per_namespace: false, min: 0, max });
    let played = play(&trace, &fleet, &Player::Slicewright, &shared);
    assert!(waited(&played).iter().all(|(request, _)| *request < 7), "{:?}", waited(&played));
    assert_eq!(played.figures.served, 7);
}
