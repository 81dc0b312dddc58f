//! What the API server takes as a name, and what a label can be. Of our kinds it checks the first; the second
//! nobody checks in a selector of ours, which then matches no object.

/// What a name consists of.
pub const NAME: &str =
    "lower-case letters, digits, `-` and `.`, from a letter or digit to a letter or digit, at most 253";

/// What the key of a label consists of.
pub const LABEL_KEY: &str = "letters, digits, `-`, `_` and `.`, at most 63, after a domain and `/` where there is one, such as `slicewright.io/pool`";

/// What the value of a label consists of.
pub const LABEL_VALUE: &str =
    "letters, digits, `-`, `_` and `.`, from a letter or digit to a letter or digit, at most 63, or nothing";

/// Whether an object can have this name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let plain = |part: &str| part.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let is_part =
        |part: &str| !part.is_empty() && plain(part) && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether a label can have this key.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_name(domain) && is_word(name),
        None => is_word(text),
    }
}

/// Whether a label can have this value.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

fn is_word(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let at_ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= 63
        && text.bytes().all(inner)
        && at_ends.iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is: fn(&str) -> bool, yes: &[&str], no: &[&str]) {
        let wrong = yes.iter().filter(|text| !is(text)).chain(no.iter().filter(|text| is(text)));
        assert_eq!(wrong.copied().collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn names_are_lower_case_parts_between_dots() {
        let (longest, longer) = ("a".repeat(253), "a".repeat(254));
        let no = ["", "Fleet", "fleet_1", "-a", "a-", "a.", ".a", "a..b", "a b", "a/b", "é", &longer];
        check(is_name, &["fleet", "a", "0", "gpu-1.example.org", "a-0.b", &longest], &no);
    }

    #[test]
    fn keys_of_labels_have_at_most_one_domain() {
        let long = format!("example.org/{}", "k".repeat(64));
        let yes = ["pool", "nvidia.com/gpu.present", "Example_Key", "kubernetes.io/hostname", "a"];
        let no = ["", "/", "a/", "/a", "a/b/c", "nvidia.com/gpu present", "-a", "A.b/c", "pool:", &long];
        check(is_label_key, &yes, &no);
    }

    #[test]
    fn values_of_labels_may_be_empty() {
        let (longest, longer) = ("v".repeat(63), "v".repeat(64));
        let yes = ["", "true", "NVIDIA-A100-SXM4-80GB", "1.2_3", &longest];
        check(is_label_value, &yes, &["yes please!", "a/b", "-a", "a-", ".", " ", "é", &longer]);
    }
}
