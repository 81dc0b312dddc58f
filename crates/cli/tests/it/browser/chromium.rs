//! A Chromium without a window: it lays a page out, and leaves a screenshot and what a script measured.

use std::fs::{self, File};
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use wait_timeout::ChildExt as _;

/// What a script of this test asks of a page.
const MEASURE: &str = include_str!("measure.js");

/// How somebody looks at a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) dark: bool,
}

/// What there was to see.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) heading: String,
    pub(crate) title: String,
    pub(crate) headings: Vec<String>,
    pub(crate) dark: bool,
    pub(crate) slices: usize,
    pub(crate) created: usize,
    pub(crate) destroyed: usize,
    /// Whatever the page fetched, or would.
    pub(crate) loaded: Vec<String>,
    pub(crate) foreign: Vec<String>,
    /// Everything that is hard to read, or that the browser itself complained about.
    pub(crate) troubles: Vec<String>,
}

/// How long one page may take. It takes a second, and some ten on a machine that builds; a browser that has not ended
/// by then is one that never does.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a browser that does not end is started for one page.
const ATTEMPTS: usize = 3;

/// What it wrote.
struct Output {
    stdout: String,
    stderr: String,
}

fn written(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    std::io::copy(&mut file, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The browser of this machine.
pub(crate) struct Browser {
    program: &'static str,
}

impl Browser {
    /// The browser, where `SLICEWRIGHT_BROWSER` says that there is one.
    #[expect(
        clippy::disallowed_methods,
        clippy::print_stdout,
        reason = "a test is told by its environment whether it may open a browser, and says that it was left out"
    )]
    pub(crate) fn asked_for() -> Option<Self> {
        if std::env::var_os("SLICEWRIGHT_BROWSER").is_none() {
            println!("left out: `cargo xtask test browser` opens a browser");
            return None;
        }
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
        Some(Self { program: found.unwrap_or_else(|| panic!("none of {} is here", names.join(", "))) })
    }

    /// Starts it with a profile of its own, so that several can run, and no network that a page could reach. One that
    /// does not end is killed and started anew: that says nothing about the page.
    fn run(&self, window: Window, words: &[String], page: &Path) -> Output {
        for _ in 0..ATTEMPTS {
            let profile = tempfile::tempdir().unwrap();
            let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            let mut command = Command::new(self.program);
            command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]);
            // Containers and root have no namespaces for its sandbox; the pages are our own.
            command.args(["--no-sandbox", "--disable-dev-shm-usage", "--no-first-run"]);
            command.args(["--proxy-server=127.0.0.1:9", "--virtual-time-budget=2000"]);
            command.arg(format!("--user-data-dir={}", profile.path().display()));
            command.arg(format!("--window-size={},1200", window.width));
            let scheme = if window.dark { 0 } else { 1 };
            command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
            command.args(words).arg(format!("file://{}", page.display()));
            // Files, not pipes: a pipe ends only when the browser's last process has gone.
            command.stdin(Stdio::null());
            command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
            let mut child = command.spawn().unwrap();
            let Some(status) = child.wait_timeout(PATIENCE).unwrap() else {
                child.kill().unwrap();
                child.wait().unwrap();
                continue;
            };
            let output = Output { stdout: written(stdout), stderr: written(stderr) };
            assert!(status.success(), "{}", output.stderr);
            return output;
        }
        panic!(
            "{} did not end within {} s, {ATTEMPTS} times, for {}",
            self.program,
            PATIENCE.as_secs(),
            page.display()
        );
    }

    /// Opens a page. The screenshot is that of the page as it is; the measure is taken of a copy, whose policy allows
    /// the one script that it gets.
    pub(crate) fn open(&self, name: &str, page: &str, window: Window) -> Seen {
        let scheme = if window.dark { "dark" } else { "light" };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
        fs::create_dir_all(&folder).unwrap();
        let file =
            |ending: &str| -> PathBuf { folder.join(format!("{name}-{}-{scheme}.{ending}", window.width)) };
        fs::write(file("html"), page).unwrap();
        let shot = file("png");
        let _ = fs::remove_file(&shot);
        let words = [format!("--screenshot={}", shot.display())];
        let output = self.run(window, &words, &file("html"));
        assert!(
            fs::read(&shot).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG")),
            "there is no {}",
            shot.display()
        );
        let complaints = output.stderr;

        let allowed =
            page.replacen("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1);
        assert_ne!(allowed, page, "the page lets nothing be loaded");
        let (before, after) = allowed.rsplit_once("</body>").unwrap();
        let copy = file("measured.html");
        fs::write(&copy, format!("{before}<script>{MEASURE}</script></body>{after}")).unwrap();
        let output = self.run(window, &["--dump-dom".to_owned()], &copy);
        let answer =
            output.stdout.rsplit_once("id=\"measured\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let (answer, _) =
            answer.unwrap_or_else(|| panic!("nothing was measured in {}: {}", copy.display(), output.stderr));
        let measured: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(measured["width"], window.width, "the window has another width");
        let text = |key: &str| measured[key].as_str().unwrap().to_owned();
        let list = |key: &str| -> Vec<String> {
            measured[key].as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
        };
        let count = |key: &str| usize::try_from(measured["slices"][key].as_u64().unwrap()).unwrap();
        let mut troubles = list("troubles");
        troubles.extend(complaints.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned));
        Seen {
            heading: text("heading"),
            title: text("title"),
            headings: list("headings"),
            dark: measured["dark"].as_bool().unwrap(),
            slices: count("all"),
            created: count("created"),
            destroyed: count("destroyed"),
            loaded: list("loaded"),
            foreign: list("foreign"),
            troubles,
        }
    }
}
