//! Ports for the parts of a control plane, which keep them while they are stopped and started again.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// The ports of one control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
}

/// Ports below those that the kernel gives away by itself, to whoever connects
/// or asks for any port: one of those may be somebody else's by the time that a
/// part which was ended wants to listen there again.
const LOWEST: u16 = 15_000;
/// Where the kernel's own begin when it does not say: Linux' default.
const KERNELS: u16 = 32_768;

fn range() -> Range<u16> {
    let said = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = said.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(KERNELS);
    LOWEST..first.max(LOWEST)
}

impl Ports {
    /// Ports that nobody has at this moment. Somebody may take one before we
    /// do; then the start fails, and is tried again with others.
    pub(crate) fn free() -> io::Result<Self> {
        Ok(Self { etcd: free()?, etcd_peer: free()?, api_server: free()? })
    }
}

/// A port that was not given before by this process, and that nobody has at this moment.
///
/// # Errors
/// When the machine has none.
pub fn free() -> io::Result<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let range = range();
    let many = range.end - range.start;
    // Test programs that run side by side begin at different places.
    let begin =
        u16::try_from(u64::from(std::process::id()).wrapping_mul(2_654_435_761) % u64::from(many.max(1)));
    for _ in 0..many {
        let at = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed)) + u32::from(begin.unwrap_or_default());
        let port = range.start + u16::try_from(at % u32::from(many)).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    // The kernel keeps none back for others.
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_none_that_the_kernel_gives_to_whoever_connects() {
        let all: Vec<Ports> = (0..5).map(|_| Ports::free().unwrap()).collect();
        let all: Vec<u16> = all.iter().flat_map(|p| [p.etcd, p.etcd_peer, p.api_server]).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|port| range().contains(port)), "{all:?} in {:?}", range());
    }
}
