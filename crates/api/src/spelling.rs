//! The nearest right word to a wrong one.

/// The candidate that is nearest to `word`, if one is near enough to be meant:
/// at most a third of its letters differ, or only letter case and separators
/// do.
#[must_use]
pub fn nearest<'a, I>(word: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let wrong = plain(word);
    candidates
        .into_iter()
        .map(|candidate| {
            let right = plain(candidate);
            let limit = wrong.len().max(right.len()).div_ceil(3);
            (distance(&wrong, &right), limit, candidate)
        })
        .filter(|(distance, limit, _)| distance <= limit)
        // The first of equals, so that the answer does not depend on luck.
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., candidate)| candidate)
}

/// How many letters have to be put in, taken out, replaced, or swapped with
/// their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, candidates: &[&str], expect: Option<&str>) {
        assert_eq!(nearest(word, candidates.iter().copied()), expect);
    }

    #[test]
    fn what_was_meant_is_found() {
        check("mincount", &["maxCount", "minCount"], Some("minCount"));
        check("min_count", &["maxCount", "minCount"], Some("minCount"));
        check("nodeSelctor", &["nodeSelector", "layout"], Some("nodeSelector"));
        check("laoyut", &["nodeSelector", "layout"], Some("layout"));
        check("1g.1gb", &["3g.40gb", "1g.10gb"], Some("1g.10gb"));
    }

    #[test]
    fn a_word_that_is_like_none_gets_no_guess() {
        check("replicas", &["mode", "layout"], None);
        check("", &["mode"], None);
    }
}
