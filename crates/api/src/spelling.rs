//! The nearest right word to a wrong one.

use strsim::osa_distance;

/// The candidate that is nearest to `word`, if one is near enough to be meant:
/// at most a third of its letters differ, or only letter case and separators
/// do.
#[must_use]
pub fn nearest<'a, I>(word: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let wrong = plain(word);
    candidates
        .into_iter()
        .map(|candidate| {
            let right = plain(candidate);
            let limit = wrong.chars().count().max(right.chars().count()).div_ceil(3);
            (osa_distance(&wrong, &right), limit, candidate)
        })
        .filter(|(distance, limit, _)| distance <= limit)
        // The first of equals, so that the answer does not depend on luck.
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., candidate)| candidate)
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
