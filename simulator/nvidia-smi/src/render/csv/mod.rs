//! `--query-gpu` and `--query-compute-apps`: chosen fields, comma separated.

mod fields;

use crate::snapshot::{Gpu, Process, ProcessKind, System};

pub(crate) use fields::{Field, GPU_FIELDS};

/// What `--format` asks for beside `csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// A first line with the names of the fields.
    pub(crate) header: bool,
    /// Units after the values.
    pub(crate) units: bool,
}

/// What a row of `--query-gpu` is about.
pub(crate) struct Subject {
    /// Now, as `2024/11/21 07:12:15.123`.
    pub(crate) time: String,
    /// The machine.
    pub(crate) system: System,
    /// How many GPUs there are.
    pub(crate) count: u32,
    /// The GPU.
    pub(crate) gpu: Gpu,
}

/// What a row of `--query-compute-apps` is about.
pub(crate) struct App {
    /// Now, as `2024/11/21 07:12:15.123`.
    pub(crate) time: String,
    /// Where it runs.
    pub(crate) gpu: Gpu,
    /// What runs.
    pub(crate) process: Process,
}

/// The fields of `--query-compute-apps`.
pub(crate) const APP_FIELDS: &[Field<App>] = &[
    Field { names: &["timestamp"], unit: None, value: |app| Some(app.time.clone()) },
    Field { names: &["gpu_name"], unit: None, value: |app| Some(app.gpu.name.clone()) },
    Field { names: &["gpu_bus_id"], unit: None, value: |app| Some(app.gpu.pci.id.clone()) },
    Field { names: &["gpu_serial"], unit: None, value: |app| app.gpu.serial.clone() },
    Field { names: &["gpu_uuid"], unit: None, value: |app| Some(app.gpu.uuid.clone()) },
    Field { names: &["pid"], unit: None, value: |app| Some(app.process.pid.to_string()) },
    Field { names: &["process_name", "name"], unit: None, value: |app| Some(app.process.name.clone()) },
    Field {
        names: &["used_gpu_memory", "used_memory"],
        unit: Some("MiB"),
        value: |app| app.process.memory.map(|mib| mib.to_string()),
    },
];

/// The fields of these names.
///
/// # Errors
/// The first name that is none.
pub(crate) fn find<'n, T>(
    all: &'static [Field<T>],
    names: &'n str,
) -> Result<Vec<&'static Field<T>>, &'n str> {
    let find = |name: &'n str| all.iter().find(|field| field.names.contains(&name)).ok_or(name);
    names.split(',').map(str::trim).map(find).collect()
}

/// The first line.
pub(crate) fn header<T>(fields: &[&Field<T>]) -> String {
    let names: Vec<_> = fields
        .iter()
        .map(|field| match field.unit {
            Some(unit) => format!("{} [{unit}]", field.names[0]),
            None => field.names[0].to_owned(),
        })
        .collect();
    format!("{}\n", names.join(", "))
}

/// One line of values.
pub(crate) fn row<T>(fields: &[&Field<T>], of: &T, format: Format) -> String {
    let values: Vec<_> = fields
        .iter()
        .map(|field| match ((field.value)(of), field.unit) {
            (Some(value), Some(unit)) if format.units => format!("{value} {unit}"),
            (Some(value), _) => value,
            (None, _) => "[N/A]".to_owned(),
        })
        .collect();
    format!("{}\n", values.join(", "))
}

/// Whether a process computes, which those that only draw do not.
pub(crate) fn computes(process: &Process) -> bool {
    process.kind != ProcessKind::Graphics
}

#[cfg(test)]
mod tests {
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
        assert_eq!(header + &row(&fields, &subject, format), expected);
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
        let mut names: Vec<_> = GPU_FIELDS.iter().flat_map(|field| field.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
