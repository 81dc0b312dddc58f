//! Small worlds: fleets, requests and policies, drawn at random.

use std::collections::BTreeSet;
use std::fmt;

use planner::demand::{Operator, Request};
use planner::inventory::{ChangeScope, Hold, Inventory, Node, Sharing, Slices};
use planner::policy::{Mode, Policy};
use planner::report::Offered;
use planner::testing::{self, GpuBuilder, RequestBuilder, a30, a100};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// All that is planned with.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) inventory: Inventory,
    pub(crate) requests: Vec<Request>,
    pub(crate) policies: Vec<Policy>,
}

/// Without the tables of the models, which would bury everything else.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, node) in &self.inventory.nodes {
            let Node {
                labels,
                single_strategy,
                taints,
                room,
                other_resources,
                scope,
                hold,
                schedulable,
                allocated,
                whole_held,
                whole_shared: _,
                shared,
                held: _,
                gpus,
            } = node;
            let held: Vec<_> = allocated.iter().map(|(profile, n)| format!("{profile}x{n}")).collect();
            writeln!(
                f,
                "{name}: {labels:?} single {single_strategy} {scope:?} {hold:?} schedulable {schedulable} held {held:?} whole {whole_held} shares {shared:?}"
            )?;
            writeln!(f, "  {room:?} {other_resources:?} {taints:?}")?;
            for (index, gpu) in gpus {
                write!(f, "  gpu{index} {}{}:", gpu.model, if gpu.hold.is_some() { " (held)" } else { "" })?;
                match &gpu.slices {
                    Slices::Placed(slices) => {
                        slices
                            .iter()
                            .try_for_each(|s| write!(f, " {}@{} {:?};", s.profile, s.start, s.used))?;
                    }
                    Slices::Counted(slices) => {
                        slices.iter().try_for_each(|s| write!(f, " {} {:?};", s.profile, s.used))?;
                    }
                    Slices::MigOff { used } => write!(f, " MIG off {used:?}")?,
                }
                writeln!(f)?;
            }
        }
        for request in &self.requests {
            let asks: Vec<_> = request.slices.iter().map(|(profile, n)| format!("{profile}x{n}")).collect();
            let Request { id, whole_gpus, shared, priority, since, constraints, takes, .. } = request;
            writeln!(
                f,
                "{id} asks {asks:?} and {whole_gpus} whole and {shared:?}, priority {priority} since {since} {constraints:?} {takes:?}"
            )?;
        }
        self.policies.iter().try_for_each(|policy| writeln!(f, "{policy:?}"))
    }
}

/// A slice to be put where it fits first, and what of it: idle, in use, maybe.
#[derive(Clone, Debug)]
struct Cut {
    profile: Index,
    start: Index,
    used: u8,
}

#[derive(Clone, Debug)]
struct GpuSpec {
    small: bool,
    cuts: Vec<Cut>,
    held: bool,
    /// MIG is off: idle, or used by somebody.
    off: Option<bool>,
}

#[derive(Clone, Debug)]
struct NodeSpec {
    gpus: Vec<GpuSpec>,
    scope: ChangeScope,
    second_pool: bool,
    far: bool,
    state: u8,
    /// Whether slices of one profile that may be held are held by one pod, or
    /// by either of two.
    two: bool,
    /// CPU, memory, pods and storage that are left, in units.
    room: Option<(i64, i64, i64, i64)>,
    tainted: bool,
}

fn cut() -> impl Strategy<Value = Cut> {
    let used = prop_oneof![8 => Just(0_u8), 2 => Just(1), 1 => Just(2)];
    (any::<Index>(), any::<Index>(), used).prop_map(|(profile, start, used)| Cut { profile, start, used })
}

fn gpu() -> impl Strategy<Value = GpuSpec> {
    let off = prop_oneof![8 => Just(None), 1 => any::<bool>().prop_map(Some)];
    (any::<bool>(), vec(cut(), 0..5), prop::bool::weighted(0.05), off)
        .prop_map(|(small, cuts, held, off)| GpuSpec { small, cuts, held, off })
}

