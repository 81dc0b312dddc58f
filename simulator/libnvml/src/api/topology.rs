//! The connections of GPUs and CPUs: which are nearest, over which PCIe bridges and NVLinks. All of it
//! comes from the host's description.

use std::ffi::{c_uint, c_ulong, c_void};

use gpu::{FarEnd, NvmlError, Reply, Topology};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutArray, Versioned};
use crate::c_handle::Device;
use crate::entry::Call;
use crate::first_versions::{PciInfoV1, PciInfoV2};
use crate::handle::Handle;

type Pointer = *mut c_void;

/// Bits of a word of the sets of CPUs and NUMA nodes.
const WORD: u32 = c_ulong::BITS;

/// The bus of the first NVSwitch: none of the GPUs is there.
const SWITCH_BUS: u32 = 0xF1;

/// The index of a GPU; a MIG device has no place of its own.
fn index_of(call: &mut Call<'_>, device: Device) -> Reply<u16> {
    call.ask(device, |of| of.whole(NvmlError::NotSupported).map(|_| of.index))
}

fn pair(call: &mut Call<'_>, one: Device, other: Device) -> Reply<(u16, u16)> {
    Ok((index_of(call, one)?, index_of(call, other)?))
}

fn topology<'c>(call: &'c Call<'_>) -> &'c Topology {
    call.session.machine().topology()
}

/// Writes a set of numbers as bits into the caller's words; what is beyond them is left out.
fn set_bits(set: OutArray<c_ulong>, words: c_uint, numbers: impl Iterator<Item = u32>) -> Reply<()> {
    if words == 0 || set.is_null() {
        return Err(NvmlError::InvalidArgument);
    }
    // A caller who claims more words than any machine has CPUs gets as many as can mean something.
    let mut bits = vec![0; (words as usize).min(MOST_WORDS)];
    for number in numbers {
        if let Some(word) = bits.get_mut((number / WORD) as usize) {
            *word |= 1 << (number % WORD);
        }
    }
    set.fill(&bits);
    Ok(())
}

/// CPUs of no described host have higher numbers than these words hold.
const MOST_WORDS: usize = 64;

fn ranges(ranges: Vec<(u32, u32)>) -> impl Iterator<Item = u32> {
    ranges.into_iter().flat_map(|(first, last)| first..=last)
}

fn is_socket(scope: c_uint) -> Reply<bool> {
    match scope {
        sys::NVML_AFFINITY_SCOPE_NODE => Ok(false),
        sys::NVML_AFFINITY_SCOPE_SOCKET => Ok(true),
        _ => Err(NvmlError::InvalidArgument),
    }
}

fn handles(call: &mut Call<'_>, gpus: Vec<u16>) -> Reply<Vec<Pointer>> {
    let give = |gpu| {
        let device = call.query(|nvml| nvml.device_handle_by_index(gpu))?;
        Ok(call.give(Handle::Device(device)))
    };
    gpus.into_iter().map(give).collect()
}

/// As many as the caller has room for, and how many they are: all, for one who only asks.
fn list(count: Out<c_uint>, into: OutArray<Pointer>, all: &[Pointer]) -> Reply<()> {
    let room = count.get()? as usize;
    if room > 0 && into.is_null() {
        return Err(NvmlError::InvalidArgument);
    }
    let shown = if room == 0 { all } else { &all[..all.len().min(room)] };
    if room > 0 {
        into.fill(shown);
    }
    count.set(shown.len() as c_uint);
    Ok(())
}

/// The far end of a link. A card without this link says that it has none.
fn far_end(call: &mut Call<'_>, device: Device, link: c_uint) -> Reply<FarEnd> {
    let gpu = index_of(call, device)?;
    let ends = topology(call).far_ends(gpu);
    // A card without any link looks at no number (an H100 alone in a virtual machine, driver 580).
    if !ends.is_empty() && link >= sys::NVML_NVLINK_MAX_LINKS {
        return Err(NvmlError::InvalidArgument);
    }
    ends.get(link as usize).copied().ok_or(NvmlError::NotSupported)
}

fn remote(call: &mut Call<'_>, device: Device, link: c_uint) -> Reply<sys::nvmlPciInfo_t> {
    match far_end(call, device, link)? {
        FarEnd::Gpu(gpu) => super::pci::info_of(call.session.machine().gpu(gpu).ok_or(NvmlError::Unknown)?),
        FarEnd::Switch(number) => Ok(super::pci::info_at(0, SWITCH_BUS + u32::from(number), 0)),
    }
}

const READ: c_uint = sys::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_READ;
const WRITE: c_uint = sys::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_WRITE;
const NVLINK: c_uint = sys::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_NVLINK;
const ATOMICS: c_uint = sys::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_ATOMICS;
const PCI: c_uint = sys::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_PCI;

