//! The colours red, yellow and green in a preview.

use anstyle::{AnsiColor, Style};

use crate::exit::Status;

/// The first line: red where people lose, yellow where somebody should look,
/// green where nothing is wrong.
pub(super) fn for_status(status: Status) -> Style {
    match status {
        Status::Unmet | Status::Loss | Status::NotReviewed | Status::GaveUp => {
            AnsiColor::Red.on_default().bold()
        }
        Status::Blocked => AnsiColor::Yellow.on_default().bold(),
        Status::Success | Status::Changes | Status::Negative | Status::Usage | Status::Data | Status::Cut => {
            AnsiColor::Green.on_default().bold()
        }
    }
}

/// A risk, or the verdict of an expectation, by its word.
pub(super) fn kind(kind: &str) -> Style {
    match kind {
        "violation" | "eviction" | "loss" | "FAILED" => AnsiColor::Red.on_default().bold(),
        "blocked" | "wait" | "warning" => AnsiColor::Yellow.on_default(),
        "holds" => AnsiColor::Green.on_default(),
        _ => Style::new().dimmed(),
    }
}

/// A line of a difference, as everybody colours it.
pub(super) fn line(line: &str) -> Style {
    match line.chars().next() {
        Some('+') => AnsiColor::Green.on_default(),
        Some('-') => AnsiColor::Red.on_default(),
        Some('@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}
