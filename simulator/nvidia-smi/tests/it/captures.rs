//! Public captures, reproduced by the tool over a simulated node: the same
//! commands on the same model with the same driver give the same text.
//! `docs/simulator.md` has the table; a test here holds it to the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::node::{Node, host, with};
use gpu::Labelling;

fn captures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// A node of one GPU; what was done before; the command; what it said.
#[track_caller]
fn check(driver: &str, (model, labelling): (&str, Labelling), before: &[&str], command: &str, capture: &str) {
    let (machine, driver) = host(driver);
    let node = Node::new((with(machine, model, labelling), driver));
    for command in before {
        node.says(command);
    }
    let seen = fs::read_to_string(captures().join(capture)).unwrap();
    assert_eq!(node.says(command), seen, "{capture}");
}

const H100: (&str, Labelling) = ("H100-80GB", Labelling::V1);
const ON: &str = "sudo nvidia-smi -mig 1";

/// The layout of 61678527459, as it was placed.
const MIXED: &[&str] = &[
    ON,
    "sudo nvidia-smi mig -cgi 19:6,9:0,20:4",
    "sudo nvidia-smi mig -cci -gi 13,11",
    "sudo nvidia-smi mig -cci 0 -gi 1",
];

#[test]
fn profiles_of_an_h100() {
    check("560.35.03", H100, &[ON], "nvidia-smi mig -lgip", "lgip-h100-narrow.txt");
    check("580.173.02", H100, &[], "nvidia-smi mig -lgip", "lgip-h100-580.txt");
    check("580.173.02", H100, MIXED, "nvidia-smi mig -lgip", "lgip-h100-cut-580.txt");
}

#[test]
fn instances_of_an_h100() {
    check("580.173.02", H100, MIXED, "sudo nvidia-smi mig -lgi", "lgi-h100-580.txt");
    check("580.173.02", H100, MIXED, "sudo nvidia-smi mig -lci", "lci-h100-580.txt");
}

#[test]
fn profiles_of_an_rtx_pro_6000() {
    let rtx = ("RTX-PRO-6000-96GB", Labelling::V1);
    check("610.43.02", rtx, &[ON], "nvidia-smi mig -i 0 -lgip", "lgip-rtx-pro-6000-610.txt");
    check("610.43.02", rtx, &[ON], "nvidia-smi mig -i 0 -lgipp", "lgipp-rtx-pro-6000.txt");
    let cut = &[ON, "sudo nvidia-smi mig -i 0 -cgi 2g.48gb,1g.24gb,1g.24gb -C"];
    check("610.43.02", rtx, cut, "sudo nvidia-smi mig -i 0 -lgi", "lgi-rtx-pro-6000-610.txt");
    let quarters = "sudo nvidia-smi mig -i 0 -cgi 1g.24gb,1g.24gb,1g.24gb,1g.24gb -C";
    check("610.43.02", rtx, &[ON], quarters, "cgi-rtx-pro-6000-610.txt");
}

#[test]
fn an_a30_and_its_slices() {
    let a30 = ("A30", Labelling::V1);
    let cut = &[
        ON,
        "sudo nvidia-smi mig -cgi 14 -C",
        "sudo nvidia-smi mig -cgi 14 -C",
        "sudo nvidia-smi mig -cgi 5 -C",
    ];
    check("535.183.01", a30, &[ON], "nvidia-smi mig -lgipp", "lgipp-a30.txt");
    check("535.183.01", a30, &[ON], "nvidia-smi mig -lgip", "lgip-a30-535.txt");
    check("535.183.01", a30, cut, "sudo nvidia-smi mig -lgi", "lgi-a30-535.txt");
    check("535.183.01", a30, cut, "sudo nvidia-smi mig -lcip -gi 2", "lcip-a30-535.txt");
}

#[test]
fn placements_and_seven_slices_of_an_h100() {
    check("550.54.14", H100, &[ON], "nvidia-smi mig -i 0 -lgipp", "lgipp-h100.txt");
    let seven = "sudo nvidia-smi mig -i 0 -cgi 19,19,19,19,19,19,19 -C";
    check("550.54.14", H100, &[ON], seven, "cgi-h100.txt");
    let cut = &[ON, seven];
    check("550.54.14", H100, cut, "sudo nvidia-smi mig -i 0 -lgi", "lgi-h100.txt");
    check("550.54.14", H100, cut, "sudo nvidia-smi mig -i 0 -lci", "lci-h100.txt");
    check("550.54.14", H100, cut, "sudo nvidia-smi mig -i 0 -dci", "dci-h100.txt");
    let bare = &[ON, seven, "sudo nvidia-smi mig -i 0 -dci"];
    check("550.54.14", H100, bare, "sudo nvidia-smi mig -i 0 -dgi", "dgi-h100.txt");
}

#[test]
fn compute_instances_of_an_a100() {
    // The capture's GPU has its halves swapped: the 3g at 4:4 is GPU instance 1.
    let a100 = ("A100-80GB", Labelling::V2);
    let cut = &[ON, "sudo nvidia-smi mig -i 0 -cgi 3g.40gb,4g.40gb"];
    check("550.54.14", a100, cut, "sudo nvidia-smi mig -i 0 -lcip", "lcip-a100-550.txt");
    let small = ("A100-40GB", Labelling::V2);
    check(
        "470.57.02",
        small,
        &[ON],
        "sudo nvidia-smi mig -cgi 19,19,19,19,19,19,19 -i 0",
        "cgi-a100-swapped.txt",
    );
}

#[test]
fn the_table_in_the_documentation_names_every_capture_and_no_other() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let docs = fs::read_to_string(docs).unwrap();
    let table: BTreeSet<_> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(first, _)| first.to_owned())
        .filter(|first| first.ends_with(".txt"))
        .collect();
    let files: BTreeSet<_> = fs::read_dir(captures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(table, files);
}
