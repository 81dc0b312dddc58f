//! The faults that a story can ask for: those of `operands::faults`.

use operands::NodeFault;
use operands::faults::{FAULTS, FaultError, parse};

use crate::place::{Place, StoryError, did_you_mean};
use crate::words::Words;

/// Reads a fault: the rest of the line.
pub(crate) fn read(words: &mut Words) -> Result<Vec<NodeFault>, StoryError> {
    let first = words.word("a fault")?;
    let mut text = first.text;
    while let Some(word) = words.next() {
        text = format!("{text} {}", word.text);
    }
    parse(&text).map_err(|error| refused(first.place, &error))
}

fn refused(place: Place, error: &FaultError) -> StoryError {
    let meant = match error {
        FaultError::Unknown { word } => did_you_mean(word, FAULTS.iter().map(|(form, _)| first_word(form))),
        FaultError::Form { .. } => String::new(),
    };
    StoryError::new(place, format!("{error}{meant}"))
}

fn first_word(form: &'static str) -> &'static str {
    form.split_whitespace().next().unwrap_or(form)
}
