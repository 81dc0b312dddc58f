//! The pictures of docs/pictures.md: boxes and arrows are described here and drawn as SVG, which the
//! repository and the site both show without a script and without the network. `UPDATE=1` draws them again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs")
}

/// A box: what it is called, what is said in it, and where it is in a grid of
/// columns and rows; `wide` is how many columns it takes.
struct Node {
    name: &'static str,
    says: &'static [&'static str],
    at: (i32, i32),
    wide: i32,
}

const fn node(name: &'static str, says: &'static [&'static str], at: (i32, i32)) -> Node {
    Node { name, says, at, wide: 1 }
}

/// An arrow between two boxes, and a word beside it.
type Arrow = (&'static str, &'static str, &'static str);

struct Picture {
    file: &'static str,
    title: &'static str,
    nodes: &'static [Node],
    arrows: &'static [Arrow],
}

const REQUEST: Picture = Picture {
    file: "request.svg",
    title: "How a request becomes a slice",
    nodes: &[
        node("A person", &["starts a workbench", "with a hardware profile"], (0, 0)),
        node("OpenShift AI", &["makes a Notebook,", "and it a pod"], (1, 0)),
        node("The scheduler", &["finds no free slice:", "the pod waits"], (2, 0)),
        node("Observe", &["one request, whatever", "objects speak of it"], (2, 1)),
        node("Decide, check", &["the best layout of every", "GPU; who waits, and why"], (1, 1)),
        node("Publish", &["an event on workbench", "and pod says which"], (0, 1)),
        node("Rollout", &["takes a node there on which", "no pod loses a slice"], (1, 2)),
        node("MIG manager", &["cuts the GPU"], (1, 3)),
        node("The device plugin", &["offers the slice:", "the pod starts"], (0, 3)),
    ],
    arrows: &[
        ("A person", "OpenShift AI", ""),
        ("OpenShift AI", "The scheduler", ""),
        ("The scheduler", "Observe", ""),
        ("Observe", "Decide, check", ""),
        ("Decide, check", "Publish", ""),
        ("Publish", "A person", "told"),
        ("Decide, check", "Rollout", ""),
        ("Rollout", "MIG manager", "the node's label"),
        ("MIG manager", "The device plugin", ""),
    ],
};

const ROLLOUT: Picture = Picture {
    file: "rollout.svg",
    title: "One node's change",
    nodes: &[
        node("Idle", &["nothing is under way"], (1, 0)),
        node("Mapping", &["the layout goes into the map"], (1, 1)),
        node("Cordoning", &["no new pods, with our mark"], (1, 2)),
        node("Quiescing", &["until no pod can lose a slice"], (1, 3)),
        node("Changing", &["MIG manager works"], (1, 4)),
        node("Verifying", &["are the slices schedulable?"], (1, 5)),
        node("Releasing", &["our cordon is lifted"], (1, 6)),
        node("Retreating", &["taken back:", "nothing was changed"], (0, 3)),
        node("Healing", &["MIG manager's pod", "is replaced"], (2, 4)),
        node("Relabelling", &["once more, or back to", "what was there before"], (2, 5)),
        node("Failed", &["a person has to look;", "the node stays cordoned"], (2, 6)),
    ],
    arrows: &[
        ("Idle", "Mapping", "a change is wanted"),
        ("Mapping", "Cordoning", "budget and window allow it"),
        ("Cordoning", "Quiescing", ""),
        ("Quiescing", "Changing", "the label is written: no way back"),
        ("Changing", "Verifying", "success"),
        ("Verifying", "Releasing", "proved"),
        ("Quiescing", "Retreating", ""),
        ("Changing", "Healing", ""),
        ("Verifying", "Relabelling", ""),
        ("Relabelling", "Failed", ""),
        ("Failed", "Releasing", ""),
    ],
};

const PARTS: Picture = Picture {
    file: "parts.svg",
    title: "The parts",
    nodes: &[
        node("Git", &["policies, reviewed with", "the plan in the request"], (0, 0)),
        node("People", &["workbenches, jobs,", "model servers, pods"], (1, 0)),
        node("slicewright", &["the command: plan, explain,", "simulate, release"], (2, 0)),
        Node {
            name: "API server",
            says: &[
                "GpuPartitionPolicy and GpuNode are ours;",
                "nodes, pods, workbenches and profiles are read",
            ],
            at: (0, 1),
            wide: 3,
        },
        Node {
            name: "slicewright-operator",
            says: &[
                "observe, decide, check, advance: functions without I/O",
                "apply, publish: the only parts that write",
            ],
            at: (0, 2),
            wide: 3,
        },
        node("MIG manager", &["of NVIDIA's GPU Operator:", "cuts by the node's label"], (0, 3)),
        node("GPUs", &["real, or simulated behind", "libnvidia-ml.so.1"], (1, 3)),
        node("Device plugin", &["and Feature Discovery:", "offer and label slices"], (2, 3)),
    ],
    arrows: &[
        ("Git", "API server", ""),
        ("People", "API server", ""),
        ("slicewright", "API server", ""),
        ("API server", "slicewright-operator", "watches"),
        ("slicewright-operator", "MIG manager", "label"),
        ("MIG manager", "GPUs", ""),
        ("GPUs", "Device plugin", ""),
    ],
};

const PICTURES: [&Picture; 3] = [&REQUEST, &ROLLOUT, &PARTS];

/// The grid, in pixels.
const BOX: (i32, i32) = (200, 66);
const PITCH: (i32, i32) = (270, 112);
const MARGIN: i32 = 24;

/// Where a box is: its left, top, width and height.
fn frame(node: &Node) -> (i32, i32, i32, i32) {
    let left = MARGIN + node.at.0 * PITCH.0;
    let top = MARGIN + node.at.1 * PITCH.1;
    (left, top, BOX.0 + (node.wide - 1) * PITCH.0, BOX.1)
}

/// From where to where an arrow goes: straight, along the grid.
fn ends(from: &Node, to: &Node) -> (i32, i32, i32, i32) {
    let ((fx, fy, fw, fh), (tx, ty, tw, th)) = (frame(from), frame(to));
    if from.at.1 == to.at.1 {
        let y = fy + fh / 2;
        return if fx < tx { (fx + fw, y, tx, y) } else { (fx, y, tx + tw, y) };
    }
    // In the middle of the narrower of the two, which both have.
    let x = if fw < tw { fx + fw / 2 } else { tx + tw / 2 };
    if fy < ty { (x, fy + fh, x, ty) } else { (x, fy, x, ty + th) }
}

fn draw(picture: &Picture) -> String {
    let frames: Vec<_> = picture.nodes.iter().map(frame).collect();
    let width = frames.iter().map(|(x, _, w, _)| x + w).max().unwrap() + MARGIN;
    let height = frames.iter().map(|(_, y, _, h)| y + h).max().unwrap() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\">\n<title>{}</title>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#4a5568\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#ffffff\"/>\n",
        picture.title
    );
    let find = |name: &str| picture.nodes.iter().find(|node| node.name == name).unwrap();
    for (from, to, word) in picture.arrows {
        let (x1, y1, x2, y2) = ends(find(from), find(to));
        writeln!(
            svg,
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"#4a5568\" stroke-width=\"1.5\" marker-end=\"url(#tip)\"/>"
        )
        .unwrap();
        if !word.is_empty() {
            let (x, y) = (x1 + 8, y1.midpoint(y2) + 4);
            writeln!(svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"12\" fill=\"#2c5282\">{word}</text>")
                .unwrap();
        }
    }
    for (node, (x, y, w, h)) in picture.nodes.iter().zip(frames) {
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"6\" fill=\"#ebf4ff\" stroke=\"#2c5282\"/>"
        )
        .unwrap();
        let middle = x + w / 2;
        let lines = i32::try_from(node.says.len()).unwrap();
        let mut line = y + h / 2 + 4 - lines * 8;
        writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{line}\" text-anchor=\"middle\" font-size=\"14\" font-weight=\"600\" \
             fill=\"#1a202c\">{}</text>",
            node.name
        )
        .unwrap();
        for says in node.says {
            line += 16;
            writeln!(
                svg,
                "<text x=\"{middle}\" y=\"{line}\" text-anchor=\"middle\" font-size=\"12\" fill=\"#2d3748\">{says}</text>"
            )
            .unwrap();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the variable is how a generated file is asked for")]
fn the_pictures_are_up_to_date() {
    for picture in PICTURES {
        let path = docs().join("pictures").join(picture.file);
        let drawn = draw(picture);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == drawn, "docs/pictures/{} is not up to date: run cargo xtask codegen", picture.file);
    }
}

#[test]
fn every_arrow_of_the_rollout_is_one_of_the_state_machine_and_no_state_of_a_change_is_missing() {
    let page = std::fs::read_to_string(docs().join("reference/rollout.md")).unwrap();
    let (_, table) = page.split_once("## States").unwrap();
    let (table, _) = table.split_once("## Times").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 10);
    for (from, to, _) in ROLLOUT.arrows {
        let row = rows.iter().find(|row| row[1] == format!("`{from}`"));
        let row = row.unwrap_or_else(|| panic!("there is no state {from}"));
        assert!(row[3].contains(&format!("`{to}`")), "{from} does not lead to {to}: {}", row[3]);
    }
    for row in &rows {
        let state = row[1].trim_matches('`');
        let drawn = ROLLOUT.nodes.iter().any(|node| node.name == state);
        assert!(drawn || state == "Released", "{state} is not in the picture");
    }
}

#[test]
fn an_arrow_goes_straight_and_through_no_other_box() {
    for picture in PICTURES {
        for (from, to, _) in picture.arrows {
            let find = |name: &str| picture.nodes.iter().find(|node| node.name == name).unwrap();
            let (x1, y1, x2, y2) = ends(find(from), find(to));
            assert!(x1 == x2 || y1 == y2, "{}: {from} to {to} is askew", picture.file);
            for other in picture.nodes.iter().filter(|node| node.name != *from && node.name != *to) {
                let (x, y, w, h) = frame(other);
                let beside = x1.max(x2) < x || x1.min(x2) > x + w || y1.max(y2) < y || y1.min(y2) > y + h;
                assert!(beside, "{}: {from} to {to} goes through {}", picture.file, other.name);
            }
        }
    }
}
