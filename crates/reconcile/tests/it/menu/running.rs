//! What a running workbench has of a published profile, whatever we write into that profile later. At each write to a
//! workbench OpenShift AI's webhook injects its profile again, and a pod template that changes restarts it: so nothing
//! that we change may change what is injected, by the rules of no release.

use super::*;
use workbenches::profile::{RULES, Rules, Workload, review};

/// What the API server stores of a workbench that is written.
fn stored(cluster: &Cluster, rules: &Rules, written: Value, before: Option<&Value>) -> Value {
    let profiles = &cluster.objects.hardware_profiles;
    let find = |namespace: &str, name: &str| profiles.get(&(namespace.to_owned(), name.to_owned())).cloned();
    review(rules, Workload::Notebook, written, before, find).unwrap().object
}

/// A workbench with a proxy, and with wishes of its user.
fn lab(profile: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": "team", "name": "lab", "labels": {"app": "lab"}, "annotations": {
            "opendatahub.io/hardware-profile-name": profile,
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS}},
        "spec": {"template": {"spec": {
            "containers": [{"name": "lab", "resources": {"requests": {"cpu": "2"}}}, {"name": "oauth-proxy"}],
            "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "own", "operator": "Exists"}],
        }}},
    })
}

/// The StatefulSet is made of these: the template of the pod, and the labels with the queue.
fn of_its_set(notebook: &Value) -> (Value, Value) {
    (notebook["spec"].clone(), notebook["metadata"]["labels"].clone())
}

/// The same, written as the culler writes it, of which its profile is injected again.
fn touched(cluster: &Cluster, rules: &Rules, running: &Value) -> (Value, Value) {
    let mut written = running.clone();
    written["metadata"]["annotations"]["notebooks.kubeflow.org/last-activity"] =
        json!(cluster.now.to_string());
    of_its_set(&stored(cluster, rules, written, Some(running)))
}

/// A fleet with both kinds of profiles, and a workbench with one of them, as it runs by the rules of a release.
fn with_a_workbench(rules: &Rules, words: &[&str]) -> (Cluster, String, Value) {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    round(&mut cluster);
    let name = name(&cluster, words);
    let running = stored(&cluster, rules, lab(&name), None);
    add(&mut cluster, "kubeflow.org/v1", "Notebook", running.clone());
    (cluster, name, running)
}

const KINDS: [&[&str]; 2] = [&["gpu-research-", "3g-40gb"], &["gpu-q-gpus-3g-40gb"]];

#[test]
fn nothing_that_we_write_into_a_published_profile_restarts_a_workbench_that_runs_with_it_in_any_release() {
    for words in KINDS {
        let (mut cluster, name, _) = with_a_workbench(&RULES[0], words);
        let running = RULES.each_ref().map(|rules| stored(&cluster, rules, lab(&name), None));
        let stays = |cluster: &Cluster, stage: &str| {
            for (rules, running) in RULES.iter().zip(&running) {
                let what = format!("{name}, {stage}, by the rules of {}", rules.release);
                let asked = &running["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"];
                assert_eq!(asked["nvidia.com/mig-3g.40gb"], "1", "{what}: it has its slice by the profile");
                assert_eq!(touched(cluster, rules, running), of_its_set(running), "{what}");
            }
        };
        stays(&cluster, "published");

        never_again(&mut cluster, "3g.40gb");
        assert!(minutes(&mut cluster, 12).contains(&format!("withdraw {name}")), "{name}");
        stays(&cluster, "withdrawn");

        cluster.policy(json!({"type": "DemandDriven"}));
        assert!(minutes(&mut cluster, 12).contains(&format!("offer again {name}")), "{name}");
        stays(&cluster, "offered again");

        // A smaller node gives another profile. The old one is left, as it is.
        cluster.edit_node("n1", |node| {
            let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
            allocatable.get_mut("memory").unwrap().0 = "64Gi".to_owned();
        });
        assert!(minutes(&mut cluster, 12).contains(&format!("withdraw {name}")), "{name}");
        stays(&cluster, "outdated");

        // Whatever else a later version of us may change, as long as it is not the spec.
        let profile = profile(&mut cluster, &name);
        let keys = ["opendatahub.io/display-name", "opendatahub.io/description", DISABLED, WITHDRAWN];
        profile.metadata.annotations =
            Some(keys.map(|key| (key.to_owned(), "of a later version".to_owned())).into());
        profile.metadata.labels = None;
        stays(&cluster, "with another card");
    }
}

/// Why a spec is never changed: what the test above finds unchanged would change.
#[test]
fn another_spec_of_the_same_name_would_restart_it_in_every_release() {
    for rules in &RULES {
        let (mut cluster, name, running) = with_a_workbench(rules, KINDS[0]);
        let before = profile(&mut cluster, &name).clone();
        let node = profile(&mut cluster, &name).spec.scheduling.as_mut().unwrap().node.as_mut().unwrap();
        node.node_selector.insert("zone".to_owned(), "a".to_owned());
        assert_ne!(touched(&cluster, rules, &running), of_its_set(&running), "{}", rules.release);

        *profile(&mut cluster, &name) = before;
        let identifiers = &mut profile(&mut cluster, &name).spec.identifiers;
        let mut storage = identifiers[1].clone();
        storage.identifier = "ephemeral-storage".to_owned();
        identifiers.push(storage);
        assert_ne!(touched(&cluster, rules, &running), of_its_set(&running), "{}", rules.release);
    }
}
