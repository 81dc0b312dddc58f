//! `-q`: everything about each GPU, one reading a line. The order and the names
//! are those of driver 535; what is not given is `N/A`.

use crate::generation::Generation;
use crate::snapshot::{Clocks, ComputeMode, Gpu, Memory, MigDevice, Process, ProcessKind, System};

/// A part of the log that `-d` can ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Memory,
    Utilization,
    Ecc,
    Temperature,
    Power,
    Clock,
    Compute,
    Pids,
    Performance,
}

impl Section {
    /// The section of a name, which `-d` takes in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MEMORY" => Self::Memory,
            "UTILIZATION" => Self::Utilization,
            "ECC" => Self::Ecc,
            "TEMPERATURE" => Self::Temperature,
            "POWER" => Self::Power,
            "CLOCK" => Self::Clock,
            "COMPUTE" => Self::Compute,
            "PIDS" => Self::Pids,
            "PERFORMANCE" => Self::Performance,
            _ => return None,
        })
    }
}

/// The log, under a time such as `Thu Nov 21 07:12:15 2024`. No sections means
/// all of it.
pub(crate) fn query(time: &str, system: &System, gpus: &[Gpu], count: u32, sections: &[Section]) -> String {
    let column = if Generation::of(&system.driver) >= Generation::R580 { 55 } else { 42 };
    let mut log = Log { text: "\n==============NVSMI LOG==============\n\n".to_owned(), column };
    let System { driver, nvml: _, cuda } = system;
    log.entry(0, "Timestamp", time);
    log.entry(0, "Driver Version", driver);
    log.entry(0, "CUDA Version", cuda.as_deref().unwrap_or("Not Found"));
    log.text.push('\n');
    log.entry(0, "Attached GPUs", &count.to_string());
    for gpu in gpus {
        log.text.push_str(&format!("GPU {}\n", gpu.pci.id));
        log.gpu(gpu, sections);
        log.text.push('\n');
    }
    log.text
}

struct Log {
    text: String,
    column: usize,
}

fn switch(state: Option<bool>) -> String {
    state.map_or("N/A", |on| if on { "Enabled" } else { "Disabled" }).to_owned()
}

fn given<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "N/A".to_owned(), |value| value.to_string())
}

fn with_unit<T: ToString>(value: Option<T>, unit: &str) -> String {
    value.map_or_else(|| "N/A".to_owned(), |value| format!("{} {unit}", value.to_string()))
}

fn watts(milliwatts: Option<u32>) -> String {
    with_unit(milliwatts.map(|mw| format!("{}.{:02}", mw / 1000, mw % 1000 / 10)), "W")
}

impl Log {
    fn title(&mut self, depth: usize, title: &str) {
        self.text.push_str(&format!("{}{title}\n", " ".repeat(depth * 4)));
    }

    fn entry(&mut self, depth: usize, key: &str, value: &str) {
        let key = format!("{}{key}", " ".repeat(depth * 4));
        self.text.push_str(&format!("{key:<w$}: {value}\n", w = self.column));
    }

    fn gpu(&mut self, gpu: &Gpu, sections: &[Section]) {
        let wants = |section| sections.is_empty() || sections.contains(&section);
        if sections.is_empty() {
            self.identity(gpu);
            self.bus(gpu);
        }
        if sections.is_empty() {
            self.entry(1, "Fan Speed", &with_unit(gpu.fan, "%"));
        }
        if wants(Section::Performance) {
            self.entry(1, "Performance State", &given(gpu.performance.map(|state| format!("P{state}"))));
        }
        if wants(Section::Memory) {
            self.memory(1, "FB Memory Usage", gpu.memory, true);
            self.memory(1, "BAR1 Memory Usage", gpu.bar1, false);
        }
        if wants(Section::Compute) {
            self.entry(1, "Compute Mode", compute_mode(gpu.compute_mode));
        }
        if wants(Section::Utilization) {
            let busy = gpu.utilization.filter(|_| !gpu.mig_is_on());
            self.title(1, "Utilization");
            let first = if self.column > 42 { "GPU" } else { "Gpu" };
            self.entry(2, first, &with_unit(busy.map(|busy| busy.gpu), "%"));
            self.entry(2, "Memory", &with_unit(busy.map(|busy| busy.memory), "%"));
        }
        if wants(Section::Ecc) {
            self.title(1, "ECC Mode");
            self.entry(2, "Current", &switch(gpu.ecc.map(|ecc| ecc.current)));
            self.entry(2, "Pending", &switch(gpu.ecc.map(|ecc| ecc.pending)));
        }
        if wants(Section::Temperature) {
            self.title(1, "Temperature");
            self.entry(2, "GPU Current Temp", &with_unit(gpu.temperature, "C"));
            self.entry(2, "Memory Current Temp", &with_unit(gpu.memory_temperature, "C"));
        }
        if wants(Section::Power) {
            self.title(1, "GPU Power Readings");
            self.entry(2, "Power Draw", &watts(gpu.power.draw));
            self.entry(2, "Current Power Limit", &watts(gpu.power.limit));
            self.entry(2, "Requested Power Limit", &watts(gpu.power.limit));
            self.entry(2, "Default Power Limit", &watts(gpu.power.default_limit));
            self.entry(2, "Min Power Limit", &watts(gpu.power.min_limit));
            self.entry(2, "Max Power Limit", &watts(gpu.power.max_limit));
        }
        if wants(Section::Clock) {
            self.clocks("Clocks", gpu.clocks);
            self.clocks("Max Clocks", gpu.max_clocks);
        }
        if wants(Section::Pids) {
            self.processes(&gpu.processes);
        }
    }

