//! The page of a recorded fleet.

use std::fmt::Write;

use super::svg::{self, Changes};
use super::{escape, page};
use crate::picture::nodes;
use crate::preview::to_the_second;
use crate::question::Question;

/// The page of a fleet.
#[must_use]
pub fn fleet(question: &Question) -> String {
    let inventory = &question.seen.inventory;
    let title = title(question);
    let cut: usize = inventory.nodes.values().map(|node| node.gpus.len()).sum();
    // Those that are shared beside slices are counted with their node.
    let is_counted =
        |name: &planner::names::NodeName| inventory.nodes.get(name).is_some_and(|node| !node.gpus.is_empty());
    let uncut = inventory.seating.iter().filter(|(name, _)| !is_counted(name));
    let uncut = uncut.map(|(_, seating)| usize::try_from(seating.gpus).unwrap_or(usize::MAX));
    let gpus = uncut.fold(cut, usize::saturating_add);
    let mut body = format!("<header class=\"tone\"><h1>{}</h1>\n", escape(&title));
    let _ = writeln!(
        body,
        "<p class=\"made\">Recorded at {}: {} nodes with {gpus} GPUs, {} requests that wait.</p></header>",
        to_the_second(question.now()),
        nodes(inventory).len(),
        question.seen.requests.len()
    );
    let picture = svg::fleet(inventory, &Changes::new(), &title);
    let _ = writeln!(body, "<figure>{picture}</figure>");
    if !question.problems.is_empty() {
        body.push_str("<h2>What is to be known</h2>\n<ul>\n");
        for problem in &question.problems {
            let _ = writeln!(body, "<li>{}: {}</li>", problem.severity, escape(&problem.to_string()));
        }
        body.push_str("</ul>\n");
    }
    page(&title, &body)
}

/// What the page and the picture are called.
#[must_use]
pub fn title(question: &Question) -> String {
    format!("GPUs of {}", question.snapshot.cluster.as_deref().unwrap_or("a fleet"))
}