fn node() -> impl Strategy<Value = NodeSpec> {
    let scope = prop_oneof![
        3 => Just(ChangeScope::SliceBySlice),
        2 => Just(ChangeScope::IdleGpus),
        1 => Just(ChangeScope::EmptyNode),
    ];
    let room = prop::option::weighted(0.4, (0_i64..4, 0_i64..4, 0_i64..4, 4_i64..9));
    let rest = (any::<bool>(), room, prop::bool::weighted(0.1));
    (vec(gpu(), 1..=2), scope, prop::bool::weighted(0.25), any::<bool>(), 0_u8..20, rest).prop_map(
        |(gpus, scope, second_pool, far, state, (two, room, tainted))| NodeSpec {
            gpus,
            scope,
            second_pool,
            far,
            state,
            two,
            room,
            tainted,
        },
    )
}

/// The slices of a GPU: `(profile, start, use)`.
fn layout(spec: &GpuSpec, gpu: &planner::inventory::Gpu) -> Vec<(String, u8, u8)> {
    let mut taken = BTreeSet::new();
    let mut slices = Vec::new();
    let profiles = gpu.geometry.profiles();
    for Cut { profile, start, used } in &spec.cuts {
        let profile = &profiles[profile.index(profiles.len())];
        let start = profile.starts[start.index(profile.starts.len())];
        let units: Vec<u8> = (start..start + profile.size).collect();
        if units.iter().all(|unit| !taken.contains(unit)) {
            taken.extend(units);
            slices.push((profile.name.to_string(), start, *used));
        }
    }
    if slices.is_empty() {
        let whole = profiles.last().expect("some");
        slices.push((whole.name.to_string(), 0, 0));
    }
    slices
}

/// A unit of CPU, and of memory and storage.
const UNIT: (i64, i64) = (500, 1 << 30);

fn build_node(name: &str, spec: &NodeSpec) -> testing::NodeBuilder {
    let NodeSpec { gpus, scope, second_pool, far, state, two, room, tainted } = spec;
    let mut node = testing::node().scope(*scope);
    if *second_pool {
        node = node.label("pool", "annex");
    }
    node = node.label("zone", if *far { "far" } else { "near" });
    if let Some((cpu, memory, pods, storage)) = room {
        node = node.room(cpu * UNIT.0, memory * UNIT.1, *pods).free_storage(storage * UNIT.1);
    }
    if *tainted {
        node = node.taint("dedicated", "ops", "NoSchedule");
    }
    node = match state {
        0 => node.held(Hold::Changing),
        1 => node.unschedulable(),
        2 => node.held(Hold::Cordoned { by: "an admin".to_owned() }).unschedulable(),
        _ => node,
    };
    let base = |spec: &GpuSpec| if spec.small { a30() } else { a100() };
    let cut = |spec: &GpuSpec| if spec.off.is_none() { layout(spec, &base(spec).build()) } else { vec![] };
    let layouts: Vec<_> = gpus.iter().map(cut).collect();
    // Without an agent only counts are known, and use only by profile and node.
    let counted = *scope != ChangeScope::SliceBySlice;
    let in_use: BTreeSet<&String> =
        layouts.iter().flatten().filter(|(_, _, used)| *used > 0).map(|(p, _, _)| p).collect();
    // Nor which of several whole GPUs a pod holds.
    let off_used = gpus.iter().filter(|spec| spec.off == Some(true)).count();
    let some_off_used = off_used > 0 && gpus.iter().filter(|spec| spec.off.is_some()).count() > off_used;
    let off_holder = format!("{name}-all");
    if counted && some_off_used {
        node = node.whole_held(u32::try_from(off_used).expect("few"));
    }
    for (g, (spec, slices)) in gpus.iter().zip(&layouts).enumerate() {
        let mut gpu: GpuBuilder = match spec.off {
            None => base(spec),
            Some(_) if counted && some_off_used => base(spec).mig_off_maybe(&off_holder),
            Some(false) => base(spec).mig_off(),
            Some(true) => base(spec).mig_off_used(&format!("{name}-{g}-all")),
        };
        for (s, (profile, start, used)) in slices.iter().enumerate() {
            let holder = format!("{name}-{g}-{s}");
            let any_holder = [format!("{name}-{profile}"), format!("{name}-{profile}-too")];
            let any_holder: Vec<&str> =
                any_holder.iter().take(if *two { 2 } else { 1 }).map(String::as_str).collect();
            gpu = match (counted, used) {
                (true, _) if in_use.contains(profile) => gpu.counted_maybe(profile, 1, &any_holder),
                (true, _) => gpu.counted(profile, 1),
                (false, 0) => gpu.idle(profile, *start),
                (false, 1) => gpu.used(profile, *start, &holder),
                (false, _) if *two => gpu.maybe(profile, *start, &any_holder[..1]),
                (false, _) => gpu.maybe(profile, *start, &[&holder]),
            };
        }
        if spec.held {
            gpu = gpu.held(Hold::Unhealthy { what: "Xid 79".to_owned() });
        }
        node = node.gpu(gpu);
    }
    node
}

