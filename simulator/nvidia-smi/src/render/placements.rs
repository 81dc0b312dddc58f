//! `mig -lgipp`: where GPU instances may be.

use crate::snapshot::PossiblePlacements;

/// One line for each profile.
pub(crate) fn placements(all: &[PossiblePlacements]) -> String {
    let mut text = String::new();
    for PossiblePlacements { gpu, profile, starts, size } in all {
        let word = if starts.len() == 1 { "Placement " } else { "Placements" };
        let starts: Vec<_> = starts.iter().map(u32::to_string).collect();
        text.push_str(&format!(
            "GPU {gpu:>2} Profile ID {profile:>2} {word}: {{{}}}:{size}\n",
            starts.join(",")
        ));
    }
    text
}
