//! `nvidia-smi topo -m` on hosts with eight GPUs: the matrix says what the host's description says.

use crate::node::{Node, host, with};
use gpu::{Labelling, Topology};

/// The matrix of a host: for each GPU its cells, as the lines have them.
fn matrix(name: &str, model: &str) -> Vec<Vec<String>> {
    let (machine, driver) = host("580.65.06");
    let machine = machine.built_as(Topology::find(name).unwrap());
    let node = Node::new(((0..8).fold(machine, |machine, _| with(machine, model, Labelling::V1)), driver));
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
