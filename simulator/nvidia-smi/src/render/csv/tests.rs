//! Queries as captures show them.

use super::*;
use crate::snapshot::{Memory, MigMode, Pci, Power, Utilization};

fn h100() -> Gpu {
    Gpu {
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        uuid: "GPU-0d0831da-0c98-2717-6446-8acd91d39b65".to_owned(),
        pci: Pci { id: "00000000:36:00.0".to_owned(), ..Pci::default() },
        mig: Some(MigMode { current: true, pending: true }),
        memory: Some(Memory { total: 81_559, used: 12_657, free: 68_902, reserved: 0 }),
        temperature: Some(62),
        power: Power { draw: Some(237_840), ..Power::default() },
        utilization: Some(Utilization { gpu: 100, memory: 1 }),
        ..Gpu::default()
    }
}

#[track_caller]
fn check(names: &str, format: Format, gpu: &Gpu, expected: &str) {
    let fields = find(GPU_FIELDS, names).unwrap();
    let system = System { driver: "580.173.02".to_owned(), ..System::default() };
    let subject = Subject { time: String::new(), system, count: 1, gpu: gpu.clone() };
    let header = if format.header { header(&fields) } else { String::new() };
    assert_eq!(header + &row(&fields, &subject, Driver::from_version("580.173.02"), format), expected);
}

const FULL: Format = Format { header: true, units: true };
const BARE: Format = Format { header: false, units: false };

#[test]
fn captures() {
    let on = "pci.bus_id, mig.mode.current\n00000000:36:00.0, Enabled\n";
    check("pci.bus_id,mig.mode.current", FULL, &h100(), on);
    // With MIG on there is no utilisation of the whole GPU.
    check(
        "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw",
        BARE,
        &h100(),
        "0, GPU-0d0831da-0c98-2717-6446-8acd91d39b65, NVIDIA H100 80GB HBM3, [N/A], 12657, 81559, 62, 237.84\n",
    );
    let a2 = Gpu {
        name: "NVIDIA A2".to_owned(),
        pci: Pci { id: "00000000:08:00.0".to_owned(), ..Pci::default() },
        ..Gpu::default()
    };
    let off = "NVIDIA A2, 00000000:08:00.0, [N/A], [N/A]\n";
    let format = Format { header: false, units: true };
    check("name,pci.bus_id,mig.mode.current,mig.mode.pending", format, &a2, off);
}

#[test]
fn other_names_of_a_field_have_the_headings_of_its_own() {
    check(
        "gpu_name, gpu_bus_id, clocks.sm, memory.used",
        FULL,
        &h100(),
        "name, pci.bus_id, clocks.current.sm [MHz], memory.used [MiB]\nNVIDIA H100 80GB HBM3, 00000000:36:00.0, [N/A], 12657 MiB\n",
    );
}

#[test]
fn a_field_that_there_is_not_is_named() {
    assert_eq!(find(GPU_FIELDS, "name,cuda_version").err(), Some("cuda_version"));
}

