//! The complete output of two real machines: the log, every field of `--query-gpu`, the monitors. The same
//! node gives the same lines in the same order; a value may differ only where the tables here allow it,
//! because it is not modelled or because it belongs to the individual card.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::node::{Node, host, with};
use gpu::{Activity, Labelling, Model, Target};

fn capture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)).unwrap()
}

/// What belongs to that one card and its machine.
const ITS_OWN: &[&str] = &[
    "Timestamp",
    "Serial Number",
    "GPU UUID",
    "GPU PDI",
    "VBIOS Version",
    "Board ID",
    "GPU Virtualization Mode/Virtualization Mode",
    "PCI/Bus",
    "PCI/Device",
    "PCI/Bus Id",
    "PCI/Replays Since Reset",
    "PCI/Atomic Caps Outbound",
];

/// What is different a second later.
const OF_THE_MOMENT: &[&str] = &[
    "PCI/Tx Throughput",
    "PCI/Rx Throughput",
    "MIG Device/Shared FB Memory Usage/Used",
    "MIG Device/Shared FB Memory Usage/Free",
    "FB Memory Usage/Used",
    "FB Memory Usage/Free",
    "Temperature/GPU Current Temp",
    "Temperature/GPU T.Limit Temp",
    "Temperature/Memory Current Temp",
    "GPU Power Readings/Average Power Draw",
    "GPU Power Readings/Instantaneous Power Draw",
    "GPU Memory Power Readings/Average Power Draw",
];

/// What NVML 13.0 has no function for.
const NOT_IN_NVML: &[&str] = &["GPU Part Number", "Sparse Operation Mode", "EDPp Multiplier"];

/// What else differs on an L40S that encoded two videos.
const OF_AN_L40S: &[&str] = &[
    // Its owner has switched that on.
    "Accounting Mode",
    // It had run for days, and a simulated card is never slowed down.
    "Clocks Event Reasons Counters/SW Power Capping",
    // A context takes 16 MiB that are not its process's.
    "BAR1 Memory Usage/Used",
    "BAR1 Memory Usage/Free",
    // Who computes here keeps the whole card busy, and nobody encodes.
    "Utilization/GPU",
    "Utilization/Memory",
    "Utilization/Encoder",
    "Encoder Stats/Active Sessions",
    "Encoder Stats/Average FPS",
    "Encoder Stats/Average Latency",
];

/// The H100 of driver 590, cut and at work as it was.
fn h100() -> Node {
    let (machine, driver) = host("590.48.01");
    let node = Node::new((with(machine, "H100-80GB", Labelling::V1), driver));
    node.says("sudo nvidia-smi -pm 1");
    node.says("sudo nvidia-smi -mig 1");
    node.says("sudo nvidia-smi mig -cgi 3g.40gb,2g.20gb,1g.10gb,1g.10gb -C");
    let slice = Target::ComputeInstance(0, 2, 0);
    for (pid, name, memory) in [
        (21_180, "/root/tools/memhog", 2296),
        (21_181, "/root/tools/memhog", 1272),
        (21_198, "./gpu_burn", 7484),
    ] {
        node.opens(pid, name, slice, Activity::Computes, memory);
    }
    node
}

/// The paths and values of a log's lines: `Temperature/GPU Current Temp`.
fn readings(log: &str) -> Vec<(String, Option<String>)> {
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut readings = Vec::new();
    for line in log.lines() {
        let depth = line.len() - line.trim_start().len();
        path.retain(|(above, _)| *above < depth);
        let (key, value) = match line.split_once(" : ").or(line.split_once(": ")) {
            Some((key, value)) => (key, Some(value.to_owned())),
            None if line.starts_with("GPU 0") => ("GPU", None),
            None => (line, None),
        };
        if !key.is_empty() && value.is_some() {
            // The column belongs to the form.
            assert!(key.len() == 54 || key.len() == 41, "{line}");
        }
        let key = key.trim_end().trim_start();
        path.push((depth, key.to_owned()));
        let whole: Vec<_> = path.iter().map(|(_, key)| key.as_str()).collect();
        readings.push((whole.join("/"), value));
    }
    readings
}

