//! A story is read or refused with its place.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = story::parse(text);
});
