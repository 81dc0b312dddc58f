//! The language: valid stories, and the messages for invalid ones.

use operands::faults::FAULTS;
use slicewright_sim_story::{COMMANDS, Command, EXPECTATIONS, Expectation, Manifest, parse};

#[track_caller]
fn refused(text: &str, expect: &str) {
    let error = parse(text).expect_err("the story is wrong").to_string();
    assert_eq!(error, expect);
}

#[test]
fn a_story_is_read_line_by_line_with_its_blocks() {
    let story = parse(
        "# Seven notebooks.\nclock 2026-03-02T09:00:00Z\nnode n1..n3 1xA100-80GB+2xA30 labels a=b c=d mig off\n\
         policy:\n  kind: GpuPartitionPolicy\n\n  spec: {}\nworkbench team-a/lab 1g.10gb:2 priority 5\n\
         expect gpu n1 0 1g.10gb:3 2g.20gb\n",
    )
    .expect("it is a story");
    assert_eq!(story.steps.len(), 6);
    let Command::Nodes(names, spec) = &story.steps[2].command else { panic!("{:?}", story.steps[2]) };
    assert_eq!(names, &["n1", "n2", "n3"]);
    assert_eq!(
        spec.gpus.iter().map(|(n, m)| (*n, m.text.as_str())).collect::<Vec<_>>(),
        [(1, "A100-80GB"), (2, "A30")]
    );
    assert!(!spec.mig);
    let Command::Policy(Manifest::Block { text, place }) = &story.steps[3].command else {
        panic!("no block")
    };
    assert_eq!(text, "kind: GpuPartitionPolicy\n\nspec: {}\n");
    assert_eq!((place.line, place.column), (5, 3));
    let Command::Expect(Expectation::Gpu { slices: Some(slices), .. }) = &story.steps[5].command else {
        panic!()
    };
    assert_eq!(slices.values().copied().collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn what_cannot_be_read_is_told_with_line_column_and_what_is_allowed() {
    refused(
        "nod n1 1xA30",
        "line 1, column 1: there is no command `nod`; there are clock, node, namespace, policy, apply, delete, \
         workbench, pod, budget, start, stop, end, open, close, cordon, uncordon, label, foreign, agent, reboot, fault, \
         release, crash, advance, run, plan, explain, fleet, expect; did you mean `node`?",
    );
    refused(
        "plan\n  nonsense",
        "line 2, column 3: this line is indented, and no block is open: a block follows `policy:` or `apply:`",
    );
    refused("policy:\nplan", "line 1, column 1: `policy:` needs a block: indented lines of YAML below it");
    refused("plan:\n  x", "line 1, column 1: `plan:` does not open a block; `policy:` and `apply:` do");
    refused(
        "node n1 8A100",
        "line 1, column 9: `8A100` should be a number of GPUs and a model, such as 8xA100-80GB, with 1 to 16 GPUs",
    );
    refused(
        "node N1 1xA30",
        "line 1, column 6: `N1` cannot be a node's name: Kubernetes allows small letters, digits, `-` and `.`, a letter or digit at both ends",
    );
    refused(
        "node n1..n0 1xA30",
        "line 1, column 6: `n1..n0` should be a node's name, or a row of them such as n1..n10",
    );
    refused(
        "node n1 1xA30 strategy mixd",
        "line 1, column 24: `mixd` is not known here; allowed: mixed, single; did you mean `mixed`?",
    );
    refused(
        "workbench lab 1g.10gb",
        "line 1, column 11: `lab` should be a workbench as namespace/name, such as team-a/lab",
    );
    refused(
        "workbench a/lab 1g.x",
        "line 1, column 17: `1g.x` is not a profile name: write <compute>g.<memory>gb with an optional +me, +me.all, \
         +gfx or -me, such as 1g.10gb or 1g.10gb+me",
    );
    refused(
        "workbench a/lab 1g.10gb:0",
        "line 1, column 17: `0` should be how many slices: a whole number from 1",
    );
    refused(
        "workbench a/lab 1g.10gb works 1h",
        "line 1, column 25: `works` is not known here; allowed: gpus, shares, priority, selector, cpu, memory, profile",
    );
    refused(
        "advance ten",
        "line 1, column 9: `ten` should be a duration above zero, such as 30s, 10m or 1h30m",
    );
    refused("advance", "line 1, column 8: the line ends, and a duration, such as 10m, is missing");
    refused("plan now", "line 1, column 6: `now` is one word too many: the command is complete before it");
    refused(
        "expect told a/b \"never closed",
        "line 1, column 17: this quote is never closed; end it with \"",
    );
    refused("label n1", "line 1, column 9: the line ends, and a label, as key=value or key-, is missing");
    refused("plan\nclock 2026-03-02T09:00:00Z", "line 2, column 1: `clock` must come before everything else");
    refused(
        "clock yesterday",
        "line 1, column 7: `yesterday` should be a time with a zone, such as 2026-03-02T09:00:00Z",
    );
    refused("expect gpu n1 0", "line 1, column 16: the line ends, and one of empty, off is missing");
}

#[test]
fn every_documented_form_begins_with_its_word() {
    for usage in COMMANDS {
        assert!(usage.form.starts_with(usage.word), "{usage:?}");
    }
    for usage in EXPECTATIONS {
        assert!(usage.form.starts_with(&format!("expect {}", usage.word)), "{usage:?}");
    }
}

#[test]
fn the_reference_lists_every_command_and_expectation_as_it_is() {
    let reference = include_str!("../../../docs/reference/story.md");
    let usages = COMMANDS.iter().chain(EXPECTATIONS).map(|usage| (usage.form.to_owned(), usage.meaning));
    let faults = FAULTS.iter().map(|(form, meaning)| (format!("fault NODE {form}"), *meaning));
    for (form, meaning) in usages.chain(faults) {
        let row = format!("| `{}` | {} |", form.replace('|', "\\|"), meaning.replace('|', "\\|"));
        assert!(
            reference.contains(&row),
            "docs/reference/story.md lacks this row, or has another text:\n{row}"
        );
    }
}
