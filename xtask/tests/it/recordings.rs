//! The terminal recordings in the documents: the commands of a page, and what they print, played one after the other.
//! They are made of the page's `console` blocks, which tests run: those of the tutorial in `e2e/scenarios/tutorial.rs`,
//! those of the guides in `crates/cli/tests/it/documents.rs`. So a recording shows what the program prints today.
//!
//! Each is there twice: as SVG, which a page shows without a script and without the network, and as asciicast, for
//! `asciinema play`. `UPDATE=1` makes them again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs")
}

/// Each page with recordings, and what they are called.
const RECORDINGS: [(&str, &str, &str); 2] = [
    ("tutorial.md", "tutorial", "From whole GPUs to a workbench on a slice"),
    ("guides/install.md", "plan", "The plan for a first policy"),
];

/// Letters in a line, lines on the screen.
const COLUMNS: usize = 104;
const LINES: usize = 26;
/// Lines of one command's output that are shown.
const MOST: usize = 18;
/// Seconds: until a command is typed, until it has printed, and until the next line of it.
const TYPED: f64 = 1.4;
const PRINTED: f64 = 0.5;
const EACH_LINE: f64 = 0.06;

/// A line, when it comes, and whether a person typed it.
struct Line {
    at: f64,
    text: String,
    typed: bool,
}

/// A line that fits.
fn fitted(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 1).chain(['…']).collect()
}

/// What the blocks of a page show, with times.
fn played(page: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut inside, mut at, mut shown) = (false, 0.0, 0);
    for line in page.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside || line.starts_with("? ") => {}
            _ if line.starts_with("$ ") => {
                at += TYPED;
                shown = 0;
                lines.push(Line { at, text: fitted(line), typed: true });
                at += PRINTED;
            }
            _ => {
                shown += 1;
                at += EACH_LINE;
                let text = if shown == MOST { "..." } else { line };
                if shown <= MOST {
                    lines.push(Line { at, text: fitted(text), typed: false });
                }
            }
        }
    }
    assert!(!lines.is_empty(), "the page has no commands");
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As a picture: each line appears at its time, and all move up when the screen is full.
fn svg(title: &str, lines: &[Line]) -> String {
    const HEIGHT: usize = 17;
    let (width, height) = (COLUMNS * 8 + 32, LINES * HEIGHT + 32);
    let end = lines.last().map_or(0.0, |line| line.at) + 4.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n<style>\n\
         text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre; }}\n\
         .c {{ fill: #a3e28f; }}\n\
         @media (prefers-reduced-motion: no-preference) {{\n\
         text {{ opacity: 0; animation: s 1ms forwards; }}\n\
         @keyframes s {{ to {{ opacity: 1; }} }}\n\
         #l {{ animation: m {end:.2}s step-end forwards; }}\n@keyframes m {{\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let up = (index + 1).saturating_sub(LINES) * HEIGHT;
        let _ = writeln!(text, "{:.3}% {{ transform: translateY(-{up}px); }}", line.at / end * 100.0);
    }
    let last = lines.len().saturating_sub(LINES) * HEIGHT;
    let _ = writeln!(text, "to {{ transform: translateY(-{last}px); }}\n}}\n}}\n</style>");
    let _ = writeln!(text, "<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1c2128\"/>");
    let _ = writeln!(
        text,
        "<svg x=\"16\" y=\"16\" width=\"{}\" height=\"{}\"><g id=\"l\" style=\"transform: translateY(-{last}px)\">",
        width - 32,
        LINES * HEIGHT
    );
    for (index, Line { at, text: line, typed }) in lines.iter().enumerate() {
        let class = if *typed { " class=\"c\"" } else { "" };
        let y = (index + 1) * HEIGHT - 4;
        let _ = writeln!(
            text,
            "<text{class} y=\"{y}\" xml:space=\"preserve\" style=\"animation-delay:{at:.2}s\">{}</text>",
            escaped(line)
        );
    }
    text.push_str("</g></svg>\n</svg>\n");
    text
}

/// As asciicast, version 2: a line of JSON for each line of the terminal.
fn asciicast(title: &str, lines: &[Line]) -> String {
    let head = serde_json::json!({"version": 2, "width": COLUMNS, "height": LINES, "title": title});
    let mut text = format!("{head}\n");
    for Line { at, text: line, .. } in lines {
        let at = (at * 100.0).round() / 100.0;
        let _ = writeln!(text, "{}", serde_json::json!([at, "o", format!("{line}\r\n")]));
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the variable is how a generated file is asked for")]
fn the_recordings_are_up_to_date() {
    for (page, name, title) in RECORDINGS {
        let lines = played(&std::fs::read_to_string(docs().join(page)).unwrap());
        for (file, made) in
            [(format!("{name}.svg"), svg(title, &lines)), (format!("{name}.cast"), asciicast(title, &lines))]
        {
            let path = docs().join("recordings").join(&file);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &made).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == made, "docs/recordings/{file} is not up to date: run cargo xtask codegen");
        }
        let shown = std::fs::read_to_string(docs().join(page)).unwrap();
        assert!(shown.contains(&format!("recordings/{name}.svg")), "docs/{page} does not show its recording");
    }
}

#[test]
fn a_recording_shows_commands_before_what_they_print_and_nothing_that_is_no_command() {
    let page = "```console\n$ a\n? 2\none\n```\n```text\n$ not run\n```\n```console\n$ b\n```\n";
    let lines = played(page);
    let told: Vec<(&str, bool)> = lines.iter().map(|line| (line.text.as_str(), line.typed)).collect();
    assert_eq!(told, [("$ a", true), ("one", false), ("$ b", true)]);
    assert!(lines.windows(2).all(|pair| pair[0].at < pair[1].at));
    let cast = asciicast("x", &lines);
    for line in cast.lines().skip(1) {
        let event: (f64, String, String) = serde_json::from_str(line).unwrap();
        assert_eq!((event.1.as_str(), event.2.ends_with("\r\n")), ("o", true));
    }
    let picture = svg("x", &lines);
    assert_eq!(picture.matches("<text").count(), 3);
    assert!(!picture.contains("<script"), "a picture runs nothing");
}
