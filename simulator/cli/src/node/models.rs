//! Which GPUs a node gets, in the words of the command line.

use std::str::FromStr;
use std::sync::Arc;

use gpu::{Model, PciClass};

/// Cards without MIG that can be set up: name, what NVML calls it, memory in
/// MiB as nvidia-smi shows it, PCI class.
const WITHOUT_MIG: &[(&str, &str, u32, PciClass)] = &[
    ("display", "NVIDIA DGX Display", 3911, PciClass::Vga),
    ("t4", "Tesla T4", 15_360, PciClass::ThreeD),
    ("v100-32gb", "Tesla V100-SXM2-32GB", 32_768, PciClass::ThreeD),
];

/// A model and how many of it.
#[derive(Clone, Debug)]
pub(super) struct Gpus {
    pub(super) model: Arc<Model>,
    pub(super) count: u16,
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = match text.split_once('=') {
            Some((name, count)) => (name.trim(), count.trim()),
            None => (text.trim(), "1"),
        };
        let Ok(count @ 1..=32) = count.parse() else {
            return Err(format!("`{count}` is no number of GPUs: 1 to 32 are possible"));
        };
        Ok(Self { model: model(name)?, count })
    }
}

fn model(name: &str) -> Result<Arc<Model>, String> {
    let known = WITHOUT_MIG
        .iter()
        .find(|(id, product, ..)| id.eq_ignore_ascii_case(name) || product.eq_ignore_ascii_case(name));
    if let Some((_, product, memory_mib, class)) = known {
        return Ok(Arc::new(Model::without_mig(product, *memory_mib, *class)));
    }
    let others = || WITHOUT_MIG.iter().map(|(id, ..)| *id).collect::<Vec<_>>().join(", ");
    Model::find(name).map_err(|error| format!("{error}; without MIG: {}", others()))
}
