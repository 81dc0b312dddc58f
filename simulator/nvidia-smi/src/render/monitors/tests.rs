use std::collections::BTreeMap;

use super::processes::{process_heading, process_lines};
use super::*;
use crate::arguments::ProcessMetric;
use crate::snapshot::{
    Clocks, EngineLoad, Memory, MigMode, Power, Process, ProcessKind, ProcessLoad, Readings, Utilization,
};

const PUC: &[Metric] = &[Metric::Power, Metric::Utilization, Metric::Clocks];
const PLAIN: Stamp = Stamp { date: false, time: false };
const LOAD: &[ProcessMetric] = &[ProcessMetric::Utilization];
const FIRST: &str = "    0";

/// A table of a driver, for whoever asked for no date.
fn table(driver: Driver) -> Shape {
    Shape { stamp: PLAIN, form: Layout::TABLE, driver }
}

fn some_day() -> Zoned {
    "2024-01-04T13:54:35[UTC]".parse().unwrap()
}

/// An L40S that draws so much, is so warm, and whose clocks are so high.
fn l40s(watts: u32, temperature: u32, memory: u32) -> Gpu {
    Gpu {
        power: Power { draw: Some(watts * 1000), ..Power::default() },
        temperature: Some(temperature),
        utilization: Some(Utilization { gpu: 0, memory: 0 }),
        clocks: Clocks { memory: Some(memory), sm: Some(210), ..Clocks::default() },
        readings: Readings {
            engines: EngineLoad { encoder: Some(0), decoder: Some(0), jpeg: Some(0), ofa: Some(0) },
            ..Readings::default()
        },
        ..Gpu::default()
    }
}

#[test]
fn an_l40s_that_comes_to_rest() {
    let driver = Driver::from_version("595.80");
    let looks = [(66, 57, 9001), (65, 57, 9001), (65, 56, 9001), (51, 55, 405), (37, 54, 405)];
    let lines = looks.map(|(watts, temperature, memory)| {
        device_line(table(driver), &some_day(), &l40s(watts, temperature, memory), PUC)
    });
    let text = device_heading(table(driver), PUC) + &lines.concat();
    assert_eq!(text, include_str!("../../../tests/captures/dmon-l40s-595.txt"));
}

#[test]
fn with_mig_on_nobody_knows_how_busy_the_gpu_is() {
    let driver = Driver::from_version("590.48.01");
    let gpu = Gpu {
        mig: Some(MigMode { current: true, pending: true }),
        memory_temperature: Some(48),
        clocks: Clocks { memory: Some(2619), sm: Some(345), ..Clocks::default() },
        ..l40s(70, 42, 0)
    };
    let text =
        device_heading(table(driver), PUC) + &device_line(table(driver), &some_day(), &gpu, PUC).repeat(5);
    assert_eq!(text, include_str!("../../../tests/captures/dmon-h100-590.txt"));
}

#[test]
fn processes_with_what_each_uses() {
    let driver = Driver::from_version("595.80");
    let process = |pid| Process {
        pid,
        kind: ProcessKind::Compute,
        name: "/usr/bin/ffmpeg".to_owned(),
        memory: None,
        instance: None,
    };
    let gpu = Gpu { processes: vec![process(20_037), process(20_038)], ..Gpu::default() };
    let looks = [(2, 24, 6, 40), (2, 27, 5, 34), (1, 28, 8, 37), (0, 13, 7, 49), (2, 21, 5, 42)];
    let lines = looks.map(|(first, first_encodes, second, second_encodes)| {
        let load =
            |multiprocessors, encoder| ProcessLoad { multiprocessors, encoder, ..ProcessLoad::default() };
        let loads =
            BTreeMap::from([(20_037, load(first, first_encodes)), (20_038, load(second, second_encodes))]);
        process_lines(FIRST, &gpu, &loads, LOAD, driver)
    });
    let text = process_heading(PLAIN, LOAD, driver) + &lines.concat();
    let seen = include_str!("../../../tests/captures/pmon-l40s-595.txt");
    assert_eq!(text, seen);
}

#[test]
fn a_gpu_without_processes_has_a_line_of_dashes() {
    let lines = process_lines(FIRST, &Gpu::default(), &BTreeMap::new(), LOAD, Driver::from_version("595.80"));
    assert_eq!(
        lines,
        "    0          -     -      -      -      -      -      -      -    -              \n"
    );
}

#[test]
fn every_metric_has_its_columns() {
    let all = [Metric::Violations, Metric::Memory, Metric::Errors, Metric::Throughput];
    let driver = Driver::from_version("590.48.01");
    let gpu = Gpu {
        memory: Some(Memory { total: 81_559, used: 59, free: 81_022, reserved: 479 }),
        ..Gpu::default()
    };
    let text = device_heading(table(driver), &all) + &device_line(table(driver), &some_day(), &gpu, &all);
    assert_eq!(
        text,
        "# gpu  pviol  tviol     fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci \n\
         # Idx      %   bool     MB     MB     MB   errs   errs   errs   MB/s   MB/s \n    0      -      -     59      -      -      -      -      -      -      - \n"
    );
}

