//! UUIDs that are the same in every run: GPUs' from the host's name, MIG
//! devices' as the driver makes them, from the GPU and the place on it.

use sha1::{Digest, Sha1};

/// A UUID of a GPU, from the host's name and the GPU's index. Real ones are
/// not version 5; nobody may rely on their shape.
pub(crate) fn gpu(host: &str, index: u16) -> String {
    let mut hash = Sha1::new();
    hash.update(b"slicewright simulated gpu\0");
    hash.update(host.as_bytes());
    hash.update(index.to_le_bytes());
    format!("GPU-{}", hex(&hash.finalize()))
}

/// The id of one boot of a host, as the kernel would draw it at random.
pub(crate) fn boot(host: &str, count: u32) -> String {
    let mut hash = Sha1::new();
    hash.update(b"slicewright simulated boot\0");
    hash.update(host.as_bytes());
    hash.update(count.to_le_bytes());
    hex(&hash.finalize())
}

/// A UUID of a MIG device: version 5 (SHA-1) over the GPU, the GPU instance's
/// id and the graphics engine, so that the same place on the same GPU has the
/// same UUID each time it is cut. The compute instance's id plays no part.
pub(crate) fn mig(gpu_uuid: &str, gpu_instance: u8, first_slice: u8) -> String {
    let mut hash = Sha1::new();
    hash.update(gpu_uuid.as_bytes());
    hash.update([b'S', b'M', b'C', gpu_instance, first_slice]);
    let mut digest = hash.finalize();
    digest[6] = digest[6] & 0x0f | 0x50;
    digest[8] = digest[8] & 0x3f | 0x80;
    format!("MIG-{}", hex(&digest))
}

fn hex(digest: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in digest.iter().take(16).enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mig_uuid_has_version_5_and_names_the_place_only() {
        let gpu = super::gpu("host", 0);
        let a = super::mig(&gpu, 7, 0);
        assert_eq!(a.len(), "MIG-e138a708-679d-5075-ab88-ba8e298ec5d3".len());
        assert_eq!(&a[18..19], "5");
        assert!(matches!(&a[23..24], "8" | "9" | "a" | "b"));
        assert_eq!(a, super::mig(&gpu, 7, 0));
        assert_ne!(a, super::mig(&gpu, 8, 1));
        assert_ne!(a, super::mig(&super::gpu("host", 1), 7, 0));
    }
}
