use super::*;

fn matrix(name: &str, gpus: u16) -> Vec<String> {
    let topology = Topology::find(name).unwrap();
    let cell = |one, other| match (topology.nearness(one, other), topology.links_between(one, other)) {
        (Nearness::Same, _) => "X".to_owned(),
        (_, links @ 1..) => format!("NV{links}"),
        (Nearness::OneSwitch, 0) => "PIX".to_owned(),
        (Nearness::Switches, 0) => "PXB".to_owned(),
        (Nearness::HostBridge, 0) => "PHB".to_owned(),
        (Nearness::NumaNode, 0) => "NODE".to_owned(),
        (Nearness::System, 0) => "SYS".to_owned(),
    };
    (0..gpus).map(|one| (0..gpus).map(|other| cell(one, other)).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn hosts_are_as_topo_prints_them() {
    assert_eq!(matrix("plain", 2), ["X PHB", "PHB X"]);
    assert_eq!(matrix("two-sockets", 8)[1], "NODE X NODE NODE SYS SYS SYS SYS");
    assert_eq!(matrix("pcie-switches", 8)[0], "X PIX PXB PXB SYS SYS SYS SYS");
    assert_eq!(matrix("nvlink-bridges", 8)[3], "PXB PXB NV12 X SYS SYS SYS SYS");
    assert_eq!(matrix("dgx-station-a100", 4)[2], "NV4 NV4 X NV4");
    assert_eq!(matrix("dgx-a100", 8)[7], "NV12 NV12 NV12 NV12 NV12 NV12 NV12 X");
    assert_eq!(matrix("dgx-h100", 8)[0], "X NV18 NV18 NV18 NV18 NV18 NV18 NV18");
    let dgx = Topology::find("DGX-A100").unwrap();
    assert_eq!((dgx.nearness(0, 1), dgx.nearness(1, 2)), (Nearness::Switches, Nearness::System));
    assert_eq!(dgx.cpus(0, false), [(48, 63), (176, 191)]);
    assert_eq!(dgx.cpus(7, true).len(), 8);
}

#[test]
fn every_description_is_consistent() {
    assert_eq!(hosts::all().iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), Topology::names());
    for host in hosts::all() {
        let gpus = 0..u16::try_from(host.seats.len()).unwrap();
        let mut buses: Vec<_> = host.seats.iter().map(|seat| seat.bus).collect();
        buses.sort_unstable();
        buses.dedup();
        assert_eq!(buses.len(), host.seats.len(), "{}: two GPUs on one bus", host.name);
        for seat in &host.seats {
            assert!(
                seat.bus >= seat.root && usize::from(seat.numa) < host.numa.len(),
                "{}: {seat:?}",
                host.name
            );
        }
        for one in gpus.clone() {
            for other in gpus.clone() {
                assert_eq!(host.nearness(one, other), host.nearness(other, one), "{}", host.name);
                assert_eq!(host.links_between(one, other), host.links_between(other, one), "{}", host.name);
                assert_eq!(host.nearness(one, other) == Nearness::Same, one == other);
                let (a, b) = (host.seat(one), host.seat(other));
                assert!(
                    a.root != b.root || a.numa == b.numa,
                    "{}: a root complex on two NUMA nodes",
                    host.name
                );
            }
        }
    }
}

#[test]
fn a_machine_that_nobody_described_is_refused_with_those_that_there_are() {
    let error = Topology::find("dgx-z").unwrap_err().to_string();
    assert!(error.starts_with("there is no machine `dgx-z`: plain, two-sockets"), "{error}");
}
