//! Quantities of resources are read as Kubernetes reads them, and rounded up: no request counts as less
//! than it is.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use observe::pods::{all_that_it_takes, amount, scheduler_says, takes};
use serde_json::{Value, json};

#[track_caller]
fn check(resource: &str, text: &str, expect: i128) {
    assert_eq!(amount(resource, &Quantity(text.to_owned())), Some(expect), "{text} of {resource}");
}

#[test]
fn each_unit_is_worth_what_kubernetes_says() {
    let thousands = ["", "k", "M", "G", "T", "P", "E"];
    for (power, unit) in (0u32..).zip(thousands) {
        check("memory", &format!("3{unit}"), 3 * 1000i128.pow(power));
        check("cpu", &format!("3{unit}"), 3000 * 1000i128.pow(power));
    }
    for (power, unit) in (1u32..).zip(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
        check("memory", &format!("3{unit}"), 3 * 1024i128.pow(power));
    }
    check("memory", "3e4", 30_000);
    check("memory", "3E2", 300);
}

#[test]
fn what_is_less_than_one_counts_as_one() {
    for part in ["1n", "1u", "1m", "0.001", "999m", "1000m", "1000000u", "1000000000n"] {
        check("memory", part, 1);
    }
    check("memory", "0", 0);
    check("memory", "1001m", 2);
    check("cpu", "1000000n", 1);
    check("cpu", "1000001n", 2);
    check("cpu", "1000u", 1);
    check("cpu", "1001u", 2);
}

#[test]
fn what_is_no_quantity_is_none() {
    let zeros = "0".repeat(17);
    for text in ["", ".", "1.2.3", "1..2", "x", "1x", "1Kib", "--1", &format!("0.{zeros}01"), "1e", "1e999"] {
        assert_eq!(amount("memory", &Quantity(text.to_owned())), None, "{text}");
    }
    check("memory", &format!("0.{zeros}1"), 1);
    check("memory", ".5", 1);
    check("memory", "5.", 5);
}

fn spec(limits: &Value) -> k8s_openapi::api::core::v1::PodSpec {
    let spec = json!({"containers": [{"name": "c", "resources": {"limits": limits}}]});
    serde_json::from_value(spec).expect("a spec")
}

#[test]
fn what_a_pod_takes_is_told_by_resource_and_nothing_of_it_is_no_slice() {
    let spec = spec(
        &json!({"nvidia.com/mig-1g.10gb": "0", "nvidia.com/mig-2g.20gb": "2", "nvidia.com/hostdev": "3", "cpu": "1500m"}),
    );
    let taken = takes(&spec);
    let slices: Vec<String> = taken.slices.iter().map(|(profile, n)| format!("{n} {profile}")).collect();
    assert_eq!(slices, ["2 2g.20gb"]);
    assert_eq!(taken.extended.get("nvidia.com/hostdev"), Some(&3));
    let all = all_that_it_takes(&spec);
    assert_eq!(
        all.into_iter().collect::<Vec<_>>(),
        [
            ("cpu".to_owned(), 1500),
            ("nvidia.com/hostdev".to_owned(), 3),
            ("nvidia.com/mig-1g.10gb".to_owned(), 0),
            ("nvidia.com/mig-2g.20gb".to_owned(), 2),
        ]
    );
}

#[test]
fn only_a_scheduler_that_found_no_place_says_why() {
    let says = |kind: &str, status: &str, reason: &str| {
        let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": kind, "status": status, "reason": reason, "message": "0/3 nodes"}]}});
        let pod = serde_json::from_value(pod).expect("a pod");
        scheduler_says(&pod).map(str::to_owned)
    };
    assert_eq!(says("PodScheduled", "False", "Unschedulable").as_deref(), Some("0/3 nodes"));
    assert_eq!(
        says("PodScheduled", "False", "SchedulerError").as_deref(),
        Some("0/3 nodes"),
        "it tries again"
    );
    assert_eq!(says("PodScheduled", "False", "SchedulingGated"), None);
    assert_eq!(says("PodScheduled", "True", "Unschedulable"), None);
    assert_eq!(says("Ready", "False", "Unschedulable"), None);
    assert_eq!(says("Ready", "True", "Unschedulable"), None);
}
