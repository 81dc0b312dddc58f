//! `mig -lgip`: the GPU instance profiles.

use super::{Table, gib};
use crate::generation::{Driver, Form};
use crate::snapshot::{Engines, GpuProfile};

/// The table, in the form of a driver.
pub(crate) fn gpu_profiles(profiles: &[GpuProfile], driver: Driver) -> String {
    let name_width = if driver.has(Form::WideProfiles) { 18 } else { 16 };
    let gap = " ".repeat(name_width - 16);
    let mut table = Table::headed(&[
        format!("{:<w$}", " GPU instance profiles:", w = 61 + name_width),
        format!(" GPU   Name             {gap}ID    Instances   Memory     P2P    SM    DEC   ENC  "),
        format!("                              {gap}Free/Total   GiB              CE    JPEG  OFA  "),
    ]);
    for profile in profiles {
        let GpuProfile {
            gpu,
            name,
            id,
            free,
            total,
            memory,
            peer_to_peer,
            multiprocessors,
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
        } = profile;
        let name = format!("MIG {name}");
        let peers = if *peer_to_peer { "Yes" } else { "No" };
        let memory = gib(*memory);
        table.row(&format!(
            "{gpu:>4}  {name:<name_width$}{id:>4}{free:>6}/{total:<9}{memory:<11}{peers:<7}{multiprocessors:<7}{decoder:<6}{encoder:<4}"
        ));
        table.row(&format!("{copy:>w$}     {jpeg:<6}{ofa:<4}", w = 46 + name_width));
        table.line();
    }
    table.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn row(id: u32, name: &str, of: (u32, u32), memory: u64, sm: u32, engines: [u32; 5]) -> GpuProfile {
        let [decoder, encoder, copy, jpeg, ofa] = engines;
        GpuProfile {
            gpu: 0,
            name: name.to_owned(),
            id,
            free: of.0,
            total: of.1,
            memory,
            peer_to_peer: false,
            multiprocessors: sm,
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
        }
    }

    fn h100(free: [u32; 7]) -> Vec<GpuProfile> {
        vec![
            row(19, "1g.10gb", (free[0], 7), 9984, 16, [1, 0, 1, 1, 0]),
            row(20, "1g.10gb+me", (free[1], 1), 9984, 16, [1, 0, 1, 1, 1]),
            row(15, "1g.20gb", (free[2], 4), 20096, 26, [1, 0, 1, 1, 0]),
            row(14, "2g.20gb", (free[3], 3), 20096, 32, [2, 0, 2, 2, 0]),
            row(9, "3g.40gb", (free[4], 2), 40448, 60, [3, 0, 3, 3, 0]),
            row(5, "4g.40gb", (free[5], 1), 40448, 64, [4, 0, 4, 4, 0]),
            row(0, "7g.80gb", (free[6], 1), 81152, 132, [7, 0, 8, 7, 1]),
        ]
    }

    #[test]
    fn an_h100_in_both_widths() {
        let rows = h100([7, 1, 4, 3, 2, 1, 1]);
        let narrow = include_str!("../../tests/captures/lgip-h100-narrow.txt");
        assert_eq!(gpu_profiles(&rows, Driver::from_version("560")), narrow);
        let wide = include_str!("../../tests/captures/lgip-h100-580.txt");
        assert_eq!(gpu_profiles(&rows, Driver::from_version("580")), wide);
    }

    #[test]
    fn an_h100_with_instances() {
        let cut = include_str!("../../tests/captures/lgip-h100-cut-580.txt");
        assert_eq!(gpu_profiles(&h100([1, 0, 0, 0, 0, 0, 0]), Driver::from_version("580")), cut);
    }

    #[test]
    fn an_rtx_pro_6000_and_its_long_names() {
        let rows = [
            row(14, "1g.24gb", (4, 4), 24192, 46, [1, 1, 1, 1, 0]),
            row(21, "1g.24gb+me", (1, 1), 24192, 46, [1, 1, 1, 1, 1]),
            row(47, "1g.24gb+gfx", (4, 4), 24192, 46, [1, 1, 1, 1, 0]),
            row(65, "1g.24gb+me.all", (1, 1), 24192, 46, [4, 4, 1, 4, 1]),
            row(67, "1g.24gb-me", (4, 4), 24192, 46, [0, 0, 1, 0, 0]),
            row(5, "2g.48gb", (2, 2), 48512, 94, [2, 2, 2, 2, 0]),
            row(35, "2g.48gb+gfx", (2, 2), 48512, 94, [2, 2, 2, 2, 0]),
            row(64, "2g.48gb+me.all", (1, 1), 48512, 94, [4, 4, 2, 4, 1]),
            row(66, "2g.48gb-me", (2, 2), 48512, 94, [0, 0, 2, 0, 0]),
            row(0, "4g.96gb", (1, 1), 97408, 188, [4, 4, 4, 4, 1]),
            row(32, "4g.96gb+gfx", (1, 1), 97408, 188, [4, 4, 4, 4, 1]),
        ];
        let seen = include_str!("../../tests/captures/lgip-rtx-pro-6000-610.txt");
        assert_eq!(gpu_profiles(&rows, Driver::from_version("580")), seen);
    }
}
