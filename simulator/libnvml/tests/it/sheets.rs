//! What the data sheet of every product says of its power, its clocks and its link; and what nobody has told.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::collections::BTreeMap;

use gpu::{DriverBranch, Machine, Model};
use mig::Catalog;
use nvml_wrapper_sys::bindings::*;

use crate::support::Sim;
use crate::support::raw::*;

/// Products of which we have no figures, and why. Each is absent as NOT_SUPPORTED is.
const ABSENT: &[(&str, &[&str], &str)] = &[
    ("NVIDIA A800-SXM4-40GB", &["clock", "link"], "a transcript has its power limit, and no clocks"),
    ("NVIDIA A800 40GB Active", &["clock", "link"], "the data sheet has its power, and no clocks"),
    ("NVIDIA A800-SXM4-80GB", &["clock", "link"], "transcripts have its power limit, and no clocks"),
    ("NVIDIA A800 80GB PCIe", &["clock", "link"], "transcripts have its power limit, and no clocks"),
    ("NVIDIA H800 PCIe", &["clock", "link"], "a transcript has its power limit, and no clocks"),
    ("NVIDIA H800 NVL", &["clock", "link", "power"], "no data sheet and no transcript was found"),
    (
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        &["clock", "link"],
        "the data sheet has its power, and no clocks",
    ),
    ("NVIDIA A16", &["clock", "link"], "the data sheet is of a board with four of them behind a switch"),
    (
        "NVIDIA DGX Display",
        &["clock", "link", "power"],
        "a transcript has a limit of 50 W and no draw: a card with one and not the other is not modelled",
    ),
];

/// All products that can be simulated, with MIG and without, by name.
fn products() -> BTreeMap<String, Model> {
    let mut all = vec![Model::display()];
    for model in Catalog::builtin().models().iter().filter(|model| model.simulatable().is_ok()) {
        all.extend(model.names.iter().map(|name| Model::for_product(model, name).unwrap()));
    }
    for card in mig::sharing::cards() {
        all.extend(card.names.iter().map(|name| Model { product: name.clone(), ..Model::of_card(card) }));
    }
    all.into_iter().map(|model| (model.product.clone(), model)).collect()
}

/// What of it is not supported.
fn missing(sim: &Sim, device: nvmlDevice_t) -> Vec<&'static str> {
    let clock = ask(|mhz| unsafe {
        sim.lib.nvmlDeviceGetMaxClockInfo(device, nvmlClockType_enum_NVML_CLOCK_SM, mhz)
    });
    let link = ask(|lanes| unsafe { sim.lib.nvmlDeviceGetMaxPcieLinkWidth(device, lanes) });
    let power = ask(|mw| unsafe { sim.lib.nvmlDeviceGetPowerManagementDefaultLimit(device, mw) });
    let answers: [(&str, Result<u32, Code>); 3] = [("clock", clock), ("link", link), ("power", power)];
    let mut absent = Vec::new();
    for (what, answer) in answers {
        match answer {
            Ok(figure) => assert!(figure > 0, "{what}"),
            Err(code) => {
                assert_eq!(code, NOT_SUPPORTED, "{what}");
                absent.push(what);
            }
        }
    }
    absent
}

fn node<'m>(models: impl IntoIterator<Item = &'m Model>) -> Sim {
    let machine = Machine::new("node-a", DriverBranch(580), store::now());
    let sim =
        Sim::new(models.into_iter().fold(machine, |machine, model| machine.with_gpu(&model.clone().into())));
    sim.init().unwrap();
    sim
}

#[test]
fn every_product_says_its_clock_link_and_power_or_is_listed_with_a_reason() {
    let products: Vec<_> = products().into_values().collect();
    let mut found = BTreeMap::new();
    for some in products.chunks(8) {
        let sim = node(some);
        for (index, model) in (0u32..).zip(some) {
            let missing = missing(&sim, sim.gpu(index).unwrap());
            if !missing.is_empty() {
                found.insert(model.product.clone(), missing);
            }
        }
        sim.shutdown().unwrap();
    }
    let listed: BTreeMap<_, _> =
        ABSENT.iter().map(|(product, what, _)| ((*product).to_owned(), what.to_vec())).collect();
    assert_eq!(found, listed);
}

#[test]
fn a_product_has_the_figures_of_its_own_sheet() {
    let all = products();
    let cards = ["NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA A2", "NVIDIA A10G", "NVIDIA A16", "NVIDIA H800"];
    let sim = node(cards.map(|card| &all[card]));
    let figures = |index| {
        let device = sim.gpu(index).unwrap();
        let sm = nvmlClockType_enum_NVML_CLOCK_SM;
        let clock = ask(|mhz| unsafe { sim.lib.nvmlDeviceGetMaxClockInfo(device, sm, mhz) });
        let lanes = ask(|lanes| unsafe { sim.lib.nvmlDeviceGetMaxPcieLinkWidth(device, lanes) });
        let limit = ask(|mw| unsafe { sim.lib.nvmlDeviceGetPowerManagementDefaultLimit(device, mw) });
        (clock.ok(), lanes.ok(), limit.unwrap())
    };
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(figures),
        [
            (Some(1980), Some(16), 700_000),
            (Some(1785), Some(16), 600_000),
            (Some(1770), Some(8), 60_000),
            (Some(1710), Some(16), 300_000),
            (None, None, 62_500),
            (Some(1980), Some(16), 700_000),
        ]
    );
    sim.shutdown().unwrap();
}

#[test]
fn a_grace_hopper_is_a_card_of_its_own() {
    let all = products();
    let sim = node([&all["NVIDIA GH200 480GB"], &all["NVIDIA GH200 120GB"]]);
    for index in [0, 1] {
        let device = sim.gpu(index).unwrap();
        let memory: nvmlMemory_t = ask(|to| unsafe { sim.lib.nvmlDeviceGetMemoryInfo(device, to) }).unwrap();
        assert_eq!(memory.total >> 20, 97_871);
        let sm = |profile| {
            let info =
                ask(|info| unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfo(device, profile, info) });
            info.unwrap().multiprocessorCount
        };
        assert_eq!([0, 9, 1, 2, 3, 4].map(sm), [16, 26, 32, 60, 64, 132]);
        let pci: nvmlPciInfo_t = ask(|pci| unsafe { sim.lib.nvmlDeviceGetPciInfo_v3(device, pci) }).unwrap();
        assert_eq!(pci.pciDeviceId, 0x2342_10de);
        // Its link to the processor is not simulated.
        let c2c =
            ask(|to: &mut nvmlC2cModeInfo_v1_t| unsafe { sim.lib.nvmlDeviceGetC2cModeInfoV(device, to) });
        assert_eq!(c2c.map(|c2c| c2c.isC2cEnabled), Err(NOT_SUPPORTED));
    }
    assert_eq!(
        [0, 1].map(|index| sim.name(sim.gpu(index).unwrap()).unwrap()),
        ["NVIDIA GH200 480GB", "NVIDIA GH200 120GB"]
    );
    sim.shutdown().unwrap();
}
