//! Output for shells and `man`: completions and manual pages of every command.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cli::exit::Status;

use crate::plan::run;

/// The names under `Commands:` of the help.
fn commands() -> Vec<String> {
    let (_, help, _) = run("--help");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let (status, script, _) = run("completions bash");
    assert_eq!(status, Status::Success);
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let last = words.len() - 1;
    let ask = format!(
        "{script}\nCOMP_WORDS=({line}); COMP_CWORD={last}\n_slicewright slicewright '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words[last],
        words[last - 1]
    );
    let mut bash = Command::new("bash")
        .args(["--norc", "--noprofile"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_their_values() {
    assert_eq!(offered(&["slicewright", "snap"]), ["snapshot"]);
    assert_eq!(offered(&["slicewright", "plan", "--con"]), ["--context"]);
    assert_eq!(offered(&["slicewright", "plan", "--output", "m"]), ["markdown"]);
}

#[test]
fn every_shell_is_told_of_every_command() {
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (status, script, err) = run(&format!("completions {shell}"));
        assert_eq!((status, err.as_str()), (Status::Success, ""));
        for command in &commands {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_options_and_examples() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man/man1");
    let _ = std::fs::remove_dir_all(&folder);
    let (status, out, err) = run(&format!("man --to {}", folder.display()));
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    let names: Vec<String> = commands().into_iter().filter(|name| name != "help").collect();
    // One for all, and one below a group of commands.
    assert!(out.starts_with(&format!("{} pages were written into ", names.len() + 2)), "{out}");
    for name in &names {
        let page = std::fs::read_to_string(folder.join(format!("slicewright-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH slicewright-{name} 1")), "{page}");
        assert!(page.contains(".SH SYNOPSIS\n\\fBslicewright"), "{page}");
    }
    let (status, below, _) = run("man profiles export");
    assert_eq!(status, Status::Success, "the page of the group names this one");
    assert_eq!(below, std::fs::read_to_string(folder.join("slicewright-profiles-export.1")).unwrap());
    let (_, plan, _) = run("man plan");
    assert_eq!(plan, std::fs::read_to_string(folder.join("slicewright-plan.1")).unwrap());
    for part in ["fleet", "Exits with 0 if nothing changes", "kustomize build clusters/lab"] {
        assert!(plan.contains(part), "{part} is missing in {plan}");
    }
    let (_, all, _) = run("man");
    assert_eq!(all, std::fs::read_to_string(folder.join("slicewright.1")).unwrap());
}

#[test]
fn a_page_that_is_not_there_is_answered_with_those_that_are() {
    let (status, _, err) = run("man plam");
    assert_eq!(status, Status::Usage);
    assert!(
        err.starts_with("error: there is no page for `plam`; the pages are: layouts, fit, solve, plan, "),
        "{err}"
    );
}
