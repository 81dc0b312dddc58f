//! YAML and JSON texts as trees in which every value knows its position, so that every later message can
//! name file, line and column.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A place in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Located {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub node: Node,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Node {
    /// A scalar.
    Scalar(Value),
    /// A list.
    List(Vec<Located>),
    /// A map, in the order of the text; each key with where it stands.
    Map(Vec<(String, Place, Located)>),
}

/// Why a text cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct SyntaxError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
}

/// The documents of a text, in order; empty ones (only comments) are left out.
///
/// A document that cannot be read is an error of its own: the others are read
/// nevertheless.
#[must_use]
pub fn documents(text: &str) -> Vec<Result<Located, SyntaxError>> {
    split(text)
        .into_iter()
        .filter(|(_, document)| {
            document.lines().any(|line| {
                let line = line.trim_start_matches('\u{feff}').trim();
                !(line.is_empty() || line.starts_with('#'))
            })
        })
        .map(|(first, document)| read(document, first))
        .collect()
}

/// Splits at document markers. They stand at the start of a line and nowhere
/// else, not even inside block scalars (YAML 1.2, production 206). Each part
/// comes with the number of lines before it.
fn split(text: &str) -> Vec<(u64, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut offset, mut line) = (0, 0, 0, 0);
    for full in text.split_inclusive('\n') {
        let bare = full.trim_end();
        let marker = bare == "---" || bare == "..." || bare.starts_with("--- ");
        if marker {
            parts.push((first, &text[start..offset]));
            // What follows the marker on its line belongs to the document.
            let rest = &bare[3..];
            let empty = rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
            (start, first) = if empty { (offset + full.len(), line + 1) } else { (offset, line) };
        }
        offset += full.len();
        line += 1;
    }
    parts.push((first, &text[start..]));
    parts
}

fn read(text: &str, lines_before: u64) -> Result<Located, SyntaxError> {
    let mut options = serde_saphyr::Options::default();
    // The text is the user's own file or a snapshot of a large fleet, and it
    // is in memory already.
    options.budget = None;
    let spanned: Spanned<Raw> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map_or(Place { line: 1, column: 1 }, |at| place(&at, 0));
        let message = message(error.without_snippet());
        SyntaxError { place: Place { line: place.line + lines_before, ..place }, message }
    })?;
    Ok(spanned.value.located(place(&spanned.referenced, lines_before), lines_before))
}

fn place(location: &serde_saphyr::Location, lines_before: u64) -> Place {
    Place { line: location.line() + lines_before, column: location.column() }
}

/// The parser's message, in words for who wrote the text: its own advice on a
/// key that stands twice is for who calls the parser.
fn message(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {key:?} stands twice in one map: keep one of them")
        }
        serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => {
            "a key stands twice in one map: keep one of them".to_owned()
        }
        other => match plain_message(&other.to_string()) {
            tab if tab.starts_with("tabs disallowed") => {
                "a tab stands where YAML wants spaces: indent with spaces".to_owned()
            }
            plain => plain,
        },
    }
}

/// The parser's message without the place, which we print ourselves; it stands before the message, after it,
/// or both.
fn plain_message(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match (first.strip_prefix("line "), first.find(": ")) {
        (Some(_), Some(colon)) => &first[colon + 2..],
        _ => first,
    };
    first.rsplit_once(" at line ").map_or(first, |(before, _)| before).to_owned()
}

/// What serde sees, before the places are shifted to those of the whole text.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl Raw {
    fn located(self, place_of_self: Place, lines_before: u64) -> Located {
        let shift = |spanned: Spanned<Raw>| {
            let at = place(&spanned.referenced, lines_before);
            spanned.value.located(at, lines_before)
        };
        let node = match self {
            Self::Scalar(value) => Node::Scalar(value),
            Self::List(items) => Node::List(items.into_iter().map(shift).collect()),
            Self::Map(entries) => Node::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let at = place(&key.referenced, lines_before);
                        (key.value, at, shift(value))
                    })
                    .collect(),
            ),
        };
        Located { place: place_of_self, node }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

impl Located {
    /// The value without the places.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.node {
            Node::Scalar(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::to_value).collect(),
            Node::Map(entries) => {
                entries.iter().map(|(key, _, value)| (key.clone(), value.to_value())).collect()
            }
        }
    }

    /// The value of a key of a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Map(entries) => entries.iter().find(|(k, ..)| k == key).map(|(.., value)| value),
            Node::Scalar(_) | Node::List(_) => None,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.node {
            Node::Scalar(value) => value.as_str(),
            Node::List(_) | Node::Map(_) => None,
        }
    }

    /// Where the value at a path such as `spec.layout.static.gpus[0]` stands;
    /// as far as the path can be followed.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Place {
        let mut here = self;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let step = step.trim_end_matches(']');
            let next = match &here.node {
                Node::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                Node::Map(_) => here.get(step),
                Node::Scalar(_) => None,
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_where_it_stands() {
        let text = "# a comment\na:\n  - b: 1\n    c: two\n";
        let documents = documents(text);
        let document = documents[0].as_ref().expect("well formed");
        assert_eq!(document.place_of("a[0].c"), Place { line: 4, column: 8 });
        assert_eq!(document.place_of("a[0].b"), Place { line: 3, column: 8 });
        assert_eq!(document.to_value(), serde_json::json!({"a": [{"b": 1, "c": "two"}]}));
    }

    #[test]
    fn documents_count_lines_from_the_start_of_the_file() {
        let text = "---\na: 1\n---\n# nothing here\n---\nb:\n  text: |\n    ---indented\n  c: 2\n";
        let documents: Vec<_> = documents(text).into_iter().map(|d| d.expect("well formed")).collect();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[1].place_of("b.c"), Place { line: 9, column: 6 });
    }

    #[test]
    fn malformed_yaml_names_line_and_column() {
        let documents = documents("a: 1\n---\nb: [1, 2\nc: 3\n");
        assert!(documents[0].is_ok());
        let error = documents[1].as_ref().expect_err("the list is not closed");
        assert_eq!(error.place.line, 4, "{error}");
    }

    #[test]
    fn json_is_read_too() {
        let documents = documents("{\n\t\"a\": [1,\n\t\t{\"b\": true}]\n}\n");
        let document = documents[0].as_ref().expect("well formed");
        assert_eq!(document.to_value(), serde_json::json!({"a": [1, {"b": true}]}));
        assert_eq!(document.place_of("a[1].b").line, 3);
    }

    #[test]
    fn a_tab_is_an_error_that_says_what_to_write_and_its_place_once() {
        let documents = documents("a:\n\tb: 1\n");
        let error = documents[0].as_ref().expect_err("YAML has no tabs");
        assert_eq!(error.message, "a tab stands where YAML wants spaces: indent with spaces");
        assert_eq!(error.place.line, 2);
        assert_eq!(
            plain_message("error: line 1 column 1: unclosed bracket '{' at line 1, column 1"),
            "unclosed bracket '{'"
        );
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error() {
        let documents = documents("a: 1\nb: 2\na: 3\n");
        let error = documents[0].as_ref().expect_err("a is there twice");
        assert_eq!(error.place.line, 3, "{error}");
        assert_eq!(error.message, "the key \"a\" stands twice in one map: keep one of them");
    }
}
