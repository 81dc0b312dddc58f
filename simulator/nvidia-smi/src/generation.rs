//! How texts differ between generations of the driver.
//!
//! Each generation is named after the driver of the capture that shows it. In
//! which version a form began is known only as lying between two captures;
//! where the line is drawn here is a choice, and `docs/simulator.md` says so.

/// A generation of nvidia-smi's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Generation {
    /// 79 columns; the MIG tables in their narrow form.
    R515,
    /// 89 columns.
    R535,
    /// 91 columns, with the MIG headings of before.
    R550,
    /// 91 columns, with wider MIG headings.
    R560,
    /// Room for long process ids, `Shared Memory-Usage`, and the MIG tables in
    /// their wide form.
    R580,
}

impl Generation {
    /// The generation of a driver version such as `535.183.01`. What is not a
    /// version is taken for a new one.
    pub(crate) fn of(driver: &str) -> Self {
        let major = driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(..530) => Self::R515,
            Some(530..545) => Self::R535,
            Some(545..555) => Self::R550,
            Some(555..575) => Self::R560,
            Some(575..) | None => Self::R580,
        }
    }

    /// Whether the tables of `mig` are in their wide form, which has room for
    /// names such as `1g.24gb+me.all`.
    pub(crate) fn wide(self) -> bool {
        self >= Self::R580
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_captured_driver_is_of_its_own_generation() {
        for (driver, generation) in [
            ("515.86.01", Generation::R515),
            ("535.183.01", Generation::R535),
            ("550.54.14", Generation::R550),
            ("560.35.03", Generation::R560),
            ("580.173.02", Generation::R580),
            ("610.43.02", Generation::R580),
        ] {
            assert_eq!(Generation::of(driver), generation, "{driver}");
        }
    }
}
