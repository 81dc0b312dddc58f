//! `topo` and `nvlink`: the connections between GPUs.

use crate::arguments::{Numa, Path};
use crate::generation::{Driver, Form};
use crate::snapshot::{Connection, Gpu, Neighbours, NvLink, Peer, PeerRow};

/// What is said of links, the last line of the legend.
const OF_LINKS: &str = "  NV#  = Connection traversing a bonded set of # NVLinks
";

/// What the words of the matrix mean.
const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
";

/// The matrix. Its heading is underlined whether or not a terminal shows it.
pub(crate) fn matrix(rows: &[Neighbours], driver: Driver) -> String {
    table(rows, driver) + LEGEND + OF_LINKS
}

/// The NUMA node nearest to a GPU, or its own.
pub(crate) fn numa(of: Numa, row: &Neighbours) -> String {
    let near = row.memory.as_deref().unwrap_or("N/A");
    match of {
        Numa::Cpu => format!("NUMA IDs of closest CPU: {near}\n"),
        Numa::Memory => format!("NUMA IDs of closest memory: {near}\n"),
        Numa::Own => format!("{}\n", row.own_node.map_or_else(|| "N/A".to_owned(), |node| node.to_string())),
    }
}

fn table(rows: &[Neighbours], driver: Driver) -> String {
    let own_nodes = driver.has(Form::R530);
    let names: String = rows.iter().map(|row| format!("GPU{}\t", row.index)).collect();
    let last = if own_nodes { "\tGPU NUMA ID" } else { "" };
    let mut text = format!("\t\u{1b}[4m{names}CPU Affinity\tNUMA Affinity{last}\u{1b}[0m\n");
    for Neighbours { index, connections, cpus, memory, own_node } in rows {
        let cells: String = connections.iter().map(|connection| format!("{}\t", word(*connection))).collect();
        let cpus = cpus.as_deref().unwrap_or("");
        let memory = memory.as_deref().unwrap_or("\tN/A");
        text.push_str(&format!("GPU{index}\t{cells}{cpus}\t{memory}"));
        if own_nodes {
            let node = own_node.map_or_else(|| "N/A".to_owned(), |node| node.to_string());
            text.push_str(&format!("\t\t{node}"));
        }
        text.push('\n');
    }
    text
}

fn word(connection: Connection) -> String {
    match connection {
        Connection::Itself => " X ".to_owned(),
        Connection::NvLinks(count) => format!("NV{count}"),
        Connection::OneBridge => "PIX".to_owned(),
        Connection::Bridges => "PXB".to_owned(),
        Connection::HostBridge => "PHB".to_owned(),
        Connection::Node => "NODE".to_owned(),
        Connection::System => "SYS".to_owned(),
        Connection::Unknown => "N/A".to_owned(),
    }
}

/// What the words of the matrix of peers mean.
const LEGEND_OF_PEERS: &str = "
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
";

/// The matrix of `-p2p`, whose heading is underlined, too.
pub(crate) fn peers(rows: &[PeerRow]) -> String {
    let names: String = rows.iter().map(|row| format!("GPU{}\t", row.index)).collect();
    let mut text = format!(" \t\u{1b}[4m{names}\u{1b}[0m\n");
    for PeerRow { index, peers } in rows {
        let cells: String = peers.iter().map(|peer| format!("{}\t", can(*peer))).collect();
        text.push_str(&format!(" GPU{index}\t{cells}\n"));
    }
    text + LEGEND_OF_PEERS
}

fn can(peer: Peer) -> &'static str {
    match peer {
        Peer::Itself => "X",
        Peer::Can => "OK",
        Peer::NotByChipset => "CNS",
        Peer::NotByGpu => "GNS",
        Peer::NotByTopology => "TNS",
        Peer::Disabled => "DR",
        Peer::Cannot => "NS",
        Peer::Unknown => "U",
    }
}

/// The GPUs near a CPU.
pub(crate) fn near_cpu(cpu: u32, near: &[u32]) -> String {
    if near.is_empty() {
        return format!("No GPUs were found to have an affinity with CPU {cpu}.\n\n");
    }
    format!("The GPUs that have an affinity with CPU {cpu} are:\n{}\n\n", list(near))
}

/// The GPUs that are exactly so far from one.
pub(crate) fn nearest(index: u32, path: Path, near: &[u32]) -> String {
    if near.is_empty() {
        let way = far(path);
        return format!("Device {index} is not connected to other devices by {way}.\n\n");
    }
    format!("Device {index} is connected by way of {} to device(s): {}\n\n", way(path), list(near))
}

