//! "Did you mean": the candidate that a misspelt word is nearest to.

/// The candidate that takes the fewest edits (insert, delete, replace, swap of
/// neighbours; letter case is free), if they are few enough to be a slip: a
/// third of the word, or one. Of equals, the first.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &fold(candidate)), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

fn fold(text: &str) -> Vec<char> {
    text.trim().chars().flat_map(char::to_lowercase).collect()
}

/// The edit distance, with swaps of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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

    #[test]
    fn distance_counts_edits() {
        for (a, b, expect) in [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("abcd", "xbd", 2)] {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(distance(&chars(a), &chars(b)), expect, "{a} {b}");
        }
    }
}
