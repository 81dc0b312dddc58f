//! The connections of GPUs and CPUs, as programs query them that choose GPUs close to each other.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::ptr::null_mut;

use crate::support::Sim;
use crate::support::raw::*;
use gpu::{DriverBranch, Machine, Model, Topology};
use nvml_wrapper_sys::bindings::*;

/// A server of this kind with these GPUs.
fn server(name: &str, gpus: usize, model: &str) -> Sim {
    let machine =
        Machine::new("node-a", DriverBranch::default(), store::now()).built_as(Topology::find(name).unwrap());
    let sim = Sim::new((0..gpus).fold(machine, |machine, _| machine.with_gpu(&Model::find(model).unwrap())));
    sim.init().unwrap();
    sim
}

fn nearest(sim: &Sim, of: u32, level: u32) -> Vec<u32> {
    let device = sim.gpu(of).unwrap();
    let mut count = 0;
    let ask = |count: &mut u32, into| unsafe {
        sim.lib.nvmlDeviceGetTopologyNearestGpus(device, level, count, into)
    };
    assert_eq!(ask(&mut count, null_mut()), 0);
    let mut all = vec![null_mut(); count as usize];
    assert_eq!(ask(&mut count, all.as_mut_ptr()), 0);
    all.into_iter().map(|device| index_of(sim, device)).collect()
}

fn index_of(sim: &Sim, device: nvmlDevice_t) -> u32 {
    ask(|index| unsafe { sim.lib.nvmlDeviceGetIndex(device, index) }).unwrap()
}

fn ancestor(sim: &Sim, one: u32, other: u32) -> Result<u32, Code> {
    let (one, other) = (sim.gpu(one).unwrap(), sim.gpu(other).unwrap());
    ask(|level| unsafe { sim.lib.nvmlDeviceGetTopologyCommonAncestor(one, other, level) })
}

fn cpus(sim: &Sim, gpu: u32, words: usize, scope: u32) -> Vec<u64> {
    let device = sim.gpu(gpu).unwrap();
    let mut set = vec![u64::MAX; words];
    let size = words as u32;
    let code = unsafe { sim.lib.nvmlDeviceGetCpuAffinityWithinScope(device, size, set.as_mut_ptr(), scope) };
    assert_eq!(code, 0);
    set
}

#[test]
fn gpus_of_a_server_are_as_near_as_its_bridges_make_them() {
    let sim = server("pcie-switches", 8, "A100-80GB");
    assert_eq!([1, 2, 4].map(|other| ancestor(&sim, 0, other)), [Ok(10), Ok(20), Ok(50)]);
    assert_eq!(ancestor(&sim, 3, 3), Err(NOT_SUPPORTED), "of a GPU and itself");
    assert_eq!(nearest(&sim, 0, 10), [1]);
    assert_eq!(nearest(&sim, 5, 20), [6, 7]);
    assert_eq!(nearest(&sim, 5, 50), [0, 1, 2, 3]);
    let device = sim.gpu(0).unwrap();
    let mut count = 4;
    let code = unsafe { sim.lib.nvmlDeviceGetTopologyNearestGpus(device, 11, &mut count, null_mut()) };
    assert_eq!(code, INVALID);
}

#[test]
fn cpus_and_memory_are_near_by_node_and_by_socket() {
    let sim = server("dgx-a100", 8, "A100-80GB");
    let node = (0xffff << 48, 0xffff << 48);
    assert_eq!(cpus(&sim, 0, 4, 0), [node.0, 0, node.1, 0]);
    assert_eq!(cpus(&sim, 0, 4, 1), [u64::MAX, 0, u64::MAX, 0]);
    // Who has room for one word gets one word; more words than there are CPUs are cleared.
    assert_eq!(cpus(&sim, 0, 1, 0), [node.0]);
    assert_eq!(cpus(&sim, 0, 6, 0)[4..], [0, 0]);
    let device = sim.gpu(0).unwrap();
    let memory = |scope| ask(|set| unsafe { sim.lib.nvmlDeviceGetMemoryAffinity(device, 1, set, scope) });
    assert_eq!((memory(0), memory(1), memory(2)), (Ok(1 << 3), Ok(0b1111), Err(INVALID)));
    let mut count = 0;
    assert_eq!(unsafe { sim.lib.nvmlSystemGetTopologyGpuSet(50, &mut count, null_mut()) }, 0);
    assert_eq!(count, 2);
}

#[test]
fn links_go_to_switches_or_to_the_other_card_and_are_counted_from_both_ends() {
    let sim = server("dgx-h100", 8, "H100-80GB");
    let (one, other) = (sim.gpu(0).unwrap(), sim.gpu(5).unwrap());
    let state = |link| ask(|on| unsafe { sim.lib.nvmlDeviceGetNvLinkState(one, link, on) });
    assert_eq!((state(0), state(17), state(18)), (Ok(1), Ok(1), Err(INVALID)));
    let kind = ask(|kind| unsafe { sim.lib.nvmlDeviceGetNvLinkRemoteDeviceType(one, 3, kind) });
    assert_eq!(kind, Ok(nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH));
    let p2p = |index| ask(|status| unsafe { sim.lib.nvmlDeviceGetP2PStatus(one, other, index, status) });
    assert_eq!((p2p(0), p2p(2), p2p(9)), (Ok(0), Ok(0), Err(INVALID)));
    // A GPU that is cut reaches nobody.
    sim.set_mode(one, 1).unwrap();
    assert_eq!(p2p(0), Ok(nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED));
    drop(sim);

    let sim = server("nvlink-bridges", 4, "A100-80GB");
    let device = sim.gpu(2).unwrap();
    let remote = |link| ask(|pci| unsafe { sim.lib.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci) });
    let other: nvmlPciInfo_t =
        ask(|pci| unsafe { sim.lib.nvmlDeviceGetPciInfo_v3(sim.gpu(3).unwrap(), pci) }).unwrap();
    assert_eq!(text(&remote(11).unwrap().busId), text(&other.busId));
    assert_eq!(remote(12).map(|_| ()), Err(NOT_SUPPORTED));
    drop(sim);

    let sim = server("plain", 2, "H100-80GB");
    let device = sim.gpu(0).unwrap();
    assert_eq!(ask(|on| unsafe { sim.lib.nvmlDeviceGetNvLinkState(device, 0, on) }), Err(NOT_SUPPORTED));
    assert_eq!(ancestor(&sim, 0, 1), Ok(30));
}
