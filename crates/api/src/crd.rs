//! The CRDs of our kinds, as the API server gets them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use crate::{GpuNode, GpuPartitionPolicy};

/// Every CRD of ours as `(file name, YAML text)`, by file name.
#[must_use]
pub fn crds() -> Vec<(&'static str, String)> {
    [
        ("slicewright.io_gpunodes.yaml", gpu_nodes()),
        ("slicewright.io_gpupartitionpolicies.yaml", gpu_partition_policies()),
    ]
    .into_iter()
    .map(|(file, crd)| {
        let yaml = serde_saphyr::to_string(&crd).expect("a CRD is plain data");
        let header = "# Generated from crates/api by `cargo xtask codegen`; do not edit.\n";
        (file, format!("{header}{}\n", yaml.trim_end()))
    })
    .collect()
}

/// The CRD of [`GpuPartitionPolicy`].
#[must_use]
pub fn gpu_partition_policies() -> Value {
    finish(&GpuPartitionPolicy::crd())
}

/// The CRD of [`GpuNode`].
#[must_use]
pub fn gpu_nodes() -> Value {
    finish(&GpuNode::crd())
}

/// The schema of an object of ours, from its CRD.
///
/// # Panics
/// If the CRD is not one of ours.
#[must_use]
pub fn schema(crd: &Value) -> &Value {
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema").expect("every CRD of ours has one version")
}

/// What the derive cannot say: whole numbers as bounds, no `null` where a
/// default is, and a default on `status`, so that a new object reads as in
/// progress from its first moment (kstatus takes an object without a `Ready`
/// condition for done).
fn finish(crd: &CustomResourceDefinition) -> Value {
    let mut crd = serde_json::to_value(crd).expect("a CRD is plain data");
    tidy(&mut crd);
    let status = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/status")
        .expect("every kind of ours has a status");
    status["default"] = json!({
        "conditions": [{
            "type": crate::condition::kind::READY,
            "status": "Unknown",
            "reason": crate::condition::reason::PENDING,
            "message": "Waiting for controller",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }],
    });
    crd
}

fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("default") && map.get("nullable") == Some(&Value::Bool(true)) {
                map.remove("nullable");
            }
            for bound in ["minimum", "maximum"] {
                if let Some(number) = map.get(bound).and_then(Value::as_f64)
                    && number.fract() == 0.0
                {
                    // Bounds of ours are small; a cast keeps them exactly.
                    map.insert(bound.to_owned(), json!(number as i64));
                }
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
