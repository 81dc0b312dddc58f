//! Clippy and the build as one compilation.
//!
//! `cargo clippy` checks every crate without generating code, and the build then compiles everything a
//! second time. But clippy's driver is a complete compiler: as the wrapper of the workspace's crates it
//! lints while it builds, and cargo repeats the warnings of crates that are built already.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;
use crate::steps::{Action, Step};

/// What tells cargo to compile the crates of the workspace with another program.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Clippy's driver of the toolchain that cargo uses here; none where clippy is
/// not installed.
pub(crate) fn driver() -> Option<PathBuf> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).current_dir(crate::root()).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let driver = PathBuf::from(sysroot.trim()).join("bin/clippy-driver");
    driver.is_file().then_some(driver)
}

/// Makes all of these steps build with this driver, so that what one of them
/// has built serves the others.
pub(crate) fn compile_with(driver: &PathBuf, steps: &mut [Step]) {
    for step in steps {
        if let Action::Run(command) = &mut step.action {
            command.env(WRAPPER, driver);
        }
    }
}

/// The check that what was built with this driver, and what the arguments
/// select beside it, has no warning.
pub(crate) fn check(driver: Option<PathBuf>, args: &'static [&'static str]) -> Result<(), String> {
    let mut command = cargo(args);
    // Not `json-render-diagnostics`: with it cargo shows the warnings, and none is in what we count.
    command.args(["--message-format", "json"]);
    if let Some(driver) = driver {
        command.env(WRAPPER, driver);
    }
    let mut child = command
        .current_dir(crate::root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let stdout = child.stdout.take().expect("it was asked for");
    let mut warnings = 0;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(text) = message["message"]["rendered"].as_str() {
            // Nobody may read it.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        warnings += usize::from(is_warning(&line));
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    match (status.success(), warnings) {
        (true, 0) => Ok(()),
        (true, 1) => Err("there is one warning, shown above".to_owned()),
        (true, many) => Err(format!("there are {many} warnings, shown above")),
        (false, _) => Err(status.to_string()),
    }
}

/// Whether this line of cargo's JSON is a warning of the compiler or of clippy.
fn is_warning(line: &str) -> bool {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    message["reason"] == "compiler-message" && message["message"]["level"] == "warning"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_warnings_of_the_compiler_count() {
        let line = |reason: &str, level: &str| {
            serde_json::json!({"reason": reason, "message": {"level": level}}).to_string()
        };
        assert!(is_warning(&line("compiler-message", "warning")));
        assert!(!is_warning(&line("compiler-message", "note")));
        assert!(!is_warning(&line("compiler-artifact", "warning")));
        assert!(!is_warning("warning: this is what a test prints"));
    }

    /// What the whole gate rests on: as a wrapper, clippy's driver warns of what only clippy
    /// knows, and makes a program all the same; cargo repeats that for what is built already.
    #[test]
    fn clippy_warns_while_it_builds_and_is_repeated() {
        let Some(driver) = driver() else {
            println!("left out: clippy is not installed");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(
            folder.path().join("Cargo.toml"),
            "[package]\nname = \"warned\"\nedition = \"2024\"\n[workspace]\n",
        )
        .unwrap();
        fs::write(
            folder.path().join("src/main.rs"),
            "fn one() -> u8 {\n    return 1;\n}\nfn main() {\n    let _ = one();\n}\n",
        )
        .unwrap();
        for time in ["first", "second"] {
            let output = Command::new(env!("CARGO"))
                .args(["build", "--offline", "--message-format", "json"])
                .env(WRAPPER, &driver)
                .env("CARGO_TARGET_DIR", folder.path().join("target"))
                .current_dir(folder.path())
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(text.lines().filter(|line| is_warning(line)).count(), 1, "{time}:\n{text}");
        }
        assert!(folder.path().join("target/debug/warned").is_file());
    }
}
