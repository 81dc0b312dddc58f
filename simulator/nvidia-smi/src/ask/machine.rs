//! The connections between GPUs, and the use of a GPU by processes.

use std::collections::BTreeMap;
use std::os::raw::c_ulong;

use nvml::library::FieldValue;
use nvml::{Code, Error, Library};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id as id;

use super::Found;
use crate::arguments::{Path, PeerAccess};
use crate::snapshot::{Connection, Neighbours, NvLink, Peer, PeerRow, ProcessLoad};

/// The most NVLinks that any GPU has.
const LINKS: u32 = 18;

/// Words of a mask of CPUs: enough for 4096.
const WORDS: usize = 64;

/// The scope that means the NUMA node, not the socket.
const NODE_SCOPE: u32 = 0;

/// How each GPU is connected with every other.
pub(crate) fn neighbours(library: &Library, found: &[Found<'_>]) -> Vec<Neighbours> {
    let buses: Vec<&str> = found.iter().map(|found| found.pci.id.as_str()).collect();
    let links: Vec<_> = found.iter().map(|found| remotes(found, &buses)).collect();
    let row = |(at, from): (usize, &Found<'_>)| {
        let connection = |(to_at, to): (usize, &Found<'_>)| {
            if at == to_at {
                Connection::Itself
            } else if let Some(count) = nvlinks(&links[at], &links[to_at], &to.pci.id) {
                Connection::NvLinks(count)
            } else {
                common_ancestor(library, from, to)
            }
        };
        let device = from.gpu.device();
        Neighbours {
            index: from.index,
            connections: found.iter().enumerate().map(connection).collect(),
            cpus: device.cpu_affinity(WORDS).ok().and_then(|mask| ranges(&mask)),
            memory: device.memory_affinity(1, NODE_SCOPE).ok().and_then(|mask| ranges(&mask)),
            own_node: device.numa_node_id().ok(),
        }
    };
    found.iter().enumerate().map(row).collect()
}

/// The other ends of a GPU's links.
struct Remotes {
    /// Active links by the bus id of the GPU at the other end.
    gpus: BTreeMap<String, u32>,
    /// Active links that end at something else: a switch.
    switches: u32,
}

fn remotes(found: &Found<'_>, buses: &[&str]) -> Remotes {
    let mut remotes = Remotes { gpus: BTreeMap::new(), switches: 0 };
    for number in 0..LINKS {
        let link = found.gpu.device().link_wrapper_for(number);
        if !link.is_active().unwrap_or(false) {
            continue;
        }
        match link.remote_pci_info() {
            Ok(end) if buses.contains(&end.bus_id.as_str()) => {
                *remotes.gpus.entry(end.bus_id).or_default() += 1;
            }
            _ => remotes.switches += 1,
        }
    }
    remotes
}

/// Links between two GPUs: direct ones, or as many as the lesser of them has to
/// the switches.
fn nvlinks(from: &Remotes, to: &Remotes, bus: &str) -> Option<u32> {
    let direct = from.gpus.get(bus).copied();
    direct.or_else(|| Some(from.switches.min(to.switches))).filter(|count| *count > 0)
}

fn common_ancestor(library: &Library, from: &Found<'_>, to: &Found<'_>) -> Connection {
    match library.nvml().topology_common_ancestor(from.gpu.device(), to.gpu.device()) {
        Ok(TopologyLevel::Internal | TopologyLevel::Single) => Connection::OneBridge,
        Ok(TopologyLevel::Multiple) => Connection::Bridges,
        Ok(TopologyLevel::HostBridge) => Connection::HostBridge,
        Ok(TopologyLevel::Node) => Connection::Node,
        Ok(TopologyLevel::System) => Connection::System,
        Err(_) => Connection::Unknown,
    }
}

/// What lies between two GPUs.
///
/// # Errors
/// The library's.
pub(crate) fn between(library: &Library, from: &Found<'_>, to: &Found<'_>) -> Result<Path, Error> {
    let level = library.nvml().topology_common_ancestor(from.gpu.device(), to.gpu.device());
    let level = level.map_err(|error| Error::from_call("nvmlDeviceGetTopologyCommonAncestor", error))?;
    Ok(match level {
        TopologyLevel::Internal => Path::Board,
        TopologyLevel::Single => Path::Switch,
        TopologyLevel::Multiple => Path::Switches,
        TopologyLevel::HostBridge => Path::HostBridge,
        TopologyLevel::Node => Path::Cpu,
        TopologyLevel::System => Path::System,
    })
}

/// The indices of the GPUs that are exactly so far from one; a GPU that is alone has none.
///
/// # Errors
/// The library's.
pub(crate) fn nearest(found: &Found<'_>, path: Path) -> Result<Vec<u32>, Error> {
    const CALL: &str = "nvmlDeviceGetTopologyNearestGpus";
    let level = match path {
        Path::Board => TopologyLevel::Internal,
        Path::Switch => TopologyLevel::Single,
        Path::Switches => TopologyLevel::Multiple,
        Path::HostBridge => TopologyLevel::HostBridge,
        Path::Cpu => TopologyLevel::Node,
        Path::System => TopologyLevel::System,
    };
    match found.gpu.device().topology_nearest_gpus(level) {
        Ok(near) => indices(CALL, near),
        // What a GPU is told that is alone (driver 580.159.04).
        Err(NvmlError::InvalidArg) => Ok(Vec::new()),
        Err(error) => Err(Error::from_call(CALL, error)),
    }
}

/// The indices of the GPUs near a CPU.
///
/// # Errors
/// The library's.
pub(crate) fn near_cpu(library: &Library, cpu: u32) -> Result<Vec<u32>, Error> {
    const CALL: &str = "nvmlSystemGetTopologyGpuSet";
    let near = library.nvml().topology_gpu_set(cpu).map_err(|error| Error::from_call(CALL, error))?;
    indices(CALL, near)
}

fn indices(call: &'static str, devices: Vec<Device<'_>>) -> Result<Vec<u32>, Error> {
    devices.iter().map(|device| device.index().map_err(|error| Error::from_call(call, error))).collect()
}

/// What each GPU can do with the memory of every other.
pub(crate) fn peers(found: &[Found<'_>], access: PeerAccess) -> Vec<PeerRow> {
    let capability = || match access {
        PeerAccess::Read => P2pCapabilitiesIndex::Read,
        PeerAccess::Write => P2pCapabilitiesIndex::Write,
        PeerAccess::NvLink => P2pCapabilitiesIndex::NvLink,
        PeerAccess::Atomics => P2pCapabilitiesIndex::Atomics,
        // The header calls it PCI, and used to call it PROP.
        PeerAccess::Pcie => P2pCapabilitiesIndex::Prop,
    };
    let row = |from: &Found<'_>| {
        let peer = |to: &Found<'_>| {
            if from.index == to.index {
                return Peer::Itself;
            }
            match from.gpu.device().p2p_status(to.gpu.device(), capability()) {
                Ok(P2pStatus::Ok) => Peer::Can,
                Ok(P2pStatus::ChipsetNotSupported) => Peer::NotByChipset,
                Ok(P2pStatus::GpuNotSupported) => Peer::NotByGpu,
                Ok(P2pStatus::IohTopologyNotSupported) => Peer::NotByTopology,
                Ok(P2pStatus::DisabledByRegkey) => Peer::Disabled,
                Ok(P2pStatus::NotSupported) => Peer::Cannot,
                Ok(P2pStatus::Unknown) | Err(_) => Peer::Unknown,
            }
        };
        PeerRow { index: from.index, peers: found.iter().map(peer).collect() }
    };
    found.iter().map(row).collect()
}

