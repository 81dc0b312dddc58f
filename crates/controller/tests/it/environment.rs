//! Settings from the environment, which is all that OLM's Subscription can set: `spec.config.env` of the guide.

use std::process::Command;

use clap::Parser;
use controller::args::Args;
use controller::settings::{HardwareProfiles, Kueue, Settings};

/// The name of the test below, by which it starts itself.
const SELF: &str = "environment::what_a_subscription_sets_is_what_the_operator_does";

/// What an administrator writes under `spec.config.env`.
const SUBSCRIPTION: [(&str, &str); 6] = [
    ("SLICEWRIGHT_PATCH_CLUSTER_POLICY", "true"),
    ("SLICEWRIGHT_PATCH_DEVICE_PLUGIN", "true"),
    ("SLICEWRIGHT_KUEUE", "report"),
    ("SLICEWRIGHT_HARDWARE_PROFILES", "publish"),
    ("SLICEWRIGHT_GPU_OPERATOR_NAMESPACE", "gpu-operator"),
    ("SLICEWRIGHT_ADMINISTRATORS_MAP", "platform/mig-layouts"),
];

/// The settings of an operator that is started as the bundle starts it: without any flag.
fn settings() -> Settings {
    Args::try_parse_from(["slicewright-operator"]).unwrap().settings().unwrap()
}

/// A process has one environment, so the operator's is that of another process: this test once more.
#[test]
fn what_a_subscription_sets_is_what_the_operator_does() {
    #[expect(clippy::disallowed_methods, reason = "the environment is what this is about")]
    let inside = std::env::var("SLICEWRIGHT_KUEUE").is_ok();
    if inside {
        let settings = settings();
        assert!(settings.patch_cluster_policy && settings.patch_device_plugin);
        assert_eq!(settings.kueue, Kueue::Report);
        assert_eq!(settings.hardware_profiles, HardwareProfiles::Publish);
        assert_eq!(settings.gpu_operator_namespace, "gpu-operator");
        let map = settings.administrators_map.unwrap();
        assert_eq!((map.namespace.as_str(), map.name.as_str()), ("platform", "mig-layouts"));
        return;
    }
    let defaults = settings();
    assert!(!defaults.patch_cluster_policy && !defaults.patch_device_plugin);
    assert_eq!(defaults.kueue, Kueue::Off);
    let mut operator = Command::new(std::env::current_exe().unwrap());
    let output = operator.args(["--exact", SELF, "--nocapture"]).envs(SUBSCRIPTION).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
