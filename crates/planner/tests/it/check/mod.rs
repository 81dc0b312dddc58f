//! The checker accepts correct plans and names the faults of others: one corrupted plan for each rule.

mod certificate;
mod served;
mod world;

use planner::inventory::{ChangeScope, Hold, Slices};
use planner::names::GpuIndex;
use planner::policy::{LayoutPolicy, Mode};
use planner::testing::{a30, a100, pod, policy, profile, request};

use world::{World, change_of, fixed, fresh, half_busy, operated, recut, slices};

#[test]
fn what_is_right_passes() {
    recut().passes();
    operated().passes();
    fixed().passes();
    fresh().passes();
    let mut nothing = recut();
    nothing.plan.steps.clear();
    nothing.passes();
}

#[test]
fn every_placement_is_legal() {
    let after = |list: &'static [(&'static str, u8)]| {
        move |w: &mut World| {
            w.step().serves.clear();
            w.change().after = slices(list);
            w.change().creation_order = None;
        }
    };
    recut()
        .broken(after(&[("1g.20gb", 1), ("3g.40gb", 4)]), &["fatal: ridge/gpu0: 1g.20gb cannot start at 1"]);
    recut().broken(
        after(&[("2g.20gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)]),
        &["fatal: ridge/gpu0: two slices use memory unit 1"],
    );
    recut().broken(
        after(&[("1g.5gb", 0), ("3g.40gb", 4)]),
        &["fatal: ridge/gpu0: the model has no profile 1g.5gb"],
    );
    recut().broken(
        after(&[("1g.10gb", 2), ("1g.10gb", 2), ("3g.40gb", 4)]),
        &[
            "fatal: ridge/gpu0: its slices are not in order of start and profile",
            "fatal: ridge/gpu0: two slices use memory unit 2",
        ],
    );
    recut().broken(
        after(&[("3g.40gb", 4), ("1g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3)]),
        &[
            "fatal: ridge/gpu0: its slices are not in order of start and profile",
            "warning: ridge/gpu0: the driver reaches the target in the order 1g.10gb, 1g.20gb",
        ],
    );
    fixed().broken(
        |w| {
            w.change().after.clear();
            w.change().creation_order = Some(vec![]);
        },
        &[
            "fatal: ridge/gpu0: the target has no slice",
            "fatal: ridge/gpu0: the target differs from the static layout",
            // No slice would mean that MIG goes off, which clears the node.
            "fatal: ridge: the actuator needs gpu1 idle, and lab/trainer may hold a slice of it",
        ],
    );
}

#[test]
fn the_precondition_is_the_inventory() {
    let stale = "fatal: ridge/gpu0: the precondition differs from the inventory";
    recut().broken(|w| w.change().before = a100().idle("2g.20gb", 0).build().slices, &[stale]);
    operated().broken(|w| w.change().before = a100().counted("1g.10gb", 6).build().slices, &[stale]);
    recut().broken(
        |w| w.change().model = "A100-40GB".to_owned(),
        &["fatal: ridge/gpu0: the step says A100-40GB, but the GPU is A100-80GB"],
    );
}

#[test]
fn slices_in_use_stay() {
    recut().broken(
        |w| {
            w.change().after.pop();
            w.change().creation_order = None;
        },
        &["fatal: ridge/gpu0: 3g.40gb@4 is destroyed, but is or may be held by lab/trainer"],
    );
    // Whether it is really in use makes no difference.
    let doubt = || a100().idle("2g.20gb", 0).idle("1g.10gb", 2).maybe("3g.40gb", 4, &["ann", "ben"]);
    recut().broken(
        |w| {
            w.node("ridge").gpus.insert(GpuIndex(0), doubt().build());
            w.change().before = doubt().build().slices;
            w.change().after.pop();
            w.change().creation_order = None;
        },
        &["fatal: ridge/gpu0: 3g.40gb@4 is destroyed, but is or may be held by lab/ann, lab/ben"],
    );
    // Of counted slices none can be kept, even if as many are there afterwards.
    operated().broken(
        |w| {
            let change = change_of(
                1,
                a100().counted_maybe("2g.20gb", 3, &["student"]),
                &[("2g.20gb", 0), ("2g.20gb", 2), ("2g.20gb", 4), ("1g.10gb", 6)],
                &["1g.10gb", "2g.20gb", "2g.20gb", "2g.20gb"],
            );
            w.step().gpus.push(change);
        },
        &[
            "fatal: ridge/gpu1: a 2g.20gb is destroyed, but is or may be held by lab/student",
            "fatal: ridge/gpu1: a 2g.20gb is destroyed, but is or may be held by lab/student",
            "fatal: ridge/gpu1: a 2g.20gb is destroyed, but is or may be held by lab/student",
        ],
    );
    fresh().broken(
        |w| {
            let used = a30().mig_off_used("renderer").build();
            w.change().before = used.slices.clone();
            w.node("ridge").gpus.insert(GpuIndex(0), used);
        },
        &["fatal: ridge/gpu0: MIG is switched on, but the GPU is or may be held by lab/renderer"],
    );
}

#[test]
fn the_actuators_reach_is_respected() {
    let busy = "fatal: ridge: the actuator needs gpu0 idle, and lab/trainer may hold a slice of it";
    recut().broken(
        |w| {
            w.node("ridge").scope = ChangeScope::IdleGpus;
            w.change().creation_order =
                Some(["3g.40gb", "1g.10gb", "1g.10gb", "1g.20gb"].map(profile).to_vec());
        },
        &[
            "fatal: ridge/gpu0: by itself the driver would place 1g.10gb@0, 1g.10gb@1, 1g.20gb@2, 3g.40gb@4",
            busy,
        ],
    );
    operated().broken(
        |w| w.node("ridge").scope = ChangeScope::EmptyNode,
        &["fatal: ridge: the actuator needs gpu1 idle, and lab/student may hold a slice of it"; 3],
    );
    // Switching MIG on resets all GPUs of the node.
    fresh().broken(
        |w| {
            w.node("ridge").gpus.insert(GpuIndex(2), a30().used("1g.6gb", 0, "student").build());
        },
        &["fatal: ridge: the actuator needs gpu2 idle, and lab/student may hold a slice of it"],
    );
}

#[test]
fn what_is_held_stays() {
    recut().broken(
        |w| w.node("ridge").hold = Some(Hold::Changing),
        &["fatal: ridge: it is held: its layout is being changed"],
    );
    recut().broken(
        |w| {
            let gpu = w.node("ridge").gpus.get_mut(&GpuIndex(0)).expect("there");
            gpu.hold = Some(Hold::Unhealthy { what: "Xid 79".to_owned() });
        },
        &["fatal: ridge/gpu0: it is held: a GPU is not healthy: Xid 79"],
    );
    recut().broken(
        |w| w.policies[0].mode = Mode::Paused,
        &["fatal: ridge: the policy is paused and starts nothing"],
    );
}

#[test]
fn a_node_has_one_policy() {
    recut().broken(
        |w| w.policies[1].priority = 1,
        &["fatal: ridge: the step belongs to policy research, but the node to policy afterthought"],
    );
    recut().broken(
        |w| {
            w.node("ridge").labels.clear();
        },
        &["fatal: ridge: the step belongs to policy research, but the node to none"],
    );
}

/// The node is of the policy with the highest priority, and among equals of the
/// one whose name comes first, in whatever order they are listed.
#[test]
fn of_two_policies_the_higher_has_the_node_and_of_equals_the_first_by_name() {
    let of = |mut world: World, priorities: [i32; 2], backwards: bool| {
        for (policy, priority) in world.policies.iter_mut().zip(priorities) {
            policy.priority = priority;
        }
        if backwards {
            world.policies.reverse();
        }
        world.notes()
    };
    let theirs = |owner: &str| {
        vec![format!("fatal: ridge: the step belongs to policy research, but the node to policy {owner}")]
    };
    for backwards in [false, true] {
        // `afterthought` comes before `research` by name.
        assert_eq!(of(recut(), [2, 1], backwards), Vec::<String>::new());
        assert_eq!(of(recut(), [-1, -2], backwards), Vec::<String>::new());
        assert_eq!(of(recut(), [1, 2], backwards), theirs("afterthought"));
        assert_eq!(of(recut(), [1, 1], backwards), theirs("afterthought"));
        let mut later = recut();
        later.policies[1].name = "summer-school".into();
        assert_eq!(of(later.clone(), [1, 1], backwards), Vec::<String>::new());
        assert_eq!(of(later.clone(), [1, 2], backwards), theirs("summer-school"));
        // One that selects other nodes, or none, has no say.
        later.policies[1].nodes = policy("summer-school").pool("teaching").build().nodes;
        assert_eq!(of(later.clone(), [1, 2], backwards), Vec::<String>::new());
        later.policies[1].nodes = Vec::new();
        assert_eq!(of(later, [1, 2], backwards), Vec::<String>::new());
    }
}

#[test]
fn only_static_layouts_and_onboarding_evict_and_only_who_is_in_the_way() {
    fixed().broken(
        |w| w.step().evicts.clear(),
        &["fatal: ridge/gpu0: 1g.10gb@0 is destroyed, but is or may be held by lab/idler"],
    );
    fixed().broken(
        |w| w.step().evicts.push(pod("trainer")),
        &["fatal: ridge: lab/trainer would be evicted, but does not block the change"],
    );
    fixed()
        .broken(|w| w.step().evicts.push(pod("idler")), &["fatal: ridge: lab/idler would be evicted twice"]);
    fixed().broken(
        |w| w.policies[0].drain = planner::policy::Drain::Never,
        &["fatal: ridge: lab/idler may not be evicted by this policy"],
    );
    fixed().broken(
        |w| w.policies = vec![policy("research").evicts().build()],
        &["fatal: ridge: lab/idler may not be evicted by this policy"],
    );
    let mut preview = fixed();
    preview.policies[0].mode = Mode::Preview;
    preview.passes();
    // Who may hold it must all go, and somebody unknown cannot.
    let doubt = || a100().maybe("1g.10gb", 0, &["idler", "sleeper"]).idle("2g.20gb", 4);
    fixed().broken(
        |w| {
            w.node("ridge").gpus.insert(GpuIndex(0), doubt().build());
            w.change().before = doubt().build().slices;
        },
        &["fatal: ridge/gpu0: 1g.10gb@0 is destroyed, but is or may be held by lab/idler, lab/sleeper"],
    );
    let unknown = || a100().maybe("1g.10gb", 0, &[]).idle("2g.20gb", 4);
    fixed().broken(
        |w| {
            w.node("ridge").gpus.insert(GpuIndex(0), unknown().build());
            w.change().before = unknown().build().slices;
        },
        &[
            "fatal: ridge/gpu0: 1g.10gb@0 is destroyed, but is or may be held by an unknown pod",
            "fatal: ridge: lab/idler would be evicted, but does not block the change",
        ],
    );
}

#[test]
fn a_static_layout_is_met_exactly() {
    let wrong = "fatal: ridge/gpu0: the target differs from the static layout";
    fixed().broken(
        |w| w.policies = vec![policy("research").fixed(&[0], &[("3g.40gb", 2)]).evicts().build()],
        &[wrong],
    );
    // The first rule that matches is the one.
    fixed().broken(
        |w| {
            w.policies = vec![
                policy("research")
                    .fixed(&[], &[("3g.40gb", 2)])
                    .fixed(&[0], &[("7g.80gb", 1)])
                    .evicts()
                    .build(),
            ];
        },
        &[wrong],
    );
    fixed().broken(
        |w| w.policies = vec![policy("research").fixed(&[1], &[("7g.80gb", 1)]).evicts().build()],
        &[wrong],
    );
    // A rule that says nothing still leaves the GPU one full-size slice, and so
    // does one that wants none of a profile.
    let nothing = |slices: &[(&str, u8)]| {
        let mut nothing = fixed();
        nothing.policies = vec![policy("research").fixed(&[0], slices).evicts().build()];
        nothing
    };
    nothing(&[]).passes();
    nothing(&[("1g.10gb", 0)]).passes();
    for other in [&[("3g.40gb", 4)][..], &[("3g.40gb", 0), ("3g.40gb", 4)], &[("4g.40gb", 0), ("3g.40gb", 4)]]
    {
        let mut world = nothing(&[]);
        world.change().after = slices(other);
        world.change().creation_order = None;
        assert!(world.notes().contains(&wrong.to_owned()), "{other:?}: {:?}", world.notes());
    }
    // A rule for another model is for others.
    let of_model = |model: &'static str| {
        move |w: &mut World| {
            let LayoutPolicy::Static { gpus } = &mut w.policies[0].layout else { panic!("a static policy") };
            gpus[0].model = Some(model.to_owned());
        }
    };
    let mut named = fixed();
    of_model("A100-80GB")(&mut named);
    named.passes();
    fixed().broken(of_model("A30"), &[wrong]);
}

#[test]
fn bounds_are_kept() {
    let bounded = |min, max| policy("research").bounds("1g.10gb", min, 0, max).build();
    recut().broken(
        |w| w.policies[0] = bounded(0, Some(1)),
        &["fatal: policy research allows 1 of 1g.10gb, but there would be 2"],
    );
    let mut enough = recut();
    enough.policies[0] = bounded(0, Some(2));
    enough.passes();
    operated().broken(
        |w| w.policies[0] = bounded(7, None),
        &[
            "fatal: policy research guarantees 7 of 1g.10gb and has them, but there would be 0",
            "fatal: all minCounts together miss 0 slices now, and would miss 7",
        ],
    );
    // One floor may be broken to mend more of another.
    operated().broken(
        |w| {
            w.policies[0] =
                policy("research").bounds("1g.10gb", 1, 0, None).bounds("3g.40gb", 2, 0, None).build();
        },
        &["warning: policy research guarantees 1 of 1g.10gb and has them, but there would be 0"],
    );
    // A ceiling that was passed before is not the plan's doing.
    let mut passed = recut();
    passed.policies[0] = policy("research").bounds("3g.40gb", 0, 0, Some(0)).build();
    passed.passes();
}

#[test]
fn who_is_served_is_really_served() {
    recut().broken(
        |w| {
            let again = w.requests[0].id.clone();
            w.step().serves.push(again);
        },
        &[
            "fatal: ridge: Pod lab/ada is served twice",
            "fatal: ridge: its requests need 2 of 1g.20gb, but only 1 will be free",
        ],
    );
    recut().broken(
        |w| w.requests[1].slices.insert(profile("1g.10gb"), 3).map_or((), drop),
        &["fatal: ridge: its requests need 3 of 1g.10gb, but only 2 will be free"],
    );
    // A slice that may be held counts as free only as far as nobody holds it.
    recut().broken(
        |w| {
            w.node("ridge").allocated.insert(profile("1g.10gb"), 1);
        },
        &["fatal: ridge: its requests need 2 of 1g.10gb, but only 1 will be free"],
    );
    recut().broken(
        |w| {
            w.requests.remove(0);
        },
        &["fatal: ridge: there is no request Pod lab/ada"],
    );
    recut().broken(
        |w| w.requests[0] = request("ada").asks("1g.20gb", 1).selects("zone", "b").build(),
        &["fatal: ridge: Pod lab/ada may not use the node, which has no label zone (wanted: b)"],
    );
    recut().broken(
        |w| w.requests[0].whole_gpus = 1,
        &[
            "fatal: ridge: Pod lab/ada asks for whole GPUs, which it may not get there",
            "fatal: ridge: its requests need 1 of gpu, but only 0 will be free",
        ],
    );
    recut().broken(
        |w| w.policies[0] = policy("research").namespace("prod").build(),
        &[
            "fatal: ridge: the policy does not count Pod lab/ada",
            "fatal: ridge: the policy does not count Pod lab/bob",
        ],
    );
    recut().broken(
        |w| w.node("ridge").schedulable = false,
        &[
            "fatal: ridge: Pod lab/ada cannot bind to the node",
            "fatal: ridge: Pod lab/bob cannot bind to the node",
        ],
    );
    recut().broken(
        |w| w.requests[0] = request("ada").asks("4g.24gb", 1).build(),
        &["fatal: ridge: no new slice serves Pod lab/ada"],
    );
    recut().broken(
        |w| w.requests[0] = request("ada").asks("1g.20gb", 1).blocked_elsewhere("volume").build(),
        &["warning: ridge: Pod lab/ada had its slice and did not run"],
    );
    recut().broken(
        |w| {
            w.requests[0] =
                request("ada").asks("1g.20gb", 1).refused("its name is long", "shorten it").build();
        },
        &["fatal: ridge: Pod lab/ada cannot start with any layout"],
    );
}

#[test]
fn the_creation_order_leads_to_the_target() {
    recut().broken(
        |w| w.change().creation_order = Some(vec![profile("1g.10gb")]),
        &["fatal: ridge/gpu0: the creation order does not create the slices that the target adds"],
    );
    // The double-memory slice would take 2:2 on an empty half; here 1g.10gb@2
    // stays, and 1g.10gb goes to 3 beside it.
    recut().broken(
        |w| w.change().creation_order = None,
        &["warning: ridge/gpu0: the driver reaches the target in the order 1g.10gb, 1g.20gb"],
    );
    let start = || a100().used("3g.40gb", 4, "trainer");
    let moved = |after: &'static [(&'static str, u8)], order: &'static [&'static str]| {
        move |w: &mut World| {
            w.node("ridge").gpus.insert(GpuIndex(0), start().build());
            *w.change() = change_of(0, start(), after, order);
            w.step().serves.clear();
        }
    };
    recut().broken(
        moved(&[("1g.10gb", 3), ("3g.40gb", 4)], &["1g.10gb"]),
        &["fatal: ridge/gpu0: by itself the driver would place 1g.10gb@0, 3g.40gb@4"],
    );
    recut().broken(
        moved(
            &[("1g.10gb", 0), ("1g.10gb", 1), ("1g.20gb", 2), ("3g.40gb", 4)],
            &["1g.20gb", "1g.10gb", "1g.10gb"],
        ),
        &["fatal: ridge/gpu0: by itself the driver would place 1g.10gb@2, 1g.10gb@3, 1g.20gb@0, 3g.40gb@4"],
    );
}

#[test]
fn steps_are_one_a_node_and_change_something() {
    recut().broken(
        |w| {
            let mut again = w.plan.steps[0].clone();
            again.serves.clear();
            w.plan.steps.push(again);
        },
        &["fatal: ridge: two steps for one node"],
    );
    recut().broken(
        |w| {
            w.step().gpus.clear();
            w.step().serves.clear();
        },
        &["fatal: ridge: the step changes no GPU"],
    );
    recut().broken(|w| w.step().node = "hollow".into(), &["fatal: hollow: there is no such node"]);
    recut().broken(
        |w| {
            w.step().serves.clear();
            w.change().gpu = GpuIndex(9);
        },
        &["fatal: ridge/gpu9: there is no such GPU"],
    );
    recut().broken(
        |w| {
            w.step().serves.clear();
            *w.change() = change_of(0, half_busy(), &[("2g.20gb", 0), ("1g.10gb", 2), ("3g.40gb", 4)], &[]);
            w.change().creation_order = Some(vec![]);
        },
        &["fatal: ridge/gpu0: the target equals the present layout"],
    );
    // An actuator that cannot place sees no difference.
    operated().broken(
        |w| {
            w.step().serves.clear();
            let now = a100().idle("2g.20gb", 0).build();
            w.node("ridge").gpus.insert(GpuIndex(0), now);
            *w.change() = change_of(0, a100().idle("2g.20gb", 0), &[("2g.20gb", 4)], &["2g.20gb"]);
        },
        &["fatal: ridge/gpu0: the target equals the present layout"],
    );
    fresh().broken(
        |w| w.step().gpus.reverse(),
        &["fatal: ridge: its GPUs are not in ascending order, each once"],
    );
}

/// An agent puts slices where it is told: another place is another layout.
#[test]
fn a_slice_that_is_to_be_elsewhere_is_a_change_for_who_can_place_it() {
    let mut world = recut();
    world.step().serves.clear();
    let now = || a100().idle("2g.20gb", 0);
    world.node("ridge").gpus.insert(GpuIndex(0), now().build());
    *world.change() = change_of(0, now(), &[("2g.20gb", 4)], &["2g.20gb"]);
    let told = world.notes();
    assert!(told.iter().all(|note| !note.contains("the target equals the present layout")), "{told:?}");
}

/// Nobody can tell slices of unknown places apart: their order says nothing.
#[test]
fn slices_that_are_counted_in_another_order_are_the_same() {
    let now = || a100().counted("1g.10gb", 3).counted("2g.20gb", 2);
    let mut world = operated();
    world.node("ridge").gpus.insert(GpuIndex(0), now().build());
    world.change().before = now().build().slices;
    world.clone().passes();
    let Slices::Counted(before) = &mut world.change().before else { panic!("counted") };
    before.reverse();
    world.passes();
}

#[test]
fn a_floor_that_is_just_kept_is_kept() {
    let mut world = recut();
    world.policies[0] = policy("research").bounds("3g.40gb", 1, 0, None).build();
    world.passes();
}

/// Whoever is worth more starts first, whatever the nodes are called.
#[test]
fn a_checked_plan_starts_in_the_order_of_its_steps() {
    let mut plan = recut().plan;
    let mut second = plan.steps[0].clone();
    second.node = "alp".into();
    plan.steps.push(second);
    let judged = planner::testing::as_if_checked(plan);
    let order = judged.checked().expect("it is not objected to").order();
    assert_eq!(order.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ridge", "alp"]);
    assert!(judged.notes().is_empty());
}

#[test]
fn mig_is_switched_on_where_it_is_off() {
    recut().broken(
        |w| {
            // Switching it on needs the whole node idle.
            let idle = a100().idle("2g.20gb", 0).idle("1g.10gb", 2).idle("3g.40gb", 4);
            w.change().before = idle.clone().build().slices;
            w.node("ridge").gpus.insert(GpuIndex(0), idle.build());
            w.step().enable_mig = true;
        },
        &["fatal: ridge: enable_mig is set, but no changed GPU has MIG off"],
    );
    fresh().broken(
        |w| w.step().enable_mig = false,
        &["fatal: ridge: a changed GPU has MIG off, but enable_mig is not set"],
    );
    fresh().broken(
        |w| {
            w.step().gpus.pop();
        },
        &["warning: ridge/gpu1: MIG is switched on for the node, but this GPU stays off"],
    );
    assert!(matches!(fresh().change().before, Slices::MigOff { .. }));
}
