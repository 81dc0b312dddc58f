//! The pages of `plan -o html` and `fleet -o html`, laid out by a real browser: `cargo xtask test browser` asks for it.
//! Chromium opens each page as it is written, in a wide and in a narrow window, light and dark, and leaves a
//! screenshot. A script that only the test adds measures what a person would see: whether every text is inside the
//! picture and its slice, large enough, and in contrast to what is behind it.

mod chromium;
mod eights;

use std::fs;
use std::path::Path;

use cli::exit::Status;
use serde_json::Value;

use chromium::{Browser, Seen, Window};

const NARROW: Window = Window { width: 500, dark: false };
const WINDOWS: [Window; 4] = [
    Window { width: 1280, dark: false },
    Window { width: 1280, dark: true },
    NARROW,
    Window { width: 500, dark: true },
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What the command prints; words that name files of the repository begin at its root.
fn printed(words: &str) -> String {
    let words = words.split_whitespace().map(|word| {
        let file = root().join(word);
        if word.contains('/') && file.exists() { file.into_os_string() } else { word.into() }
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(std::iter::once("slicewright".into()).chain(words), &mut out, &mut err);
    let said = String::from_utf8_lossy(&err);
    assert!(!matches!(status, Status::Usage | Status::Data), "{said}");
    String::from_utf8(out).unwrap()
}

/// Opens the page in every window; nothing may be wrong in any.
#[track_caller]
fn opened(browser: &Browser, name: &str, page: &str) -> Seen {
    let mut seen: Vec<Seen> = WINDOWS.iter().map(|window| browser.open(name, page, *window)).collect();
    for (window, seen) in WINDOWS.iter().zip(&seen) {
        assert_eq!(seen.troubles, [""; 0], "{name} in {window:?}");
        assert_eq!(seen.dark, window.dark, "{name}: {window:?}");
        let more = (&seen.loaded, &seen.foreign);
        assert!(more.0.is_empty() && more.1.is_empty(), "{name} is not one file: {more:?}");
    }
    seen.swap_remove(0)
}

/// How many slices of all GPUs that change have this mark, as the JSON of the same plan says.
fn marked(plan: &Value, mark: &str) -> usize {
    let nodes = plan["nodes"].as_array().unwrap();
    let gpus = nodes.iter().flat_map(|node| node["gpus"].as_array().unwrap());
    let bars = gpus.flat_map(|gpu| ["before", "after"].map(|when| &gpu["bars"][when]));
    bars.filter_map(Value::as_array).flatten().filter(|slice| slice["mark"] == mark).count()
}

#[test]
fn a_plan_is_a_page_that_people_can_read_in_every_window_and_it_shows_the_plan() {
    let Some(browser) = Browser::asked_for() else { return };
    let (fleet, policies) = eights::files();
    for (name, words) in [
        ("plan", "plan --fleet examples/fleet/lab.yaml -f examples/policies".to_owned()),
        ("plan-large", format!("plan --fleet {} -f {}", fleet.display(), policies.display())),
    ] {
        let seen = opened(&browser, name, &printed(&format!("{words} -o html")));
        let text = printed(&words);
        let first = text.lines().next().unwrap();
        assert_eq!((seen.heading.as_str(), seen.title.as_str()), (first, first));
        let plan: Value = serde_json::from_str(&printed(&format!("{words} -o json"))).unwrap();
        assert!(marked(&plan, "created") > 0, "the plan changes something");
        assert_eq!(seen.created, marked(&plan, "created"), "{name}");
        assert_eq!(seen.destroyed, marked(&plan, "destroyed"), "{name}");
        for heading in ["Before and after", "Supply and demand", "Requests that wait"] {
            assert!(seen.headings.iter().any(|found| found == heading), "{name}: {:?}", seen.headings);
        }
    }
}

#[test]
fn a_fleet_is_a_page_with_every_gpu() {
    let Some(browser) = Browser::asked_for() else { return };
    let large = eights::files().0.display().to_string();
    for (name, fleet) in [("fleet", "examples/fleet/lab.yaml"), ("fleet-large", large.as_str())] {
        let seen = opened(&browser, name, &printed(&format!("fleet --fleet {fleet} -o html")));
        assert_eq!(seen.heading, if name == "fleet" { "GPUs of lab" } else { "GPUs of eights" });
        assert_eq!((seen.created, seen.destroyed), (0, 0), "a fleet has no future");
        assert!(seen.slices >= 20, "{} slices", seen.slices);
    }
}

/// Names of clusters are what somebody typed: in a page they are text.
#[test]
fn what_somebody_called_a_cluster_has_no_power_in_a_browser() {
    let Some(browser) = Browser::asked_for() else { return };
    let hostile =
        r#"</title><script>document.title='taken'</script><img src=x onerror="document.title='taken'">"#;
    let fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).unwrap();
    let renamed = fleet.replacen("cluster: lab", &format!("cluster: '{}'", hostile.replace('\'', "''")), 1);
    assert_ne!(renamed, fleet);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile.yaml");
    fs::write(&file, renamed).unwrap();
    let page = printed(&format!("fleet --fleet {} -o html", file.display()));
    let seen = browser.open("hostile", &page, WINDOWS[0]);
    assert_eq!(seen.title, format!("GPUs of {hostile}"));
    assert_eq!(seen.foreign, [""; 0]);
}

/// That the measure can fail: each of these pages has one thing wrong.
#[test]
fn a_page_that_people_cannot_read_is_found() {
    let Some(browser) = Browser::asked_for() else { return };
    let page = printed("plan --fleet examples/fleet/lab.yaml -f examples/policies -o html");
    for (change, to, window, found) in [
        ("A100-80GB</text>", "A100-80GB of the third rack from the left</text>", WINDOWS[0], "lies on"),
        (">+2g.20gb<", ">+2g.20gb, for the people who wait since Monday<", WINDOWS[0], "leaves its slice"),
        (".n { fill: #1c2430;", ".n { fill: #eeeeee;", WINDOWS[0], "has a contrast of"),
        ("--ink: #e7ebf0;", "--ink: #30343a;", WINDOWS[1], "has a contrast of"),
        ("min-width: 46rem", "min-width: 0", NARROW, "px high"),
        ("h2 {", "h2 { min-width: 60rem;", NARROW, "in a window of"),
        ("</body>", "<img src=\"data:image/gif;base64,R0lGODlhAQABAAAAACw=\"></body>", WINDOWS[0], "CONSOLE"),
    ] {
        let changed = page.replacen(change, to, 1);
        assert_ne!(changed, page, "{change}");
        let troubles = browser.open("wrong", &changed, window).troubles;
        assert!(troubles.iter().any(|trouble| trouble.contains(found)), "{change}: {troubles:?}");
    }
}
