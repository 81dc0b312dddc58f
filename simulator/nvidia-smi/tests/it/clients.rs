//! The queries of programs that start nvidia-smi, with their own options, on nodes with several drivers;
//! and that their parsers can read the answers.
//!
//! The programs themselves are not here: their queries stand in for them.
//! Those that can be installed run in `simulator/clients`.

use std::collections::BTreeMap;

use crate::node::{Node, host, with, with_display};
use gpu::{Activity, Labelling, Target};

const DRIVERS: &[&str] =
    &["525.105.17", "535.183.01", "550.54.14", "570.124.06", "580.65.06", "590.48.01", "595.80"];

/// A machine with eight GPUs: A100s, two of them cut, H100s, a display card.
/// Two processes compute: one on a whole GPU, one on a slice.
fn eight(driver: &str) -> Node {
    let (mut machine, driver) = host(driver);
    for model in ["A100-80GB"; 4].iter().chain(&["H100-80GB"; 3]) {
        machine = with(machine, model, Labelling::V1);
    }
    let node = Node::new((with_display(machine, "NVIDIA DGX Display", 4096), driver));
    node.says("sudo nvidia-smi -i 2 -mig 1");
    node.says("sudo nvidia-smi -i 3 -mig 1");
    node.says("sudo nvidia-smi mig -i 2 -cgi 9,14 -C");
    node.says("sudo nvidia-smi mig -i 3 -cgi 0 -C");
    node.opens(4242, "/usr/bin/python3", Target::Gpu(0), Activity::Computes, 40_000);
    node.opens(
        4243,
        "/opt/tritonserver/bin/tritonserver",
        Target::ComputeInstance(2, 2, 0),
        Activity::Computes,
        9000,
    );
    node
}

/// The cells of `--format=csv,noheader…`: each program splits at commas.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').map(str::trim).collect()).collect()
}

/// Queries of GPUs, by who asks them. Each has a row for every GPU, a cell for
/// every field, and no driver takes a field for a typing error.
const OF_GPUS: &[(&str, &str)] = &[
    (
        "GPUtil",
        "index,uuid,utilization.gpu,memory.total,memory.used,memory.free,driver_version,name,gpu_serial,\
         display_active,display_mode,temperature.gpu",
    ),
    (
        "a fork of GPUtil",
        "index,uuid,utilization.gpu,memory.total,memory.used,memory.free,driver_version,name,gpu_serial,\
         display_active,display_mode,temperature.gpu,clocks.current.graphics,clocks.current.memory,\
         vbios_version,power.draw,power.limit,compute_mode,pci.bus",
    ),
    (
        "zhebrak/nvidia_smi_exporter",
        "name,index,temperature.gpu,utilization.gpu,utilization.memory,memory.total,memory.free,memory.used",
    ),
    ("a login banner", "name,count,driver_version"),
    ("a scheduler of experiments", "index,uuid,utilization.gpu,memory.used,compute_mode"),
    (
        "a guide to profiling",
        "index,uuid,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw,\
         clocks.sm,clocks_throttle_reasons.active",
    ),
    (
        "a dashboard over SSH",
        "index,gpu_uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,power.limit,\
         fan.speed,driver_version",
    ),
    ("a check of hosts", "gpu_name,gpu_bus_id,vbios_version"),
    ("an installer", "count,gpu_name,memory.total,driver_version,clocks.max.memory,compute_mode"),
    ("a log of training", "timestamp,pstate,clocks.gr,clocks.sm,power.draw,clocks_event_reasons.active"),
    ("a health check", "index,ecc.errors.uncorrected.aggregate.total"),
    ("a build of CUDA code", "name,uuid,driver_version,compute_cap,memory.total"),
    (
        "a monitor of links",
        "index,pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max,mig.mode.current",
    ),
];

#[test]
fn queries_of_gpus_have_a_cell_for_each_field_on_every_driver() {
    for driver in DRIVERS {
        let node = eight(driver);
        for (who, fields) in OF_GPUS {
            let said = node.says(&format!("nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits"));
            let rows = cells(&said);
            let wide: Vec<_> = rows.iter().map(Vec::len).collect();
            assert_eq!(wide, [fields.split(',').count(); 8], "{who} on {driver}: {said}");
            assert!(rows.iter().flatten().all(|cell| !cell.is_empty()), "{who} on {driver}: {said}");
        }
    }
}

