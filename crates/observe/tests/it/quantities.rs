//! Amounts of resources are read as Kubernetes reads them, and rounded up: nobody is
//! taken to ask for less than they do.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use observe::pods::amount;

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