#[test]
fn the_columns_stand_as_they_are_asked_for_behind_the_date() {
    // An A10 with a driver of branch 535 or later, in January 2024.
    let metrics = [Metric::Memory, Metric::Utilization, Metric::Throughput, Metric::Clocks];
    let stamp = Stamp { date: true, time: true };
    let driver = Driver::from_version("535.129.03");
    let now = some_day();
    let shape = Shape { stamp, ..table(driver) };
    let gpu = Gpu {
        memory: Some(Memory { total: 23_028, used: 239, free: 22_508, reserved: 281 }),
        bar1: Some(Memory { total: 32_768, used: 3, free: 32_765, reserved: 0 }),
        utilization: Some(Utilization { gpu: 6, memory: 1 }),
        ..l40s(0, 0, 6250)
    };
    let line = device_line(shape, &now, &gpu, &metrics);
    assert_eq!(
        device_heading(shape, &metrics) + &line,
        "#Date       Time        gpu     fb   bar1   ccpm     sm    mem    enc    dec    jpg    ofa  rxpci  txpci   mclk   pclk \n\
         #YYYYMMDD   HH:MM:SS    Idx     MB     MB     MB      %      %      %      %      %      %   MB/s   MB/s    MHz    MHz \n \
         20240104   13:54:35      0    239      3      -      6      1      0      0      0      0      -      -   6250    210 \n"
    );
    let (time, date) = (Stamp { date: false, time: true }, Stamp { date: true, time: false });
    assert_eq!(corner(time, driver), ("#Time        gpu".to_owned(), "#HH:MM:SS    Idx".to_owned()));
    assert_eq!(place(time, driver, &now, 0), " 13:54:35      0");
    assert_eq!(
        (corner(date, driver).0, place(date, driver, &now, 12)),
        ("#Date        gpu".to_owned(), " 20240104     12".to_owned())
    );
}

#[test]
fn what_processes_hold_is_shown_by_every_driver() {
    let process =
        |pid, kind, name: &str, memory| Process { pid, kind, name: name.to_owned(), memory, instance: None };
    let both = [ProcessMetric::Utilization, ProcessMetric::Memory];
    let text = |driver, gpu: &Gpu, loads: &BTreeMap<u32, ProcessLoad>, metrics: &[ProcessMetric]| {
        let driver = Driver::from_version(driver);
        process_heading(PLAIN, metrics, driver) + &process_lines(FIRST, gpu, loads, metrics, driver)
    };
    let desktop = Gpu {
        processes: vec![
            process(2355, ProcessKind::Graphics, "Xorg", Some(4)),
            process(3816, ProcessKind::Both, "/usr/libexec/gnome-remote-desktop-daemon", Some(112)),
        ],
        ..Gpu::default()
    };
    assert_eq!(
        text("570.124.06", &desktop, &BTreeMap::new(), &both),
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n\
         # Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n    \
         0       2355     G      -      -      -      -      -      -      4      0    Xorg           \n    \
         0       3816   C+G      -      -      -      -      -      -    112      0    gnome-remote-de\n"
    );
    let loads = BTreeMap::from([(
        1_360_690,
        ProcessLoad { multiprocessors: 99, memory: 30, ..ProcessLoad::default() },
    )]);
    let working = Gpu {
        processes: vec![process(1_360_690, ProcessKind::Compute, "python", Some(382))],
        ..Gpu::default()
    };
    assert_eq!(
        text("535.288.01", &working, &loads, &both),
        "# gpu         pid  type    sm    mem    enc    dec     fb   ccpm    command \n\
         # Idx           #   C/G     %      %      %      %     MB     MB    name \n    \
         0    1360690     C     99     30      -      -    382      0    python         \n"
    );
    assert_eq!(
        text("525.105.17", &working, &loads, &both),
        "# gpu        pid  type    sm   mem   enc   dec    fb   command\n\
         # Idx          #   C/G     %     %     %     %    MB   name\n    \
         0    1360690     C    99    30     -     -   382   python         \n"
    );
}

#[test]
fn with_commas_and_without_what_nobody_wants() {
    let driver = Driver::from_version("580.159.04");
    let form = Layout { csv: true, names: true, units: true };
    let shape = Shape { stamp: Stamp { date: true, time: true }, form, driver };
    let gpu = Gpu { memory_temperature: Some(37), ..l40s(80, 33, 0) };
    let power = [Metric::Power];
    assert_eq!(
        device_heading(shape, &power) + &device_line(shape, &some_day(), &gpu, &power),
        "#Date, Time, gpu, pwr, gtemp, mtemp\n#YYYYMMDD, HH:MM:SS, Idx, W, C, C\n 20240104, 13:54:35, 0, 80, 33, 37\n"
    );
    let bare = Shape { form: Layout { names: false, units: false, ..form }, stamp: PLAIN, driver };
    assert_eq!(device_heading(bare, &power), "");
    assert_eq!(device_line(bare, &some_day(), &gpu, &power), " 0, 80, 33, 37\n");
    let no_names = Shape { form: Layout { names: false, ..Layout::TABLE }, ..table(driver) };
    assert_eq!(device_heading(no_names, &power), "# Idx      W      C      C \n");
}
