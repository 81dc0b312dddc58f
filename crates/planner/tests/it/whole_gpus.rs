//! Whole GPUs beside slices: a static layout that wants MIG off on some GPUs of nodes whose others are cut.

use planner::check::{check, is_sound};
use planner::decide::{Decision, decide};
use planner::inventory::{ChangeScope, Inventory, Slices, Use};
use planner::policy::Policy;
use planner::report::{Offered, Outcome, Supply, Why};
use planner::testing::{GpuBuilder, NodeBuilder, a100, fleet, node, pod, policy, request};

/// What is decided, which the checker finds nothing wrong with.
fn plan(inventory: &Inventory, policies: &[Policy]) -> Decision {
    let decision = decide(inventory, &[], policies);
    let notes = check(&decision.plan, inventory, &[], policies);
    assert!(notes.is_empty() && is_sound(&notes), "{notes:?}");
    for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
        assert!(level.is_proven(), "{level:?}");
    }
    decision
}

/// The changes as they are announced.
fn changes(decision: &Decision) -> Vec<String> {
    let steps = decision.plan.steps.iter();
    steps.flat_map(|step| step.gpus.iter().map(move |gpu| format!("{}/{gpu}", step.node))).collect()
}

/// Eight GPUs, changed one by one when they are idle, as the GPU Operator does.
fn server(gpus: [GpuBuilder; 8]) -> NodeBuilder {
    gpus.into_iter().fold(node().scope(ChangeScope::IdleGpus), NodeBuilder::gpu)
}

fn cut() -> GpuBuilder {
    a100().counted("1g.10gb", 7)
}

/// Two GPUs for training, six for notebooks.
fn two_whole() -> planner::testing::PolicyBuilder {
    policy("research").fixed_whole(&[0, 1]).fixed(&[], &[("3g.40gb", 2)])
}

#[test]
fn an_idle_node_gets_its_two_whole_gpus_and_cuts_the_other_six_in_one_step() {
    let idle = || server([cut(), cut(), cut(), cut(), cut(), cut(), cut(), cut()]);
    let inventory = fleet().node("n1", idle()).build();
    let decision = plan(&inventory, &[two_whole().build()]);
    let all = changes(&decision);
    assert_eq!(all.len(), 8);
    assert_eq!(
        all[..3],
        [
            "n1/gpu0 (A100-80GB): 7 x 1g.10gb -> MIG off",
            "n1/gpu1 (A100-80GB): 7 x 1g.10gb -> MIG off",
            "n1/gpu2 (A100-80GB): 7 x 1g.10gb -> 2 x 3g.40gb",
        ]
    );
    let [step] = decision.plan.steps.as_slice() else { panic!("one node changes") };
    assert!(step.switches_mig() && !step.enable_mig);
    let supply = Supply { attainable: 2, planned: 2, ..Supply::default() };
    assert_eq!(decision.report.policies[0].whole_gpus, Some(supply));
}

#[test]
fn gpus_that_are_whole_already_stay_so_and_their_users_are_no_reason_to_wait() {
    // Somebody trains on one of the whole GPUs, and a notebook holds a slice of the last.
    let busy = a100().counted_used("1g.10gb", "notebook").counted("1g.10gb", 6);
    let off = || a100().mig_off();
    let gpus = [off(), a100().mig_off_used("training"), cut(), cut(), cut(), cut(), cut(), busy];
    let inventory = fleet().node("n1", server(gpus).whole_held(1)).build();
    let decision = plan(&inventory, &[two_whole().build()]);
    let [step] = decision.plan.steps.as_slice() else { panic!("one node changes") };
    let indices: Vec<u16> = step.gpus.iter().map(|change| change.gpu.0).collect();
    assert_eq!(indices, [2, 3, 4, 5, 6], "five idle GPUs are cut anew, beside those that stay");
    assert!(!step.switches_mig() && step.evicts.is_empty());
    let supply = Supply { attainable: 2, present: 2, planned: 2, allocated: 1, ..Supply::default() };
    assert_eq!(decision.report.policies[0].whole_gpus, Some(supply));
    assert_eq!(decision.report.policies[0].static_missed.len(), 1, "the notebook's GPU waits for it");
}

/// Whoever switches MIG off clears every GPU of the node, so nobody may be on any of them.
#[test]
fn mig_is_not_switched_off_while_somebody_is_on_any_gpu_of_the_node() {
    let busy = a100().counted_used("1g.10gb", "notebook").counted("1g.10gb", 6);
    let gpus = [cut(), cut(), cut(), cut(), cut(), cut(), cut(), busy];
    let inventory = fleet().node("n1", server(gpus)).node("n2", node().gpu(a100().mig_off())).build();
    let whole = policy("research").fixed_whole(&[0, 1]).build();
    let decision = plan(&inventory, &[whole]);
    assert_eq!(changes(&decision), [""; 0]);
    let missed: Vec<u16> = decision.report.policies[0].static_missed.iter().map(|(_, gpu)| gpu.0).collect();
    assert_eq!(missed, [0, 1]);
}

#[test]
fn a_policy_that_evicts_empties_the_node_before_mig_goes_off() {
    let busy = a100().counted_used("1g.10gb", "notebook").counted("1g.10gb", 6);
    let gpus = [cut(), cut(), cut(), cut(), cut(), cut(), cut(), busy];
    let inventory = fleet().node("n1", server(gpus)).build();
    let whole = policy("research").fixed_whole(&[0, 1]).evicts().build();
    let decision = plan(&inventory, &[whole]);
    assert_eq!(changes(&decision).len(), 2);
    assert_eq!(decision.plan.steps[0].evicts, [pod("notebook")]);
}

