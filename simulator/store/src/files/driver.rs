//! The files of NVIDIA's driver, and of the kernel about it: the list of modules, the files under `/proc`, and the
//! device files.
//!
//! Formats are those that NVIDIA's MIG user guide and the programs that read
//! them show; figures that say nothing about GPUs (sizes of modules, the
//! numbers of interrupts) are plausible constants.

use std::sync::OnceLock;

use gpu::Gpu;

use super::tree::{Entry, Tree};
use super::{CAPS_MAJOR, NVIDIA_MAJOR, UVM_MAJOR, pci};

/// The most GPUs, GPU instances and compute instances that have numbers.
const GPUS: u32 = 32;
const INSTANCES: u32 = 15;
const COMPUTE: u32 = 8;

/// The minor number of a GPU instance's capability.
const fn instance_minor(gpu: u32, gi: u32) -> u32 {
    3 + gpu * INSTANCES * (COMPUTE + 1) + gi * (COMPUTE + 1)
}

/// The minor number of a compute instance's capability.
const fn compute_minor(gpu: u32, gi: u32, ci: u32) -> u32 {
    instance_minor(gpu, gi) + 1 + ci
}

/// What the driver has on every node.
pub(super) fn node(tree: &mut Tree, version: &str) {
    let modules = [
        ("nvidia_uvm", 2_068_480, 0, ""),
        ("nvidia_modeset", 1_798_144, 0, ""),
        ("nvidia", 14_352_384, 2, "nvidia_uvm,nvidia_modeset,"),
    ];
    let line = |(name, size, users, by): (&str, u32, u32, &str)| {
        let by = if by.is_empty() { "-" } else { by };
        format!("{name} {size} {users} {by} Live 0x0000000000000000 (OE)\n")
    };
    tree.text("proc/modules", modules.map(line).concat());
    tree.text(
        "proc/devices",
        format!(
            "Character devices:\n{NVIDIA_MAJOR} nvidia\n{NVIDIA_MAJOR} nvidia-modeset\n{NVIDIA_MAJOR} nvidiactl\n{CAPS_MAJOR} nvidia-caps\n{UVM_MAJOR} nvidia-uvm\n\nBlock devices:\n"
        ),
    );
    tree.text(
        "proc/driver/nvidia/version",
        format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  simulated by Slicewright\nGCC version:\n"),
    );
    tree.text(
        "proc/driver/nvidia/params",
        "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\nModifyDeviceFiles: 1\n",
    );
    tree.text("sys/module/nvidia/version", format!("{version}\n"));
    tree.text("sys/module/nvidia/initstate", "live\n");
    tree.text("sys/class/dmi/id/product_name", "Slicewright simulated node\n");
    tree.device("dev/nvidiactl", NVIDIA_MAJOR, 255, 0o666);
    tree.device("dev/nvidia-modeset", NVIDIA_MAJOR, 254, 0o666);
    tree.device("dev/nvidia-uvm", UVM_MAJOR, 0, 0o666);
    tree.device("dev/nvidia-uvm-tools", UVM_MAJOR, 1, 0o666);
}

/// What it has of a card.
pub(super) fn card(tree: &mut Tree, index: u32, gpu: &Gpu, version: &str) {
    let address = pci::address(gpu);
    let information = format!(
        "Model: \t\t {}\nIRQ:   \t\t {}\nGPU UUID: \t {}\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {address}\nDevice Minor: \t {index}\nGPU Firmware: \t {version}\nGPU Excluded:\t No\n",
        gpu.model.product,
        100 + index,
        gpu.uuid,
    );
    tree.text(format!("proc/driver/nvidia/gpus/{address}/information"), information);
    tree.device(format!("dev/nvidia{index}"), NVIDIA_MAJOR, index, 0o666);
}

/// What it has of the instances on a card that can be cut.
pub(super) fn instances(tree: &mut Tree, index: u32, gpu: &Gpu) {
    let folder = format!("gpu{index}/mig");
    tree.add(format!("proc/driver/nvidia/capabilities/{folder}"), Entry::Folder);
    for gi in gpu.instances.values() {
        let id = u32::from(gi.id);
        capability(tree, &format!("{folder}/gi{id}/access"), instance_minor(index, id), 0o444);
        for ci in gi.compute.keys() {
            let minor = compute_minor(index, id, u32::from(*ci));
            capability(tree, &format!("{folder}/gi{id}/ci{ci}/access"), minor, 0o444);
        }
    }
}

/// What it has where a card can be cut.
pub(super) fn capabilities(tree: &mut Tree) {
    capability(tree, "mig/config", 1, 0o400);
    capability(tree, "mig/monitor", 2, 0o444);
    tree.text("proc/driver/nvidia-caps/mig-minors", mig_minors());
}

/// A capability: the file that says its minor number, and its device file.
fn capability(tree: &mut Tree, path: &str, minor: u32, mode: u32) {
    let content = format!("DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n");
    tree.text(format!("proc/driver/nvidia/capabilities/{path}"), content);
    tree.device(format!("dev/nvidia-caps/nvidia-cap{minor}"), CAPS_MAJOR, minor, mode);
}

/// The minor numbers of everything that there can be.
fn mig_minors() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut text = "config 1\nmonitor 2\n".to_owned();
        for gpu in 0..GPUS {
            for gi in 0..INSTANCES {
                text.push_str(&format!("gpu{gpu}/gi{gi}/access {}\n", instance_minor(gpu, gi)));
                for ci in 0..COMPUTE {
                    text.push_str(&format!("gpu{gpu}/gi{gi}/ci{ci}/access {}\n", compute_minor(gpu, gi, ci)));
                }
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_those_of_the_guide() {
        let text = mig_minors();
        assert!(text.starts_with("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"));
        assert!(text.ends_with("gpu31/gi14/ci6/access 4321\ngpu31/gi14/ci7/access 4322\n"));
        // GPU instance 1 and its three compute instances are caps 12 to 15.
        assert_eq!([instance_minor(0, 1), compute_minor(0, 1, 0), compute_minor(0, 1, 2)], [12, 13, 15]);
    }
}
