//! While nothing changes, a query makes no system call: a monitor makes all of its queries in a thread that
//! the kernel would kill for the first call that is neither a read nor a write.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the support module calls C functions")]

use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::sweep::{busy_node, sweep};
use rustix::thread::{SecureComputingMode, set_secure_computing_mode};

/// Set in the process that is watched.
const WATCHED: &str = "SLICEWRIGHT_TEST_WATCHED";

/// What the watched process says: before, after, and when it cannot be watched.
const SAYS: [&[u8]; 3] = [b"[watched]", b"[silent]", b"[cannot]"];

fn say(word: &[u8]) {
    rustix::io::write(std::io::stdout(), word).unwrap();
}

fn be_watched() {
    let sim = busy_node();
    sim.init().unwrap();
    // Handles are given out, and memory is fetched, in the first rounds.
    sweep(&sim.lib);
    sweep(&sim.lib);
    if set_secure_computing_mode(SecureComputingMode::Strict).is_err() {
        return say(SAYS[2]);
    }
    say(SAYS[0]);
    for _ in 0..3 {
        sweep(&sim.lib);
    }
    say(SAYS[1]);
    // Ending is a system call too: whoever watches ends this.
    let mut byte = [0];
    while rustix::io::read(std::io::stdin(), &mut byte).is_ok() {}
}

#[test]
fn a_sweep_of_an_unchanged_node_makes_no_system_call() {
    #[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
    if std::env::var_os(WATCHED).is_some() {
        return be_watched();
    }
    // It is killed, and so cannot clear away what it wrote: that is in here.
    let folder = tempfile::tempdir().unwrap();
    let mut watched = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "silence::a_sweep_of_an_unchanged_node_makes_no_system_call", "--nocapture"])
        .env(WATCHED, "1")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let mut out = watched.stdout.take().unwrap();
    let has = |said: &[u8], word: &[u8]| said.windows(word.len()).any(|window| window == word);
    let mut byte = [0];
    while !has(&said, SAYS[1]) && !has(&said, SAYS[2]) && out.read(&mut byte).unwrap() == 1 {
        said.push(byte[0]);
    }
    watched.kill().unwrap();
    watched.wait().unwrap();
    if has(&said, SAYS[2]) {
        return eprintln!("left out: this kernel does not let a thread be watched");
    }
    assert!(has(&said, SAYS[0]), "{}", String::from_utf8_lossy(&said));
    assert!(has(&said, SAYS[1]), "the kernel killed it: a query made a system call");
}
