//! The positions of a host's GPUs: their PCIe switches, root complexes and NUMA nodes, and their numbers of
//! NVLinks. The hosts themselves are data (`topology/hosts.rs`).

use serde::{Deserialize, Serialize};

mod bridges;
mod hosts;

pub use bridges::{Bridge, BridgeKind};

/// How near two GPUs are over PCIe; named as `nvidia-smi topo -m` names it, and
/// numbered as NVML numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Nearness {
    /// One GPU, or one board (`X`).
    Same = 0,
    /// At most one PCIe switch is between them (`PIX`).
    OneSwitch = 10,
    /// Several switches, and no host bridge (`PXB`).
    Switches = 20,
    /// A host bridge (`PHB`).
    HostBridge = 30,
    /// Several host bridges of one NUMA node (`NODE`).
    NumaNode = 40,
    /// The connection between NUMA nodes (`SYS`).
    System = 50,
}

/// Where one GPU is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// Its PCI bus.
    pub bus: u8,
    /// The first bus of its root complex: `80` of `pci0000:80`.
    pub root: u8,
    /// The switches above it, the nearest last: each a number in the host.
    pub switches: Vec<u8>,
    /// The NUMA node that its root complex belongs to.
    pub numa: u8,
}

/// CPUs of a NUMA node, in ranges of which the ends belong to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// The socket that it is of.
    pub socket: u8,
    /// The ranges.
    pub cpus: Vec<(u32, u32)>,
}

/// What the NVLinks of a GPU go to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum NvLinks {
    /// Switches: each GPU reaches each other one over all its links.
    Switched {
        /// Links of each GPU.
        links: u8,
        /// The version that NVML tells: 3 on A100, 4 on H100, 5 on B200.
        version: u8,
    },
    /// Other GPUs: so many links between each two of a group.
    Direct {
        /// Links between two of them.
        links: u8,
        /// The version that NVML tells.
        version: u8,
        /// Which GPUs are linked with each other, by index.
        groups: Vec<Vec<u16>>,
    },
}

/// The far end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// A switch, by its number.
    Switch(u8),
    /// Another GPU.
    Gpu(u16),
}

/// Where the GPUs of a host are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The name of its description.
    pub name: String,
    /// Its NUMA nodes.
    pub numa: Vec<NumaNode>,
    /// The seats of GPUs, by index.
    pub seats: Vec<Seat>,
    /// The links beside PCIe.
    pub nvlinks: Option<NvLinks>,
}

/// There is no description of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no machine `{asked}`: {}", .known.join(", "))]
pub struct UnknownMachine {
    /// What was asked for.
    pub asked: String,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

impl Topology {
    /// The description of this name.
    ///
    /// # Errors
    /// There is none; which there are.
    pub fn find(name: &str) -> Result<Self, UnknownMachine> {
        let found = hosts::all().into_iter().find(|topology| topology.name.eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| UnknownMachine { asked: name.to_owned(), known: Self::names() })
    }

    /// The names of all descriptions.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        hosts::NAMES.to_vec()
    }

    /// The seat of a GPU. One of which the description has none sits alone
    /// under the first root complex.
    #[must_use]
    pub fn seat(&self, gpu: u16) -> Seat {
        self.seats.get(usize::from(gpu)).cloned().unwrap_or_else(|| hosts::plain_seat(gpu))
    }

    /// How near two GPUs are.
    #[must_use]
    pub fn nearness(&self, one: u16, other: u16) -> Nearness {
        if one == other {
            return Nearness::Same;
        }
        let (one, other) = (self.seat(one), self.seat(other));
        let (near, far) = (one.switches.last(), other.switches.last());
        if near.is_some() && near == far {
            Nearness::OneSwitch
        } else if one.switches.iter().any(|switch| other.switches.contains(switch)) {
            Nearness::Switches
        } else if one.root == other.root {
            Nearness::HostBridge
        } else if one.numa == other.numa {
            Nearness::NumaNode
        } else {
            Nearness::System
        }
    }

    /// How many NVLinks a GPU has.
    #[must_use]
    pub fn links_of(&self, gpu: u16) -> u8 {
        u8::try_from(self.far_ends(gpu).len()).unwrap_or(u8::MAX)
    }

    /// The version of the NVLinks, where there are any.
    #[must_use]
    pub fn link_version(&self) -> Option<u8> {
        match self.nvlinks.as_ref()? {
            NvLinks::Switched { version, .. } | NvLinks::Direct { version, .. } => Some(*version),
        }
    }

    /// How many NVLinks join two GPUs, directly or through switches.
    #[must_use]
    pub fn links_between(&self, one: u16, other: u16) -> u8 {
        if one == other {
            return 0;
        }
        let mine = self.far_ends(one);
        let direct = mine.iter().filter(|end| **end == FarEnd::Gpu(other)).count();
        let switches = |ends: &[FarEnd]| ends.iter().filter(|end| matches!(end, FarEnd::Switch(_))).count();
        let both = switches(&mine).min(switches(&self.far_ends(other)));
        u8::try_from(direct.max(both)).unwrap_or(u8::MAX)
    }

    /// Where the NVLinks of a GPU go, link by link.
    #[must_use]
    pub fn far_ends(&self, gpu: u16) -> Vec<FarEnd> {
        match &self.nvlinks {
            _ if usize::from(gpu) >= self.seats.len() => Vec::new(),
            None => Vec::new(),
            // The links of a GPU are spread over the switches of its board, of which there are as many as
            // share them evenly in twos or more.
            Some(NvLinks::Switched { links, .. }) => {
                (0..*links).map(|link| FarEnd::Switch(link % hosts::SWITCHES_OF_A_BOARD)).collect()
            }
            Some(NvLinks::Direct { links, groups, .. }) => {
                let group = groups.iter().find(|group| group.contains(&gpu));
                let peers = group.into_iter().flatten().filter(|peer| **peer != gpu);
                peers.flat_map(|peer| (0..*links).map(|_| FarEnd::Gpu(*peer))).collect()
            }
        }
    }

    /// The NUMA nodes near a GPU: its own, or all of the socket that this is of.
    #[must_use]
    pub fn memory_nodes(&self, gpu: u16, whole_socket: bool) -> Vec<u8> {
        let own = self.seat(gpu).numa;
        let Some(socket) = self.numa.get(usize::from(own)).map(|node| node.socket) else { return vec![own] };
        let near = (0u8..).zip(&self.numa);
        near.filter(|(i, node)| *i == own || whole_socket && node.socket == socket).map(|(i, _)| i).collect()
    }

    /// The CPUs near a GPU: of its NUMA node, or of the socket that this is of.
    #[must_use]
    pub fn cpus(&self, gpu: u16, whole_socket: bool) -> Vec<(u32, u32)> {
        let Some(own) = self.numa.get(usize::from(self.seat(gpu).numa)) else { return Vec::new() };
        if !whole_socket {
            return own.cpus.clone();
        }
        let of_socket = self.numa.iter().filter(|node| node.socket == own.socket);
        let mut all: Vec<_> = of_socket.flat_map(|node| node.cpus.iter().copied()).collect();
        all.sort_unstable();
        all
    }
}

impl Default for Topology {
    /// Every GPU behind a port of its own under one host bridge, and one NUMA
    /// node: a virtual machine, or a small server.
    fn default() -> Self {
        hosts::plain()
    }
}

#[cfg(test)]
mod tests;
