//! An independent check of a replay, from the journal alone: it shares no code with the replay except the
//! catalogue of GPUs.

use std::collections::BTreeMap;

use replay::{Fleet, Replay, Trace};

/// Checks the journal and that the figures are what it says.
#[track_caller]
pub(crate) fn audit(trace: &Trace, fleet: &Fleet, replay: &Replay) {
    slices_are_held_by_one_and_fit_their_gpu(fleet, replay);
    nobody_holds_what_was_not_asked_for(trace, replay);
    nothing_begins_on_a_closed_node(replay);
    totals(trace, fleet, replay);
}

fn slices_are_held_by_one_and_fit_their_gpu(fleet: &Fleet, replay: &Replay) {
    let mut gpus: BTreeMap<(usize, usize), Vec<_>> = BTreeMap::new();
    for holding in &replay.journal.holdings {
        gpus.entry((holding.node, holding.gpu)).or_default().push(holding);
    }
    for ((node, gpu), holdings) in gpus {
        let geometry = &fleet.nodes[node].gpus[gpu].geometry;
        // What is held changes when somebody begins: at each such second all
        // that is held has to be a legal layout.
        for at in holdings.iter().map(|h| h.from) {
            let held = holdings.iter().filter(|h| h.from <= at && at < h.until);
            let layout = geometry.layout(held.map(|h| (h.profile, h.start)));
            assert!(layout.is_ok(), "GPU {gpu} of node {node} at {at}: {layout:?}");
        }
    }
}

fn nobody_holds_what_was_not_asked_for(trace: &Trace, replay: &Replay) {
    let mut of: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for holding in &replay.journal.holdings {
        of.entry(holding.request).or_default().push(holding);
    }
    for (request, holdings) in of {
        let asked = &trace.requests[request];
        assert_eq!(holdings.len(), usize::try_from(asked.count).unwrap(), "{asked:?}: all or nothing");
        for holding in &holdings {
            assert_eq!(
                (holding.node, holding.from),
                (holdings[0].node, holdings[0].from),
                "on one node, at once"
            );
            assert_eq!((holding.profile, holding.until), (asked.profile, asked.until));
            assert!(asked.from <= holding.from && holding.from < asked.until, "{asked:?} {holding:?}");
        }
    }
}

fn nothing_begins_on_a_closed_node(replay: &Replay) {
    for change in &replay.journal.changes {
        let mut began = replay.journal.holdings.iter().filter(|h| h.node == change.node);
        let inside = began.find(|h| change.from < h.from && h.from < change.until);
        assert!(inside.is_none(), "{inside:?} during {change:?}");
    }
}

fn totals(trace: &Trace, fleet: &Fleet, replay: &Replay) {
    let figures = &replay.figures;
    assert_eq!(figures.served + figures.never, figures.asked);
    assert_eq!(figures.asked, trace.requests.len());
    let mut served: Vec<usize> = replay.journal.holdings.iter().map(|h| h.request).collect();
    served.sort_unstable();
    served.dedup();
    assert_eq!(figures.served, served.len());
    let of = |h: &replay::Holding| u128::from(h.profile.compute) * u128::try_from(h.until - h.from).unwrap();
    let held: u128 = replay.journal.holdings.iter().map(of).sum();
    assert_eq!(figures.held_slice_seconds, held);
    let (from, until) = trace.span();
    let capacity = u128::from(fleet.compute()) * u128::try_from(until - from).unwrap();
    assert_eq!(figures.fleet.capacity(), capacity, "held, idle, away and uncut are all there is");
    assert!(held <= capacity && held <= figures.asked_slice_seconds);
    assert_eq!(figures.fleet.waiting, figures.asked_slice_seconds - held, "who does not hold waits");
    assert_eq!(figures.gpus_changed, replay.journal.changes.iter().map(|c| c.gpus.len()).sum::<usize>());
}
