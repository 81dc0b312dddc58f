//! The tables as captures show them.

use super::*;
use crate::snapshot::{
    Attributes, ComputeMode, Ecc, Engines, Memory, MigDevice, MigMode, Pci, Power, Process, ProcessKind,
    Utilization,
};

fn system(driver: &str, cuda: &str) -> System {
    System { driver: driver.to_owned(), nvml: None, cuda: Some(cuda.to_owned()) }
}

fn memory(used: u64, total: u64) -> Option<Memory> {
    Some(Memory { total, used, free: total - used, reserved: 0 })
}

/// A GPU as a server's: counts errors, drives no display.
fn gpu(name: &str, bus: &str, mig: (bool, bool)) -> Gpu {
    Gpu {
        name: name.to_owned(),
        pci: Pci { id: bus.to_owned(), ..Pci::default() },
        persistence: Some(true),
        display_active: Some(false),
        ecc: Some(Ecc { current: true, pending: true, uncorrected: Some(0) }),
        performance: Some(0),
        compute_mode: Some(ComputeMode::Default),
        mig: Some(MigMode { current: mig.0, pending: mig.1 }),
        utilization: Some(Utilization { gpu: 0, memory: 0 }),
        ..Gpu::default()
    }
}

fn power(draw: u32, limit: u32) -> Power {
    Power { draw: Some(draw), limit: Some(limit), ..Power::default() }
}

struct Cut {
    /// GPU instance, compute instance, index.
    at: (u32, u32, u32),
    memory: (u64, u64),
    bar1: u64,
    sm: u32,
    /// Copy, encoder, decoder, OFA, JPEG: as the table has them.
    engines: [u32; 5],
}

fn device(cut: Cut) -> MigDevice {
    let Cut { at: (gpu_instance, compute_instance, index), memory: (used, total), bar1, sm, engines } = cut;
    let [copy, encoder, decoder, ofa, jpeg] = engines;
    MigDevice {
        index,
        gpu_instance,
        compute_instance,
        memory: memory(used, total),
        bar1: memory(0, bar1),
        attributes: Some(Attributes {
            multiprocessors: sm,
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
        }),
        uncorrected: Some(0),
        ..MigDevice::default()
    }
}

fn process(pid: u32, kind: ProcessKind, name: &str, memory: u64, at: Option<(u32, u32)>) -> Process {
    Process { pid, kind, name: name.to_owned(), memory: Some(memory), instance: at }
}

/// The text without its first line, for captures that lack the time.
fn untimed(text: &str) -> &str {
    text.split_once('\n').unwrap().1
}

