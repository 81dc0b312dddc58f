//! The connections between GPUs, and the values for their monitors.

/// How two GPUs are connected, or a GPU with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Itself,
    /// So many NVLinks, to each other or to a switch.
    NvLinks(u32),
    /// At most one PCIe bridge.
    OneBridge,
    Bridges,
    HostBridge,
    Node,
    System,
    /// The library does not tell.
    Unknown,
}

/// A GPU's row of the matrix.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    pub(crate) index: u32,
    /// To each GPU of the matrix, in its order.
    pub(crate) connections: Vec<Connection>,
    /// The CPUs near it, such as `0-19,40-59`.
    pub(crate) cpus: Option<String>,
    /// The NUMA nodes near it.
    pub(crate) memory: Option<String>,
    /// The NUMA node that its own memory is.
    pub(crate) own_node: Option<u32>,
}

/// What a GPU can do with the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Itself,
    Can,
    NotByChipset,
    NotByGpu,
    NotByTopology,
    /// Somebody switched it off.
    Disabled,
    Cannot,
    /// The library does not tell.
    Unknown,
}

/// A GPU's row of the matrix of peers.
#[derive(Clone, Debug)]
pub(crate) struct PeerRow {
    pub(crate) index: u32,
    /// To each GPU of the matrix, in its order.
    pub(crate) peers: Vec<Peer>,
}

/// An NVLink of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NvLink {
    pub(crate) number: u32,
    pub(crate) active: bool,
    /// In MB/s.
    pub(crate) speed: Option<u64>,
}

/// How much of a GPU a process uses, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessLoad {
    pub(crate) multiprocessors: u32,
    pub(crate) memory: u32,
    pub(crate) encoder: u32,
    pub(crate) decoder: u32,
}
