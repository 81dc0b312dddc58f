//! The functions that implement each invariant, read from `docs/architecture.md`. A test checks that they
//! exist, and `cargo xtask mutants` breaks them, so that the document and the run cannot differ.

/// The paragraphs of the architecture that state an invariant.
pub(crate) fn paragraphs(text: &str) -> Vec<&str> {
    text.split("\n\n").filter(|paragraph| paragraph.starts_with("**Invariant")).collect()
}

/// The functions that a paragraph says to hold it, each with its file: files
/// are named with their path, and their functions in brackets after it.
pub(crate) fn held_by(paragraph: &str) -> Vec<(String, String)> {
    let text = paragraph.replace('\n', " ");
    let Some((_, rest)) = text.split_once("Held by ") else { return Vec::new() };
    let (held, _) = rest.split_once("Guarded by").unwrap_or((rest, ""));
    let mut found = Vec::new();
    for part in held.split_inclusive(')') {
        let Some((file, functions)) = part.split_once('(') else { continue };
        let file = quoted(file).last().copied().unwrap_or_default();
        found.extend(quoted(functions).iter().map(|name| (file.to_owned(), (*name).to_owned())));
    }
    found
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