    fn identity(&mut self, gpu: &Gpu) {
        self.entry(1, "Product Name", &gpu.name);
        self.entry(1, "Product Brand", gpu.brand.unwrap_or("N/A"));
        self.entry(1, "Product Architecture", gpu.architecture.unwrap_or("N/A"));
        self.entry(1, "Display Mode", &switch(gpu.display_mode));
        self.entry(1, "Display Active", &switch(gpu.display_active));
        self.entry(1, "Persistence Mode", &switch(gpu.persistence));
        self.entry(1, "Addressing Mode", "None");
        self.title(1, "MIG Mode");
        self.entry(2, "Current", &switch(gpu.mig.map(|mode| mode.current)));
        self.entry(2, "Pending", &switch(gpu.mig.map(|mode| mode.pending)));
        for device in &gpu.devices {
            self.mig_device(device);
        }
        self.entry(1, "Accounting Mode", &switch(gpu.accounting));
        self.entry(1, "Serial Number", &given(gpu.serial.as_ref()));
        self.entry(1, "GPU UUID", &gpu.uuid);
        self.entry(1, "Minor Number", &given(gpu.minor));
        self.entry(1, "VBIOS Version", &given(gpu.vbios.as_ref()));
        self.entry(1, "Board ID", &given(gpu.board_id.map(|id| format!("0x{id:x}"))));
    }

    fn bus(&mut self, gpu: &Gpu) {
        self.title(1, "PCI");
        self.entry(2, "Bus", &format!("0x{:02X}", gpu.pci.bus));
        self.entry(2, "Device", &format!("0x{:02X}", gpu.pci.device));
        self.entry(2, "Domain", &format!("0x{:04X}", gpu.pci.domain));
        self.entry(2, "Device Id", &format!("0x{:08X}", gpu.pci.device_id));
        self.entry(2, "Bus Id", &gpu.pci.id);
        self.entry(2, "Sub System Id", &given(gpu.pci.subsystem_id.map(|id| format!("0x{id:08X}"))));
        self.title(2, "GPU Link Info");
        self.title(3, "PCIe Generation");
        self.entry(4, "Max", &given(gpu.link.max_generation));
        self.entry(4, "Current", &given(gpu.link.generation));
        self.title(3, "Link Width");
        self.entry(4, "Max", &given(gpu.link.max_width.map(|width| format!("{width}x"))));
        self.entry(4, "Current", &given(gpu.link.width.map(|width| format!("{width}x"))));
    }

    fn memory(&mut self, depth: usize, title: &str, memory: Option<Memory>, reserved: bool) {
        self.title(depth, title);
        self.entry(depth + 1, "Total", &with_unit(memory.map(|memory| memory.total), "MiB"));
        if reserved {
            self.entry(depth + 1, "Reserved", &with_unit(memory.map(|memory| memory.reserved), "MiB"));
        }
        self.entry(depth + 1, "Used", &with_unit(memory.map(|memory| memory.used), "MiB"));
        self.entry(depth + 1, "Free", &with_unit(memory.map(|memory| memory.free), "MiB"));
    }

