//! "Did you mean": the candidate that a misspelt word is nearest to.

use strsim::osa_distance;

/// The candidate that takes the fewest edits (insert, delete, replace, swap of
/// neighbours; letter case is free), if they are few enough to be a slip: a
/// third of the word, or one. Of equals, the first.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&word, &fold(candidate)), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

fn fold(text: &str) -> String {
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expect: Option<&str>) {
        let models = ["A100-40GB", "A100-80GB", "A30", "H100-80GB"];
        assert_eq!(nearest(word, models), expect, "{word}");
    }

    #[test]
    fn a_slip_finds_its_word() {
        check("a100-08gb", Some("A100-80GB"));
        check("H100-80G", Some("H100-80GB"));
        check("A3O", Some("A30"));
    }

    #[test]
    fn another_word_finds_nothing() {
        check("V100", None);
        check("", None);
    }
}
