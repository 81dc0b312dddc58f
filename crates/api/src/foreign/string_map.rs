//! Maps of a few texts, such as labels.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::{Deserialize, Serialize};

/// A map of texts in the order of its keys, in no more room than these take. It is made to be read: a change writes it
/// anew.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct StringMap(Box<[(Box<str>, Box<str>)]>);

impl StringMap {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether it has a key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All entries, in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Another value of a key, which is added if it is not there.
    pub fn insert(&mut self, key: String, value: String) {
        let mut all = BTreeMap::from(std::mem::take(self));
        all.insert(key, value);
        *self = all.into();
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Index<&str> for StringMap {
    type Output = str;

    fn index(&self, key: &str) -> &str {
        self.get(key).expect("the key is there, as for every map")
    }
}

impl From<BTreeMap<String, String>> for StringMap {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self(map.into_iter().map(|(key, value)| (key.into_boxed_str(), value.into_boxed_str())).collect())
    }
}

impl From<StringMap> for BTreeMap<String, String> {
    fn from(map: StringMap) -> Self {
        map.0.into_iter().map(|(key, value)| (key.into_string(), value.into_string())).collect()
    }
}

impl<const N: usize> From<[(String, String); N]> for StringMap {
    fn from(entries: [(String, String); N]) -> Self {
        BTreeMap::from(entries).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_read_and_written_as_a_map() {
        let written = json!({"b": "2", "a": "1", "c": ""});
        let mut map: StringMap = serde_json::from_value(written.clone()).expect("a map of texts");
        assert_eq!(json!(map), written);
        assert_eq!([map.get("a"), map.get("c"), map.get("d")], [Some("1"), Some(""), None]);
        assert_eq!((&map["b"], map.contains_key("bb")), ("2", false));
        map.insert("aa".to_owned(), "3".to_owned());
        map.insert("b".to_owned(), "4".to_owned());
        let entries: Vec<_> = map.iter().collect();
        assert_eq!(entries, [("a", "1"), ("aa", "3"), ("b", "4"), ("c", "")]);
        assert_eq!(format!("{map:?}"), r#"{"a": "1", "aa": "3", "b": "4", "c": ""}"#);
    }
}
