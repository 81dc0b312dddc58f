//! `-h` and its kin: what this nvidia-smi understands, in our words. The real
//! one's help is longer, and NVIDIA's.

use crate::render::csv::{APP_FIELDS, Field, GPU_FIELDS};

/// `nvidia-smi -h`
pub(crate) fn general(driver: Option<&str>) -> String {
    let version = driver.map(|driver| format!(" -- v{driver}")).unwrap_or_default();
    format!("NVIDIA System Management Interface{version}\n{GENERAL}")
}

const GENERAL: &str = "
The part of nvidia-smi's command line that matters to MIG, over simulated GPUs.

nvidia-smi [OPTION [VALUE]] ...      a value may also stand behind =

    (nothing)                        tables of GPUs, MIG devices and processes
    -L,   --list-gpus                GPUs and MIG devices with their UUIDs
    -q,   --query                    all about each GPU
    -d,   --display=                 with -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE,
                                     POWER, CLOCK, COMPUTE, PIDS, PERFORMANCE
    --query-gpu=                     chosen fields of GPUs; --help-query-gpu lists them
    --query-compute-apps=            chosen fields of processes; --help-query-compute-apps
    --format=                        with both: csv, and noheader, nounits
    -i,   --id=                      only these GPUs: indices, UUIDs or bus ids

    -mig, --multi-instance-gpu=      MIG mode: 0/DISABLED, 1/ENABLED
    -pm,  --persistence-mode=        persistence mode: 0/DISABLED, 1/ENABLED
    -r,   --gpu-reset                reset GPUs

    mig                              GPU instances and compute instances: nvidia-smi mig -h
    -h,   --help                     this
    --version                        versions of the tool, the library and the driver
";

/// `nvidia-smi mig -h`
pub(crate) const MIG: &str = "
nvidia-smi mig [OPTION [VALUE]] ...

    -lgip,  --list-gpu-instance-profiles
    -lgipp, --list-gpu-instance-possible-placements
    -lgi,   --list-gpu-instances
    -lcip,  --list-compute-instance-profiles
    -lci,   --list-compute-instances
    -cgi,   --create-gpu-instance          profiles by id (9), name (3g.20gb, MIG 3g.20gb),
                                           or either with a start (9:4), comma separated
    -C,     --default-compute-instance     with -cgi: a compute instance in each
    -cci,   --create-compute-instance      profiles by id or name; without, the default one
    -dci,   --destroy-compute-instance
    -dgi,   --destroy-gpu-instance

    -i,     --id                           only these GPUs: indices, UUIDs or bus ids
    -gi,    --gpu-instance-id              only these GPU instances
    -ci,    --compute-instance-id          only these compute instances
    -h,     --help                         this
";

/// `nvidia-smi --help-query-gpu`
pub(crate) fn query_gpu() -> String {
    fields("--query-gpu", GPU_FIELDS)
}

/// `nvidia-smi --help-query-compute-apps`
pub(crate) fn query_apps() -> String {
    fields("--query-compute-apps", APP_FIELDS)
}

fn fields<T>(option: &str, all: &[Field<T>]) -> String {
    let mut text = format!("Fields of {option}, other names behind \"or\":\n\n");
    for field in all {
        text.push_str(&format!("\"{}\"", field.names.join("\" or \"")));
        if let Some(unit) = field.unit {
            text.push_str(&format!(" [{unit}]"));
        }
        text.push('\n');
    }
    text
}