/// Holds a log to a capture: every line is there and in its place, to the
/// character but for its value; values that differ are among those named.
#[track_caller]
fn same_log(seen: &str, said: &str, may_differ: &[&str]) {
    let (seen, said) = (readings(seen), readings(said));
    for (seen, said) in seen.iter().zip(&said) {
        assert_eq!(seen.0, said.0);
        assert_eq!(seen.1.is_some(), said.1.is_some(), "{}", seen.0);
    }
    assert_eq!(seen.len(), said.len(), "one has more lines");
    let may_differ: BTreeSet<_> = may_differ.iter().copied().collect();
    let absent = |value: &Option<String>| value.as_deref() == Some("N/A");
    // What is of the moment is there at every moment.
    let has_no_other = |seen: &(String, Option<String>), said: &(String, Option<String>)| {
        OF_THE_MOMENT.contains(&seen.0.trim_start_matches("GPU/")) && absent(&seen.1) != absent(&said.1)
    };
    let differ: Vec<_> = seen
        .iter()
        .zip(&said)
        .filter(|(seen, said)| seen.1 != said.1)
        .filter(|(seen, said)| {
            has_no_other(seen, said) || !may_differ.contains(seen.0.trim_start_matches("GPU/"))
        })
        .map(|(seen, said)| format!("{}: {:?}, and we say {:?}", seen.0, seen.1, said.1))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn the_log_of_an_h100() {
    let said = h100().says("nvidia-smi -q");
    let may_differ: Vec<_> = [ITS_OWN, OF_THE_MOMENT, NOT_IN_NVML].into_iter().flatten().copied().collect();
    same_log(&capture("query-h100-590.txt"), &said, &may_differ);
}

/// What the driver remembers of the last seconds.
const OF_SAMPLES: &[&str] = &[
    "Power Samples/Max",
    "Power Samples/Min",
    "Power Samples/Avg",
    "GPU Utilization Samples/Max",
    "GPU Utilization Samples/Avg",
    "Memory Utilization Samples/Max",
];

#[test]
fn what_the_driver_remembers_of_an_h100() {
    let idle = || {
        let (machine, driver) = host("580.159.04");
        Node::new((with(machine, "H100-80GB", Labelling::V1), driver))
    };
    let node = idle();
    let may_differ: Vec<_> = [ITS_OWN, OF_THE_MOMENT, OF_SAMPLES].into_iter().flatten().copied().collect();
    let work = node.says("nvidia-smi -q -d UTILIZATION");
    same_log(&capture("query-utilization-h100-580.txt"), &work, &may_differ);
    let power = node.says("nvidia-smi -q -d POWER");
    same_log(&capture("query-power-h100-580.txt"), &power, &may_differ);
    let under = |log: &str, title: &str| -> Vec<String> {
        let lines = log.lines().skip_while(|line| line.trim() != title).skip(1).take(5);
        lines.map(|line| line.split_once(" : ").unwrap().1.to_owned()).collect()
    };
    // A card at work says so; one that is cut knows nothing of its load.
    node.opens(4242, "python3", Target::Gpu(0), Activity::Computes, 1000);
    let busy = node.says("nvidia-smi -q -d UTILIZATION");
    assert_eq!(under(&busy, "GPU Utilization Samples"), ["14.00 sec", "71", "100 %", "100 %", "100 %"]);
    let cut = idle();
    cut.says("sudo nvidia-smi -mig 1");
    let log = cut.says("nvidia-smi -q -d UTILIZATION");
    assert_eq!(under(&log, "GPU Utilization Samples"), ["Not Found"; 5]);
}

#[test]
fn units_there_are_none() {
    let (machine, driver) = host("580.159.04");
    let node = Node::new((with(machine, "H100-80GB", Labelling::V1), driver));
    let said = node.says("nvidia-smi -q -u");
    let seen = capture("units-h100-580.txt");
    let timeless = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("Timestamp")).map(str::to_owned).collect()
    };
    assert_eq!(timeless(&said), timeless(&seen));
}

