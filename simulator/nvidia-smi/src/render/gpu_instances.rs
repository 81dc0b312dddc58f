//! `mig -lgi`: the GPU instances.

use super::Table;
use crate::generation::{Driver, Form};
use crate::snapshot::GpuInstance;

/// The table, in the form of a driver.
pub(crate) fn gpu_instances(instances: &[GpuInstance], driver: Driver) -> String {
    let name_width = if driver.has(Form::WideProfiles) { 20 } else { 18 };
    let gap = " ".repeat(name_width - 18);
    let mut table = Table::headed(&[
        format!("{:<w$}", " GPU instances:", w = 37 + name_width),
        format!(" GPU   Name             {gap}Profile  Instance   Placement  "),
        format!("                          {gap}ID       ID       Start:Size "),
    ]);
    for GpuInstance { gpu, name, profile, id, start, size } in instances {
        let name = format!("MIG {name}");
        table.row(&format!("{gpu:>4}  {name:<name_width$}{profile:>4}{id:>9}{start:>11}:{size:<6}"));
        table.line();
    }
    table.text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str, profile: u32, id: u32, at: (u32, u32)) -> GpuInstance {
        GpuInstance { gpu: 0, name: name.to_owned(), profile, id, start: at.0, size: at.1 }
    }

    #[test]
    fn an_a30_in_the_narrow_form() {
        let rows = [
            instance("1g.6gb", 14, 3, (0, 1)),
            instance("1g.6gb", 14, 4, (1, 1)),
            instance("2g.12gb", 5, 2, (2, 2)),
        ];
        let seen = include_str!("../../tests/captures/lgi-a30-535.txt");
        assert_eq!(gpu_instances(&rows, Driver::from_version("535")), seen);
    }

    #[test]
    fn an_h100_in_the_wide_form() {
        let rows = [
            instance("1g.10gb", 19, 13, (6, 1)),
            instance("3g.40gb", 9, 1, (0, 4)),
            instance("1g.10gb+me", 20, 11, (4, 1)),
        ];
        let seen = include_str!("../../tests/captures/lgi-h100-580.txt");
        assert_eq!(gpu_instances(&rows, Driver::from_version("580")), seen);
    }
}
