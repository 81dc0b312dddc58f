//! Compares the guide's statements about each card with the data.

use mig::sharing::{Known, Place, Sharing, Verdict, advise, cards};

#[test]
fn the_guide_has_every_card_with_what_suits_it() {
    let guide = include_str!("../../../../docs/guides/sharing.md");
    let rows: Vec<&str> = guide.lines().skip_while(|line| !line.starts_with("| card |")).skip(2).collect();
    let rows: Vec<&str> = rows.into_iter().take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = cards()
        .iter()
        .map(|card| {
            let best = |place| advise(Known::Card(card), place)[0].sharing;
            let (major, minor) = card.compute_capability();
            // MPS protects memory from Volta on; before that it is no advice.
            let mps = if (major, minor) >= (7, 0) { ", MPS" } else { "" };
            let guest = advise(Known::Card(card), Place::VirtualMachine);
            let guest = match &guest[0] {
                advice if advice.verdict == Verdict::Recommended => advice.sharing,
                _ => Sharing::TimeSlicing,
            };
            format!(
                "| {} | {} | {major}.{minor} | {} GB | {}{mps} | {guest} |",
                card.id,
                card.generation,
                card.memory_gb,
                best(Place::BareMetal),
            )
        })
        .collect();
    assert_eq!(rows, expected);
}
