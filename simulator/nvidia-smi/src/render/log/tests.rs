//! The log as captures show it.

use nvml::library::{RemapAvailability, SramErrors};

use super::*;
use crate::snapshot::{
    Board, ByLocation, ClockEvents, ClockSettings, Clocks, ComputeMode, Ecc, EngineLoad, EventCounters,
    Inforom, LOCATIONS, Limits, Link, LinkDetail, Location, Memory, MemoryErrors, MigMode, Modes, Pci,
    Periods, Power, PowerDetail, Process, ProcessKind, Readings, RemappedRows, Sessions, Thermal,
    Utilization,
};

pub(super) fn system(driver: &str) -> System {
    System { driver: driver.to_owned(), nvml: None, cuda: Some("13.0".to_owned()) }
}

#[test]
fn the_mode_as_the_seed_of_the_dgx_station_finds_it() {
    let gpu = Gpu { mig: Some(MigMode { current: true, pending: true }), ..Gpu::default() };
    let text = log("", &system("550.54.14"), &[gpu], 4, &[]);
    // grep -A 2 -i "MIG Mode"
    let lines: Vec<_> = text.lines().skip_while(|line| !line.contains("MIG Mode")).take(3).collect();
    assert_eq!(
        lines,
        [
            "    MIG Mode",
            "        Current                           : Enabled",
            "        Pending                           : Enabled",
        ]
    );
}

#[test]
fn memory_of_an_a100_of_driver_580() {
    let mut gpu = Gpu {
        pci: Pci { id: "00000000:00:04.0".to_owned(), ..Pci::default() },
        memory: Some(Memory { total: 40_960, used: 0, free: 40_441, reserved: 520 }),
        bar1: Some(Memory { total: 65_536, used: 1, free: 65_535, reserved: 0 }),
        ..Gpu::default()
    };
    gpu.readings.protected = Some(Memory::default());
    let text = log("Sat May  9 03:38:32 2026", &system("580.126.09"), &[gpu], 1, &[Section::Memory]);
    assert_eq!(text, include_str!("../../../tests/captures/query-a100-memory-580.txt"));
}

#[test]
fn a_process_as_driver_535_lists_it() {
    let process = Process {
        pid: 1394,
        kind: ProcessKind::Graphics,
        name: "/usr/lib/xorg/Xorg".to_owned(),
        memory: Some(4),
        instance: None,
    };
    let gpu = Gpu { processes: vec![process], ..Gpu::default() };
    let text = log("", &system("535.104.12"), &[gpu], 1, &[Section::Pids]);
    let seen = include_str!("../../../tests/captures/query-processes-535.txt");
    assert!(text.contains(seen), "{text}");
}