#[test]
fn numbers_are_numbers_where_the_parser_takes_nothing_else() {
    for driver in DRIVERS {
        let node = eight(driver);
        // As many monitors do: int() of each cell, in the order of the query.
        let said = node.says(
            "nvidia-smi --query-gpu=index,memory.used,memory.total,memory.free --format=csv,noheader,nounits",
        );
        for (nth, row) in cells(&said).iter().enumerate() {
            let numbers: Vec<u64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
            let [index, used, total, free] = numbers[..] else { panic!("{row:?}") };
            assert_eq!(index, u64::try_from(nth).unwrap());
            assert!(used + free <= total, "{driver}: {row:?}");
        }
        // Units are the last word of a cell, and without MIG a share is a number.
        let said = node.says(
            "nvidia-smi --id=1 --query-gpu=memory.free,utilization.gpu,power.draw --format=csv,noheader",
        );
        let units: Vec<_> = said.trim_end().split(", ").map(|cell| cell.split_once(' ').unwrap()).collect();
        assert_eq!(units.iter().map(|(_, unit)| *unit).collect::<Vec<_>>(), ["MiB", "%", "W"], "{driver}");
        assert!(units.iter().all(|(number, _)| number.parse::<f64>().is_ok()), "{driver}: {said}");
        // With MIG on nobody knows it, and the cell is the one that parsers look for.
        let said = node.says("nvidia-smi -i 3 --query-gpu=utilization.gpu --format=csv,noheader,nounits");
        assert_eq!(said, "[N/A]\n", "{driver}");
    }
}

/// nvidia_gpu_exporter in its automatic mode: what the help puts in quotes at
/// the beginning of a line is asked for, all at once.
#[test]
fn an_exporter_asks_for_every_field_that_the_help_names() {
    for driver in DRIVERS {
        let node = eight(driver);
        let help = node.says("nvidia-smi --help-query-gpu");
        let mut blank = false;
        let mut fields = Vec::new();
        for line in help.lines() {
            if let Some((field, _)) = line.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                // Names stand after an empty line: those in a description do not.
                if blank {
                    fields.push(field);
                }
            }
            blank = line.is_empty();
        }
        assert!(fields.len() > 100, "{driver}: {}", fields.len());
        let said = node.says(&format!("nvidia-smi --query-gpu={} --format=csv", fields.join(",")));
        let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split(", ").collect()).collect();
        assert_eq!(rows.len(), 9, "{driver}");
        for row in &rows {
            assert_eq!(row.len(), fields.len(), "{driver}: {row:?}");
        }
        // It finds the unit of a series in the header: `power.draw [W]`.
        let header: BTreeMap<_, _> =
            rows[0].iter().map(|cell| cell.split_once(" [").unwrap_or((cell, ""))).collect();
        assert_eq!(
            (header["memory.used"], header["power.draw"], header["clocks.current.sm"]),
            ("MiB]", "W]", "MHz]")
        );
        let column =
            |name: &str| rows[0].iter().position(|cell| cell.split(' ').next() == Some(name)).unwrap();
        let uuids: Vec<_> = rows[1..].iter().map(|row| row[column("uuid")]).collect();
        assert!(uuids.iter().all(|uuid| uuid.starts_with("GPU-")), "{driver}: {uuids:?}");
    }
}

#[test]
fn queries_of_processes_find_the_one_on_the_gpu_and_the_one_in_the_slice() {
    for driver in DRIVERS {
        let node = eight(driver);
        let said = node.says("nvidia-smi --query-gpu=index,uuid --format=csv,noheader");
        let uuids: BTreeMap<_, _> =
            cells(&said).iter().map(|row| (row[1].to_owned(), row[0].to_owned())).collect();
        // nvsmi asks so; monitors by user look the pid up in `ps`.
        for (fields, uuid, memory) in [
            ("pid,process_name,gpu_uuid,gpu_name,used_memory", 2, 4),
            ("pid,used_memory,gpu_uuid", 2, 1),
            ("pid,used_memory,gpu_uuid,gpu_name,gpu_bus_id", 2, 1),
            ("gpu_uuid,pid,process_name,used_gpu_memory", 0, 3),
        ] {
            let said =
                node.says(&format!("nvidia-smi --query-compute-apps={fields} --format=csv,noheader,nounits"));
            let rows = cells(&said);
            let found: Vec<_> = rows.iter().map(|row| (uuids[row[uuid]].as_str(), row[memory])).collect();
            assert_eq!(found, [("0", "40000"), ("2", "9000")], "{driver}: {fields}");
        }
        let said = node.says(
            "nvidia-smi --id=0 --query-compute-apps=pid,process_name,used_memory --format=csv,noheader",
        );
        assert_eq!(said, "4242, /usr/bin/python3, 40000 MiB\n", "{driver}");
        // Nobody there is no line, which scripts test with `-z`.
        let said = node.says("nvidia-smi -i 1 --query-compute-apps=pid --format=csv,noheader");
        assert_eq!(said, "", "{driver}");
    }
}

