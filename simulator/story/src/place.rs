//! Positions in a story, and the errors of a story that cannot be parsed.

use std::fmt;

/// A line and a column of a story, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What is wrong with a story, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct StoryError {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and what is allowed.
    pub what: String,
}

impl StoryError {
    /// An error at a place.
    pub fn new(place: Place, what: impl Into<String>) -> Self {
        Self { place, what: what.into() }
    }
}

/// "; did you mean `x`?" when one of the known words is close, else nothing.
#[must_use]
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let best = known.into_iter().map(|k| (distance(word, k), k)).min();
    match best {
        // A third of the word may be wrong, and never all of it.
        Some((d, k)) if d <= k.len().max(3) / 3 => format!("; did you mean `{k}`?"),
        _ => String::new(),
    }
}

/// How many letters must change, come or go to make one word the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_offered_and_a_far_one_is_not() {
        let known = ["policy", "pod", "plan"];
        assert_eq!(did_you_mean("polcy", known), "; did you mean `policy`?");
        assert_eq!(did_you_mean("frobnicate", known), "");
    }
}
