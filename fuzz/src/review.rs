//! Annotations of a review, which come with a policy from anybody's commit:
//! what is read is written as it was.
#![no_main]

use api::review::{Reviewed, list, nodes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(reviewed) = text.parse::<Reviewed>() {
        assert_eq!(reviewed.to_string().parse::<Reviewed>().expect("what we write can be read"), reviewed);
    }
    if let Ok(listed) = nodes(text) {
        assert_eq!(nodes(&list(&listed)).expect("what we write can be read"), listed);
    }
});