const ASKED: [&str; 7] = ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", "1g.20gb", "1g.6gb", "2g.12gb"];

fn request(number: usize) -> impl Strategy<Value = RequestBuilder> {
    let slices = vec((select(&ASKED[..]), 1_u32..=2), 1..=2);
    let zone = prop_oneof![8 => Just(None), 2 => Just(Some("near")), 1 => Just(Some("far"))];
    let storage = prop_oneof![5 => Just(0_i64), 1 => 1_i64..4];
    let whole = prop_oneof![3 => Just(0_u32), 1 => 1_u32..=2];
    let rest = (0_i64..3, 0_i64..3, storage, 0_u8..12, whole);
    (slices, select(&[0, 0, 100][..]), zone, 0_i64..4, rest).prop_map(
        move |(slices, priority, zone, since, (cpu, memory, storage, how, whole))| {
            // Two thirds ask for one slice, as people do.
            let alone = since > 0;
            let namespace = if how % 4 == 0 { "guests" } else { "lab" };
            let mut request =
                testing::request(&format!("{namespace}/ask-{number}")).priority(priority).since(since);
            let kinds = match (whole, alone) {
                (1.., _) => 0,
                (0, true) => 1,
                (0, false) => 2,
            };
            request = request.asks_whole_gpus(whole);
            for (profile, count) in slices.into_iter().take(kinds) {
                request = request.asks(profile, if alone { 1 } else { count });
            }
            request = request.takes(cpu * UNIT.0, memory * UNIT.1).takes_storage(storage * UNIT.1);
            if how >= 9 {
                request = request.tolerates("dedicated");
            }
            match zone {
                None => request,
                Some(zone) if how % 3 == 0 => request.selects("zone", zone),
                Some(zone) if how % 3 == 1 => request.or_affinity("zone", Operator::NotIn, &[zone]),
                Some(zone) => request.or_affinity("zone", Operator::In, &[zone]).or_on_node("birch"),
            }
        },
    )
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    (request(0), request(1), request(2), request(3), request(4), 0_usize..=5).prop_map(
        |(a, b, c, d, e, count)| [a, b, c, d, e].into_iter().take(count).map(RequestBuilder::build).collect(),
    )
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let bound = (select(&ASKED[..]), 0_u32..4, 0_u32..3, prop::option::of(0_u32..5));
    let gpus = prop::option::of((0_u32..3, 0_u32..2, prop::option::of(0_u32..4)));
    let main = (vec(bound, 0..=2), prop::bool::weighted(0.3), 0_u8..16, 0_u8..12, gpus);
    let main = main.prop_map(|(bounds, whole, mode, how, gpus)| {
        let mut policy = testing::policy("research");
        for (profile, min, spare, max) in bounds {
            // A floor above the ceiling is refused before anybody plans.
            let max = max.map(|max| max.max(min));
            policy = policy.bounds(profile, min, spare, max);
        }
        if whole {
            policy = policy.whole();
        }
        if let Some((min, spare, max)) = gpus {
            policy = policy.whole_gpus(min, spare, max.map(|max| max.max(min)));
        }
        if how % 4 == 0 {
            policy = policy.namespace("lab");
        }
        if how % 3 == 0 {
            policy = policy.evicts();
        }
        match mode {
            0 => policy.mode(Mode::Paused),
            1 => policy.mode(Mode::Preview),
            _ => policy,
        }
    });
    (main, 0_u8..7, any::<bool>()).prop_map(|(main, annex, evict)| {
        let second = testing::policy("zebra").pool("annex");
        let second = match annex {
            0 => return vec![main.build()],
            1 => second.fixed(&[], &[("1g.10gb", 3)]),
            2 => second.fixed(&[0], &[("3g.40gb", 2)]).fixed(&[1], &[("1g.6gb", 4)]),
            3 => second.fixed_whole(&[0]).fixed(&[1], &[("1g.10gb", 3)]),
            4 => second.fixed_whole(&[]),
            _ => second,
        };
        let second = if evict { second.evicts() } else { second };
        vec![main.build(), second.build()]
    })
}

