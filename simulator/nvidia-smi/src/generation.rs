//! The differences of texts between versions of the driver: one [`Form`] for each change, with the version
//! from which it is assumed to hold.
//!
//! A change happened between two drivers whose output was published. The exact version between them is a
//! choice; `docs/simulator.md` has the two drivers of each change.

/// A version of the driver, as far as texts depend on it: `570.169` of
/// `570.169.02`. What is not a version is taken for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Driver {
    major: u32,
    minor: u32,
}

/// A change of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Deferred clocks, the board's part number.
    R520,
    /// 89 columns instead of 79, event reasons instead of throttle reasons,
    /// the power readings of board and module.
    R530,
    /// 91 columns; the log has the C2C mode and the black box. `mig -lgip`
    /// answers with MIG off.
    R545,
    /// Memory is rounded up, static memory has its own error counts, the log
    /// tells PCI classes and sparse mode, fabrics have cliques.
    R550,
    /// Wider headings of the MIG devices.
    R555,
    /// The platform's block, the recovery action and the capabilities.
    R560,
    /// Average and instantaneous power, power profiles, encryption of memory;
    /// room for long process ids.
    R570,
    /// `mig -lgip` and `-lgi` have room for names such as `1g.24gb+me.all`.
    WideProfiles,
    /// The display's mode is deprecated; counters of event reasons.
    R575,
    /// `Shared Memory-Usage`, with a cell for each compute instance; the
    /// package's identity, pending repairs, the fabric's summary.
    R580,
    /// The log has its wide column, and tells memory that cannot be repaired.
    WideLog,
    /// `Shared FB Memory Usage` of MIG devices, the EDPp multiplier;
    /// applications' clocks are deprecated; `nvlink` says of a card that it
    /// has no links.
    R590,
    /// Remapped rows that are inactive; the help's field for a fabric's partition.
    /// Seen with 595, and with 580.159.04, a late build of its branch (`r582_49`),
    /// but not with 580.173.02 nor with 590.
    LateRows,
    /// The version of the kernel's driver has a name of its own.
    R595,
}

impl Form {
    /// The driver from which on it holds.
    const fn since(self) -> Driver {
        let (major, minor) = match self {
            Self::R520 => (520, 0),
            Self::R530 => (530, 0),
            Self::R545 => (545, 0),
            Self::R550 => (550, 0),
            Self::R555 => (555, 0),
            Self::R560 => (560, 0),
            Self::R570 => (570, 0),
            Self::WideProfiles => (570, 169),
            Self::R575 => (575, 0),
            Self::R580 => (580, 0),
            Self::WideLog => (580, 126),
            Self::R590 => (590, 0),
            Self::LateRows | Self::R595 => (595, 0),
        };
        Driver { major, minor }
    }
}

impl Driver {
    /// The driver of branch 580 that has [`Form::LateRows`].
    const OF_LATE_ROWS: Self = Self { major: 580, minor: 159 };

    /// The driver of a version such as `535.183.01`.
    pub(crate) fn from_version(version: &str) -> Self {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        match parts.next() {
            Some(Some(major)) => Self { major, minor: parts.next().flatten().unwrap_or(0) },
            _ => Self { major: u32::MAX, minor: 0 },
        }
    }

    /// Whether a change holds for it.
    pub(crate) fn has(self, form: Form) -> bool {
        self >= form.since() || matches!(form, Form::LateRows) && self == Self::OF_LATE_ROWS
    }

    /// Whether the fabric's health tells of a partition: seen with late drivers
    /// of branch 580 and with 595, and not with 590 between them.
    pub(crate) fn tells_partition(self) -> bool {
        self.has(Form::WideLog) && (!self.has(Form::R590) || self.has(Form::R595))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: &str, has: &[Form], lacks: &[Form]) {
        let driver = Driver::from_version(version);
        for form in has {
            assert!(driver.has(*form), "{version} has {form:?}");
        }
        for form in lacks {
            assert!(!driver.has(*form), "{version} lacks {form:?}");
        }
    }

    #[test]
    fn each_captured_driver_is_on_its_side_of_every_change() {
        check("515.86.01", &[], &[Form::R520]);
        check("525.105.17", &[Form::R520], &[Form::R530]);
        check("535.183.01", &[Form::R530], &[Form::R545]);
        check("545.23.08", &[Form::R545], &[Form::R550]);
        check("550.54.14", &[Form::R550], &[Form::R555]);
        check("560.35.03", &[Form::R555, Form::R560], &[Form::R570]);
        check("570.148.08", &[Form::R570], &[Form::WideProfiles, Form::R575]);
        check("570.169", &[Form::WideProfiles], &[Form::R575]);
        check("575.57.08", &[Form::R575, Form::WideProfiles], &[Form::R580]);
        check("580.105.08", &[Form::R580], &[Form::WideLog]);
        check("580.126.09", &[Form::WideLog], &[Form::R590, Form::LateRows]);
        check("580.159.04", &[Form::WideLog, Form::LateRows], &[Form::R590, Form::R595]);
        check("580.173.02", &[Form::WideLog], &[Form::LateRows]);
        check("590.48.01", &[Form::R590], &[Form::LateRows, Form::R595]);
        check("595.80", &[Form::LateRows, Form::R595], &[]);
        check("unknown", &[Form::R595], &[]);
    }

    #[test]
    fn the_partition_of_a_fabric_came_to_580_before_590_had_it() {
        for (version, tells) in
            [("580.105.08", false), ("580.173.02", true), ("590.48.01", false), ("595.80", true)]
        {
            assert_eq!(Driver::from_version(version).tells_partition(), tells, "{version}");
        }
    }
}
