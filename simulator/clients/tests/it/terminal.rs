//! nvtop and bottom, unmodified: programs that draw on a terminal, and have no output for anybody else. They run on
//! a pseudo-terminal (util-linux's `script`), and the screen is read.

use clients::{Node, cut, find};
use gpu::{Activity, Client, DriverBranch, Machine, Model, Target};

/// Two GPUs: somebody computes on the first, and the second is cut.
fn node(library: std::path::PathBuf) -> Node {
    let model = Model::find("H100-80GB").unwrap();
    let mut machine = Machine::new("n1", DriverBranch(580), store::now()).with_gpu(&model).with_gpu(&model);
    cut(&mut machine, 1, &["3g.40gb", "2g.20gb"]);
    let name = "/usr/bin/python3".to_owned();
    let client =
        Client { pid: 4242, name, target: Target::Gpu(0), activity: Activity::Computes, memory_mib: 40_960 };
    machine.open(client).unwrap();
    Node::new(machine, library).unwrap()
}

/// What is on a screen, without what moves the cursor and colours letters.
fn text(drawn: &str) -> String {
    let mut text = String::new();
    let mut rest = drawn.chars();
    while let Some(letter) = rest.next() {
        if letter != '\u{1b}' {
            text.push(letter);
            continue;
        }
        // `ESC [ … letter`, `ESC ( B`, or two characters.
        match rest.next() {
            Some('[') => while rest.next().is_some_and(|next| !next.is_ascii_alphabetic()) {},
            Some('(' | ')') => drop(rest.next()),
            _ => {}
        }
    }
    text
}

/// Runs a program on a terminal until all of these are on it.
fn shows(program: &'static str, arguments: &str, wanted: &[&str]) {
    let Some(found) = find(&[program]) else { return };
    let node = node(found.library);
    let line = format!("stty rows 60 cols 180; TERM=xterm exec {} {arguments}", found.programs[0].display());
    let mut running = node.start_inside("script", &["-q", "-f", "-e", "-c", &line, "/dev/null"]).unwrap();
    let log = node.file("../running.log");
    let look = || {
        let drawn = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        let text = text(&drawn);
        Ok(wanted.iter().all(|word| text.contains(word)).then_some(()))
    };
    running.until(&format!("{wanted:?} on the screen of {program}"), look).unwrap();
}

#[test]
fn nvtop_draws_both_gpus_and_who_computes() {
    let wanted = [
        "Device 0 [NVIDIA H100 80GB HBM3]",
        "Device 1 [NVIDIA H100 80GB HBM3]",
        "5@16x",
        "1980MHz",
        // nvtop counts what the driver reserves as used: a little more while MIG is off.
        "40.469Gi/79.647Gi]",
        "[0.467Gi/79.647Gi]",
        // The load of the second is not known while it is cut.
        "100%]",
        "[N/A]",
        "690 / 700 W",
        "4242",
    ];
    shows("nvtop", "", &wanted);
}

#[test]
fn bottom_draws_the_memory_of_both_gpus() {
    // What the driver reserves is not in use here: it asks the second version of the function.
    let wanted = ["NVIDIA H100 80GB HBM3: 50%", "40.0GiB/79.6GiB", "NVIDIA H100 80GB HBM3:  0%"];
    shows("btm", "--expanded --default_widget_type mem", &wanted);
}

#[test]
fn bottom_draws_their_temperatures() {
    shows("btm", "--expanded --default_widget_type temp", &["NVIDIA H100 80GB HBM3", "55°C", "31°C"]);
}

#[test]
fn a_screen_is_read_without_its_colours() {
    assert_eq!(text("\u{1b}[?25l\u{1b}[39;49m\u{1b}(B\u{1b}[mGEN \u{1b}[36m5\u{1b}="), "GEN 5");
}
