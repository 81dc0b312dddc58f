//! The PCI bridges between a root complex and a GPU, as the kernel lists them: a root port, and for each
//! switch its upstream port and one of its downstream ports. Descriptions of hosts have the buses of GPUs
//! and of root complexes; the buses between them are inferred, in the order in which firmware numbers buses.

use super::Topology;

/// A bridge: a place on the bus, and the part that it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// The bus that it is on.
    pub bus: u8,
    /// Its device number there.
    pub device: u8,
    /// Its function; another one than 0 where a root complex has more ports than device numbers.
    pub function: u8,
    /// What it is.
    pub kind: BridgeKind,
}

/// The kinds of bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BridgeKind {
    /// A port of the root complex.
    RootPort,
    /// The port of a switch towards the root complex.
    Upstream,
    /// A port of a switch towards devices.
    Downstream,
}

/// Device numbers of ports begin here: 0 is the host bridge's own on many machines.
const FIRST_PORT: usize = 1;

/// So many device numbers are left on a bus.
const PORTS: usize = 31;

/// What hangs under a port: a switch, or a GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Switch(u8),
    Gpu(u16),
}

impl Topology {
    /// The bridges above a GPU, from the root complex on.
    #[must_use]
    pub fn bridges(&self, gpu: u16) -> Vec<Bridge> {
        let seat = self.seat(gpu);
        let mut bridges = Vec::new();
        let mut above = None;
        for below in seat.switches.iter().map(|switch| Below::Switch(*switch)).chain([Below::Gpu(gpu)]) {
            let number = self.children(seat.root, above).iter().position(|child| *child == below);
            let number = number.unwrap_or_default();
            let port = |bus, first: usize, kind| Bridge {
                bus,
                device: u8::try_from(first + number % PORTS).unwrap_or_default(),
                function: u8::try_from(number / PORTS).unwrap_or_default(),
                kind,
            };
            bridges.push(match above {
                None => port(seat.root, FIRST_PORT, BridgeKind::RootPort),
                Some(switch) => port(self.inside(switch), 0, BridgeKind::Downstream),
            });
            if let Below::Switch(switch) = below {
                let bus = self.inside(switch).saturating_sub(1);
                bridges.push(Bridge { bus, device: 0, function: 0, kind: BridgeKind::Upstream });
                above = Some(switch);
            }
        }
        bridges
    }

    /// What hangs under a switch, or directly under a root complex, by bus.
    fn children(&self, root: u8, above: Option<u8>) -> Vec<Below> {
        let mut found = Vec::new();
        for (gpu, seat) in self.all_seats(root) {
            let next = match above {
                None => seat.switches.first(),
                Some(switch) => match seat.switches.iter().position(|other| *other == switch) {
                    Some(at) => seat.switches.get(at + 1),
                    None => continue,
                },
            };
            let below = next.map_or(Below::Gpu(gpu), |switch| Below::Switch(*switch));
            if !found.contains(&below) {
                found.push(below);
            }
        }
        found
    }

    /// The bus inside a switch, on which its downstream ports are: one before the first bus under it.
    fn inside(&self, switch: u8) -> u8 {
        let under = self.seats.iter().filter_map(|seat| {
            let at = seat.switches.iter().position(|other| *other == switch)?;
            // A switch that is in between has a bus inside and one at its upstream port.
            let between = u8::try_from(seat.switches.len() - at - 1).unwrap_or(u8::MAX);
            Some(seat.bus.saturating_sub(between.saturating_mul(2)))
        });
        under.min().unwrap_or_default().saturating_sub(1)
    }

    /// The GPUs of a root complex with their seats, those that have none described included.
    fn all_seats(&self, root: u8) -> impl Iterator<Item = (u16, super::Seat)> {
        let all = (0..self.seats.len().max(MOST_GPUS)).filter_map(|gpu| u16::try_from(gpu).ok());
        let mut all: Vec<_> =
            all.map(|gpu| (gpu, self.seat(gpu))).filter(|(_, seat)| seat.root == root).collect();
        all.sort_by_key(|(gpu, seat)| (seat.bus, *gpu));
        all.into_iter()
    }
}

/// A node has no more of them.
const MOST_GPUS: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The places above a GPU, as the kernel writes them.
    fn above(host: &str, gpu: u16) -> String {
        let topology = Topology::find(host).unwrap();
        let place =
            |bridge: &Bridge| format!("{:02x}:{:02x}.{:x}", bridge.bus, bridge.device, bridge.function);
        topology.bridges(gpu).iter().map(place).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_port_for_each_card_where_there_is_no_switch() {
        assert_eq!([0, 1, 31].map(|gpu| above("plain", gpu)), ["00:01.0", "00:02.0", "00:01.1"]);
        assert_eq!([0, 4].map(|gpu| above("two-sockets", gpu)), ["16:01.0", "97:01.0"]);
    }

    #[test]
    fn a_switch_has_a_port_upwards_and_one_for_each_below() {
        assert_eq!(above("dgx-h100", 0), "10:01.0 19:00.0 1a:00.0");
        // Two switches under one: the buses between count down from the first card.
        assert_eq!(above("pcie-switches", 0), "15:01.0 16:00.0 17:00.0 18:00.0 19:00.0");
        assert_eq!(above("pcie-switches", 1), "15:01.0 16:00.0 17:00.0 18:00.0 19:01.0");
        assert_eq!(above("pcie-switches", 2), "15:01.0 16:00.0 17:01.0 3b:00.0 3c:00.0");
    }

    #[test]
    fn no_bus_of_any_host_is_two_things() {
        for host in Topology::names() {
            let topology = Topology::find(host).unwrap();
            let mut behind: BTreeMap<u8, Vec<Bridge>> = BTreeMap::new();
            for gpu in 0..u16::try_from(topology.seats.len()).unwrap() {
                let seat = topology.seat(gpu);
                let bridges = topology.bridges(gpu);
                let buses: Vec<_> = bridges.iter().map(|bridge| bridge.bus).chain([seat.bus]).collect();
                assert!(buses.windows(2).all(|pair| pair[0] < pair[1]), "{host} {gpu}: {buses:x?}");
                for (bridge, bus) in bridges.iter().zip(&buses[1..]) {
                    let bridges = behind.entry(*bus).or_default();
                    if !bridges.contains(bridge) {
                        bridges.push(*bridge);
                    }
                }
            }
            // The bus behind a bridge is behind that one only.
            assert!(behind.values().all(|bridges| bridges.len() == 1), "{host}: {behind:x?}");
            assert!(topology.seats.iter().all(|seat| !behind.contains_key(&seat.root)), "{host}");
        }
    }
}