/// The bits of a mask as ranges, such as `0-19,40-59`.
fn ranges(mask: &[c_ulong]) -> Option<String> {
    let bits = c_ulong::BITS as usize;
    let is_set = |bit: usize| mask.get(bit / bits).is_some_and(|word| word >> (bit % bits) & 1 == 1);
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for bit in (0..mask.len() * bits).filter(|bit| is_set(*bit)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => ranges.push((bit, bit)),
        }
    }
    let words: Vec<_> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if words.is_empty() { None } else { Some(words.join(",")) }
}

/// The NVLinks of a GPU.
///
/// # Errors
/// [`Code::NotSupported`] without NVLink.
pub(crate) fn nvlinks_of(found: &Found<'_>) -> Result<Vec<NvLink>, Error> {
    let device = found.gpu.device();
    let mut links = Vec::new();
    for number in 0..LINKS {
        let active = device.link_wrapper_for(number).is_active();
        let active = active.map_err(|error| Error::from_call("nvmlDeviceGetNvLinkState", error));
        match active {
            Ok(active) => {
                let speed = found.gpu.field(id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0);
                let speed = speed.ok().and_then(FieldValue::count).filter(|_| active);
                links.push(NvLink { number, active, speed });
            }
            // Past the last link of a card that has fewer than others.
            Err(error)
                if number > 0 && matches!(error.code(), Some(Code::InvalidArgument | Code::NotSupported)) =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}

/// How much of a GPU each process uses. Nobody knows with MIG on.
pub(crate) fn loads(found: &Found<'_>) -> BTreeMap<u32, ProcessLoad> {
    let samples = found.gpu.device().process_utilization_stats(0).unwrap_or_default();
    let load = |sample: nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample| {
        let load = ProcessLoad {
            multiprocessors: sample.sm_util,
            memory: sample.mem_util,
            encoder: sample.enc_util,
            decoder: sample.dec_util,
        };
        (sample.pid, load)
    };
    samples.into_iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_as_ranges() {
        assert_eq!(ranges(&[0b1111_0011]).as_deref(), Some("0-1,4-7"));
        assert_eq!(ranges(&[1 << 63, 1]).as_deref(), Some("63-64"));
        assert_eq!(ranges(&[0b101]).as_deref(), Some("0,2"));
        assert_eq!(ranges(&[0]), None);
    }
}