#[test]
fn an_a30_of_driver_535() {
    let a30 = Gpu {
        persistence: Some(false),
        temperature: Some(47),
        power: power(32_000, 165_000),
        memory: memory(50, 24_576),
        devices: vec![
            device(Cut {
                at: (2, 0, 0),
                memory: (25, 11_968),
                bar1: 16_383,
                sm: 28,
                engines: [2, 0, 2, 0, 0],
            }),
            device(Cut { at: (3, 0, 1), memory: (12, 5952), bar1: 8191, sm: 14, engines: [1, 0, 1, 0, 0] }),
            device(Cut { at: (4, 0, 2), memory: (12, 5952), bar1: 8191, sm: 14, engines: [1, 0, 1, 0, 0] }),
        ],
        ..gpu("NVIDIA A30", "00000000:0B:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a30-535.txt");
    assert_eq!(summary("Thu Nov 21 07:12:15 2024", &system("535.183.01", "12.2"), &[a30]), seen);
}

#[test]
fn a_mode_that_is_pending_has_a_star() {
    let a30 = Gpu {
        persistence: Some(false),
        temperature: Some(49),
        power: power(43_000, 165_000),
        memory: memory(0, 24_576),
        ..gpu("NVIDIA A30", "00000000:0B:00.0", (false, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a30-pending-535.txt");
    assert_eq!(summary("Thu Nov 21 06:48:37 2024", &system("535.183.01", "12.2"), &[a30]), seen);
}

#[test]
fn mig_without_devices() {
    let a30 = Gpu {
        persistence: Some(false),
        temperature: Some(48),
        power: power(33_000, 165_000),
        memory: memory(0, 24_576),
        ..gpu("NVIDIA A30", "00000000:0B:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a30-empty-535.txt");
    assert_eq!(summary("Thu Nov 21 06:50:36 2024", &system("535.183.01", "12.2"), &[a30]), seen);
}

#[test]
fn an_h100_nvl_of_driver_560() {
    let h100 = Gpu {
        temperature: Some(31),
        power: power(62_000, 400_000),
        memory: memory(64, 95_830),
        devices: vec![
            device(Cut {
                at: (1, 0, 0),
                memory: (38, 47_488),
                bar1: 65_535,
                sm: 60,
                engines: [3, 0, 3, 0, 3],
            }),
            device(Cut {
                at: (5, 0, 1),
                memory: (13, 22_144),
                bar1: 32_767,
                sm: 26,
                engines: [1, 0, 1, 0, 1],
            }),
            device(Cut {
                at: (13, 0, 2),
                memory: (13, 11_008),
                bar1: 16_383,
                sm: 16,
                engines: [1, 0, 1, 0, 1],
            }),
        ],
        ..gpu("NVIDIA H100 NVL", "00000001:00:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-h100-nvl-560.txt");
    assert_eq!(untimed(&summary("", &system("560.35.03", "12.6"), &[h100])), seen);
}

#[test]
fn compute_instances_share_a_memory_cell() {
    let part = |at, used, sm, copy| {
        device(Cut { at, memory: (used, 40_192), bar1: 65_535, sm, engines: [copy, 0, 2, 0, 0] })
    };
    let a100 = Gpu {
        temperature: Some(28),
        power: power(53_000, 400_000),
        memory: memory(87, 81_920),
        devices: vec![
            part((1, 0, 0), 37, 14, 3),
            part((1, 1, 1), 37, 28, 3),
            part((2, 0, 2), 49, 14, 4),
            part((2, 1, 3), 49, 28, 4),
        ],
        ..gpu("NVIDIA A100-SXM4-80GB", "00000000:3F:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a100-shared-550.txt");
    assert_eq!(summary("Tue Jan  7 13:45:24 2025", &system("550.54.14", "12.4"), &[a100]), seen);

    let old = Gpu {
        persistence: Some(false),
        temperature: Some(40),
        power: power(59_000, 300_000),
        memory: memory(38, 81_920),
        devices: vec![part((1, 0, 0), 19, 14, 3), part((1, 1, 1), 19, 14, 3)],
        ..gpu("NVIDIA A100 80GB PCIe", "00000001:00:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a100-shared-515.txt");
    assert_eq!(untimed(&summary("", &system("515.86.01", "11.7"), &[old])), seen);
}

#[test]
fn an_h100_of_driver_580_with_parts_and_processes() {
    let runs = |pid, name| process(pid, ProcessKind::Compute, name, 4188, Some((1, 0)));
    let h100 = Gpu {
        temperature: Some(62),
        power: power(237_840, 700_000),
        memory: memory(12_657, 81_559),
        devices: vec![
            device(Cut {
                at: (1, 0, 0),
                memory: (12_627, 40_448),
                bar1: 24_740,
                sm: 16,
                engines: [3, 0, 3, 0, 3],
            }),
            device(Cut { at: (11, 0, 1), memory: (15, 9984), bar1: 6185, sm: 16, engines: [1, 0, 1, 1, 1] }),
            device(Cut { at: (13, 0, 2), memory: (15, 9984), bar1: 6185, sm: 16, engines: [1, 0, 1, 0, 1] }),
        ],
        processes: vec![
            runs(23_804, "/tmp/loadgen"),
            runs(23_806, "/tmp/loadgen"),
            runs(23_808, "/tmp/ghost"),
        ],
        ..gpu("NVIDIA H100 80GB HBM3", "00000000:00:09.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-h100-parts-580.txt");
    assert_eq!(summary("Wed Jul 29 18:52:50 2026", &system("580.173.02", "13.0"), &[h100]), seen);
}

#[test]
fn each_compute_instance_has_its_own_cell_from_driver_580_on() {
    let part = |at, memory, bar1, sm, copy, decoder| {
        device(Cut { at, memory, bar1, sm, engines: [copy, 0, decoder, 0, 0] })
    };
    let a100 = Gpu {
        temperature: Some(40),
        power: power(43_000, 400_000),
        memory: memory(249, 40_960),
        devices: vec![
            part((2, 0, 0), (142, 20_096), 12_211, 56, 4, 2),
            part((3, 0, 1), (71, 9984), 6105, 14, 2, 1),
            part((3, 1, 2), (71, 9984), 6105, 14, 2, 1),
            part((9, 0, 3), (36, 4864), 3052, 14, 1, 0),
        ],
        ..gpu("NVIDIA A100-SXM4-40GB", "00000000:10:1C.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-a100-parts-580.txt");
    assert_eq!(summary("Tue Feb 17 16:58:38 2026", &system("580.126.09", "13.0"), &[a100]), seen);
}

#[test]
fn an_h100_of_driver_590() {
    let runs = |pid, name, memory| process(pid, ProcessKind::Compute, name, memory, Some((2, 0)));
    let part = |at, memory, bar1, sm, n| device(Cut { at, memory, bar1, sm, engines: [n, 0, n, 0, n] });
    let h100 = Gpu {
        temperature: Some(52),
        power: power(432_210, 700_000),
        memory: memory(11_125, 81_559),
        devices: vec![
            part((2, 0, 0), (11_091, 40_448), 24_739, 60, 3),
            part((3, 0, 1), (17, 20_096), 12_369, 32, 2),
            part((9, 0, 2), (9, 9984), 6184, 16, 1),
            part((10, 0, 3), (9, 9984), 6184, 16, 1),
        ],
        processes: vec![
            runs(21_180, "/root/tools/memhog", 2296),
            runs(21_181, "/root/tools/memhog", 1272),
            runs(21_198, "./gpu_burn", 7484),
        ],
        ..gpu("NVIDIA H100 80GB HBM3", "00000000:00:09.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-h100-590.txt");
    assert_eq!(summary("Tue Jul 14 09:00:43 2026", &system("590.48.01", "13.1"), &[h100]), seen);
}

#[test]
fn an_l40s_of_driver_595() {
    let runs = |pid, memory| process(pid, ProcessKind::Compute, "ffmpeg", memory, None);
    let l40s = Gpu {
        persistence: Some(false),
        mig: None,
        temperature: Some(54),
        power: power(110_240, 350_000),
        memory: memory(1235, 46_068),
        utilization: Some(Utilization { gpu: 9, memory: 2 }),
        processes: vec![runs(20_037, 538), runs(20_038, 681)],
        ..gpu("NVIDIA L40S", "00000000:01:00.0", (false, false))
    };
    let seen = include_str!("../../../tests/captures/summary-l40s-595.txt");
    assert_eq!(summary("Fri Jul  3 08:33:53 2026", &system("595.80", "13.2"), &[l40s]), seen);
}

#[test]
fn an_h100_without_mig() {
    let h100 = Gpu {
        temperature: Some(66),
        power: power(355_570, 700_000),
        memory: memory(4627, 81_559),
        utilization: Some(Utilization { gpu: 100, memory: 3 }),
        processes: vec![process(4559, ProcessKind::Compute, "/tmp/loadgen", 4618, None)],
        ..gpu("NVIDIA H100 80GB HBM3", "00000000:00:09.0", (false, false))
    };
    let seen = include_str!("../../../tests/captures/summary-h100-default-580.txt");
    assert_eq!(summary("Wed Jul 29 18:05:46 2026", &system("580.173.02", "13.0"), &[h100]), seen);
}

#[test]
fn a_workstation_card_with_a_long_name() {
    let card = Gpu {
        ecc: Some(Ecc { current: false, pending: false, uncorrected: None }),
        fan: Some(30),
        temperature: Some(31),
        performance: Some(8),
        power: power(18_000, 300_000),
        memory: memory(46, 97_887),
        processes: vec![
            process(2019, ProcessKind::Graphics, "/usr/lib/xorg/Xorg", 10, None),
            process(2154, ProcessKind::Graphics, "/usr/bin/gnome-shell", 17, None),
        ],
        ..gpu("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "00000000:17:00.0", (true, true))
    };
    let seen = include_str!("../../../tests/captures/summary-rtx-pro-6000-empty-580.txt");
    assert_eq!(summary("Mon Feb  2 08:21:00 2026", &system("580.105.08", "13.0"), &[card]), seen);
}

#[test]
fn what_is_not_given_is_not_available() {
    let card = Gpu {
        name: "NVIDIA H100L-1-12C".to_owned(),
        pci: Pci { id: "00000000:00:06.0".to_owned(), ..Pci::default() },
        performance: Some(0),
        ..Gpu::default()
    };
    let text = summary("", &system("580.82.07", "13.0"), &[card]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[8..11],
        [
            "|   0  NVIDIA H100L-1-12C             N/A |   00000000:00:06.0 N/A |                  N/A |",
            "| N/A   N/A    P0            N/A  /  N/A  |                  N/A   |     N/A          N/A |",
            "|                                         |                        |                  N/A |",
        ]
    );
}

#[test]
fn long_names_of_processes_keep_their_end() {
    let h100 = Gpu {
        processes: vec![process(
            3485,
            ProcessKind::Compute,
            "/home/someone/custom-gpt-153m/.venv/bin/python",
            7524,
            None,
        )],
        ..gpu("NVIDIA H100", "00000000:01:00.0", (false, false))
    };
    let text = summary("", &system("580.82.07", "13.0"), &[h100]);
    assert!(
        text.contains(
            "|    0   N/A  N/A            3485      C   ...tom-gpt-153m/.venv/bin/python       7524MiB |\n"
        ),
        "{text}"
    );
}
