//! Directories that cannot be used, each with advice; and write permissions.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{a100s, create, fresh, instances, mig_on};
use store::{State, Store, StoreError, Writers};

const TASK: &str = "STORE_TEST_TASK";

fn set_up(dir: &Path) -> Store {
    Store::create(dir, State::new(a100s(1))).unwrap()
}

#[track_caller]
fn refused(spoil: impl FnOnce(&Path), expected: &[&str]) {
    let dir = fresh();
    set_up(dir.path());
    spoil(dir.path());
    let error = Store::open(dir.path()).expect_err("it should be refused").to_string();
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    // What the message says to do helps.
    set_up(dir.path());
    Store::open(dir.path()).unwrap().update(|state| mig_on(state, 0)).unwrap();
}

fn edit(dir: &Path, from: &str, to: &str) {
    let path = dir.join("state");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// As somebody edits it who knows of the checksum.
fn edit_well(dir: &Path, from: &str, to: &str) {
    edit(dir, from, to);
    let path = dir.join("state");
    let text = fs::read_to_string(&path).unwrap();
    let (head, body) = text.split_once('\n').unwrap();
    let sum = body
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let words: Vec<&str> = head.rsplitn(2, ' ').collect();
    fs::write(path, format!("{} {sum:016x}\n{body}", words[1])).unwrap();
}

#[test]
fn a_damaged_directory_is_refused_with_what_to_do() {
    let again = "set it up again with `slicewright-sim node setup --dir";
    let state = |dir: &Path| dir.join("state");
    refused(|dir| edit(dir, "A100", "A999"), &["is damaged", "`state` has another checksum", again]);
    refused(|dir| edit(dir, " 1 2 ", " 1 3 "), &["begins with no generation and sum", again]);
    refused(|dir| edit(dir, " 1 2 ", " one 2 "), &["begins with no format", again]);
    refused(
        |dir| {
            let text = fs::read(state(dir)).unwrap();
            fs::write(state(dir), &text[..text.len() / 2]).unwrap();
        },
        &["another checksum", again],
    );
    refused(|dir| fs::write(state(dir), [0xff, 0xfe]).unwrap(), &["`state` is not text", again]);
    refused(|dir| fs::remove_file(state(dir)).unwrap(), &["`state` is missing", again]);
    refused(|dir| fs::remove_file(dir.join("generation")).unwrap(), &["`generation` is missing", again]);
    refused(|dir| fs::write(dir.join("generation"), "").unwrap(), &["is not a page", again]);
    refused(|dir| fs::write(dir.join("generation"), [b'x'; 4096]).unwrap(), &["is not a page", again]);
    refused(
        |dir| edit_well(dir, "\"mode\":{", "\"mode\":null,\"mood\":{"),
        &["does not describe a node: unknown field `mood`", again],
    );
    refused(
        |dir| edit_well(dir, "\"model\":0", "\"model\":7"),
        &["does not describe a node: GPU 0: there is no model 7", again],
    );
}

#[test]
fn a_damage_that_comes_while_it_is_open_is_told_and_not_hidden() {
    let dir = fresh();
    let store = set_up(dir.path());
    edit(dir.path(), "A100", "A999");
    let error = store.update(|state| mig_on(state, 0)).expect_err("it reads before it writes");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    refused(
        |dir| edit(dir, "slicewright-sim state 1 ", "slicewright-sim state 2 "),
        &[
            "set up by a newer Slicewright (format 2; this one knows 1)",
            "use that version, or set it up again",
        ],
    );
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = fresh();
    fs::write(dir.path().join("thesis.tex"), "precious").unwrap();
    let error = Store::create(dir.path(), State::new(a100s(1))).expect_err("it is not ours").to_string();
    assert!(error.contains("`thesis.tex` in it, which is not of a simulated node"), "{error}");
    assert!(error.contains("choose another directory"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made there");

    let dir = fresh();
    set_up(dir.path());
    fs::write(dir.path().join("state"), "alabama\n").unwrap();
    let error = Store::open(dir.path()).expect_err("that is no state of ours").to_string();
    assert!(error.contains("which is not of a simulated node"), "{error}");
}

#[test]
fn where_nothing_is_set_up_the_message_says_how() {
    let dir = fresh();
    for path in [dir.path().to_owned(), dir.path().join("not/there")] {
        let error = Store::open(&path).expect_err("there is nothing").to_string();
        let how = format!("slicewright-sim node setup --dir {} --gpus a100-80gb=2", path.display());
        assert!(error.contains(&how) && error.contains(store::DIRECTORY_VARIABLE), "{error}");
    }
}

#[test]
fn files_that_somebody_put_back_are_noticed_and_no_old_memory_is_trusted() {
    let dir = fresh();
    let store = set_up(dir.path());
    store.update(|state| mig_on(state, 0)).unwrap();
    let backup = fs::read(dir.path().join("state")).unwrap();
    store.update(|state| create(state, 0, 19)).unwrap().unwrap();
    let remembers = Store::open(dir.path()).unwrap();
    assert_eq!(remembers.read(|state| instances(state, 0)).unwrap(), [13]);
    fs::write(dir.path().join("state"), backup).unwrap();
    // The generations go on from the highest that there ever was.
    let now = Store::open(dir.path()).unwrap();
    now.update(|state| create(state, 0, 9)).unwrap().unwrap();
    assert_eq!(remembers.read(|state| instances(state, 0)).unwrap(), [2]);
    assert_eq!(store.read(|state| instances(state, 0)).unwrap(), [2]);
}

#[test]
fn a_directory_that_was_removed_and_set_up_again_is_found_by_the_next_update() {
    let dir = fresh();
    let path = dir.path().join("node");
    let store = set_up(&path);
    fs::remove_dir_all(&path).unwrap();
    Store::create(&path, State::new(a100s(3))).unwrap();
    assert_eq!(store.update(|state| state.machine.gpus().len()).unwrap(), 3);
    assert_eq!(store.read(|state| state.machine.gpus().len()).unwrap(), 3);
}

/// What a user without privileges finds; it is no test of its own.
#[test]
fn as_another_user() {
    #[expect(clippy::disallowed_methods, reason = "how a test's process is told what to do")]
    let task = std::env::var(TASK);
    let Ok(task) = task else { return };
    let (writers, dir) = task.split_once(' ').unwrap();
    let store = Store::open(Path::new(dir)).unwrap();
    assert_eq!(store.read(|state| state.machine.gpus().len()).unwrap(), 1);
    let generation = store.generation();
    let changed = store.update(|state| mig_on(state, 0));
    match writers {
        "owner" => {
            let error = changed.expect_err("a user may not").to_string();
            assert!(
                error.contains("run this as root, or set the node up with --writers everybody"),
                "{error}"
            );
            assert_eq!(store.generation(), generation);
            // What was due happens all the same, for this process.
            assert!(store.read(|state| state.machine.gpus()[0].lost).unwrap());
        }
        _ => changed.unwrap(),
    }
}

#[test]
fn root_writes_and_users_read_unless_everybody_may_write() {
    if !rustix::process::getuid().is_root() {
        println!("left out: only root can become another user");
        return;
    }
    for (name, writers) in [("owner", Writers::Owner), ("everybody", Writers::Everybody)] {
        let dir = fresh();
        let mut state = State::new(a100s(1));
        state.writers = writers;
        if writers == Writers::Owner {
            let fault = gpu::Fault::FallsOffTheBus { gpu: 0 };
            state.machine.schedule(gpu::Scheduled { at: state.machine.now(), fault });
        }
        Store::create(dir.path(), state).unwrap();
        let exe = std::env::current_exe().unwrap();
        // A place where that user can read the program.
        let copy = fresh();
        fs::set_permissions(copy.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // By another process: programs that other tests start meanwhile would have this one's open for writing too,
        // and such a program does not run.
        let copied = Command::new("cp").arg(exe).arg(copy.path().join("test")).status().unwrap();
        assert!(copied.success());
        let mut command = Command::new(copy.path().join("test"));
        command
            .args(["--exact", "refusal::as_another_user", "--nocapture"])
            .env(TASK, format!("{name} {}", dir.path().display()));
        let output = command.uid(65534).gid(65534).current_dir("/").output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        let after = Store::open(dir.path()).unwrap();
        assert_eq!(
            after.read(|state| state.machine.gpus()[0].mig_is_on()).unwrap(),
            writers == Writers::Everybody
        );
    }
}
