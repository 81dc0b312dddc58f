//! `mig -lcip`: the compute instance profiles. The form is the same in all
//! generations.

use super::Table;
use crate::snapshot::{ComputeProfile, Engines};

/// The table; a star marks the profile that `-C` takes.
pub(crate) fn compute_profiles(profiles: &[ComputeProfile]) -> String {
    let mut table = Table::headed(&[
        format!("{:<86}", " Compute instance profiles:"),
        " GPU     GPU       Name             Profile  Instances   Exclusive       Shared       ".to_owned(),
        "       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  ".to_owned(),
        "         ID                                                          CE    JPEG       ".to_owned(),
    ]);
    for profile in profiles {
        let ComputeProfile {
            gpu,
            gpu_instance,
            name,
            id,
            default,
            free,
            total,
            multiprocessors,
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
        } = profile;
        let name = format!("MIG {name}");
        let mark = if *default { '*' } else { ' ' };
        table.row(&format!(
            "{gpu:>4}{gpu_instance:>7}       {name:<18}{id:>4}{mark}{free:>6}/{total}{multiprocessors:>13}{decoder:>9}{encoder:>6}{ofa:>6}"
        ));
        table.row(&format!("{copy:>71}{jpeg:>6}"));
        table.line();
    }
    table.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn row(
        gi: u32,
        name: &str,
        id: u32,
        default: bool,
        of: (u32, u32),
        sm: u32,
        copy: u32,
    ) -> ComputeProfile {
        ComputeProfile {
            gpu: 0,
            gpu_instance: gi,
            name: name.to_owned(),
            id,
            default,
            free: of.0,
            total: of.1,
            multiprocessors: sm,
            engines: Engines { copy, decoder: 2, ..Engines::default() },
        }
    }

    #[test]
    fn a_3g_and_a_4g_of_an_a100() {
        let rows = [
            row(1, "1c.3g.40gb", 0, false, (3, 3), 14, 3),
            row(1, "2c.3g.40gb", 1, false, (1, 1), 28, 3),
            row(1, "3g.40gb", 2, true, (1, 1), 42, 3),
            row(2, "1c.4g.40gb", 0, false, (4, 4), 14, 4),
            row(2, "2c.4g.40gb", 1, false, (2, 2), 28, 4),
            row(2, "4g.40gb", 3, true, (1, 1), 56, 4),
        ];
        assert_eq!(compute_profiles(&rows), include_str!("../../tests/captures/lcip-a100-550.txt"));
    }

    #[test]
    fn a_full_2g_of_an_a30() {
        let rows = [row(2, "1c.2g.12gb", 0, false, (0, 2), 14, 2), row(2, "2g.12gb", 1, true, (0, 1), 28, 2)];
        assert_eq!(compute_profiles(&rows), include_str!("../../tests/captures/lcip-a30-535.txt"));
    }
}
