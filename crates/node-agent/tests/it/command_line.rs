//! What the program says of itself.

use std::process::Command;

fn agent(args: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_slicewright-agent")).env_clear().args(args).output().unwrap();
    let text = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2_and_a_cluster_that_is_not_there_with_1() {
    let (code, text) = agent(&[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--node-name") && text.contains("--pod-uid"), "{text}");
    let (code, text) =
        agent(&["--node-name=gpu-7", "--pod-uid=u", "--log-format=text", "--kubeconfig=/nowhere/config"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("failed to read the kubeconfig"), "{text}");
}

#[test]
fn help_says_what_it_does_and_how_it_ends() {
    let (code, text) = agent(&["--help"]);
    assert_eq!(code, Some(0));
    for part in ["GpuNode", "--pod-resources-socket", "NODE_NAME", "kubernetes#137534", "Exit status"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// `UPDATE=1` writes it; review the difference.
#[test]
fn the_flags_are_up_to_date() {
    use clap::CommandFactory;
    let help = node_agent::args::Args::command().render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let page = format!(
        "# slicewright-agent\n\nWhat `slicewright-agent --help` prints. [The guide](../guides/agent.md) says how to use it.\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/agent.md");
    #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/reference/agent.md is not up to date: run `UPDATE=1 cargo test -p slicewright-node-agent`"
    );
}
