//! A map of layouts, which an administrator or MIG manager's package writes:
//! what is read is rendered, and what was rendered is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rollout::map::MigMap;

fuzz_target!(|text: &str| {
    let Ok(map) = text.parse::<MigMap>() else { return };
    let again: MigMap = map.render().parse().expect("what we write can be read");
    assert_eq!(again.entries, map.entries);
});
