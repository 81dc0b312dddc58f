//! Texts with units: durations and shares of nodes.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The longest cooldown or window: one week.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(168);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form that is allowed.
    #[error(
        "`{text}` is not a duration: write hours, minutes and seconds in this order, such as 10m or 1h30m"
    )]
    Form {
        /// What was given.
        text: String,
    },
    /// Longer than a week.
    #[error("`{text}` is more than a week: at most 168h is allowed")]
    TooLong {
        /// What was given.
        text: String,
    },
}

/// Reads a duration of hours, minutes and seconds, such as `1h30m`: each unit
/// at most once, in this order, up to a week.
///
/// # Errors
/// Says what is allowed.
pub fn duration(text: &str) -> Result<SignedDuration, DurationError> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"hms".contains(&b)) && !text.contains("ms");
    let read = text.parse::<SignedDuration>().ok().filter(|_| is_plain);
    let duration = read.ok_or_else(|| DurationError::Form { text: text.to_owned() })?;
    if duration > LONGEST { Err(DurationError::TooLong { text: text.to_owned() }) } else { Ok(duration) }
}

/// A number of nodes, or a share of them. How many that is of a fleet, the
/// rollout says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// So many.
    Number(u32),
    /// So many in a hundred.
    Percent(u8),
}

/// Why a value is not a number or share of nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{value}` is not a number of nodes: write a number from 1 to 10000, or a percentage from \"1%\" to \"100%\""
)]
pub struct NodeCountError {
    /// What was given.
    pub value: String,
}

/// Reads a number or share of nodes.
///
/// # Errors
/// Says what is allowed.
pub fn node_count(value: &IntOrString) -> Result<NodeCount, NodeCountError> {
    match value {
        IntOrString::Int(n) => {
            let number = u32::try_from(*n).ok().filter(|n| (1..=10_000).contains(n));
            number.map(NodeCount::Number).ok_or_else(|| NodeCountError { value: n.to_string() })
        }
        IntOrString::String(text) => text
            .strip_suffix('%')
            .filter(|digits| !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .filter(|percent| (1..=100).contains(percent))
            .map(NodeCount::Percent)
            .ok_or_else(|| NodeCountError { value: text.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_duration(text: &str, seconds: Option<i64>) {
        assert_eq!(duration(text).ok().map(|d| d.as_secs()), seconds, "{text}");
    }

    #[test]
    fn durations_have_units() {
        check_duration("10m", Some(600));
        check_duration("1h30m", Some(5400));
        check_duration("1h0m5s", Some(3605));
        check_duration("0s", Some(0));
        check_duration("168h", Some(604_800));
    }

    #[test]
    fn a_duration_without_its_unit_or_out_of_order_is_refused() {
        for text in
            ["10", "", "ten minutes", "10 m", "30m1h", "1d", "-5m", "1.5h", "10mm", "999999999999999999h"]
        {
            check_duration(text, None);
        }
        assert_eq!(
            duration("10").expect_err("no unit").to_string(),
            "`10` is not a duration: write hours, minutes and seconds in this order, such as 10m or 1h30m"
        );
        assert_eq!(
            duration("169h").expect_err("too long").to_string(),
            "`169h` is more than a week: at most 168h is allowed"
        );
    }

    #[test]
    fn nodes_are_counted_or_given_as_a_share() {
        let read = |value: IntOrString| node_count(&value).expect("right");
        assert_eq!(read(IntOrString::Int(3)), NodeCount::Number(3));
        assert_eq!(read(IntOrString::String("10%".into())), NodeCount::Percent(10));
    }

    #[test]
    fn a_wrong_share_says_what_is_allowed() {
        for text in ["0%", "101%", "10", "10 %", "%", "ten", "-1%", "+5%", "1.5%"] {
            let error = node_count(&IntOrString::String(text.into())).expect_err(text);
            assert!(error.to_string().contains("from \"1%\" to \"100%\""), "{error}");
        }
        assert!(node_count(&IntOrString::Int(0)).is_err());
    }
}
