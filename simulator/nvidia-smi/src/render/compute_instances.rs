//! `mig -lci`: the compute instances. The form is the same in all generations.

use super::Table;
use crate::snapshot::ComputeInstance;

/// The table.
pub(crate) fn compute_instances(instances: &[ComputeInstance]) -> String {
    let mut table = Table::headed(&[
        format!("{:<68}", " Compute instances:"),
        " GPU     GPU       Name             Profile   Instance   Placement  ".to_owned(),
        "       Instance                       ID        ID       Start:Size ".to_owned(),
        "         ID                                                         ".to_owned(),
    ]);
    for ComputeInstance { gpu, gpu_instance, name, profile, id, start, size } in instances {
        let name = format!("MIG {name}");
        table.row(&format!(
            "{gpu:>4}{gpu_instance:>7}       {name:<18}{profile:>4}{id:>10}{start:>11}:{size:<6}"
        ));
        table.line();
    }
    table.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_h100_with_a_part_of_a_gpu_instance() {
        let row = |gpu_instance, name: &str, start| ComputeInstance {
            gpu: 0,
            gpu_instance,
            name: name.to_owned(),
            profile: 0,
            id: 0,
            start,
            size: 1,
        };
        let rows = [row(13, "1g.10gb", 0), row(1, "1c.3g.40gb", 2), row(11, "1g.10gb", 0)];
        assert_eq!(compute_instances(&rows), include_str!("../../tests/captures/lci-h100-580.txt"));
    }
}
