//! `nvidia-smi topo` and `nvlink` on hosts with eight GPUs: they say what the host's description says.
//! What a card says that is alone is a capture's.

use crate::node::{Node, host, with};
use gpu::{Labelling, Topology};

/// A host with eight GPUs.
fn eight(name: &str, model: &str) -> Node {
    let (machine, driver) = host("580.65.06");
    let machine = machine.built_as(Topology::find(name).unwrap());
    Node::new(((0..8).fold(machine, |machine, _| with(machine, model, Labelling::V1)), driver))
}

/// The matrix of a host: for each GPU its cells, as the lines have them.
fn matrix(name: &str, model: &str) -> Vec<Vec<String>> {
    let node = eight(name, model);
    let said = node.says("nvidia-smi topo -m");
    let rows: Vec<Vec<String>> = said
        .lines()
        .filter(|line| line.starts_with("GPU"))
        .map(|line| line.split('\t').skip(1).map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert_eq!(rows.len(), 8, "{said}");
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row[i], "X", "{said}");
        for (j, other) in rows.iter().enumerate() {
            assert_eq!(row[j], other[i], "the same from both ends\n{said}");
        }
    }
    rows
}

#[test]
fn switches_and_sockets_are_told_apart() {
    let rows = matrix("pcie-switches", "A100-80GB");
    assert_eq!(rows[0][..8], ["X", "PIX", "PXB", "PXB", "SYS", "SYS", "SYS", "SYS"]);
    assert_eq!(rows[0][8..10], ["0-31,64-95", "0"]);
    assert_eq!(rows[7][8..10], ["32-63,96-127", "1"]);
    let rows = matrix("two-sockets", "A100-80GB");
    assert_eq!(rows[5][..8], ["SYS", "SYS", "SYS", "SYS", "NODE", "X", "NODE", "NODE"]);
}

#[test]
fn links_of_nvidias_own_come_before_pcie() {
    let rows = matrix("nvlink-bridges", "A100-80GB");
    assert_eq!(rows[2][..8], ["PXB", "PXB", "X", "NV12", "SYS", "SYS", "SYS", "SYS"]);
    // As a DGX H100 shows itself: all links through switches, whichever socket a GPU is at.
    let rows = matrix("dgx-h100", "H100-80GB");
    assert!(rows.iter().all(|row| row[..8].iter().filter(|cell| *cell == "NV18").count() == 7));
    assert_eq!(rows[0][8..10], ["0-55,112-167", "0"]);
}

#[test]
fn a_path_has_its_name_and_its_gpus() {
    let node = eight("pcie-switches", "A100-80GB");
    let says = |line: &str| node.says(&format!("nvidia-smi topo {line}"));
    assert_eq!(says("-p -i 0,2"), "Device 0 is connected to device 2 by way of multiple PCIe switches.\n\n");
    assert_eq!(
        says("-p -i 1,6"),
        "Device 1 is connected to device 6 by way of an SMP interconnect between NUMA nodes.\n\n"
    );
    let near = "Device 1 is connected by way of multiple PCIe switches to device(s): 2, 3\n\n";
    assert_eq!(says("-n 2 -i 1"), near);
    let none = "Device 1 is not connected to other devices by the same PCIe host bridge.\n\n";
    assert_eq!(says("-n 3 -i 1"), none);
    // As a public capture of a DGX A100 has it: two GPUs to a NUMA node.
    let dgx = eight("dgx-a100", "A100-80GB");
    let said = dgx.says("nvidia-smi topo -c 48");
    assert_eq!(said, "The GPUs that have an affinity with CPU 48 are:\n0, 1\n\n");
    let twice = node.shell("nvidia-smi topo -p -i 3,3");
    assert_eq!(twice.status, 2, "{twice:?}");
}

#[test]
fn peers_reach_each_other_unless_one_of_them_is_cut() {
    let node = eight("nvlink-bridges", "A100-80GB");
    node.says("sudo nvidia-smi -i 3 -mig 1");
    let rows = |letter: &str| -> Vec<Vec<String>> {
        let said = node.says(&format!("nvidia-smi topo -p2p {letter}"));
        let rows = said.lines().filter(|line| line.starts_with(" GPU"));
        rows.map(|line| line.trim_end_matches('\t').split('\t').skip(1).map(str::to_owned).collect())
            .collect()
    };
    let reads = rows("r");
    assert_eq!(reads[0], ["X", "OK", "OK", "NS", "OK", "OK", "OK", "OK"]);
    assert_eq!(reads[3], ["NS", "NS", "NS", "X", "NS", "NS", "NS", "NS"]);
    // Bridges join pairs; one pair has a GPU that is cut.
    let links = rows("n");
    assert_eq!(links[0], ["X", "OK", "NS", "NS", "NS", "NS", "NS", "NS"]);
    assert_eq!(links[2], ["NS", "NS", "X", "NS", "NS", "NS", "NS", "NS"]);
}

#[test]
fn links_that_are_there_are_told_by_their_status_only() {
    let node = eight("nvlink-bridges", "A100-80GB");
    let links = node.says("nvidia-smi nvlink -s -i 0");
    assert_eq!(links.lines().filter(|line| line.starts_with("\t Link ")).count(), 12, "{links}");
    let more = node.shell("nvidia-smi nvlink -c -i 0");
    assert_eq!((more.status, more.out.as_str()), (69, ""));
    assert_eq!(more.err, "nvlink -c is known to nvidia-smi, not simulated\n");
    node.says("sudo nvidia-smi -i 0 -mig 1");
    assert!(node.says("nvidia-smi nvlink -c -i 0").contains("not supported for Devices in MIG mode"));
}

/// An H100 that is alone in a virtual machine, of this driver.
fn alone(driver: &str) -> Node {
    let (machine, driver) = host(driver);
    Node::new((with(machine.passed_through(), "H100-80GB", Labelling::V1), driver))
}

#[test]
fn a_card_that_is_alone_as_captured() {
    let node = alone("580.159.04");
    for (line, capture) in [
        ("topo -p2p n", include_str!("../captures/topo-p2p-h100-580.txt")),
        ("topo -c 0", include_str!("../captures/topo-cpu-h100-580.txt")),
        ("topo -n 4 -i 0", include_str!("../captures/topo-near-h100-580.txt")),
        ("-B", include_str!("../captures/excluded-h100-580.txt")),
        ("nvlink -s", ""),
        ("nvlink -c", ""),
        ("nvlink -p", ""),
        ("nvlink -R", ""),
        ("nvlink -e", ""),
    ] {
        assert_eq!(node.says(&format!("nvidia-smi {line}")), capture, "{line}");
    }
    let stray = node.shell("nvidia-smi nvlink -r 0");
    assert_eq!((stray.status, stray.out.as_str()), (2, "Option \"0\" is not recognized.\n"));
    // Later drivers say that there is nothing.
    let said = alone("590.48.01").says("nvidia-smi nvlink -s");
    assert!(said.ends_with("\nDevice does not have or support Nvlink\n"), "{said}");
}
