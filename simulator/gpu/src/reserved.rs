//! What the driver and its firmware keep of a card's memory for themselves,
//! as captures show it.
//!
//! It differs by card, by generation of the driver, and on some cards by MIG
//! mode, but also between hosts: H100s with driver 550 were seen with 335 MiB at
//! one provider and with 564 MiB at another. A simulated card has what one
//! capture shows. A card of which there is no capture reserves nothing.

use crate::DriverBranch;

/// One capture. It holds from this driver on, until the next capture of the
/// same card; the first one holds for older drivers, too.
struct Seen {
    product: &'static str,
    driver: u16,
    /// In KiB, since cards reserve a number of MiB that is not whole. Where
    /// `nvidia-smi` alone is known, which writes whole MiB, half a MiB stands
    /// for the part that is not known.
    kib: u32,
    /// With MIG on, where that was seen to differ.
    kib_with_mig: Option<u32>,
}

/// MiB and a half.
const fn and_a_half(mib: u32) -> u32 {
    mib * 1024 + 512
}

/// Drivers before this one do not tell what they reserve.
const FIRST: u16 = 510;

/// Sorted by product and driver.
const SEEN: &[Seen] = &[
    // `-q` of 580.126.09 without MIG; the table of 580 with MIG, by the share of the address window that slices have.
    Seen {
        product: "NVIDIA A100-SXM4-40GB",
        driver: 580,
        kib: and_a_half(519),
        kib_with_mig: Some(358 * 1024),
    },
    // `-q` of 525.60.13 and of 555.42.02.
    Seen { product: A100_80GB, driver: 525, kib: and_a_half(834), kib_with_mig: None },
    Seen { product: A100_80GB, driver: 555, kib: and_a_half(762), kib_with_mig: None },
    // NVML itself, driver 550.90.07: 351,666,176 bytes; driver 580.159.04 without MIG: 503,316,480 bytes. `-q` of
    // 590.48.01, with slices that 580 shares out alike.
    Seen { product: H100_SXM, driver: 550, kib: 343_424, kib_with_mig: None },
    Seen { product: H100_SXM, driver: 580, kib: 491_520, kib_with_mig: Some(and_a_half(478)) },
    // `-q` of 550.90.12; NVML itself, driver 580.159.04 without MIG: 644,939,776 bytes; the shares of slices with 580.
    Seen { product: "NVIDIA H200", driver: 550, kib: and_a_half(699), kib_with_mig: None },
    Seen { product: "NVIDIA H200", driver: 580, kib: 629_824, kib_with_mig: Some(and_a_half(614)) },
    // `-q` of 530.30.02, 550.90.07 and 595.80.
    Seen { product: "Tesla T4", driver: 530, kib: and_a_half(393), kib_with_mig: None },
    Seen { product: "NVIDIA L4", driver: 550, kib: and_a_half(555), kib_with_mig: None },
    Seen { product: "NVIDIA L40S", driver: 595, kib: and_a_half(608), kib_with_mig: None },
];

const A100_80GB: &str = "NVIDIA A100-SXM4-80GB";
const H100_SXM: &str = "NVIDIA H100 80GB HBM3";

/// What the driver reserves on a card of this product, in KiB.
pub(crate) fn reserved_kib(product: &str, driver: DriverBranch, mig_is_on: bool) -> u32 {
    if driver.0 < FIRST {
        return 0;
    }
    let of_it = || SEEN.iter().filter(|seen| seen.product == product);
    let seen = of_it().rfind(|seen| seen.driver <= driver.0).or_else(|| of_it().next());
    seen.map_or(0, |seen| seen.kib_with_mig.filter(|_| mig_is_on).unwrap_or(seen.kib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(product: &str, driver: u16, mig_is_on: bool, kib: u32) {
        assert_eq!(reserved_kib(product, DriverBranch(driver), mig_is_on), kib, "{product}, {driver}");
    }

    #[test]
    fn a_capture_holds_from_its_driver_on_and_the_first_one_before_it() {
        check("NVIDIA H100 80GB HBM3", 535, false, 343_424);
        check("NVIDIA H100 80GB HBM3", 579, true, 343_424);
        check("NVIDIA H100 80GB HBM3", 610, true, 489_984);
        check("NVIDIA H100 80GB HBM3", 580, false, 491_520);
        check("NVIDIA A100-SXM4-40GB", 590, false, 531_968);
        check("NVIDIA A100-SXM4-40GB", 590, true, 366_592);
    }

    #[test]
    fn old_drivers_and_cards_that_nobody_captured_reserve_nothing() {
        check("NVIDIA A100-SXM4-80GB", 470, false, 0);
        check("NVIDIA H100 80GB HBM3 MIG", 590, false, 0);
        check("Tesla P4", 580, false, 0);
    }

    #[test]
    fn the_captures_of_a_card_are_in_the_order_of_their_drivers() {
        for pair in SEEN.windows(2) {
            let same = pair[0].product == pair[1].product;
            assert!(!same || pair[0].driver < pair[1].driver, "{}", pair[1].product);
        }
    }
}