/// The L40S of driver 595 at work, with every figure that NVML gives.
pub(super) fn l40s() -> Gpu {
    let process = |pid, memory| Process {
        pid,
        kind: ProcessKind::Compute,
        name: "ffmpeg".to_owned(),
        memory: Some(memory),
        instance: None,
    };
    let clocks = Clocks { graphics: Some(2520), sm: Some(2520), memory: Some(9001), video: Some(1965) };
    let dram = {
        let mut counts = [None; LOCATIONS];
        counts[Location::Device as usize] = Some(0);
        Periods { volatile: ByLocation(counts), aggregate: ByLocation(counts) }
    };
    let readings = Readings {
        pci_class: Some((3, 2)),
        board: Board {
            part_number: Some("900-2G133-0080-000".to_owned()),
            is_multi_gpu: Some(false),
            module: Some(1),
            pdi: Some(0x4cc1_7b29_78ff_ca4d),
            inforom: Inforom {
                image: Some("G133.0242.00.03".to_owned()),
                oem: Some("2.1".to_owned()),
                ecc: Some("6.16".to_owned()),
                ..Inforom::default()
            },
            gsp_version: Some("595.80".to_owned()),
            ..Board::default()
        },
        modes: Modes {
            addressing: Some("HMM"),
            accounting_buffer: Some(4000),
            virtualization: Some("Pass-Through"),
            recovery: Some("None"),
            ..Modes::default()
        },
        events: ClockEvents {
            active: Some(0),
            supported: Some(0x1ff),
            counters: EventCounters {
                power_cap: Some(204_642_816),
                sync_boost: Some(0),
                software_thermal: Some(0),
                hardware_thermal: Some(0),
                power_brake: Some(0),
            },
        },
        engines: EngineLoad { encoder: Some(59), decoder: Some(0), jpeg: Some(0), ofa: Some(0) },
        encoding: Some(Sessions { count: 2, frames: 243, latency: 3_280_335 }),
        grabbing: Some(Sessions::default()),
        errors: MemoryErrors {
            corrected: dram,
            uncorrected: dram,
            sram: Some(SramErrors::default()),
            pending_repairs: Some((false, false)),
            rows: Some(RemappedRows::default()),
            remap: Some(RemapAvailability { max: 192, ..RemapAvailability::default() }),
            ..MemoryErrors::default()
        },
        thermal: Thermal {
            margin: Some(34),
            relative: Limits {
                shutdown: Some(-5),
                slowdown: Some(-2),
                max_operating: Some(0),
                memory_max: None,
            },
            ..Thermal::default()
        },
        power: PowerDetail {
            average: Some(110_240),
            instant: Some(110_010),
            memory_average: None,
            requested_limit: Some(350_000),
        },
        clocks: ClockSettings { max_boost: Some(2520), ..ClockSettings::default() },
        link: LinkDetail {
            device_max: Some(4),
            replays: Some(0),
            rollovers: Some(0),
            sent: Some(259_423),
            received: Some(2_012_109),
            ..LinkDetail::default()
        },
        protected: Some(Memory::default()),
        ..Readings::default()
    };
    Gpu {
        name: "NVIDIA L40S".to_owned(),
        brand: Some("NVIDIA"),
        architecture: Some("Ada Lovelace"),
        display_mode: Some(true),
        display_active: Some(false),
        persistence: Some(false),
        accounting: Some(true),
        serial: Some("0000000000000".to_owned()),
        uuid: "GPU-00000000-0000-0000-0000-000000000000".to_owned(),
        minor: Some(0),
        vbios: Some("95.02.66.00.02".to_owned()),
        board_id: Some(0x100),
        pci: Pci {
            id: "00000000:01:00.0".to_owned(),
            domain: 0,
            bus: 1,
            device: 0,
            device_id: 0x26b9_10de,
            subsystem_id: Some(0x1851_10de),
        },
        link: Link { generation: Some(4), max_generation: Some(4), width: Some(16), max_width: Some(16) },
        performance: Some(0),
        memory: Some(Memory { total: 46_068, reserved: 609, used: 1235, free: 44_225 }),
        bar1: Some(Memory { total: 65_536, reserved: 0, used: 1235, free: 64_301 }),
        compute_mode: Some(ComputeMode::Default),
        utilization: Some(Utilization { gpu: 9, memory: 2 }),
        ecc: Some(Ecc { current: true, pending: true, uncorrected: Some(0) }),
        temperature: Some(54),
        power: Power {
            draw: Some(110_240),
            limit: Some(350_000),
            default_limit: Some(350_000),
            min_limit: Some(100_000),
            max_limit: Some(350_000),
        },
        clocks,
        max_clocks: clocks,
        processes: vec![process(20_037, 538), process(20_038, 681)],
        readings,
        ..Gpu::default()
    }
}

#[test]
fn the_whole_log_of_an_l40s_of_driver_595() {
    let system = System { driver: "595.80".to_owned(), nvml: None, cuda: Some("13.2".to_owned()) };
    let text = log("Fri Jul  3 08:33:53 2026", &system, &[l40s()], 1, &[]);
    // No function of NVML tells the part number of the chip.
    let seen = include_str!("../../../tests/captures/query-l40s-595.txt").replace(": 26B9-896-A1", ": N/A");
    let differs = text.lines().zip(seen.lines()).find(|(said, seen)| said != seen);
    assert_eq!(differs, None);
    assert_eq!(text, seen);
}

/// The titles of the log that a driver has, one line each, without what is in
/// them.
fn titles(driver: &str) -> Vec<String> {
    let text = log("", &system(driver), &[l40s()], 1, &[]);
    text.lines().skip(9).map(|line| line.split(" : ").next().unwrap_or(line).trim_end().to_owned()).collect()
}

#[track_caller]
fn tells(driver: &str, has: &[&str], lacks: &[&str]) {
    let titles = titles(driver);
    for title in has {
        assert!(titles.iter().any(|line| line.trim() == *title), "{driver} has {title}");
    }
    for title in lacks {
        assert!(!titles.iter().any(|line| line.trim() == *title), "{driver} lacks {title}");
    }
}

