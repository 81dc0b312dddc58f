//! The requests that a step claims to serve: with slices that it creates, and within the remaining
//! resources of its node.

use planner::inventory::{ChangeScope, Room};
use planner::names::GpuIndex;
use planner::testing::{a100, profile, request};

use super::world::{World, recut};

/// The room of the node, and what the two pods take of it beside slices: each
/// half of this.
fn in_room(room: Room, cpu_milli: i64, memory_bytes: i64) -> impl FnOnce(&mut World) {
    move |w| {
        w.node("ridge").room = room;
        let (cpu, memory) = (cpu_milli / 2, memory_bytes / 2);
        w.requests[0] = request("ada").asks("1g.20gb", 1).takes(cpu, memory).build();
        w.requests[1] =
            request("bob").asks("1g.10gb", 2).takes(cpu_milli - cpu, memory_bytes - memory).build();
    }
}

const ROOM: Room = Room { cpu_milli: 4_000, memory_bytes: 8 << 30, storage_bytes: 10, pods: 2 };

#[test]
fn what_is_served_fits_in_cpu_memory_storage_and_pod_slots_each() {
    let mut exact = recut();
    in_room(ROOM, 4_000, 8 << 30)(&mut exact);
    exact.passes();
    let too_much =
        &["fatal: ridge: its requests take more CPU, memory, ephemeral storage or pod slots than are free"];
    recut().broken(in_room(ROOM, 4_001, 8 << 30), too_much);
    recut().broken(in_room(ROOM, 4_000, (8 << 30) + 1), too_much);
    recut().broken(in_room(Room { pods: 1, ..ROOM }, 4_000, 8 << 30), too_much);
    let store = |bytes: i64| {
        move |w: &mut World| {
            w.node("ridge").room = ROOM;
            w.requests.iter_mut().for_each(|request| request.takes.storage_bytes = bytes);
        }
    };
    let mut exact = recut();
    store(5)(&mut exact);
    exact.passes();
    recut().broken(store(6), too_much);
}

/// Somebody may have given more of a node away than it has, which is no matter
/// to a pod that asks for none of it: kube-scheduler binds it.
#[test]
fn who_takes_nothing_fits_where_less_than_nothing_is_free() {
    let mut without = recut();
    in_room(Room { cpu_milli: -500, memory_bytes: -1, storage_bytes: -1, pods: 2 }, 0, 0)(&mut without);
    without.passes();
    recut().broken(
        in_room(Room { cpu_milli: -500, ..ROOM }, 1, 0),
        &[
            "fatal: ridge: Pod lab/bob may not use the node, which has -500m CPU free (wanted: 1m)",
            "fatal: ridge: its requests take more CPU, memory, ephemeral storage or pod slots than are free",
        ],
    );
}

/// The larger slice is idle, and stays: whoever asks for it can have it without
/// any step, so no step may be begun in its name.
#[test]
fn a_slice_that_is_kept_serves_nobody_anew() {
    let kept = |w: &mut World| {
        let gpu = a100().idle("2g.20gb", 0).idle("1g.10gb", 2).idle("3g.40gb", 4).build();
        w.change().before = gpu.slices.clone();
        w.node("ridge").gpus.insert(GpuIndex(0), gpu);
        w.node("ridge").allocated.clear();
    };
    let not_new = &["fatal: ridge: no new slice serves Pod lab/ada"];
    recut().broken(
        |w| {
            kept(w);
            w.requests[0] = request("ada").asks("3g.40gb", 1).build();
        },
        not_new,
    );
    // Where all of the GPU is taken away and made again, nobody can have it without the step.
    let mut emptied = recut();
    kept(&mut emptied);
    emptied.requests[0] = request("ada").asks("3g.40gb", 1).build();
    emptied.node("ridge").scope = ChangeScope::IdleGpus;
    emptied.change().creation_order =
        Some(["3g.40gb", "1g.20gb", "1g.10gb", "1g.10gb"].map(profile).to_vec());
    emptied.passes();
    // None of a new profile is no reason either.
    recut().broken(
        |w| {
            kept(w);
            w.requests[0] = request("ada").asks("1g.20gb", 0).asks("3g.40gb", 1).build();
        },
        not_new,
    );
}
