//! What Helm says after the installation can be copied as it stands.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The shell ends a text such as the policy's only at its end mark at the beginning of a line: where that is indented, it
/// waits for more, and the person who pasted it does not know for what.
#[test]
fn the_first_policy_of_the_notes_reaches_kubectl_when_it_is_pasted() {
    let notes = std::fs::read_to_string(packaging::chart().join("templates/NOTES.txt")).unwrap();
    let command = notes.split_once("kubectl apply -f - <<POLICY").expect("a policy is applied").1;
    let script = format!("kubectl() {{ cat; }}\nkubectl apply -f - <<POLICY{command}");
    let mut shell = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = script.lines().take_while(|line| line.trim() != "POLICY").collect::<Vec<_>>().join("\n");
    let end = script.lines().find(|line| line.trim() == "POLICY").expect("it ends");
    shell.stdin.take().unwrap().write_all(format!("{first}\n{end}\n").as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let given: Value = serde_saphyr::from_str(&String::from_utf8_lossy(&output.stdout)).unwrap();
    let example = packaging::chart().join("../../examples/first/policy.yaml");
    let example: Value = serde_saphyr::from_str(&std::fs::read_to_string(example).unwrap()).unwrap();
    assert_eq!(given, example, "it is the first policy of the other pages");
}
