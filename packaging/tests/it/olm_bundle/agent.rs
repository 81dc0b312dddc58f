//! What an administrator applies beside the bundle, by the command of the guide.

use packaging::root;
use serde_json::Value;

use super::helm;

/// The command of docs/guides/olm.md that renders the node agent, without what it is piped into.
fn command_of_the_guide() -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("docs/guides/olm.md")).unwrap();
    let (_, after) = guide.split_once("### The node agent").expect("the guide has a section on the agent");
    let (_, block) = after.split_once("```text\n").expect("the section has a command");
    let (command, _) = block.split_once("| oc apply --filename -").expect("its output is applied");
    let words = command.split_whitespace().filter(|word| *word != "\\");
    words.map(|word| word.replace("REGISTRY", "registry.example.com/slicewright")).collect()
}

#[test]
fn the_command_of_the_guide_renders_the_agent_and_what_keeps_it_to_its_own_node() {
    let words = command_of_the_guide();
    assert_eq!(words[0], "helm");
    let helm = helm();
    let mut command = helm.command();
    command.args(&words[1..]).current_dir(root());
    let text = helm.run(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let objects: Vec<Value> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str::<Value>(document).unwrap())
        .filter(|object| !object.is_null())
        .collect();
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    for kind in [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "DaemonSet",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
    // The bundle's operator finds the agents by these labels of their pods (`observe::on_node`).
    let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let template = &set["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/part-of"], "slicewright");
    assert_eq!(labels["app.kubernetes.io/component"], "agent");
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
    assert!(image.starts_with("registry.example.com/slicewright/"), "{image}");
    // On OpenShift its account, and nobody else, may be privileged.
    let scc = objects.iter().find(|object| object["roleRef"]["name"] == "system:openshift:scc:privileged");
    let subjects = scc.expect("a binding for OpenShift")["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), 1);
    assert_eq!(subjects[0]["name"], template["spec"]["serviceAccountName"]);
}