/// The lines of a log under `FB Memory Usage`.
fn memory_lines(log: &str) -> Vec<String> {
    let lines = log.lines().skip_while(|line| line.trim() != "FB Memory Usage");
    lines.take_while(|line| !line.contains("BAR1")).map(str::to_owned).collect()
}

#[test]
fn what_the_driver_reserves_is_that_of_the_card_and_of_the_driver() {
    let idle = |model, driver| {
        let (machine, driver) = host(driver);
        Node::new((with(machine, model, Labelling::V1), driver))
    };
    let seen = capture("query-a100-memory-580.txt");
    let said = idle("A100-40GB", "580.126.09").says("nvidia-smi -q -d MEMORY");
    assert_eq!(memory_lines(&said), memory_lines(&seen));
    let reserved = |model, driver| {
        idle(model, driver).says("nvidia-smi --query-gpu=memory.reserved --format=csv,noheader")
    };
    assert_eq!(reserved("H100-80GB", "550.90.07"), "336 MiB\n");
    // With MIG off, on hardware; what 590 reserves with MIG on is in its log.
    assert_eq!(reserved("H100-80GB", "580.159.04"), "480 MiB\n");
    assert_eq!(reserved("H200-141GB", "580.159.04"), "616 MiB\n");
    assert_eq!(reserved("A100-80GB", "525.60.13"), "834 MiB\n");
    assert_eq!(reserved("H200-141GB", "550.90.12"), "700 MiB\n");
    assert_eq!(reserved("A100-80GB", "470.57.02"), "0 MiB\n");
}

/// Fields that may differ, and why; a star stands for any end.
const FIELDS: &[&str] = &[
    // That card's own.
    "serial",
    "uuid",
    "pci.bus_id",
    "pci.bus",
    "pci.device",
    "vbios_version",
    // Of the moment.
    "timestamp",
    "memory.used",
    "memory.free",
    "temperature.gpu",
    "temperature.gpu.tlimit",
    "temperature.memory",
    "power.draw*",
    // NVML 13.0 has no function for it.
    "edpp_multiplier",
];

/// The fields of [`OF_AN_L40S`].
const FIELDS_OF_AN_L40S: &[&str] = &[
    "accounting.mode",
    "clocks_event_reasons_counters.sw_power_cap",
    "utilization.gpu",
    "utilization.memory",
    "utilization.encoder",
    "encoder.stats.*",
];

fn may_differ(name: &str, others: &[&str]) -> bool {
    FIELDS.iter().chain(others).any(|field| match field.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *field,
    })
}

