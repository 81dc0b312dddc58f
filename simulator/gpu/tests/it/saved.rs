//! Saved machines are checked when they are read: an edited one is refused with the error in it, and never
//! causes a panic later.

use crate::support::{create, cut_ready, open};
use gpu::{Activity, Machine, Target};
use serde_json::{Value, json};

/// An A100 with a 1g at 6, a compute instance in it, and a process there.
fn saved() -> Value {
    let mut machine = cut_ready("A100-80GB");
    create(&mut machine, 0, 19).unwrap();
    open(&mut machine, "python", Target::ComputeInstance(0, 13, 0), Activity::Computes);
    serde_json::to_value(&machine).unwrap()
}

#[track_caller]
fn refused(edit: impl FnOnce(&mut Value), expected: &str) {
    let mut value = saved();
    edit(&mut value);
    let read = serde_json::from_value::<Machine>(value);
    let error = read.expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_was_written_is_read() {
    let read: Machine = serde_json::from_value(saved()).unwrap();
    assert_eq!(read.gpus()[0].instances.keys().collect::<Vec<_>>(), [&13]);
    assert_eq!(serde_json::to_value(&read).unwrap(), saved());
}

#[test]
fn gpus_of_one_model_share_it() {
    let model = crate::support::model("H100-80GB");
    let machine = (0..8)
        .fold(Machine::new("dgx", gpu::DriverBranch::default(), crate::support::start()), |m, _| {
            m.with_gpu(&model)
        });
    let written = serde_json::to_value(&machine).unwrap();
    assert_eq!(written["models"].as_array().unwrap().len(), 1);
    let read: Machine = serde_json::from_value(written).unwrap();
    assert_eq!(read, machine);
    assert!(std::sync::Arc::ptr_eq(&read.gpus()[0].model, &read.gpus()[7].model));
}

#[test]
fn what_cannot_be_is_refused() {
    let gi = |v: &mut Value| v["gpus"][0]["instances"]["13"].take();
    refused(|v| v["gpus"][0]["model"] = json!(1), "GPU 0: there is no model 1");
    refused(|v| v["gpus"][0]["mode"] = json!(null), "MIG mode do not go together");
    refused(
        |v| v["gpus"][0]["mode"] = json!({"current": "Disabled", "pending": "Disabled"}),
        "instances, and MIG is off",
    );
    refused(|v| v["gpus"][0]["instances"]["13"]["placement"] = json!(200), "is at placement 200 of");
    refused(|v| v["gpus"][0]["instances"]["13"]["placement"] = json!(0), "its place has the id");
    refused(
        |v| {
            let same = gi(v);
            v["gpus"][0]["instances"] = json!({"12": same, "13": same});
        },
        "cannot be on one GPU together",
    );
    refused(
        |v| v["gpus"][0]["instances"]["13"]["compute"]["0"]["profile"] = json!(3),
        "compute instance 0 of GPU instance 13 cannot be there",
    );
    refused(
        |v| v["gpus"][0]["instances"]["13"]["compute"] = json!({}),
        "client 1 has ComputeInstance(0, 13, 0) open, which is not there",
    );
    refused(|v| v["next_client"] = json!(1), "is numbered higher than the next one");
    refused(|v| v["models"][0]["mig"]["geometry"]["memory"] = json!(99), "99");
    refused(
        |v| v["models"][0]["mig"]["profiles"].as_array_mut().unwrap().truncate(2),
        "the profiles are not those of the geometry",
    );
    refused(|v| v["gpus"] = json!(vec![v["gpus"][0].clone(); 33]), "33 GPUs; a host has at most 32");
    refused(|v| v["surprise"] = json!(1), "unknown field `surprise`");
}