#[test]
fn a_whole_gpu_is_cut_again_once_its_user_has_gone() {
    let gpus = |first: GpuBuilder| {
        let six = || cut();
        server([first, a100().mig_off(), six(), six(), six(), six(), six(), six()])
    };
    let all_cut = [policy("research").fixed(&[], &[("1g.10gb", 7)]).build()];
    let used = fleet().node("n1", gpus(a100().mig_off_used("training"))).build();
    assert_eq!(changes(&plan(&used, &all_cut)), [""; 0]);
    let free = fleet().node("n1", gpus(a100().mig_off())).build();
    let decision = plan(&free, &all_cut);
    assert_eq!(
        changes(&decision),
        ["n1/gpu0 (A100-80GB): MIG off -> 7 x 1g.10gb", "n1/gpu1 (A100-80GB): MIG off -> 7 x 1g.10gb",]
    );
    assert!(decision.plan.steps[0].enable_mig);
}

/// The checker has a rule of its own for each of these.
#[test]
fn a_plan_that_switches_mig_off_where_nobody_wants_it_or_somebody_is_there_is_refused() {
    let gpus = || server([cut(), cut(), cut(), cut(), cut(), cut(), cut(), cut()]);
    let inventory = fleet().node("n1", gpus()).build();
    let whole = [policy("research").fixed_whole(&[0, 1]).build()];
    let sound = plan(&inventory, &whole).plan;
    let refused = |inventory: &Inventory, policies: &[Policy]| -> Vec<String> {
        check(&sound, inventory, &[], policies).iter().map(ToString::to_string).collect()
    };
    let on_demand = [policy("research").build()];
    assert_eq!(refused(&inventory, &on_demand)[0], "fatal: n1/gpu0: the target has no slice");
    let others = [policy("research").fixed_whole(&[1]).fixed(&[], &[("3g.40gb", 2)]).build()];
    assert_eq!(
        refused(&inventory, &others),
        [
            "fatal: n1/gpu0: the target has no slice",
            "fatal: n1/gpu0: the target differs from the static layout",
        ]
    );
    let mut busy = inventory.clone();
    let last = a100().counted_used("1g.10gb", "notebook").counted("1g.10gb", 6).build();
    busy.nodes.values_mut().next().unwrap().gpus.insert(planner::names::GpuIndex(7), last);
    assert_eq!(
        refused(&busy, &whole),
        ["fatal: n1: the actuator needs gpu7 idle, and lab/notebook may hold a slice of it"]
    );
    let mut off = inventory;
    off.nodes.values_mut().next().unwrap().gpus.values_mut().for_each(|gpu| {
        gpu.slices = Slices::MigOff { used: Use::Idle };
    });
    assert!(
        refused(&off, &whole)
            .iter()
            .any(|note| note == "fatal: n1/gpu0: the target equals the present layout")
    );
}

/// One GPU has its layout already, with somebody on it; so the other one, which wants MIG off, cannot have its own
/// yet. No plan touches the node, and the certificate does not say that every plan does.
#[test]
fn a_node_that_cannot_be_switched_yet_is_touched_by_no_plan() {
    let gpus = node().gpu(a100()).gpu(a100().idle("1g.10gb", 0).idle("1g.10gb", 1).used("1g.10gb", 2, "ann"));
    let inventory = fleet().node("n1", gpus).build();
    let wanted = policy("research").fixed_whole(&[0]).fixed(&[1], &[("1g.10gb", 3)]).build();
    let decision = plan(&inventory, &[wanted]);
    assert_eq!(changes(&decision), [""; 0]);
    let touched = decision.report.certificate.iter().find(|level| level.level == "nodes touched");
    assert_eq!(touched.map(|level| (level.value, level.bound)), Some((0, 0)));
}

/// Four pods share each of the whole GPUs, as another resource: none of them is anybody's as a whole.
#[test]
fn whole_gpus_that_several_share_serve_nobody_who_asks_for_one_alone() {
    let half = || {
        let cut = (0..6).map(|_| cut());
        [a100().mig_off(), a100().mig_off()]
            .into_iter()
            .chain(cut)
            .collect::<Vec<_>>()
            .try_into()
            .expect("eight")
    };
    let asks = [request("train").asks_whole_gpus(1).build()];
    let policies = [two_whole().fixed(&[], &[("1g.10gb", 7)]).build()];
    let answer = |node: NodeBuilder| {
        let inventory = fleet().node("n1", node).build();
        let decision = decide(&inventory, &asks, &policies);
        assert_eq!(check(&decision.plan, &inventory, &asks, &policies), []);
        decision.report.requests[0].outcome.clone()
    };
    assert!(matches!(answer(server(half())), Outcome::ServedNow { .. }));
    let shared = answer(server(half()).shares_whole_gpus(4, true));
    let Outcome::Unserved { why, help } = &shared else { panic!("{shared}") };
    assert_eq!(*why, Why::OtherName { asks: Offered::WholeGpu, offered: Some(Offered::SharedGpu) });
    assert!(help[0].to_string().contains("ask for nvidia.com/gpu.shared instead"), "{help:?}");
    // Under their own name they are seats, of which nobody has one as a GPU for itself.
    assert!(matches!(answer(server(half()).shares_whole_gpus(4, false)), Outcome::Unserved { .. }));
}
