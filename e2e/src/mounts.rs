//! Mounts of its own for a program that wants a file under a fixed path of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// What `unshare` is told, so that a process gets mounts of its own here; nothing where nobody gets them.
pub(crate) fn own() -> Option<&'static [&'static str]> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let flags: &[&str] = if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let tried = Command::new("unshare").args(flags).args(["mount", "--bind", "/tmp", "/tmp"]).output();
    tried.is_ok_and(|tried| tried.status.success()).then_some(flags)
}
