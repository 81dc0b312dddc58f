//! `-h` and similar options: the options that this nvidia-smi supports, in our wording. The real help is
//! longer, and NVIDIA's.

use crate::arguments::Query;
use crate::generation::Driver;
use crate::render::csv::{self, Field};

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
    -B,   --list-excluded-gpus       GPUs that the driver leaves alone
    -q,   --query                    all about each GPU
    -d,   --display=                 with -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE,
                                     POWER, CLOCK, COMPUTE, PIDS, PERFORMANCE, SUPPORTED_CLOCKS,
                                     PAGE_RETIREMENT, ACCOUNTING, ENCODER_STATS, FBC_STATS,
                                     SUPPORTED_GPU_TARGET_TEMP, VOLTAGE, ROW_REMAPPER,
                                     GSP_FIRMWARE_VERSION, POWER_SMOOTHING, POWER_PROFILES
    -u,   --unit                     with -q: units instead of GPUs
    -x,   --xml-format               with -q: as XML
    --dtd                            the DTD of that document; with -q -x: in it
    --query-gpu=                     chosen fields of GPUs; --help-query-gpu lists them
    --query-compute-apps=            chosen fields of processes; each query has its --help-query-...
    --query-accounted-apps=          ... of processes that the driver remembers
    --query-retired-pages=           ... of memory that was given up
    --query-remapped-rows=
    --query-supported-clocks=
    --format=                        with queries: csv, and noheader, nounits
    -i,   --id=                      only these GPUs: indices, UUIDs or bus ids
    -l,   --loop=                    again and again, after so many seconds (5)
    -lms, --loop-ms=                 the same, in milliseconds
    -f,   --filename=                a file instead of standard output

    -mig, --multi-instance-gpu=      MIG mode: 0/DISABLED, 1/ENABLED
    -pm,  --persistence-mode=        persistence mode: 0/DISABLED, 1/ENABLED
    -pl,  --power-limit=             power limit in watts
    -r,   --gpu-reset                reset GPUs

    mig                              GPU instances and compute instances: nvidia-smi mig -h
    dmon, pmon                       GPUs and processes, again and again: nvidia-smi dmon -h
    topo, nvlink                     how GPUs are connected: nvidia-smi topo -h
    conf-compute -f|-d|-e|-grs|-q    confidential computing, which is off
    c2c -s, power-profiles -l,
    drain -q -p ADDRESS              other states that nothing here changes
    -h,   --help                     this
    --version                        versions of the tool, the library and the driver

Everything else that the real program has is known and not simulated: status 69.
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

/// `nvidia-smi dmon -h` and its kin.
pub(crate) const MONITORS: &str = "
nvidia-smi dmon [OPTION [VALUE]] ...     one line for each GPU, again and again
    -s, --select=                        p power and temperature, u utilization, c clocks, v violations,
                                         m memory, e errors, t PCIe throughput; puc without

nvidia-smi pmon [OPTION [VALUE]] ...     one line for each process, again and again

with both:
    -i, --id=                            only these GPUs: indices, UUIDs or bus ids
    -c, --count=                         so often; without, until it is ended
    -d, --delay=                         seconds between two looks, at most 600
    -f, --filename=                      a file instead of standard output

nvidia-smi topo -m                       how GPUs are connected, and which CPUs are near
nvidia-smi topo -c CPU                   the GPUs near a CPU
nvidia-smi topo -n PATH -i GPU           the GPUs to which a path leads: 0 a PCIe switch of a board,
                                         1 a PCIe switch, 2 several, 3 a host bridge, 4 several host
                                         bridges of a CPU, 5 another NUMA node
nvidia-smi topo -p -i GPU,GPU            the path between two GPUs
nvidia-smi topo -p2p r|w|n|a|p           whether GPUs reach each other's memory: reading, writing, over
                                         NVLink, with atomics, over PCIe
nvidia-smi nvlink -s [-i ...]            the NVLinks of GPUs; -c, -e, -p and -R are answered where a GPU
                                         has none
";

/// `nvidia-smi --help-query-gpu` and its kin: the fields as the help of a driver
/// lists them. Programs read the names between the quotation marks.
pub(crate) fn query(query: Query, driver: Driver) -> String {
    match query {
        Query::Gpu => fields("--query-gpu", csv::GPU_FIELDS, driver),
        Query::ComputeApps => fields("--query-compute-apps", &[csv::APPS], driver),
        Query::AccountedApps => fields("--query-accounted-apps", &[csv::ACCOUNTED], driver),
        Query::RetiredPages => fields("--query-retired-pages", &[csv::RETIRED], driver),
        Query::RemappedRows => fields("--query-remapped-rows", &[csv::REMAPPED], driver),
        Query::SupportedClocks => fields("--query-supported-clocks", &[csv::CLOCKS], driver),
    }
}

fn fields<T>(option: &str, groups: &[&[Field<T>]], driver: Driver) -> String {
    let mut text = format!("Fields of {option}; other names of a field stand beside it:\n\n");
    for field in groups.iter().copied().flatten().filter(|field| field.is_listed(driver)) {
        text.push_str(&format!("\"{}\"\n", field.names.join("\" or \"")));
        if let Some(unit) = field.unit {
            text.push_str(&format!("In {unit}.\n"));
        }
        text.push('\n');
    }
    text
}