#[test]
fn the_log_grew_from_driver_to_driver() {
    tells(
        "525.105.17",
        &["Clocks Throttle Reasons", "Power Readings", "Power Management", "Ecc Mode", "Module ID"],
        &["Addressing Mode", "FRU Part Number", "JPEG", "Conf Compute Protected Memory Usage", "CliqueId"],
    );
    tells(
        "535.54.03",
        &["Clocks Event Reasons", "GPU Power Readings", "GPU Reset Status", "JPEG", "GPU Shutdown Temp"],
        &["GPU C2C Mode", "Inforom BBX Object Flush", "GPU Memory Power Readings", "CliqueId"],
    );
    tells(
        "545.23.08",
        &["GPU C2C Mode", "Inforom BBX Object Flush", "GPU Memory Power Readings", "Voltage", "Gpu"],
        &["vGPU Heterogeneous Mode", "Base Classcode", "Sparse Operation Mode", "SRAM Threshold Exceeded"],
    );
    tells(
        "555.42.06",
        &["vGPU Heterogeneous Mode", "Base Classcode", "Sparse Operation Mode", "Bandwidth", "Module ID"],
        &["Platform Info", "GPU Recovery Action", "EGM", "Average Power Draw"],
    );
    tells(
        "565.57.01",
        &["Platform Info", "RACK Serial Number", "GPU Recovery Action", "EGM", "Power Draw", "Gpu"],
        &["Average Power Draw", "DRAM Encryption Mode", "Route Unhealthy", "Module ID"],
    );
    tells(
        "570.148.08",
        &["Average Power Draw", "DRAM Encryption Mode", "Route Unhealthy", "Chassis Serial Number", "GPU"],
        &["Display Attached", "Clocks Event Reasons Counters", "GPU PDI", "Summary"],
    );
    tells(
        "575.57.08",
        &["Display Attached", "Clocks Event Reasons Counters", "Voltage", "GPU Reset Status"],
        &["GPU PDI", "Channel Repair Pending", "Summary"],
    );
    tells(
        "580.105.08",
        &["GPU PDI", "Channel Repair Pending", "Summary", "Incorrect Configuration"],
        &["Voltage", "GPU Reset Status", "Unrepairable Memory", "Partition Assigned", "EDPp Multiplier"],
    );
    tells(
        "580.159.04",
        &["Unrepairable Memory", "Partition Assigned", "Inactive Correctable Error"],
        &["EDPp Multiplier"],
    );
    tells(
        "580.173.02",
        &["Unrepairable Memory", "Partition Assigned"],
        &["EDPp Multiplier", "Inactive Correctable Error"],
    );
    tells("590.48.01", &["EDPp Multiplier"], &["Partition Assigned", "Inactive Correctable Error"]);
}

#[test]
fn the_column_became_wide_within_branch_580() {
    for (driver, column) in [("580.105.08", 42), ("580.126.09", 55), ("590.48.01", 55)] {
        let text = log("", &system(driver), &[], 0, &[]);
        let line = text.lines().find(|line| line.starts_with("CUDA Version")).unwrap();
        assert_eq!(line.find(':'), Some(column), "{driver}");
    }
}

#[test]
fn the_document_has_the_elements_of_real_ones() {
    let system = System { driver: "595.80".to_owned(), nvml: None, cuda: Some("13.2".to_owned()) };
    let text = document("Fri Jul  3 08:33:53 2026", &system, &[l40s()], 1, false);
    for line in [
        "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">",
        "\t<attached_gpus>1</attached_gpus>",
        "\t<gpu id=\"00000000:01:00.0\">",
        "\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>",
        "\t\t<platformInfo>",
        "\t\t\t<pci_bus>01</pci_bus>",
        "\t\t\t<pci_device_id>26B910DE</pci_device_id>",
        "\t\t\t<pci_gpu_link_info>\n\t\t\t\t<pcie_gen>\n\t\t\t\t\t<max_link_gen>4</max_link_gen>",
        "\t\t\t<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>",
        "\t\t\t<multiple_single_bit_retirement>\n\t\t\t\t<retired_count>N/A</retired_count>",
        "\t\t\t\t<row_remapper_histogram_max>192 bank(s)</row_remapper_histogram_max>",
        "\t\t<supported_gpu_target_temp>",
        "\t\t\t<power_state>Requested functionality has been deprecated</power_state>",
        "\t\t\t<average_power_draw>110.24 W</average_power_draw>",
        "\t\t<supported_clocks>N/A</supported_clocks>",
        "\t\t\t\t<process_name>ffmpeg</process_name>",
        "\t\t<accounted_processes>\n\t\t</accounted_processes>",
        "\t\t<capabilities>\n\t\t\t<egm>disabled</egm>\n\t\t</capabilities>\n\t</gpu>\n\n</nvidia_smi_log>\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let schemas = [("575.51.02", "v12"), ("580.65.06", "v13"), ("515.65.01", "v11")];
    for (driver, version) in schemas {
        let system = System { driver: driver.to_owned(), ..System::default() };
        let text = document("", &system, &[], 0, false);
        assert!(text.contains(&format!("nvsmi_device_{version}.dtd")), "{driver}");
    }
}

#[test]
fn every_element_is_closed() {
    for driver in ["515.86.01", "535.54.03", "560.35.03", "580.105.08", "595.80"] {
        let text = document("", &system(driver), &[l40s(), Gpu::default()], 2, false);
        let mut open: Vec<&str> = Vec::new();
        for tag in text.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag) {
            let name = tag.split(' ').next().unwrap_or(tag);
            match name.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{driver}"),
                None if name.starts_with(['?', '!']) => {}
                None => open.push(name),
            }
        }
        assert_eq!(open, Vec::<&str>::new(), "{driver}");
    }
}