/// What lies between two GPUs.
pub(crate) fn between(one: u32, other: u32, path: Path) -> String {
    format!("Device {one} is connected to device {other} by way of {}.\n\n", way(path))
}

fn list(gpus: &[u32]) -> String {
    gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The words for a way on which there is nobody, as the real program has them (driver 580.159.04).
const fn far(path: Path) -> &'static str {
    match path {
        Path::Board => "way of an single on-board PCIe switch",
        Path::Switch => "way of a single PCIe switch",
        Path::Switches => "way of potentially multiple PCIe switches",
        Path::HostBridge => "the same PCIe host bridge",
        Path::Cpu => "way of an on-CPU interconnect between PCIe host bridges",
        Path::System => "way of an SMP interconnect link between NUMA nodes",
    }
}

const fn way(path: Path) -> &'static str {
    match path {
        Path::Board => "an single on-board PCIe switch",
        Path::Switch => "a single PCIe switch",
        Path::Switches => "multiple PCIe switches",
        Path::HostBridge => "a PCIe host bridge",
        Path::Cpu => "an on-CPU interconnect between PCIe host bridges",
        Path::System => "an SMP interconnect between NUMA nodes",
    }
}

/// The links of a GPU; `None` if it has none, which old drivers pass over in silence.
pub(crate) fn links(gpu: &Gpu, links: Option<&[NvLink]>, driver: Driver) -> String {
    if links.is_none() && !gpu.mig_is_on() && !driver.has(Form::R590) {
        return String::new();
    }
    let mut text = format!("GPU {}: {} (UUID: {})\n", gpu.index, gpu.name, gpu.uuid);
    match links {
        _ if gpu.mig_is_on() => text.push_str("Nvlink queries are not supported for Devices in MIG mode\n"),
        None => text.push_str("Device does not have or support Nvlink\n"),
        Some(links) => {
            for NvLink { number, active, speed } in links {
                let state = match speed {
                    Some(speed) => format!("{}.{:03} GB/s", speed / 1000, speed % 1000),
                    None if *active => "<active>".to_owned(),
                    None => "<inactive>".to_owned(),
                };
                text.push_str(&format!("\t Link {number}: {state}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: u32, connections: &[Connection]) -> Neighbours {
        Neighbours {
            index,
            connections: connections.to_vec(),
            cpus: Some("0-19".to_owned()),
            memory: Some("0".to_owned()),
            own_node: None,
        }
    }

    #[test]
    fn the_matrix_of_one_gpu_as_captured() {
        let text = matrix(&[row(0, &[Connection::Itself])], Driver::from_version("590.48.01"));
        assert_eq!(text, include_str!("../../tests/captures/topo-h100-590.txt"));
    }

    #[test]
    fn a_card_without_nvlink_as_captured() {
        let gpu = Gpu {
            name: "NVIDIA L40S".to_owned(),
            uuid: "GPU-00000000-0000-0000-0000-000000000000".to_owned(),
            ..Gpu::default()
        };
        let newer = Driver::from_version("595.80");
        assert_eq!(links(&gpu, None, newer), include_str!("../../tests/captures/nvlink-l40s-595.txt"));
        let row = Neighbours { cpus: Some("0-7".to_owned()), ..row(0, &[Connection::Itself]) };
        let seen = include_str!("../../tests/captures/topo-l40s-595.txt");
        assert_eq!(matrix(&[row], newer), seen);
    }

    #[test]
    fn several_gpus_of_a_driver_that_tells_no_nodes() {
        let rows = [
            row(0, &[Connection::Itself, Connection::NvLinks(12)]),
            Neighbours { memory: None, ..row(1, &[Connection::NvLinks(12), Connection::Itself]) },
        ];
        let text = matrix(&rows, Driver::from_version("525.105.17"));
        let lines: Vec<_> = text.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "\t\u{1b}[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\u{1b}[0m",
                "GPU0\t X \tNV12\t0-19\t0",
                "GPU1\tNV12\t X \t0-19\t\tN/A",
            ]
        );
    }

    #[test]
    fn links_by_state() {
        let gpu = Gpu { name: "NVIDIA H800".to_owned(), uuid: "GPU-1".to_owned(), ..Gpu::default() };
        let all = [
            NvLink { number: 0, active: true, speed: Some(26_562) },
            NvLink { number: 1, active: false, speed: None },
        ];
        let text = links(&gpu, Some(&all), Driver::from_version("580.65.06"));
        assert_eq!(text, "GPU 0: NVIDIA H800 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n");
    }
}
