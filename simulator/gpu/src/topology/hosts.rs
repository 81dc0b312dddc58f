//! Commercial hosts, as data. CPUs, NUMA nodes, buses and NVLinks are those that `nvidia-smi topo -m`
//! prints on them; the root complex of each bus is inferred from the bus numbers.

use super::{NumaNode, NvLinks, Seat, Topology};

/// NVSwitches on a board of eight GPUs.
pub(super) const SWITCHES_OF_A_BOARD: u8 = 4;

/// The names of all descriptions, in their order.
pub(super) const NAMES: &[&str] =
    &["plain", "two-sockets", "pcie-switches", "nvlink-bridges", "dgx-station-a100", "dgx-a100", "dgx-h100"];

/// The seat of a GPU that is alone behind its port.
pub(super) fn plain_seat(gpu: u16) -> Seat {
    let bus = u8::try_from(gpu).unwrap_or(u8::MAX).saturating_add(1);
    Seat { bus, root: 0, switches: Vec::new(), numa: 0 }
}

/// The description for a host of which nothing was said.
pub(super) fn plain() -> Topology {
    let seats = (0..32).map(plain_seat).collect();
    Topology { name: "plain".to_owned(), numa: vec![node(0, &[(0, 31)])], seats, nvlinks: None }
}

fn node(socket: u8, cpus: &[(u32, u32)]) -> NumaNode {
    NumaNode { socket, cpus: cpus.to_vec() }
}

fn seat(bus: u8, root: u8, switches: &[u8], numa: u8) -> Seat {
    Seat { bus, root, switches: switches.to_vec(), numa }
}

/// All of them.
pub(super) fn all() -> Vec<Topology> {
    let two = || vec![node(0, &[(0, 31), (64, 95)]), node(1, &[(32, 63), (96, 127)])];
    let host = |name: &str, numa, seats, nvlinks| Topology { name: name.to_owned(), numa, seats, nvlinks };
    // Four cards to a socket, each behind a host bridge of its own.
    let sockets = [
        (0x17, 0x16),
        (0x31, 0x30),
        (0x4b, 0x4a),
        (0x65, 0x64),
        (0x98, 0x97),
        (0xb1, 0xb0),
        (0xca, 0xc9),
        (0xe3, 0xe2),
    ];
    let sockets = (0u8..).zip(sockets).map(|(i, (bus, root))| seat(bus, root, &[], i / 4)).collect();
    // Four cards to a socket behind two switches, one under the other.
    let switches: Vec<Seat> = [0x1a, 0x1b, 0x3d, 0x3e, 0x8a, 0x8b, 0xad, 0xae]
        .iter()
        .zip(0u8..)
        .map(|(bus, i)| {
            seat(*bus, if i < 4 { 0x15 } else { 0x85 }, &[i / 4 * 8, i / 4 * 8 + 1 + i / 2], i / 4)
        })
        .collect();
    let bridges = NvLinks::Direct {
        links: 12,
        version: 3,
        groups: vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]],
    };
    vec![
        plain(),
        host("two-sockets", two(), sockets, None),
        host("pcie-switches", two(), switches.clone(), None),
        host("nvlink-bridges", two(), switches, Some(bridges)),
        host(
            "dgx-station-a100",
            vec![node(0, &[(0, 127)])],
            vec![
                seat(0x01, 0x00, &[], 0),
                seat(0x47, 0x40, &[], 0),
                seat(0x81, 0x80, &[], 0),
                seat(0xc2, 0xc0, &[], 0),
            ],
            Some(NvLinks::Direct { links: 4, version: 3, groups: vec![vec![0, 1, 2, 3]] }),
        ),
        host(
            "dgx-a100",
            dgx_a100_nodes(),
            dgx_a100_seats(),
            Some(NvLinks::Switched { links: 12, version: 3 }),
        ),
        host(
            "dgx-h100",
            vec![node(0, &[(0, 55), (112, 167)]), node(1, &[(56, 111), (168, 223)])],
            (0u8..)
                .zip([
                    (0x1b, 0x10),
                    (0x43, 0x40),
                    (0x52, 0x48),
                    (0x61, 0x58),
                    (0x9d, 0x90),
                    (0xc3, 0xc0),
                    (0xd1, 0xc8),
                    (0xdf, 0xd8),
                ])
                .map(|(i, (bus, root))| seat(bus, root, &[i], i / 4))
                .collect(),
            Some(NvLinks::Switched { links: 18, version: 4 }),
        ),
    ]
}

/// Two sockets of 64 cores, four NUMA nodes each.
fn dgx_a100_nodes() -> Vec<NumaNode> {
    (0u8..8)
        .map(|i| {
            let first = u32::from(i) * 16;
            node(i / 4, &[(first, first + 15), (first + 128, first + 143)])
        })
        .collect()
}

/// Two GPUs to a host bridge, with switches between them.
fn dgx_a100_seats() -> Vec<Seat> {
    let pairs = [(0x07, 0x0f, 0x00, 3), (0x47, 0x4e, 0x40, 1), (0x87, 0x90, 0x80, 7), (0xb7, 0xbd, 0xa0, 5)];
    let seats = (0u8..).zip(pairs).flat_map(|(i, (one, other, root, numa))| {
        [seat(one, root, &[i * 3, i * 3 + 1], numa), seat(other, root, &[i * 3, i * 3 + 2], numa)]
    });
    seats.collect()
}
