//! Builders for tests: fleets, requests and policies that read as sentences. Only tests and benchmarks have
//! them, by the feature `testing`: the released programs cannot create an unchecked plan
//! ([`as_if_checked`]).
//!
//! They panic on what a test would not write on purpose.

mod fixed;
mod fleet;
pub mod generate;
mod places;
mod seats;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use mig::{Geometry, ProfileName, ProfileSpec};

pub use fleet::{FleetBuilder, fleet};
pub use seats::{SeatingBuilder, seating};

use crate::check::JudgedPlan;
use crate::demand::{
    Constraints, Evidence, Expression, Operator, Refusal, Request, Term, Together, Toleration,
};
use crate::inventory::{
    ChangeScope, CountedSlice, Gpu, Hold, Node, PlacedSlice, Room, Slice, Slices, Taint, Use,
};
use crate::names::{GpuIndex, PodRef, RequestId};
use crate::plan::Plan;
use crate::policy::{Bounds, Drain, LayoutPolicy, Mode, Order, Policy, Unrequested};

/// A profile name that the test's author knows to be one.
#[must_use]
pub fn profile(name: &str) -> ProfileName {
    name.parse().expect("a profile name")
}

/// A plan as if the checker had let it pass, for tests which show that it would
/// do no harm even then.
#[must_use]
pub const fn as_if_checked(plan: Plan) -> JudgedPlan {
    JudgedPlan::unchecked(plan)
}

/// A pod, written `namespace/name`; the namespace `lab` when there is none.
#[must_use]
pub fn pod(name: &str) -> PodRef {
    let (namespace, name) = name.split_once('/').unwrap_or(("lab", name));
    PodRef { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// So many seconds after an arbitrary first moment.
#[must_use]
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).expect("in this century")
}

fn geometry(memory: u8, compute: u8, table: &[(&str, u8, u8, &[u8])]) -> Arc<Geometry> {
    let spec = |(name, compute, size, starts): &(&str, u8, u8, &[u8])| ProfileSpec {
        name: profile(name),
        compute: *compute,
        size: *size,
        starts: starts.to_vec(),
    };
    let specs = table.iter().map(spec).collect();
    Arc::new(Geometry::new(memory, compute, specs).expect("a geometry"))
}

