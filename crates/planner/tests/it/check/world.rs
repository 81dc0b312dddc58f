//! Correct plans in small worlds, which the tests corrupt.

use planner::check::{JudgedPlan, Severity, check, is_sound};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Inventory};
use planner::names::{GpuIndex, NodeName};
use planner::plan::{GpuChange, NodeStep, Plan};
use planner::policy::Policy;
use planner::testing::{GpuBuilder, a30, a100, fleet, node, pod, policy, profile, request};

/// Everything that the checker looks at.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) inventory: Inventory,
    pub(crate) requests: Vec<Request>,
    pub(crate) policies: Vec<Policy>,
}

impl World {
    pub(crate) fn notes(&self) -> Vec<String> {
        let Self { plan, inventory, requests, policies } = self;
        check(plan, inventory, requests, policies).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    pub(crate) fn passes(self) {
        assert_eq!(self.notes(), Vec::<String>::new());
    }

    /// The same world after a corruption is told exactly this.
    #[track_caller]
    pub(crate) fn broken(mut self, corrupt: impl FnOnce(&mut Self), expect: &[&str]) {
        assert_eq!(self.notes(), Vec::<String>::new(), "before the corruption");
        corrupt(&mut self);
        assert_eq!(self.notes(), expect);
        let Self { plan, inventory, requests, policies } = &self;
        let notes = check(plan, inventory, requests, policies);
        let fatal = expect.iter().any(|text| text.starts_with("fatal"));
        assert_eq!(is_sound(&notes), !fatal);
        assert_eq!(notes.iter().any(|n| n.severity == Severity::Fatal), fatal);
        let judged = JudgedPlan::new(plan.clone(), inventory, requests, policies);
        assert_eq!(judged.notes(), notes);
        assert_eq!(judged.checked().is_none(), fatal);
        let worst: Vec<_> = notes.iter().filter(|note| note.severity == Severity::Fatal).collect();
        assert_eq!(judged.fatal().collect::<Vec<_>>(), worst);
    }

    pub(crate) fn change(&mut self) -> &mut GpuChange {
        &mut self.plan.steps[0].gpus[0]
    }

    pub(crate) fn step(&mut self) -> &mut NodeStep {
        &mut self.plan.steps[0]
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut planner::inventory::Node {
        self.inventory.nodes.get_mut(&NodeName::from(name)).expect("a node")
    }
}

pub(crate) fn slices(list: &[(&str, u8)]) -> Vec<(mig::ProfileName, u8)> {
    list.iter().map(|(name, start)| (profile(name), *start)).collect()
}

pub(crate) fn change_of(gpu: u16, before: GpuBuilder, after: &[(&str, u8)], order: &[&str]) -> GpuChange {
    let before = before.build();
    GpuChange {
        gpu: GpuIndex(gpu),
        model: before.model,
        before: before.slices,
        after: slices(after),
        creation_order: (!order.is_empty()).then(|| order.iter().map(|name| profile(name)).collect()),
    }
}

pub(crate) fn step_of(name: &str, gpus: Vec<GpuChange>, serves: &[&Request]) -> NodeStep {
    NodeStep {
        node: name.into(),
        policy: "research".into(),
        gpus,
        enable_mig: false,
        evicts: vec![],
        serves: serves.iter().map(|r| r.id.clone()).collect(),
    }
}

/// A GPU on which somebody works in the upper half, and the lower half is
/// recut for two people.
pub(crate) fn half_busy() -> GpuBuilder {
    a100().idle("2g.20gb", 0).idle("1g.10gb", 2).used("3g.40gb", 4, "trainer")
}

pub(crate) fn recut() -> World {
    let ada = request("ada").asks("1g.20gb", 1).build();
    let bob = request("bob").asks("1g.10gb", 2).build();
    let change = change_of(
        0,
        half_busy(),
        &[("1g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4)],
        &["1g.10gb", "1g.20gb"],
    );
    World {
        plan: Plan { steps: vec![step_of("ridge", vec![change], &[&ada, &bob])] },
        inventory: fleet()
            .node("ridge", node().gpu(half_busy()).gpu(a30().idle("4g.24gb", 0)))
            .node("valley", node().gpu(a100().idle("7g.80gb", 0)))
            .build(),
        requests: vec![ada, bob],
        policies: vec![policy("research").build(), policy("afterthought").priority(-1).build()],
    }
}

/// A whole idle GPU that the GPU Operator recuts, with the places unknown.
pub(crate) fn operated() -> World {
    let eve = request("eve").asks("3g.40gb", 2).build();
    let change = change_of(
        0,
        a100().counted("1g.10gb", 7),
        &[("3g.40gb", 0), ("3g.40gb", 4)],
        &["3g.40gb", "3g.40gb"],
    );
    World {
        plan: Plan { steps: vec![step_of("ridge", vec![change], &[&eve])] },
        inventory: fleet()
            .node(
                "ridge",
                node()
                    .scope(ChangeScope::IdleGpus)
                    .gpu(a100().counted("1g.10gb", 7))
                    .gpu(a100().counted_maybe("2g.20gb", 3, &["student"])),
            )
            .build(),
        requests: vec![eve],
        policies: vec![policy("research").build()],
    }
}

/// A static layout that moves a pod out of its way.
pub(crate) fn fixed() -> World {
    let before = || a100().used("1g.10gb", 0, "idler").idle("2g.20gb", 4);
    let mut step = step_of("ridge", vec![change_of(0, before(), &[("7g.80gb", 0)], &["7g.80gb"])], &[]);
    step.evicts = vec![pod("idler")];
    World {
        plan: Plan { steps: vec![step] },
        inventory: fleet()
            .node("ridge", node().gpu(before()).gpu(a100().used("7g.80gb", 0, "trainer")))
            .build(),
        requests: vec![],
        policies: vec![policy("research").fixed(&[0], &[("7g.80gb", 1)]).evicts().build()],
    }
}

/// A fresh node, on which MIG is switched on.
pub(crate) fn fresh() -> World {
    let change = |gpu| change_of(gpu, a30().mig_off(), &[("4g.24gb", 0)], &["4g.24gb"]);
    let mut step = step_of("ridge", vec![change(0), change(1)], &[]);
    step.enable_mig = true;
    World {
        plan: Plan { steps: vec![step] },
        inventory: fleet().node("ridge", node().gpu(a30().mig_off()).gpu(a30().mig_off())).build(),
        requests: vec![],
        policies: vec![policy("research").build()],
    }
}
