//! Stories: what somebody types on a node, and what is answered, in
//! `tests/stories`. `UPDATE=1` writes the answers anew; read the difference.
//!
//! A line is
//! - `# …`: a comment;
//! - `% …`: something happens to the node (see [`happens`]);
//! - `$ …`: a command of an ordinary user, `sudo` makes it root's.
//!
//! Everything else is what the command above it says; `[status N]` follows
//! where it fails.

use std::fs;
use std::path::Path;

use crate::node::{Node, Output, host, with, with_display};
use gpu::{Activity, Fault, Labelling, Target};

#[test]
fn an_a100_server() {
    story("seed-001-a100-server");
}

#[test]
fn a_dgx_station() {
    story("seed-003-dgx-station");
}

#[test]
fn an_a100_on_openshift() {
    story("seed-000-openshift");
}

#[test]
fn an_a30_as_captured() {
    story("a30");
}

#[test]
fn an_h100_as_captured() {
    story("h100");
}

#[test]
fn parts_of_gpu_instances() {
    story("parts");
}

#[test]
fn what_an_h200_said_word_by_word() {
    story("said-by-an-h200");
}

#[test]
fn refusals() {
    story("refusals");
}

#[test]
fn where_output_goes() {
    story("output");
}

#[test]
fn a_gpu_that_falls_off_the_bus() {
    story("lost");
}

#[test]
fn power_and_loads() {
    story("power");
}

#[test]
fn states_that_nothing_changes() {
    story("states");
}

#[test]
fn modes_and_resets() {
    story("modes");
}

/// Plays a story and compares.
#[track_caller]
fn story(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories").join(format!("{name}.txt"));
    let script = fs::read_to_string(&file).unwrap();
    let played = play(&script);
    #[expect(clippy::disallowed_methods, reason = "how every test here is told to write its expectation")]
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &played).unwrap();
    }
    let differs = script.lines().zip(played.lines()).position(|(told, said)| told != said);
    if let Some(at) = differs.or((script != played).then_some(script.lines().count())) {
        let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
        let (told, said) = (line(&script), line(&played));
        let place = format!("{}:{}", file.display(), at + 1);
        panic!("{place}: UPDATE=1 writes it anew\nexpected: {told}\n    said: {said}");
    }
}

fn play(script: &str) -> String {
    let mut played = String::new();
    let mut setup = None;
    let mut node = None;
    for line in script.lines() {
        if let Some(event) = line.strip_prefix("% ") {
            happens(event, &mut setup, &mut node);
        } else if !line.starts_with('#') && !line.starts_with("$ ") {
            continue;
        }
        played.push_str(line);
        played.push('\n');
        if let Some(command) = line.strip_prefix("$ ") {
            let node = node.get_or_insert_with(|| Node::new(setup.take().expect("a machine comes first")));
            played.push_str(&answer(&node.shell(command)));
        }
    }
    played
}

fn answer(said: &Output) -> String {
    let Output { out, err, status } = said;
    let mut text = timeless(out);
    text.push_str(err);
    if *status != 0 {
        text.push_str(&format!("[status {status}]\n"));
    }
    text
}

/// Times are of the day on which the test runs.
fn timeless(text: &str) -> String {
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let mut timeless = String::new();
    for line in text.lines() {
        let is_time =
            line.len() == 31 && line.ends_with("       ") && days.iter().any(|d| line.starts_with(d));
        timeless.push_str(if is_time {
            "(time)"
        } else if line.starts_with("Timestamp  ") {
            "(time stamp)"
        } else {
            line
        });
        timeless.push('\n');
    }
    timeless
}

/// What happens to a node. The first lines make it:
/// `machine DRIVER [passed-through]`, `gpu MODEL [V2]`, `product NAME`, `display MIB
/// PRODUCT`.
/// Later: `opens PID NAME gpu G`, `opens PID NAME gpu G MIB`,
/// `opens PID NAME ci G GI CI MIB` (with memory it computes, without it
/// watches), `ends NAME`, `reboot`, `falls off the bus G`.
fn happens(event: &str, setup: &mut Option<(gpu::Machine, String)>, node: &mut Option<Node>) {
    let words: Vec<_> = event.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let small = |at: usize| words[at].parse::<u16>().unwrap();
    let id = |at: usize| words[at].parse::<u8>().unwrap();
    match words[0] {
        "machine" => {
            *node = None;
            let (machine, driver) = host(words[1]);
            let machine = if words.len() > 2 { machine.passed_through() } else { machine };
            *setup = Some((machine, driver));
        }
        "gpu" | "product" | "display" => {
            let (machine, driver) = setup.take().unwrap();
            let machine = if words[0] == "display" {
                with_display(machine, &words[2..].join(" "), number(1))
            } else if words[0] == "product" {
                with(machine, &words[1..].join(" "), Labelling::V1)
            } else {
                let labelling = if words.len() > 2 { Labelling::V2 } else { Labelling::V1 };
                with(machine, words[1], labelling)
            };
            *setup = Some((machine, driver));
        }
        _ => {
            let node = node.get_or_insert_with(|| Node::new(setup.take().expect("a machine comes first")));
            match words[0] {
                "opens" if words[3] == "ci" => {
                    let target = Target::ComputeInstance(small(4), id(5), id(6));
                    node.opens(number(1), words[2], target, Activity::Computes, number(7));
                }
                "opens" => {
                    let memory = if words.len() > 5 { number(5) } else { 0 };
                    let activity = if words.len() > 5 { Activity::Computes } else { Activity::Watches };
                    node.opens(number(1), words[2], Target::Gpu(small(4)), activity, memory);
                }
                "ends" => node.ends(words[1]),
                "reboot" => node.reboot(),
                "falls" => {
                    let gpu = small(4);
                    node.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu })).unwrap();
                }
                other => panic!("nothing called {other} can happen"),
            }
        }
    }
}
