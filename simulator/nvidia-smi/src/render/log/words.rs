//! Values as the log writes them; what is not given is `N/A`.

/// What newer drivers say where older ones had a value.
pub(super) const DEPRECATED: &str = "Requested functionality has been deprecated";

/// What a reading is that the library does not give.
pub(super) const NOT_GIVEN: &str = "N/A";

pub(super) fn switch(state: Option<bool>) -> &'static str {
    state.map_or(NOT_GIVEN, |on| if on { "Enabled" } else { "Disabled" })
}

pub(super) fn yes_no(state: Option<bool>) -> &'static str {
    state.map_or(NOT_GIVEN, |yes| if yes { "Yes" } else { "No" })
}

pub(super) fn given<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NOT_GIVEN.to_owned(), |value| value.to_string())
}

pub(super) fn with_unit<T: ToString>(value: Option<T>, unit: &str) -> String {
    value.map_or_else(|| NOT_GIVEN.to_owned(), |value| format!("{} {unit}", value.to_string()))
}

/// Milliwatts as watts.
pub(super) fn watts(milliwatts: Option<impl Into<u64>>) -> String {
    let watts = milliwatts.map(|mw| {
        let mw: u64 = mw.into();
        format!("{}.{:02}", mw / 1000, mw % 1000 / 10)
    });
    with_unit(watts, "W")
}

/// Bytes as a UUID without a prefix.
pub(crate) fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