/// A row of every field, held to a capture's: what differs by the field's name.
#[track_caller]
fn same_fields(seen: &str, node: &Node, others: &[&str]) {
    let (header, seen) = seen.split_once('\n').unwrap();
    let names: Vec<_> =
        header.split(", ").map(|name| name.split_once(" [").map_or(name, |(name, _)| name)).collect();
    let said = node.says(&format!("nvidia-smi --query-gpu={} --format=csv", names.join(",")));
    let (heading, said) = said.split_once('\n').unwrap();
    assert_eq!(heading, header);
    let cells = |row: &str| row.trim_end_matches('\n').split(", ").map(str::to_owned).collect::<Vec<_>>();
    let (seen, said) = (cells(seen), cells(said));
    assert_eq!((seen.len(), said.len()), (names.len(), names.len()));
    let differ: Vec<_> = names
        .iter()
        .zip(seen.iter().zip(&said))
        .filter(|(name, (seen, said))| {
            let absent = |value: &str| value.ends_with("N/A") || value.ends_with("N/A]");
            let (seen, said) = (seen.as_str(), said.as_str());
            // What NVML has no function for is absent here alone.
            let may =
                may_differ(name, others) && (absent(seen) == absent(said) || **name == "edpp_multiplier");
            seen != said && !may
        })
        .map(|(name, (seen, said))| format!("{name}: {seen}, and we say {said}"))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn every_field_of_an_h100() {
    same_fields(&capture("query-gpu-h100-590.txt"), &h100(), &[]);
}

/// The L40S of driver 595, at work as it was.
fn l40s() -> Node {
    let (machine, driver) = host("595.80");
    let node = Node::new((machine.with_gpu(&Model::named("L40S").unwrap()), driver));
    for (pid, memory) in [(20_037, 538), (20_038, 681)] {
        node.opens(pid, "ffmpeg", Target::Gpu(0), Activity::Computes, memory);
    }
    node
}

#[test]
fn the_log_of_an_l40s() {
    let said = l40s().says("nvidia-smi -q");
    let may_differ: Vec<_> =
        [ITS_OWN, OF_THE_MOMENT, NOT_IN_NVML, OF_AN_L40S].into_iter().flatten().copied().collect();
    same_log(&capture("query-l40s-595.txt"), &said, &may_differ);
}

#[test]
fn every_field_of_an_l40s() {
    same_fields(&capture("query-gpu-l40s-595.txt"), &l40s(), FIELDS_OF_AN_L40S);
}

#[test]
fn monitors_of_an_h100() {
    let node = h100();
    // Its values are of the moment.
    let said = node.says("nvidia-smi dmon -c 1");
    let seen = capture("dmon-h100-590.txt");
    let heading = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(heading(&said), heading(&seen));
    assert_eq!(said.lines().count(), 3);
    let processes = node.says("nvidia-smi pmon -c 1");
    let seen: String = capture("pmon-h100-590.txt").lines().take(5).map(|line| format!("{line}\n")).collect();
    assert_eq!(processes, seen);
    let links = node.says("nvidia-smi nvlink -s");
    let seen = capture("nvlink-h100-590.txt");
    assert_eq!(links.lines().nth(1), seen.lines().nth(1));
}

#[test]
fn pmon_of_a_gpu_that_is_not_cut_says_how_much_of_it_each_process_takes() {
    let (machine, driver) = host("590.48.01");
    let node = Node::new((with(machine, "H100-80GB", Labelling::V1), driver));
    node.opens(4242, "python3", Target::Gpu(0), Activity::Computes, 1000);
    let said = node.says("nvidia-smi pmon -c 1");
    let words: Vec<_> = said.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(words, ["0", "4242", "C", "100", "0", "-", "-", "-", "-", "python3"]);
}

#[test]
fn the_list_and_the_tables_of_an_h100() {
    let node = h100();
    // The tables but for what is of the moment: the lines of headings and slices.
    let said = node.says("nvidia-smi");
    let seen = capture("summary-h100-590.txt");
    let fixed = |text: &str| -> Vec<String> {
        let moment = ["MiB / ", "W / ", "0000000", "20 "];
        let is_fixed = |line: &&str| !moment.iter().any(|word| line.contains(word));
        text.lines().skip(1).filter(is_fixed).map(str::to_owned).collect()
    };
    assert_eq!(fixed(&said), fixed(&seen));
    let rows = |text: &str| {
        let is_row = |line: &&str| line.starts_with("|  0 ");
        let parts = |line: &str| {
            let cells: Vec<_> = line.split('|').map(str::to_owned).collect();
            // The place, the multiprocessors, the engines; not the memory in use.
            [cells[1].clone(), cells[3].clone(), cells[4].clone()]
        };
        text.lines().filter(is_row).map(parts).collect::<Vec<_>>()
    };
    assert_eq!(rows(&said), rows(&seen));
}
