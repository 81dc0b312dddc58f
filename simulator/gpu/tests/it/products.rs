//! The products of a model are cards of their own: each with its PCI id and its power.

use gpu::{DriverBranch, Load, Machine, Model, without_mig};
use jiff::Timestamp;
use mig::Catalog;

/// A host with one GPU of each product.
fn host(products: &[&str]) -> Machine {
    let machine = Machine::new("node-a", DriverBranch(580), Timestamp::UNIX_EPOCH);
    products.iter().fold(machine, |machine, product| machine.with_gpu(&Model::find(product).unwrap()))
}

/// Every product of which a GPU can be simulated.
fn products() -> Vec<&'static str> {
    let models = Catalog::builtin().models().iter().filter(|model| model.simulatable().is_ok());
    models.flat_map(|model| &model.names).map(String::as_str).collect()
}

#[test]
fn each_product_has_the_pci_id_by_which_a_device_filter_chooses_it() {
    let ids = [
        ("NVIDIA A100-SXM4-40GB", 0x20b0),
        ("NVIDIA A100-PCIE-40GB", 0x20f1),
        ("NVIDIA A800-SXM4-40GB", 0x20bd),
        ("NVIDIA A800 40GB Active", 0x20f6),
        ("NVIDIA A100-SXM4-80GB", 0x20b2),
        // The card of seed 000.
        ("NVIDIA A100 80GB PCIe", 0x20b5),
        ("NVIDIA A800-SXM4-80GB", 0x20f3),
        ("NVIDIA A800 80GB PCIe", 0x20f5),
        ("NVIDIA A30", 0x20b7),
        ("NVIDIA H100 80GB HBM3", 0x2330),
        ("NVIDIA H100 PCIe", 0x2331),
        ("NVIDIA H800", 0x2324),
        ("NVIDIA H800 PCIe", 0x2322),
        ("NVIDIA H100 NVL", 0x2321),
        ("NVIDIA H800 NVL", 0x233a),
        // Two names of one card, beside more or less memory of its processor.
        ("NVIDIA GH200 480GB", 0x2342),
        ("NVIDIA GH200 120GB", 0x2342),
        ("NVIDIA H200", 0x2335),
        ("NVIDIA H200 NVL", 0x233b),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2bb5),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 0x2bb1),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 0x2bb4),
    ];
    let mut known: Vec<_> = ids.map(|(product, _)| product).to_vec();
    let mut all = products();
    known.sort_unstable();
    all.sort_unstable();
    assert_eq!(all, known, "a product is in the catalogue, and not in this table");
    let machine = host(&ids.map(|(product, _)| product));
    for (gpu, (product, id)) in machine.gpus().iter().zip(ids) {
        assert_eq!((gpu.model.product.as_str(), gpu.model.pci_device), (product, Some(id)));
    }
}

#[test]
fn a_pcie_card_has_the_multiprocessors_of_one() {
    let machine = host(&["NVIDIA H800", "NVIDIA H800 PCIe", "NVIDIA H200 NVL"]);
    let whole = |index| machine.gpu(index).unwrap().mig().unwrap().profiles.iter().map(|p| p.sm).max();
    assert_eq!([0, 1, 2].map(whole), [Some(132), Some(114), Some(132)]);
}

#[test]
fn no_product_draws_what_was_seen_of_another() {
    let all = products();
    let machine = host(&all);
    let mut measured = Vec::new();
    for gpu in machine.gpus() {
        let Some(full) = gpu.default_power_limit_mw() else { continue };
        let draws = [Load::Rest, Load::Open, Load::Work].map(|load| gpu.power_mw(load).unwrap());
        if draws != [full / 6, full / 5, full / 5 * 4] {
            measured.push(gpu.model.product.as_str());
        }
    }
    assert_eq!(measured, ["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "two were seen at rest and at work");
    let limit = |product| host(&[product]).gpu(0).unwrap().default_power_limit_mw();
    assert_eq!([limit("NVIDIA H200"), limit("NVIDIA H200 NVL")], [Some(700_000), Some(600_000)]);
}

#[test]
fn whoever_names_no_gpu_is_told_all_that_there_are() {
    let named = |text| Model::named(text).map(|model| model.product.clone());
    assert_eq!(named("Display").unwrap(), "NVIDIA DGX Display");
    assert_eq!(named("l40s").unwrap(), "NVIDIA L40S");
    assert_eq!(named("NVIDIA H200 NVL").unwrap(), "NVIDIA H200 NVL");
    let told = named("voodoo2").unwrap_err().to_string();
    assert!(told.starts_with("no GPU model with MIG is called `voodoo2`. Known are A100-40GB, "), "{told}");
    assert!(told.ends_with(&format!("; without MIG: {}", without_mig().join(", "))), "{told}");
    assert!(named("B200").unwrap_err().to_string().contains("B200"));
}
