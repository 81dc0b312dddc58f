//! The words of one line of a story, read one after the other, with errors that state what was expected.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use mig::ProfileName;

use crate::place::{Place, StoryError, did_you_mean};

/// A word and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word, without the quotes that may have been around it.
    pub text: String,
    /// Where it starts.
    pub place: Place,
}

/// Splits a line into words. Words are separated by blanks; `"…"` is one word.
/// A `#` that starts a word ends the line.
pub(crate) fn split(line: &str, number: usize) -> Result<Vec<Word>, StoryError> {
    let mut words = Vec::new();
    let mut chars = line.chars().enumerate().peekable();
    while let Some((start, first)) = chars.next() {
        let place = Place { line: number, column: start + 1 };
        if first.is_whitespace() {
            continue;
        }
        if first == '#' {
            break;
        }
        let mut text = String::new();
        let mut quoted = first == '"';
        if !quoted {
            text.push(first);
        }
        loop {
            match chars.peek().copied() {
                None if quoted => {
                    return Err(StoryError::new(place, "this quote is never closed; end it with \""));
                }
                Some((_, '"')) => quoted = !quoted,
                Some((_, c)) if quoted || !c.is_whitespace() => text.push(c),
                _ => break,
            }
            chars.next();
        }
        words.push(Word { text, place });
    }
    Ok(words)
}

/// Reads words one after the other.
pub(crate) struct Words {
    words: std::vec::IntoIter<Word>,
    end: Place,
}

impl Words {
    pub(crate) fn new(words: Vec<Word>, end: Place) -> Self {
        Self { words: words.into_iter(), end }
    }

    pub(crate) fn peek(&self) -> Option<&Word> {
        self.words.as_slice().first()
    }

    pub(crate) fn next(&mut self) -> Option<Word> {
        self.words.next()
    }

    /// The next word, whatever it is.
    pub(crate) fn word(&mut self, what: &str) -> Result<Word, StoryError> {
        self.next().ok_or_else(|| StoryError::new(self.end, format!("the line ends, and {what} is missing")))
    }

    /// The next word if it is this one.
    pub(crate) fn take(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|w| w.text == keyword);
        if found {
            self.next();
        }
        found
    }

    /// The next word, which must be one of these.
    pub(crate) fn one_of(&mut self, allowed: &[&'static str]) -> Result<(&'static str, Place), StoryError> {
        let list = allowed.join(", ");
        let word = self.word(&format!("one of {list}"))?;
        match allowed.iter().find(|k| **k == word.text) {
            Some(found) => Ok((found, word.place)),
            None => Err(StoryError::new(
                word.place,
                format!(
                    "`{}` is not known here; allowed: {list}{}",
                    word.text,
                    did_you_mean(&word.text, allowed.iter().copied())
                ),
            )),
        }
    }

    /// A name of a Kubernetes object.
    pub(crate) fn name(&mut self, what: &str) -> Result<String, StoryError> {
        let word = self.word(what)?;
        check_name(&word.text, what, word.place)?;
        Ok(word.text)
    }

    /// `namespace/name`.
    pub(crate) fn namespaced(&mut self, what: &str) -> Result<(String, String), StoryError> {
        let word = self.word(&format!("{what} as namespace/name"))?;
        let Some((namespace, name)) = word.text.split_once('/') else {
            return Err(StoryError::new(
                word.place,
                format!("`{}` should be {what} as namespace/name, such as team-a/lab", word.text),
            ));
        };
        check_name(namespace, "the namespace", word.place)?;
        check_name(name, what, word.place)?;
        Ok((namespace.to_owned(), name.to_owned()))
    }

    /// `profile` or `profile:count`.
    pub(crate) fn slice(&mut self) -> Result<(ProfileName, u32), StoryError> {
        let word = self.word("a profile, such as 1g.10gb or 1g.10gb:2,")?;
        parse_slice(&word)
    }

    /// All the words that follow and look like `profile` or `profile:count`.
    pub(crate) fn slices(&mut self) -> Result<BTreeMap<ProfileName, u32>, StoryError> {
        let mut slices = BTreeMap::new();
        while self.peek().is_some_and(|w| w.text.contains("g.")) {
            let (profile, count) = self.slice()?;
            *slices.entry(profile).or_insert(0) += count;
        }
        Ok(slices)
    }

    /// A whole number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, StoryError> {
        let word = self.word(what)?;
        word.text.parse().map_err(|_| {
            StoryError::new(word.place, format!("`{}` should be {what}: a whole number", word.text))
        })
    }

    /// A duration such as `10m` or `1h30m`.
    pub(crate) fn duration(&mut self) -> Result<SignedDuration, StoryError> {
        let word = self.word("a duration, such as 10m,")?;
        let wrong = || {
            let text = &word.text;
            StoryError::new(
                word.place,
                format!("`{text}` should be a duration above zero, such as 30s, 10m or 1h30m"),
            )
        };
        let duration: SignedDuration = word.text.parse().map_err(|_| wrong())?;
        if duration.is_positive() { Ok(duration) } else { Err(wrong()) }
    }

    /// `key=value`.
    pub(crate) fn pair(&mut self, what: &str) -> Result<(String, String), StoryError> {
        let word = self.word(what)?;
        split_pair(&word, what)
    }

    /// All the words that follow and look like `key=value`.
    pub(crate) fn pairs(&mut self, what: &str) -> Result<BTreeMap<String, String>, StoryError> {
        let mut pairs = BTreeMap::new();
        let (key, value) = self.pair(what)?;
        pairs.insert(key, value);
        while self.peek().is_some_and(|w| w.text.contains('=')) {
            let (key, value) = self.pair(what)?;
            pairs.insert(key, value);
        }
        Ok(pairs)
    }

    /// Nothing may follow.
    pub(crate) fn end(&mut self) -> Result<(), StoryError> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(StoryError::new(
                word.place,
                format!("`{}` is one word too many: the command is complete before it", word.text),
            )),
        }
    }
}

fn check_name(name: &str, what: &str, place: Place) -> Result<(), StoryError> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if name.len() <= 253
        && name.chars().all(fine)
        && ends(name.chars().next())
        && ends(name.chars().next_back())
    {
        return Ok(());
    }
    Err(StoryError::new(
        place,
        format!(
            "`{name}` cannot be {what}: Kubernetes allows small letters, digits, `-` and `.`, a letter or digit at both ends"
        ),
    ))
}

fn parse_slice(word: &Word) -> Result<(ProfileName, u32), StoryError> {
    let (name, count) = word.text.split_once(':').unwrap_or((&word.text, "1"));
    let profile =
        name.parse().map_err(|error: mig::NameError| StoryError::new(word.place, error.to_string()))?;
    match count.parse() {
        Ok(count) if count > 0 => Ok((profile, count)),
        _ => Err(StoryError::new(
            word.place,
            format!("`{count}` should be how many slices: a whole number from 1"),
        )),
    }
}

fn split_pair(word: &Word, what: &str) -> Result<(String, String), StoryError> {
    match word.text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(StoryError::new(word.place, format!("`{}` should be {what} as key=value", word.text))),
    }
}