/// An empty A100 of 80 GB, MIG on.
#[must_use]
pub fn a100() -> GpuBuilder {
    GpuBuilder::new(
        "A100-80GB",
        geometry(
            8,
            7,
            &[
                ("1g.10gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
                ("1g.20gb", 1, 2, &[0, 2, 4, 6]),
                ("2g.20gb", 2, 2, &[0, 2, 4]),
                ("3g.40gb", 3, 4, &[0, 4]),
                ("4g.40gb", 4, 4, &[0]),
                ("7g.80gb", 7, 8, &[0]),
            ],
        ),
    )
}

/// An empty A100 of 40 GB, MIG on: its `1g.10gb` is the double-memory slice.
#[must_use]
pub fn a100_40() -> GpuBuilder {
    GpuBuilder::new(
        "A100-40GB",
        geometry(
            8,
            7,
            &[
                ("1g.5gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
                ("1g.10gb", 1, 2, &[0, 2, 4, 6]),
                ("2g.10gb", 2, 2, &[0, 2, 4]),
                ("3g.20gb", 3, 4, &[0, 4]),
                ("4g.20gb", 4, 4, &[0]),
                ("7g.40gb", 7, 8, &[0]),
            ],
        ),
    )
}

/// An empty A30, MIG on.
#[must_use]
pub fn a30() -> GpuBuilder {
    GpuBuilder::new(
        "A30",
        geometry(
            4,
            4,
            &[("1g.6gb", 1, 1, &[0, 1, 2, 3]), ("2g.12gb", 2, 2, &[0, 2]), ("4g.24gb", 4, 4, &[0])],
        ),
    )
}

/// One GPU.
#[derive(Clone, Debug)]
pub struct GpuBuilder(Gpu);

impl GpuBuilder {
    /// An empty GPU of any model.
    #[must_use]
    pub fn new(model: &str, geometry: Arc<Geometry>) -> Self {
        let slices = Slices::Placed(vec![]);
        Self(Gpu { model: model.to_owned(), geometry, slices, hold: None })
    }

    /// An idle slice at a start.
    #[must_use]
    pub fn idle(self, name: &str, start: u8) -> Self {
        self.placed(name, start, Use::Idle)
    }

    /// A slice at a start that a pod holds.
    #[must_use]
    pub fn used(self, name: &str, start: u8, by: &str) -> Self {
        self.placed(name, start, Use::InUse { by: pod(by) })
    }

    /// A slice at a start that one of these pods may hold.
    #[must_use]
    pub fn maybe(self, name: &str, start: u8, by: &[&str]) -> Self {
        self.placed(name, start, Use::MaybeInUse { by: by.iter().map(|p| pod(p)).collect() })
    }

    fn placed(mut self, name: &str, start: u8, used: Use) -> Self {
        let Slices::Placed(slices) = &mut self.0.slices else { panic!("placed and counted slices") };
        slices.push(PlacedSlice { profile: profile(name), start, used });
        slices.sort();
        self
    }

    /// Idle slices whose places are unknown.
    #[must_use]
    pub fn counted(self, name: &str, count: usize) -> Self {
        self.count(name, count, &Use::Idle)
    }

    /// Slices whose places are unknown, and that one of these pods may hold.
    #[must_use]
    pub fn counted_maybe(self, name: &str, count: usize, by: &[&str]) -> Self {
        self.count(name, count, &Use::MaybeInUse { by: by.iter().map(|p| pod(p)).collect() })
    }

    /// A slice whose place is unknown, and that a pod holds.
    #[must_use]
    pub fn counted_used(self, name: &str, by: &str) -> Self {
        self.count(name, 1, &Use::InUse { by: pod(by) })
    }

    fn count(mut self, name: &str, count: usize, used: &Use) -> Self {
        if self.0.slices == Slices::Placed(vec![]) {
            self.0.slices = Slices::Counted(vec![]);
        }
        let Slices::Counted(slices) = &mut self.0.slices else { panic!("placed and counted slices") };
        let slice = CountedSlice { profile: profile(name), used: used.clone() };
        slices.extend(std::iter::repeat_n(slice, count));
        slices.sort();
        self
    }

    /// MIG is off, and nothing uses the GPU.
    #[must_use]
    pub fn mig_off(mut self) -> Self {
        self.0.slices = Slices::MigOff { used: Use::Idle };
        self
    }

    /// MIG is off, and a pod uses the whole GPU.
    #[must_use]
    pub fn mig_off_used(mut self, by: &str) -> Self {
        self.0.slices = Slices::MigOff { used: Use::InUse { by: pod(by) } };
        self
    }

    /// Something holds it.
    #[must_use]
    pub fn held(mut self, hold: Hold) -> Self {
        self.0.hold = Some(hold);
        self
    }

    /// The GPU.
    #[must_use]
    pub fn build(self) -> Gpu {
        self.0
    }
}

/// A schedulable node without GPUs, with label `pool=lab`, that changes slice
/// by slice and has room without limit.
#[must_use]
pub fn node() -> NodeBuilder {
    NodeBuilder(Node {
        labels: BTreeMap::from([("pool".to_owned(), "lab".to_owned())]),
        single_strategy: false,
        shared: BTreeMap::new(),
        whole_held: 0,
        whole_shared: None,
        taints: vec![],
        room: Room::UNLIMITED,
        other_resources: BTreeMap::new(),
        scope: ChangeScope::SliceBySlice,
        hold: None,
        schedulable: true,
        allocated: BTreeMap::new(),
        held: BTreeMap::new(),
        gpus: BTreeMap::new(),
    })
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodeBuilder(Node);

impl NodeBuilder {
    /// Its next GPU.
    #[must_use]
    pub fn gpu(mut self, gpu: GpuBuilder) -> Self {
        let index = GpuIndex(u16::try_from(self.0.gpus.len()).expect("few"));
        self.0.gpus.insert(index, gpu.build());
        self
    }

    /// MIG strategy `single`.
    #[must_use]
    pub fn single_strategy(mut self) -> Self {
        self.0.single_strategy = true;
        self
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let [key, value, effect] = [key, value, effect].map(str::to_owned);
        self.0.taints.push(Taint { key, value, effect });
        self
    }

    /// How much of it changes at once.
    #[must_use]
    pub fn scope(mut self, scope: ChangeScope) -> Self {
        self.0.scope = scope;
        self
    }

    /// Something holds it.
    #[must_use]
    pub fn held(mut self, hold: Hold) -> Self {
        self.0.hold = Some(hold);
        self
    }

    /// Pods cannot bind to it.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.0.schedulable = false;
        self
    }

    /// What pods that come may still take.
    #[must_use]
    pub fn room(mut self, cpu_milli: i64, memory_bytes: i64, pods: i64) -> Self {
        self.0.room = Room { cpu_milli, memory_bytes, pods, ..self.0.room };
        self
    }

    /// Free ephemeral storage, in bytes.
    #[must_use]
    pub fn free_storage(mut self, bytes: i64) -> Self {
        self.0.room.storage_bytes = bytes;
        self
    }

    /// How many slices of a profile bound pods hold. Without it: those that
    /// are in use, and one for each pod that may hold one.
    #[must_use]
    pub fn allocated(mut self, name: &str, count: u32) -> Self {
        self.0.allocated.insert(profile(name), count);
        self
    }

    /// The node.
    #[must_use]
    pub fn build(mut self) -> Node {
        let mut held: BTreeMap<ProfileName, (u32, BTreeSet<&PodRef>)> = BTreeMap::new();
        for gpu in self.0.gpus.values() {
            for Slice { profile, start: _, used } in gpu.slices.iter() {
                match used {
                    Use::Idle => {}
                    Use::InUse { .. } => held.entry(profile).or_default().0 += 1,
                    Use::MaybeInUse { by } => held.entry(profile).or_default().1.extend(by),
                }
            }
        }
        let mut holds: BTreeMap<PodRef, u32> = BTreeMap::new();
        for gpu in self.0.gpus.values() {
            for Slice { profile, used, .. } in gpu.slices.iter() {
                if let Use::InUse { by } = used {
                    *holds.entry(by.clone()).or_default() += u32::from(profile.compute);
                }
            }
        }
        for (profile, (_, maybe)) in &held {
            // Whoever may hold one holds one.
            for by in maybe {
                *holds.entry((*by).clone()).or_default() += u32::from(profile.compute);
            }
        }
        for (profile, (sure, maybe)) in held {
            let count = sure + u32::try_from(maybe.len()).expect("few");
            self.0.allocated.entry(profile).or_insert(count);
        }
        self.0.held = holds;
        self.0
    }
}

/// A pending pod in namespace `lab`, written `name` or `namespace/name`, that
/// asks for nothing yet.
#[must_use]
pub fn request(name: &str) -> RequestBuilder {
    let PodRef { namespace, name } = pod(name);
    let label = ("kubernetes.io/metadata.name".to_owned(), namespace.clone());
    RequestBuilder(Request {
        id: RequestId { kind: "Pod".to_owned(), namespace, name, ordinal: 0 },
        slices: BTreeMap::new(),
        whole_gpus: 0,
        shared: BTreeMap::new(),
        priority: 0,
        since: at(0),
        namespace_labels: BTreeMap::from([label]),
        constraints: Constraints::default(),
        takes: Room::NOTHING,
        evidence: Evidence::PendingPod,
        blocked_elsewhere: None,
        refused: None,
        promised: None,
        finds: None,
        keeps_apart: BTreeMap::new(),
        together: Together::default(),
    })
}

/// One request.
#[derive(Clone, Debug)]
pub struct RequestBuilder(Request);

impl RequestBuilder {
    /// Slices of one profile.
    #[must_use]
    pub fn asks(mut self, name: &str, count: u32) -> Self {
        self.0.slices.insert(profile(name), count);
        self
    }

    /// Whole GPUs.
    #[must_use]
    pub fn asks_whole_gpus(mut self, count: u32) -> Self {
        self.0.whole_gpus = count;
        self
    }

    /// Its priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    /// A node was promised to it.
    #[must_use]
    pub fn promised(mut self, node: &str) -> Self {
        self.0.promised = Some(node.into());
        self
    }

    /// Since when it waits; see [`at`].
    #[must_use]
    pub fn since(mut self, seconds: i64) -> Self {
        self.0.since = at(seconds);
        self
    }

    /// A label that the node must have.
    #[must_use]
    pub fn selects(mut self, key: &str, value: &str) -> Self {
        self.0.constraints.node_selector.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A term of required node affinity with one expression on labels.
    #[must_use]
    pub fn or_affinity(mut self, key: &str, operator: Operator, values: &[&str]) -> Self {
        self.0
            .constraints
            .affinity
            .push(Term { labels: vec![expression(key, operator, values)], fields: vec![] });
        self
    }

    /// A term of required node affinity on the node's name.
    #[must_use]
    pub fn or_on_node(mut self, name: &str) -> Self {
        self.0
            .constraints
            .affinity
            .push(Term { labels: vec![], fields: vec![expression("metadata.name", Operator::In, &[name])] });
        self
    }

    /// Bears taints of this key.
    #[must_use]
    pub fn tolerates(mut self, key: &str) -> Self {
        let toleration = Toleration { key: key.to_owned(), exists: true, ..Toleration::default() };
        self.0.constraints.tolerations.push(toleration);
        self
    }

    /// What it takes beside slices.
    #[must_use]
    pub fn takes(mut self, cpu_milli: i64, memory_bytes: i64) -> Self {
        self.0.takes = Room { cpu_milli, memory_bytes, ..self.0.takes };
        self
    }

    /// Ephemeral storage that it takes, in bytes.
    #[must_use]
    pub fn takes_storage(mut self, bytes: i64) -> Self {
        self.0.takes.storage_bytes = bytes;
        self
    }

    /// It cannot come to run.
    #[must_use]
    pub fn refused(mut self, why: &str, advice: &str) -> Self {
        self.0.refused = Some(Refusal { why: why.to_owned(), advice: advice.to_owned() });
        self
    }

    /// Something else is in its way.
    #[must_use]
    pub fn blocked_elsewhere(mut self, message: &str) -> Self {
        self.0.blocked_elsewhere = Some(message.to_owned());
        self
    }

    /// The request.
    #[must_use]
    pub fn build(self) -> Request {
        self.0
    }
}

/// An expression of a selector.
#[must_use]
pub fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
    let values = values.iter().map(|v| (*v).to_owned()).collect();
    Expression { key: key.to_owned(), operator, values }
}

/// A demand-driven policy for nodes with label `pool=lab` and for requests of
/// every namespace, without bounds, that keeps what nobody asked for.
#[must_use]
pub fn policy(name: &str) -> PolicyBuilder {
    PolicyBuilder(Policy {
        name: name.into(),
        nodes: vec![expression("pool", Operator::In, &["lab"])],
        priority: 0,
        mode: Mode::Enforce,
        layout: LayoutPolicy::DemandDriven {
            namespaces: vec![],
            slices: BTreeMap::new(),
            unrequested: Unrequested::Keep,
            order: Order::MostServed,
            shares: vec![],
            whole_gpus: None,
        },
        drain: Drain::Never,
    })
}

/// One policy.
#[derive(Clone, Debug)]
pub struct PolicyBuilder(Policy);

impl PolicyBuilder {
    /// Nodes with this value of label `pool`, instead of `lab`.
    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.0.nodes = vec![expression("pool", Operator::In, &[pool])];
        self
    }

    /// Its priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    /// Its mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.0.mode = mode;
        self
    }

    /// Only requests of this namespace.
    #[must_use]
    pub fn namespace(mut self, name: &str) -> Self {
        let LayoutPolicy::DemandDriven { namespaces, .. } = &mut self.0.layout else {
            panic!("a static policy has no namespaces")
        };
        namespaces.push(expression("kubernetes.io/metadata.name", Operator::In, &[name]));
        self
    }

    /// Bounds of a profile.
    #[must_use]
    pub fn bounds(mut self, name: &str, min: u32, spare: u32, max: Option<u32>) -> Self {
        let LayoutPolicy::DemandDriven { slices, .. } = &mut self.0.layout else {
            panic!("a static policy has no bounds")
        };
        slices.insert(profile(name), Bounds { min, spare, max });
        self
    }

    /// GPUs that nobody asked for become whole.
    #[must_use]
    pub fn whole(mut self) -> Self {
        let LayoutPolicy::DemandDriven { unrequested, .. } = &mut self.0.layout else {
            panic!("a static policy has no unrequested capacity")
        };
        *unrequested = Unrequested::Whole;
        self
    }

    /// Of requests of one priority the oldest comes first.
    #[must_use]
    pub fn oldest_first(mut self) -> Self {
        let LayoutPolicy::DemandDriven { order, .. } = &mut self.0.layout else {
            panic!("a static policy has no order of requests")
        };
        *order = Order::OldestFirst;
        self
    }

    /// Pods in the way may be evicted.
    #[must_use]
    pub fn evicts(mut self) -> Self {
        self.0.drain = Drain::Evict;
        self
    }

    /// The policy.
    #[must_use]
    pub fn build(self) -> Policy {
        self.0
    }
}
