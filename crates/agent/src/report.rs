//! When an account is due. The controller's proof rests on one account, and a
//! later one voids it: so there is one whenever the proof might come out
//! differently, and none that would only delay it.

use std::collections::BTreeSet;

use crate::account::{Account, GateReport, Known, Stage};
use crate::books::{Books, Holder};
use crate::gate::Gate;
use crate::layout::NodeLayout;
use crate::names::DeviceId;
use crate::observation::{Look, Observation};
use crate::wish::Wish;

/// A new account of what is seen, with the next number. Where a change is, is
/// taken over.
#[must_use]
pub fn renewed(observation: &Observation) -> Account {
    let Observation { me, boot, version: _, wish, account, look } = observation;
    let said = wish.as_ref().map(|wish| GateReport { change: wish.id.clone(), gate: look.gate.is });
    Account {
        report: account.as_ref().map(|account| account.report).unwrap_or_default().next(),
        agent: me.clone(),
        boot: boot.clone(),
        gate: said.or_else(|| account.as_ref().and_then(|account| account.gate.clone())),
        known: known(look),
        change: account.as_ref().and_then(|account| account.change.clone()),
    }
}

fn known(look: &Look) -> Known {
    Known::new(&look.layout.is, &look.books.is)
}

/// Whether what is seen differs from what was told, in a way that matters now.
#[must_use]
pub fn is_due(observation: &Observation, told: &Account) -> bool {
    let look = &observation.look;
    let news = || known(look) != told.known;
    let Some(wish) = &observation.wish else { return news() };
    let said = told.gate_for(&wish.id);
    match told.stage(&wish.id) {
        // The gate opens again: told once, when kubelet offers all that there is.
        Some(Stage::Ended(_)) => news() || look.gate.is == Gate::Open && said != Some(Gate::Open),
        None | Some(Stage::Claimed | Stage::Restoring { .. }) if !wish.destroys() => false,
        None | Some(Stage::Claimed | Stage::Restoring { .. }) => match look.gate.is {
            Gate::Closed => said != Some(Gate::Closed) || matters(wish, &told.known, look),
            Gate::Ajar | Gate::Open => said == Some(Gate::Closed),
        },
    }
}

/// Whether the proof might come out differently: somebody has, or no longer
/// has, a device that does not stay; or a container has its devices by now.
fn matters(wish: &Wish, told: &Known, look: &Look) -> bool {
    let seen = known(look);
    let recorded = |books: &Books| -> BTreeSet<(DeviceId, Holder)> {
        let all = books.devices().flat_map(|(id, holders)| holders.iter().map(|h| (id.clone(), h.clone())));
        all.filter(|(_, holder)| matches!(holder, Holder::Recorded { .. })).collect()
    };
    evidence(wish, told) != evidence(wish, &seen) || !recorded(&seen.books).is_subset(&recorded(&told.books))
}

type Evidence<'a> = (Option<&'a str>, BTreeSet<(&'a DeviceId, &'a Holder)>, usize);

/// Who has what of all that does not stay: by device, since a device that we
/// destroyed is one that nobody knows from then on.
fn evidence<'a>(wish: &Wish, known: &'a Known) -> Evidence<'a> {
    let Known { layout, books } = known;
    let moving: BTreeSet<_> = wish.moving().collect();
    let moves = |gpu: &crate::names::GpuUuid, slice: &crate::layout::Slice| {
        moving.iter().any(|name| name.gpu == *gpu && name.place == slice.place)
    };
    let stays: BTreeSet<_> = layout
        .slices()
        .filter(|(gpu, slice)| !moves(gpu, slice))
        .flat_map(|(_, slice)| slice.devices.iter())
        .collect();
    let held = books
        .devices()
        .filter(|(device, _)| !stays.contains(device))
        .flat_map(|(device, holders)| holders.iter().map(move |holder| (device, holder)))
        .collect();
    (books.unreadable(), held, busy(layout, moves))
}

fn busy(layout: &NodeLayout, moves: impl Fn(&crate::names::GpuUuid, &crate::layout::Slice) -> bool) -> usize {
    layout.slices().filter(|(gpu, slice)| slice.busy && moves(gpu, slice)).count()
}