    fn clocks(&mut self, title: &str, clocks: Clocks) {
        let Clocks { graphics, sm, memory, video } = clocks;
        self.title(1, title);
        for (key, clock) in [("Graphics", graphics), ("SM", sm), ("Memory", memory), ("Video", video)] {
            self.entry(2, key, &with_unit(clock, "MHz"));
        }
    }

    fn mig_device(&mut self, device: &MigDevice) {
        let MigDevice {
            index,
            gpu_instance,
            compute_instance,
            profile: _,
            uuid: _,
            memory,
            bar1,
            attributes,
            uncorrected,
        } = device;
        self.title(1, "MIG Device");
        self.entry(2, "Index", &index.to_string());
        self.entry(2, "GPU Instance ID", &gpu_instance.to_string());
        self.entry(2, "Compute Instance ID", &compute_instance.to_string());
        self.title(2, "Device Attributes");
        self.title(3, "Shared");
        let engines = attributes.map(|attributes| attributes.engines);
        let sms = attributes.map(|attributes| attributes.multiprocessors);
        self.entry(4, "Multiprocessor count", &given(sms));
        self.entry(4, "Copy Engine count", &given(engines.map(|engines| engines.copy)));
        self.entry(4, "Encoder count", &given(engines.map(|engines| engines.encoder)));
        self.entry(4, "Decoder count", &given(engines.map(|engines| engines.decoder)));
        self.entry(4, "OFA count", &given(engines.map(|engines| engines.ofa)));
        self.entry(4, "JPG count", &given(engines.map(|engines| engines.jpeg)));
        self.title(2, "ECC Errors");
        self.title(3, "Volatile");
        self.entry(4, "SRAM Uncorrectable", &given(*uncorrected));
        self.memory(2, "FB Memory Usage", *memory, true);
        self.memory(2, "BAR1 Memory Usage", *bar1, false);
    }

    fn processes(&mut self, processes: &[Process]) {
        if processes.is_empty() {
            self.entry(1, "Processes", "None");
            return;
        }
        self.title(1, "Processes");
        for Process { pid, kind, name, memory, instance } in processes {
            self.entry(2, "GPU instance ID", &given(instance.map(|(gi, _)| gi)));
            self.entry(2, "Compute instance ID", &given(instance.map(|(_, ci)| ci)));
            self.entry(2, "Process ID", &pid.to_string());
            let kind = match kind {
                ProcessKind::Compute => "C",
                ProcessKind::Graphics => "G",
                ProcessKind::Both => "C+G",
            };
            self.entry(3, "Type", kind);
            self.entry(3, "Name", name);
            self.entry(3, "Used GPU Memory", &with_unit(*memory, "MiB"));
        }
    }
}

fn compute_mode(mode: Option<ComputeMode>) -> &'static str {
    match mode {
        Some(ComputeMode::Default) => "Default",
        Some(ComputeMode::Prohibited) => "Prohibited",
        Some(ComputeMode::ExclusiveProcess) => "Exclusive_Process",
        None => "N/A",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{MigMode, Pci};

    fn system(driver: &str) -> System {
        System { driver: driver.to_owned(), nvml: None, cuda: Some("13.0".to_owned()) }
    }

    #[test]
    fn the_mode_as_the_seed_of_the_dgx_station_finds_it() {
        let gpu = Gpu { mig: Some(MigMode { current: true, pending: true }), ..Gpu::default() };
        let log = query("", &system("550.54.14"), &[gpu], 4, &[]);
        // grep -A 2 -i "MIG Mode"
        let lines: Vec<_> = log.lines().skip_while(|line| !line.contains("MIG Mode")).take(3).collect();
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
        let gpu = Gpu {
            pci: Pci { id: "00000000:00:04.0".to_owned(), ..Pci::default() },
            memory: Some(Memory { total: 40_960, used: 0, free: 40_441, reserved: 520 }),
            bar1: Some(Memory { total: 65_536, used: 1, free: 65_535, reserved: 0 }),
            ..Gpu::default()
        };
        let log = query("Sat May  9 03:38:32 2026", &system("580.126.09"), &[gpu], 1, &[Section::Memory]);
        assert_eq!(log, include_str!("../../tests/captures/query-a100-memory-580.txt"));
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
        let log = query("", &system("535.104.12"), &[gpu], 1, &[Section::Pids]);
        let seen = include_str!("../../tests/captures/query-processes-535.txt");
        assert!(log.contains(seen), "{log}");
    }
}
