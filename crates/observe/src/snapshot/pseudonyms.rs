//! Replacements for names that must not be disclosed. They are numbered in the order of the real names:
//! where a plan decides by names among equal options, it decides the same. Numbers reveal nothing, unlike a
//! digest of a name that can be guessed.

use std::collections::{BTreeMap, BTreeSet};

use planner::names::{PodRef, RequestId};

/// Which name stands for which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pseudonyms {
    namespaces: BTreeMap<String, String>,
    things: BTreeMap<String, String>,
    /// Namespaces in which things keep their names.
    platform: BTreeSet<String>,
}

impl Pseudonyms {
    /// Pseudonyms for the namespaces that are not kept, and for all things.
    #[must_use]
    pub fn new(
        namespaces: &BTreeSet<String>,
        kept: &BTreeSet<String>,
        platform: BTreeSet<String>,
        things: &BTreeSet<String>,
    ) -> Self {
        let hidden: Vec<&String> = namespaces.iter().filter(|name| !kept.contains(*name)).collect();
        let width = hidden.len().to_string().len();
        let named = |(number, name): (usize, &&String)| {
            let before = kept.range(..(*name).clone()).next_back().map(String::as_str);
            let after = kept.range((*name).clone()..).next().map(String::as_str);
            let stem = stem_between(before, after, width);
            ((*name).clone(), format!("{stem}-{:0width$}", number + 1))
        };
        let namespaces = hidden.iter().enumerate().map(named).collect();
        // `mnist-0` is a pod of `mnist` wherever there is a `mnist`.
        let own = |name: &&String| numbered(name).is_none_or(|(stem, _)| !things.contains(stem));
        let things: Vec<&String> = things.iter().filter(own).collect();
        let width = things.len().to_string().len();
        let numbered = things.into_iter().enumerate();
        let things =
            numbered.map(|(number, name)| (name.clone(), format!("w-{:0width$}", number + 1))).collect();
        Self { namespaces, things, platform }
    }

    /// What a namespace is called.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> String {
        self.namespaces.get(namespace).cloned().unwrap_or_else(|| namespace.to_owned())
    }

    /// What a thing in a namespace is called. `mnist-0` is the first pod of
    /// `mnist`, and so is `w-07-0` of `w-07`.
    #[must_use]
    pub fn thing(&self, namespace: &str, name: &str) -> String {
        if self.platform.contains(namespace) {
            return name.to_owned();
        }
        self.known(name).unwrap_or_else(|| "unknown".to_owned())
    }

    /// What a thing that is in no namespace is called, such as a queue of the
    /// whole cluster.
    #[must_use]
    pub fn of_cluster(&self, name: &str) -> String {
        self.known(name).unwrap_or_else(|| "unknown".to_owned())
    }

    fn known(&self, name: &str) -> Option<String> {
        self.things.get(name).cloned().or_else(|| {
            let (stem, number) = numbered(name)?;
            Some(format!("{}-{number}", self.known(stem)?))
        })
    }

    /// What a pod is called.
    #[must_use]
    pub fn pod(&self, pod: &PodRef) -> PodRef {
        let PodRef { namespace, name } = pod;
        PodRef { namespace: self.namespace(namespace), name: self.thing(namespace, name) }
    }

    /// What a request is called.
    #[must_use]
    pub fn request(&self, id: &RequestId) -> RequestId {
        let RequestId { kind, namespace, name, ordinal } = id;
        RequestId {
            kind: kind.clone(),
            namespace: self.namespace(namespace),
            name: self.thing(namespace, name),
            ordinal: *ordinal,
        }
    }

    /// A text with every known name replaced that stands in it as a word.
    #[must_use]
    pub fn in_text(&self, text: &str) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let mut result = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            // A sentence ends with a full stop, a name does not.
            let bare = word.trim_end_matches('.');
            result.push_str(&self.word(bare));
            result.push_str(&word[bare.len()..]);
            let next = after.find(is_name).unwrap_or(after.len());
            result.push_str(&after[..next]);
            rest = &after[next..];
        }
        result
    }

    fn word(&self, word: &str) -> String {
        let namespace = self.namespaces.get(word).cloned();
        namespace.or_else(|| self.known(word)).unwrap_or_else(|| word.to_owned())
    }
}

/// A name that ends with a number: what is before it, and the number.
pub(super) fn numbered(name: &str) -> Option<(&str, &str)> {
    let (stem, number) = name.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !stem.is_empty()).then_some((stem, number))
}

/// What pseudonyms between two names that are kept begin with, so that their
/// order is that of the names which they stand for.
fn stem_between(before: Option<&str>, after: Option<&str>, width: usize) -> String {
    let (first, last) = (format!("-{:0width$}", 0), format!("-{}", "9".repeat(width)));
    let fits = |stem: &String| {
        before.is_none_or(|before| *before < *format!("{stem}{first}"))
            && after.is_none_or(|after| *format!("{stem}{last}") < *after)
    };
    let letters = (b'a'..=b'z').map(|letter| format!("{}-ns", char::from(letter)));
    let beside = before.map(|before| format!("{before}-ns"));
    let mut stems = std::iter::once("ns".to_owned()).chain(letters).chain(beside);
    stems.find(fits).unwrap_or_else(|| "ns".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn pseudonyms_have_the_order_of_the_names_also_beside_names_that_are_kept() {
        let all = set(&["alpha", "kube-system", "ns-05", "team-a", "team-b", "team-c", "vision", "zoo"]);
        let kept = set(&["kube-system", "ns-05", "team-a", "team-c"]);
        let names = Pseudonyms::new(&all, &kept, set(&["kube-system"]), &BTreeSet::new());
        let called: Vec<String> = all.iter().map(|name| names.namespace(name)).collect();
        let mut sorted = called.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(called, sorted, "the order stays, and no two are the same");
        for hidden in ["alpha", "team-b", "vision", "zoo"] {
            assert!(!called.iter().any(|name| name.contains(hidden)), "{called:?}");
        }
        for known in &kept {
            assert!(called.contains(known), "{called:?}");
        }
    }

    #[test]
    fn names_in_a_text_are_replaced_where_they_are_words() {
        let names = Pseudonyms::new(&set(&["vision"]), &set(&[]), set(&["kube-system"]), &set(&["mnist"]));
        let text = "waits for vision/mnist-0, not for mnistic. It is vision/mnist.";
        assert_eq!(names.in_text(text), "waits for ns-1/w-1-0, not for mnistic. It is ns-1/w-1.");
        assert_eq!(names.thing("kube-system", "mnist"), "mnist");
        assert_eq!(names.thing("vision", "never-heard-of"), "unknown");
    }
}
