//! `-L`: the GPUs and their MIG devices, with UUIDs.

use crate::snapshot::Gpu;

/// One line for a GPU and one for each of its MIG devices.
pub(crate) fn list(gpu: &Gpu) -> String {
    let mut text = format!("GPU {}: {} (UUID: {})\n", gpu.index, gpu.name, gpu.uuid);
    for device in &gpu.devices {
        text.push_str(&format!(
            "  MIG {:<12}Device {:>2}: (UUID: {})\n",
            device.profile, device.index, device.uuid
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::MigDevice;

    fn device(index: u32, profile: &str, uuid: &str) -> MigDevice {
        MigDevice { index, profile: profile.to_owned(), uuid: uuid.to_owned(), ..MigDevice::default() }
    }

    #[test]
    fn the_h100_of_nvidias_documentation() {
        let gpu = Gpu {
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            uuid: "GPU-b4895dbf-9350-2524-a89b-98161ddd9fe4".to_owned(),
            devices: vec![
                device(0, "3g.40gb", "MIG-7089d0f3-293f-58c9-8f8c-5ea666eedbde"),
                device(1, "2g.20gb", "MIG-56c30729-347f-5dd6-8da0-c3cc59e969e0"),
                device(2, "1g.10gb", "MIG-9d14fb21-4ae1-546f-a636-011582899c39"),
                device(3, "1g.10gb", "MIG-0f709664-740c-52b0-ae79-3e4c9ede6d3b"),
            ],
            ..Gpu::default()
        };
        assert_eq!(list(&gpu), include_str!("../../tests/captures/list-h100-mixed.txt"));
    }

    #[test]
    fn a_part_of_a_gpu_instance() {
        let gpu = Gpu {
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            uuid: "GPU-0d0831da-0c98-2717-6446-8acd91d39b65".to_owned(),
            devices: vec![
                device(0, "1c.3g.40gb", "MIG-5ff0d535-9a82-5af6-80df-768b9d3ac092"),
                device(1, "1g.10gb", "MIG-8443519f-66f7-5962-8955-60dba0866f3a"),
                device(2, "1g.10gb", "MIG-ee6996fb-86fb-5405-83f0-b20887da1bb3"),
            ],
            ..Gpu::default()
        };
        assert_eq!(list(&gpu), include_str!("../../tests/captures/list-h100-parts-580.txt"));
    }
}