/// Any small world.
pub(crate) fn worlds() -> impl Strategy<Value = World> {
    (vec(node(), 1..=3), requests(), policies()).prop_map(|(nodes, requests, policies)| {
        let mut fleet = testing::fleet();
        let mut gpus = 0;
        for (i, spec) in nodes.iter().enumerate() {
            gpus += spec.gpus.len();
            if gpus <= 5 {
                let name = ["alder", "birch", "cedar"][i];
                fleet = fleet.node(name, build_node(name, spec));
            }
        }
        let mut inventory = fleet.build();
        // A node on which pods hold more than there is would be left alone.
        for node in inventory.nodes.values_mut() {
            for (profile, held) in &mut node.allocated {
                let slices = node.gpus.values().flat_map(|gpu| gpu.slices.iter());
                let busy = slices.filter(|slice| slice.profile == *profile && !slice.used.is_idle()).count();
                *held = (*held).min(u32::try_from(busy).expect("few"));
            }
        }
        World { inventory, requests, policies }
    })
}

/// How a node shares slices of a profile, and whether every seat of those in use is taken.
type Shares = Option<(&'static str, u32, bool, bool)>;

fn shares() -> impl Strategy<Value = Shares> {
    let profile = select(&["1g.10gb", "1g.10gb", "1g.10gb", "3g.40gb", "1g.6gb"][..]);
    prop::option::weighted(0.8, (profile, 2_u32..=4, prop::bool::weighted(0.7), any::<bool>()))
}

/// The same, with slices that several pods share on some nodes, and requests for seats of them.
pub(crate) fn shared_worlds() -> impl Strategy<Value = World> {
    (worlds(), vec(shares(), 3), vec(prop::bool::weighted(0.6), 5)).prop_map(|(mut world, shares, seats)| {
        for (node, shares) in world.inventory.nodes.values_mut().zip(shares) {
            let Some((name, replicas, renamed, full)) = shares else { continue };
            let profile = testing::profile(name);
            node.shared.insert(profile, Sharing { replicas, renamed, one_each: false });
            let slices = node.gpus.values().flat_map(|gpu| gpu.slices.iter());
            let busy = slices.filter(|slice| slice.profile == profile && !slice.used.is_idle()).count();
            if full && busy > 0 {
                node.allocated.insert(profile, u32::try_from(busy).expect("few") * replicas);
            }
        }
        for (request, seats) in world.requests.iter_mut().zip(seats) {
            if seats {
                let slices = std::mem::take(&mut request.slices);
                request.shared = slices.into_iter().map(|(p, n)| (Offered::SharedSlice(p), n)).collect();
            }
        }
        world
    })
}
