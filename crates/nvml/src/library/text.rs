//! Texts in C's fixed arrays, without `unsafe`.

use std::os::raw::c_char;

use crate::error::{Error, Result};

/// The text in an array that a call filled: up to the first zero, which must
/// be there.
pub(crate) fn read_text(call: &'static str, chars: &[c_char]) -> Result<String> {
    // `c_char` is signed on some machines: the same eight bits either way.
    let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    if bytes.len() == chars.len() {
        return Err(Error::nonsense(call, "a text without an end"));
    }
    String::from_utf8(bytes).map_err(|_| Error::nonsense(call, "a text that is not UTF-8"))
}

/// A count that a call gave back for a buffer of this size.
pub(crate) fn within(call: &'static str, count: u32, room: usize) -> Result<usize> {
    usize::try_from(count)
        .ok()
        .filter(|count| *count <= room)
        .ok_or_else(|| Error::nonsense(call, format!("{count} entries in a buffer of {room}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &[u8]) -> Vec<c_char> {
        text.iter().map(|b| c_char::from_ne_bytes([*b])).collect()
    }

    #[test]
    fn a_text_ends_at_its_zero_and_must_have_one() {
        assert_eq!(read_text("f", &chars(b"1g.10gb\0rest")), Ok("1g.10gb".to_owned()));
        assert_eq!(read_text("f", &chars(b"\0")), Ok(String::new()));
        assert!(read_text("f", &chars(b"endless")).is_err());
        assert!(read_text("f", &chars(b"\xff\0")).is_err());
    }

    #[test]
    fn counts_beyond_the_buffer_are_not_believed() {
        assert_eq!(within("f", 7, 7), Ok(7));
        assert!(within("f", 8, 7).is_err());
    }
}