entries! {
    fn nvmlDeviceGetTopologyCommonAncestor(call, one: Device, other: Device, level: Out<sys::nvmlGpuTopologyLevel_t>) {
        let (one, other) = pair(call, one, other)?;
        // Of a GPU and itself (an H100 and an H200, driver 580).
        if one == other {
            return Err(NvmlError::NotSupported);
        }
        level.set(topology(call).nearness(one, other) as c_uint)
    }

    /// Those that are exactly as near as the level says.
    fn nvmlDeviceGetTopologyNearestGpus(
        call, device: Device, level: c_uint, count: Out<c_uint>, gpus: OutArray<Pointer>
    ) {
        let device = index_of(call, device)?;
        // A GPU without neighbours has no levels either (the same).
        if call.session.machine().gpus().len() < 2 {
            return Err(NvmlError::InvalidArgument);
        }
        if level > sys::nvmlGpuLevel_enum_NVML_TOPOLOGY_SYSTEM || !level.is_multiple_of(10) {
            return Err(NvmlError::InvalidArgument);
        }
        let all = 0..call.session.machine().gpus().len() as u16;
        let near = all.filter(|gpu| *gpu != device && topology(call).nearness(device, *gpu) as c_uint == level);
        let near = near.collect();
        let near = handles(call, near)?;
        list(count, gpus, &near)?
    }

    /// The GPUs near a CPU.
    fn nvmlSystemGetTopologyGpuSet(call, cpu: c_uint, count: Out<c_uint>, gpus: OutArray<Pointer>) {
        let all = 0..call.session.machine().gpus().len() as u16;
        let near = all.filter(|gpu| ranges(topology(call).cpus(*gpu, false)).any(|number| number == cpu));
        let near = near.collect();
        let near = handles(call, near)?;
        list(count, gpus, &near)?
    }

    /// With MIG on, GPUs do not reach each other's memory, and none reaches itself. Atomics go over NVIDIA's links only.
    fn nvmlDeviceGetP2PStatus(
        call, one: Device, other: Device, capability: c_uint, status: Out<sys::nvmlGpuP2PStatus_t>
    ) {
        let (one, other) = pair(call, one, other)?;
        let machine = call.session.machine();
        let cut = [one, other].iter().any(|gpu| machine.gpu(*gpu).is_some_and(gpu::Gpu::mig_is_on));
        let linked = machine.topology().links_between(one, other) > 0;
        let can = match capability {
            READ | WRITE | PCI => true,
            NVLINK | ATOMICS => linked,
            _ => return Err(NvmlError::InvalidArgument),
        };
        status.set(match can && !cut && one != other {
            true => sys::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_OK,
            false => sys::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED,
        })
    }

    fn nvmlDeviceGetCpuAffinity(call, device: Device, words: c_uint, set: OutArray<c_ulong>) {
        let gpu = index_of(call, device)?;
        set_bits(set, words, ranges(topology(call).cpus(gpu, false)))?
    }

    fn nvmlDeviceGetCpuAffinityWithinScope(
        call, device: Device, words: c_uint, set: OutArray<c_ulong>, scope: c_uint
    ) {
        let socket = is_socket(scope)?;
        let gpu = index_of(call, device)?;
        set_bits(set, words, ranges(topology(call).cpus(gpu, socket)))?
    }

    /// The NUMA node, or all of its socket.
    fn nvmlDeviceGetMemoryAffinity(call, device: Device, words: c_uint, set: OutArray<c_ulong>, scope: c_uint) {
        let socket = is_socket(scope)?;
        let gpu = index_of(call, device)?;
        set_bits(set, words, topology(call).memory_nodes(gpu, socket).into_iter().map(u32::from))?
    }

    fn nvmlDeviceGetNvLinkState(call, device: Device, link: c_uint, active: Out<sys::nvmlEnableState_t>) {
        far_end(call, device, link)?;
        active.set(sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetNvLinkVersion(call, device: Device, link: c_uint, version: Out<c_uint>) {
        far_end(call, device, link)?;
        version.set(topology(call).link_version().ok_or(NvmlError::NotSupported)?.into())
    }

    /// Between GPUs, with atomics; to the memory of the system over PCIe only.
    fn nvmlDeviceGetNvLinkCapability(call, device: Device, link: c_uint, capability: c_uint, result: Out<c_uint>) {
        // Here the number counts before whether there are links at all (the same).
        if link >= sys::NVML_NVLINK_MAX_LINKS {
            return Err(NvmlError::InvalidArgument);
        }
        far_end(call, device, link)?;
        result.set(match capability {
            sys::nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_P2P_SUPPORTED
            | sys::nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_P2P_ATOMICS
            | sys::nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_VALID => 1,
            0..sys::nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_COUNT => 0,
            _ => return Err(NvmlError::InvalidArgument),
        })
    }

    fn nvmlDeviceGetNvLinkRemoteDeviceType(
        call, device: Device, link: c_uint, kind: Out<sys::nvmlIntNvLinkDeviceType_t>
    ) {
        kind.set(match far_end(call, device, link)? {
            FarEnd::Gpu(_) => sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU,
            FarEnd::Switch(_) => sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH,
        })
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo(call, device: Device, link: c_uint, pci: Out<PciInfoV2>) {
        let info = remote(call, device, link)?;
        pci.set(PciInfoV2 { v1: PciInfoV1::from_last(&info), pci_sub_system_id: info.pciSubSystemId, reserved: [0; 4] })
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(call, device: Device, link: c_uint, pci: Out<sys::nvmlPciInfo_t>) {
        pci.set(remote(call, device, link)?)
    }

    /// The struct counts before whether there are links (driver 580); those of a simulated card have nothing to
    /// tell here.
    fn nvmlDeviceGetNvLinkInfo(call, device: Device, info: Versioned) {
        info.must_be::<sys::nvmlNvLinkInfo_v1_t>(1)?;
        call.ask(device, |_| Err(NvmlError::NotSupported))?
    }
}
