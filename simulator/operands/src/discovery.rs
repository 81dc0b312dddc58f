//! The labels that NFD, the Operator and GPU feature discovery (GFD) write onto the node. Pure functions of
//! the hardware and the setup.

use std::collections::{BTreeMap, BTreeSet};

use gpu::{ComputeInstance, Engines, Gpu, GpuInstance, Machine, PciClass};
use mig::model::product_label;

use crate::devices::{Devices, devices, seen};
use crate::operand::Operand;
use crate::setup::{Flavour, Setup, Stack, Strategy};
use crate::sharing::{Method, PluginConfig};
use crate::version::PluginVersion;

type Labels = BTreeMap<String, String>;

/// The labels that are there before any GPU software runs, and those that the
/// Operator adds because of them.
pub(crate) fn identity(host: &str, machine: &Machine, setup: &Setup) -> Labels {
    let mut labels = Labels::new();
    let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    put("kubernetes.io/hostname", host);
    put("kubernetes.io/os", "linux");
    put("kubernetes.io/arch", "amd64");
    put("feature.node.kubernetes.io/kernel-version.full", "5.14.0-570.el9.x86_64");
    match setup.flavour {
        Flavour::OpenShift => {
            put("feature.node.kubernetes.io/system-os_release.ID", "rhcos");
            put("feature.node.kubernetes.io/system-os_release.VERSION_ID", "4.20");
            put("feature.node.kubernetes.io/system-os_release.OSTREE_VERSION", "9.6.20260901-0");
        }
        Flavour::Helm => {
            put("feature.node.kubernetes.io/system-os_release.ID", "ubuntu");
            put("feature.node.kubernetes.io/system-os_release.VERSION_ID", "24.04");
        }
    }
    if machine.gpus().is_empty() {
        return labels;
    }
    let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    put("feature.node.kubernetes.io/pci-10de.present", "true");
    for gpu in machine.gpus() {
        match gpu.model.pci_class {
            PciClass::ThreeD => put("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
            PciClass::Vga => put("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
        };
    }
    put("nvidia.com/gpu.present", "true");
    for key in deploy_labels(machine, setup.stack) {
        put(key, "true");
    }
    labels
}

/// The deploy labels that the Operator keeps on a node with these GPUs.
pub(crate) fn deploy_labels(machine: &Machine, stack: Stack) -> Vec<&'static str> {
    if machine.gpus().is_empty() {
        return Vec::new();
    }
    if stack == Stack::Dra {
        return vec![
            "nvidia.com/gpu.deploy.driver",
            "nvidia.com/gpu.deploy.dra-driver",
            "nvidia.com/gpu.deploy.dra-validator",
            "nvidia.com/gpu.deploy.dcgm-dra",
            "nvidia.com/gpu.deploy.dcgm-exporter-dra",
        ];
    }
    let mut keys = vec![
        "nvidia.com/gpu.deploy.driver",
        "nvidia.com/gpu.deploy.container-toolkit",
        "nvidia.com/gpu.deploy.node-status-exporter",
    ];
    let capable = machine.gpus().iter().any(|gpu| gpu.mode.is_some());
    let operands = Operand::ALL.iter().filter(|o| **o != Operand::MigManager || capable);
    let operands = operands.filter(|o| **o != Operand::MpsControlDaemon);
    keys.extend(operands.map(|o| o.deploy_label()));
    keys
}

/// The label that says that MPS's server is wanted.
pub(crate) const MPS_CAPABLE: &str = "nvidia.com/mps.capable";

/// The labels that GFD writes for the hardware as it is now.
pub(crate) fn gfd(
    machine: &Machine,
    strategy: Strategy,
    version: PluginVersion,
    config: &PluginConfig,
) -> Labels {
    let mut labels = Labels::new();
    let mut put = |key: String, value: String| {
        labels.insert(format!("nvidia.com/{key}"), value);
    };
    put("gfd.timestamp".into(), machine.now().as_second().to_string());
    put("cuda.driver-version.major".into(), machine.driver().0.to_string());
    let gpus: Vec<&Gpu> = seen(machine).collect();
    let classes: BTreeSet<_> = gpus.iter().map(|gpu| gpu.model.pci_class).collect();
    let mode = match classes.into_iter().collect::<Vec<_>>()[..] {
        [PciClass::ThreeD] => "compute",
        [PciClass::Vga] => "graphics",
        _ => "unknown",
    };
    put("gpu.mode".into(), mode.into());
    put("mig.capable".into(), gpus.iter().any(|gpu| gpu.mode.is_some()).to_string());
    let by_mps = config.sharing.as_ref().is_some_and(|sharing| sharing.method == Method::Mps);
    put("mps.capable".into(), (by_mps && !gpus.iter().any(|gpu| gpu.mig_is_on())).to_string());
    match strategy {
        Strategy::Single => put("mig.strategy".into(), "single".into()),
        Strategy::Mixed => put("mig.strategy".into(), "mixed".into()),
        Strategy::None | Strategy::Configured => {}
    }
    // Several models on a node overwrite one another; which one stays is the
    // order of a hash map there, and the order of names here.
    let mut products: BTreeMap<String, Vec<&Gpu>> = BTreeMap::new();
    for gpu in &gpus {
        products.entry(product_label(&gpu.model.product)).or_default().push(gpu);
    }
    for (product, gpus) in &products {
        full(&mut put, product, gpus, config);
    }
    match (strategy, devices(machine, strategy, version, &PluginConfig::default())) {
        (Strategy::None | Strategy::Configured, _) => {}
        (Strategy::Mixed, _) => mixed(&mut put, &gpus, config),
        (Strategy::Single, Devices::Of(_)) => single(&mut put, &gpus, config),
        (Strategy::Single, Devices::CrashLoop(_)) => {
            for product in products.keys() {
                put("gpu.product".into(), format!("{product}-MIG-INVALID"));
            }
            for key in ["gpu.count", "gpu.replicas", "gpu.memory"] {
                put(key.into(), "0".into());
            }
            put("gpu.sharing-strategy".into(), String::new());
        }
    }
    labels
}

/// Product, replicas and the way of sharing of a resource, which is named in
/// the labels as if it were not renamed.
fn shared(put: &mut impl FnMut(String, String), resource: &str, product: &str, config: &PluginConfig) {
    let replicas = config.replicas(&format!("nvidia.com/{resource}"));
    let sharing = config.sharing.as_ref().filter(|_| replicas > 1);
    let suffix = if sharing.is_some_and(|sharing| !sharing.renamed) { "-SHARED" } else { "" };
    put(format!("{resource}.product"), format!("{product}{suffix}"));
    put(format!("{resource}.replicas"), replicas.to_string());
    let by = sharing.map_or("none", |sharing| sharing.method.label());
    put(format!("{resource}.sharing-strategy"), by.to_owned());
}

fn full(put: &mut impl FnMut(String, String), product: &str, gpus: &[&Gpu], config: &PluginConfig) {
    let Some(first) = gpus.first() else { return };
    if gpus.iter().all(|gpu| gpu.mig_is_on()) {
        put("gpu.product".into(), product.to_owned());
        put("gpu.replicas".into(), "0".into());
        put("gpu.sharing-strategy".into(), "none".into());
    } else {
        shared(put, "gpu", product, config);
    }
    put("gpu.count".into(), gpus.len().to_string());
    put("gpu.memory".into(), first.model.memory_mib.to_string());
    if let Some((major, minor)) = first.model.compute_capability {
        put("gpu.family".into(), family(major, minor).to_owned());
        put("gpu.compute.major".into(), major.to_string());
        put("gpu.compute.minor".into(), minor.to_string());
    }
}

/// The architecture, as GFD calls it.
const fn family(major: u8, minor: u8) -> &'static str {
    match (major, minor) {
        (6, _) => "pascal",
        (7, 0..5) => "volta",
        (7, _) => "turing",
        (8, 0..9) => "ampere",
        (8, _) => "ada-lovelace",
        (9, _) => "hopper",
        (10 | 12, _) => "blackwell",
        _ => "undefined",
    }
}