#[test]
fn monitors_of_processes_find_the_columns_that_they_count() {
    for driver in DRIVERS {
        let node = eight(driver);
        // By position, from the left: GPU, pid, type; the memory by the heading's name.
        let said = node.says("nvidia-smi pmon -c 1 -s um");
        let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
        // The `#` is a word of its own.
        let memory = lines[0].iter().position(|name| *name == "fb").unwrap() - 1;
        let working: Vec<_> = lines[2..]
            .iter()
            .filter(|line| line[1] != "-")
            .map(|line| (line[0], line[1], line[2], line[memory]))
            .collect();
        assert_eq!(working, [("0", "4242", "C", "40000"), ("2", "4243", "C", "9000")], "{driver}: {said}");
        assert_eq!(lines.len(), 2 + 8, "{driver}: a line for each GPU");
        // A parser that counts the columns of the heading finds as many in each line.
        for line in &lines[2..] {
            assert_eq!(line.len(), lines[0].len() - 1, "{driver}: {line:?}");
        }
        let said = node.says("nvidia-smi dmon -s pucvmet -c 1 -o DT");
        let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 2 + 8, "{driver}: {said}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{driver}: {said}");
        assert_eq!((lines[0][0], lines[0][1], lines[0][2]), ("#Date", "Time", "gpu"), "{driver}");
    }
}

/// Telegraf, and what else reads `-q -x`: the elements by their paths.
#[test]
fn the_xml_has_what_agents_read() {
    /// What is between the tags of a path, the first of each.
    fn text<'a>(xml: &'a str, path: &[&str]) -> Option<&'a str> {
        let mut rest = xml;
        for tag in path {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let start = rest.find(&open)? + open.len();
            rest = &rest[start..start + rest[start..].find(&close)?];
        }
        Some(rest)
    }
    for driver in DRIVERS {
        let node = eight(driver);
        let said = node.says("nvidia-smi -q -x");
        assert_eq!(text(&said, &["nvidia_smi_log", "driver_version"]), Some(*driver));
        assert_eq!(text(&said, &["nvidia_smi_log", "attached_gpus"]), Some("8"), "{driver}");
        let gpus: Vec<_> = said.split("<gpu id=\"").skip(1).collect();
        assert_eq!(gpus.len(), 8, "{driver}");
        for gpu in &gpus {
            for path in [
                &["product_name"][..],
                &["uuid"],
                &["performance_state"],
                &["fan_speed"],
                &["fb_memory_usage", "total"],
                &["fb_memory_usage", "used"],
                &["utilization", "gpu_util"],
                &["temperature", "gpu_temp"],
                &["pci", "pci_gpu_link_info", "pcie_gen", "current_link_gen"],
                &["encoder_stats", "session_count"],
                &["fbc_stats", "session_count"],
                &["clocks", "sm_clock"],
                &["mig_mode", "current_mig"],
            ] {
                assert!(text(gpu, path).is_some_and(|value| !value.trim().is_empty()), "{driver}: {path:?}");
            }
        }
        let process = text(gpus[0], &["processes", "process_info"]).unwrap();
        assert_eq!(
            (text(process, &["pid"]), text(process, &["used_memory"])),
            (Some("4242"), Some("40000 MiB")),
            "{driver}"
        );
        assert_eq!(gpus[2].matches("<mig_device>").count(), 2, "{driver}");
    }
}

/// collect_env of PyTorch and vLLM; scripts of NCCL.
#[test]
fn reports_of_an_environment_find_driver_names_and_links() {
    for driver in DRIVERS {
        let node = eight(driver);
        let said = node.says("nvidia-smi");
        let version = said.split("Driver Version: ").nth(1).unwrap().split(' ').next();
        assert_eq!(version, Some(*driver));
        assert!(said.contains("CUDA Version: "), "{driver}");
        let list = node.says("nvidia-smi -L");
        let is_gpu = |line: &&str| line.starts_with("GPU ");
        assert_eq!(list.lines().filter(is_gpu).count(), 8, "{driver}");
        assert_eq!(list.lines().filter(|line| line.starts_with("  MIG ")).count(), 3, "{driver}");
        let matrix = node.says("nvidia-smi topo -m");
        let header = matrix.lines().next().unwrap();
        for gpu in 0..8 {
            assert!(header.contains(&format!("GPU{gpu}")), "{driver}: {header}");
            assert!(
                matrix.lines().any(|line| line.starts_with(&format!("GPU{gpu}\t"))),
                "{driver}: {matrix}"
            );
        }
        assert!(matrix.contains("Legend:"), "{driver}");
        let rows = node
            .says("nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.failure --format=csv,noheader");
        assert!(cells(&rows).iter().all(|row| row.len() == 2), "{driver}: {rows}");
    }
}