#[test]
fn no_name_means_two_fields() {
    let mut names: Vec<_> = GPU_FIELDS.iter().copied().flatten().flat_map(|field| field.names).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// The headings and rows of a capture of every field.
fn all_fields(capture: &'static str) -> (String, Vec<&'static str>) {
    let (header, row) = capture.split_once('\n').unwrap();
    let names: Vec<_> = header
        .split(", ")
        .map(|heading| heading.split_once(" [").map_or(heading, |(name, _)| name))
        .collect();
    (names.join(","), row.trim_end().split(", ").collect())
}

#[test]
fn every_field_of_the_real_help_has_its_heading() {
    for (driver, capture) in [
        ("590.48.01", include_str!("../../../tests/captures/query-gpu-h100-590.txt")),
        ("595.80", include_str!("../../../tests/captures/query-gpu-l40s-595.txt")),
    ] {
        let (names, _) = all_fields(capture);
        let fields = find(GPU_FIELDS, &names).unwrap();
        assert_eq!(header(&fields), format!("{}\n", capture.lines().next().unwrap()), "{driver}");
        // The help of that driver lists these, in this order, and no others.
        let listed = |field: &&Field<Subject>| field.is_listed(Driver::from_version(driver));
        let listed: Vec<_> =
            GPU_FIELDS.iter().copied().flatten().filter(listed).map(|field| field.names[0]).collect();
        assert_eq!(listed.join(","), names, "{driver}");
    }
}

#[test]
fn what_the_library_does_not_give_is_marked_as_the_real_one_marks_it() {
    // A GPU of which nothing is known: wherever the capture has a mark, so have we.
    let (names, row) = all_fields(include_str!("../../../tests/captures/query-gpu-l40s-595.txt"));
    let fields = find(GPU_FIELDS, &names).unwrap();
    let driver = Driver::from_version("595.80");
    let subject = Subject { time: String::new(), system: System::default(), count: 1, gpu: Gpu::default() };
    for (field, seen) in fields.iter().zip(row) {
        let cell = field.cell(&subject, driver, true);
        let marked = ["[N/A]", "N/A", "[Requested functionality has been deprecated]"].contains(&seen);
        assert!(!marked || cell == seen, "{}: {cell} instead of {seen}", field.names[0]);
    }
}

fn l40s() -> Gpu {
    Gpu {
        name: "NVIDIA L40S".to_owned(),
        uuid: "GPU-00000000-0000-0000-0000-000000000000".to_owned(),
        serial: Some("0000000000000".to_owned()),
        pci: Pci { id: "00000000:01:00.0".to_owned(), ..Pci::default() },
        ..Gpu::default()
    }
}

/// A query of these fields, with these rows, as a capture has it.
#[track_caller]
fn whole<T>(all: &'static [Field<T>], names: &str, rows: &[T], capture: &str) {
    let groups: &'static [&'static [Field<T>]] = Box::leak(Box::new([all]));
    let fields = find(groups, names).unwrap();
    let driver = Driver::from_version("595.80");
    let rows: String = rows.iter().map(|of| row(&fields, of, driver, FULL)).collect();
    assert_eq!(header(&fields) + &rows, capture);
}

#[test]
fn processes_that_compute() {
    let app = |pid, memory| App {
        time: "2026/07/03 08:33:53.650".to_owned(),
        gpu: l40s(),
        process: Process {
            pid,
            kind: ProcessKind::Compute,
            name: "ffmpeg".to_owned(),
            memory: Some(memory),
            instance: None,
        },
    };
    whole(
        APPS,
        "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,pid,process_name,used_gpu_memory",
        &[app(20_037, 538), app(20_038, 681)],
        include_str!("../../../tests/captures/query-compute-apps-l40s-595.txt"),
    );
}

#[test]
fn processes_that_the_driver_remembers() {
    let app = |pid, busy, memory_busy, took| Accounted {
        time: "2026/07/03 08:33:38.975".to_owned(),
        gpu: l40s(),
        pid,
        busy: Some(busy),
        memory_busy: Some(memory_busy),
        most_memory: Some(0),
        took,
    };
    whole(
        ACCOUNTED,
        "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,pid,gpu_util,mem_util,max_memory_usage,time",
        &[app(15_727, 71, 8, 5270), app(17_439, 65, 7, 5096), app(18_679, 99, 13, 153_712)],
        include_str!("../../../tests/captures/query-accounted-apps-l40s-595.txt"),
    );
}

#[test]
fn a_card_that_retires_no_pages_has_a_row_for_each_cause() {
    let page = |cause| Retired { time: "2026/07/03 08:33:38.995".to_owned(), gpu: l40s(), page: None, cause };
    whole(
        RETIRED,
        "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,retired_pages.address,retired_pages.timestamp,retired_pages.cause",
        &[page("Single Bit ECC"), page("Double Bit ECC")],
        include_str!("../../../tests/captures/query-retired-pages-l40s-595.txt"),
    );
}