/// A profile's name in keys and values: a label may not have a `+`.
fn label_of(gpu: &Gpu, gi: &GpuInstance, ci: &ComputeInstance) -> String {
    gpu.mig_profile_name(gi, ci).replace('+', ".")
}

/// A family of labels for each profile that is there.
fn mixed(put: &mut impl FnMut(String, String), gpus: &[&Gpu], config: &PluginConfig) {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for gpu in gpus {
        for (gi, ci) in gpu.mig_devices() {
            let facts = gpu.profile_of(gi);
            let profile = label_of(gpu, gi, ci);
            let resource = format!("mig-{profile}");
            let count = counts.entry(resource.clone()).or_insert(0);
            *count += 1;
            put(format!("{resource}.count"), count.to_string());
            let product = format!("{}-MIG-{profile}", product_label(&gpu.model.product));
            shared(put, &resource, &product, config);
            slice(put, &resource, facts, ci.slices);
        }
    }
}

/// The labels of the GPU, turned into those of its slices.
fn single(put: &mut impl FnMut(String, String), gpus: &[&Gpu], config: &PluginConfig) {
    let count: usize = gpus.iter().map(|gpu| gpu.mig_devices().count()).sum();
    for gpu in gpus {
        let Some((gi, ci)) = gpu.mig_devices().next() else { continue };
        let facts = gpu.profile_of(gi);
        let profile = label_of(gpu, gi, ci);
        let product = format!("{}-MIG-{profile}", product_label(&gpu.model.product));
        shared(put, "gpu", &product, config);
        put("gpu.count".into(), count.to_string());
        slice(put, "gpu", facts, ci.slices);
    }
}

fn slice(put: &mut impl FnMut(String, String), resource: &str, facts: &gpu::ProfileFacts, ci_slices: u8) {
    put(format!("{resource}.memory"), facts.memory_mib.to_string());
    put(format!("{resource}.multiprocessors"), facts.sm.to_string());
    put(format!("{resource}.slices.gi"), facts.slices.to_string());
    put(format!("{resource}.slices.ci"), ci_slices.to_string());
    let Engines { copy, decoder, encoder, jpeg, ofa } = facts.engines;
    for (engine, n) in
        [("copy", copy), ("decoder", decoder), ("encoder", encoder), ("jpeg", jpeg), ("ofa", ofa)]
    {
        put(format!("{resource}.engines.{engine}"), n.to_string());
    }
}
