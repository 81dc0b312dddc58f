//! Windows, on the calendar and around changes of summer time.

use jiff::Timestamp;
use slicewright_rollout::window::{Window, is_open, next_open};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window(schedule: &str, duration: &str, zone: &str) -> Window {
    Window::new(schedule, duration, zone).unwrap()
}

#[track_caller]
fn check_open(window: &Window, when: &str, open: bool) {
    assert_eq!(window.is_open(at(when)), open, "{window} at {when}");
}

#[track_caller]
fn check_next(window: &Window, now: &str, next: &str) {
    assert_eq!(window.next_open(at(now)), Some(at(next)), "{window} after {now}");
}

#[track_caller]
fn check_refused(schedule: &str, duration: &str, zone: &str, message: &str) {
    let error = Window::new(schedule, duration, zone).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn weekday_nights_in_seoul() {
    let nights = window("0 22 * * 1-5", "6h", "Asia/Seoul");
    // Monday 2 November 2026, 22:00 in Seoul is 13:00 UTC.
    check_open(&nights, "2026-11-02T12:59:59Z", false);
    check_open(&nights, "2026-11-02T13:00:00Z", true);
    check_open(&nights, "2026-11-02T18:59:59Z", true);
    check_open(&nights, "2026-11-02T19:00:00Z", false);
    // Friday's lasts into Saturday; on Saturday none opens.
    check_open(&nights, "2026-11-06T18:30:00Z", true);
    check_open(&nights, "2026-11-07T13:30:00Z", false);
    check_next(&nights, "2026-11-06T19:00:00Z", "2026-11-09T13:00:00Z");
    check_next(&nights, "2026-11-02T13:00:00Z", "2026-11-02T13:00:00Z");
    assert_eq!(nights.closes(at("2026-11-02T14:00:00Z")), Some(at("2026-11-02T19:00:00Z")));
}

#[test]
fn summer_time_in_new_york() {
    // On 8 March 2026 the clock goes from 2:00 to 3:00: 2:30 opens an hour later by the wall.
    let early = window("30 2 * * *", "1h", "America/New_York");
    check_next(&early, "2026-03-08T05:00:00Z", "2026-03-08T07:30:00Z");
    check_open(&early, "2026-03-08T07:30:00Z", true);
    check_open(&early, "2026-03-08T08:30:00Z", false);
    // On 1 November 1:30 comes twice (5:30 and 6:30 UTC): the window opens the first time.
    let twice = window("30 1 * * *", "30m", "America/New_York");
    check_next(&twice, "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z");
    check_open(&twice, "2026-11-01T05:45:00Z", true);
    check_open(&twice, "2026-11-01T06:45:00Z", false);
    // A window over the change lasts its duration in real time.
    let night = window("0 22 * * *", "6h", "America/New_York");
    check_open(&night, "2026-03-08T08:59:00Z", true);
    check_open(&night, "2026-03-08T09:00:00Z", false);
}

#[test]
fn a_weekend_window_spans_days() {
    let weekend = window("0 20 * * fri", "60h", "UTC");
    check_open(&weekend, "2026-11-06T19:59:00Z", false);
    check_open(&weekend, "2026-11-08T12:00:00Z", true);
    check_open(&weekend, "2026-11-09T07:59:00Z", true);
    check_open(&weekend, "2026-11-09T08:00:00Z", false);
}

#[test]
fn a_restricted_day_of_month_or_of_week_is_enough() {
    // Friday the 6th by the week, Sunday the 15th by the month.
    let either = window("0 0 15 * 5", "1h", "UTC");
    check_next(&either, "2026-11-01T00:00:01Z", "2026-11-06T00:00:00Z");
    check_next(&either, "2026-11-13T01:00:00Z", "2026-11-15T00:00:00Z");
    // With one star both must match.
    let fifteenth = window("0 0 15 * *", "1h", "UTC");
    check_next(&fifteenth, "2026-11-01T00:00:00Z", "2026-11-15T00:00:00Z");
    let stepped = window("0 0 */10 * 1", "1h", "UTC");
    check_next(&stepped, "2026-11-01T00:00:01Z", "2026-12-21T00:00:00Z");
}

#[test]
fn names_lists_ranges_and_steps() {
    let names = window("0 0 * JAN,mar Mon-Wed", "1h", "UTC");
    check_next(&names, "2026-11-01T00:00:00Z", "2027-01-04T00:00:00Z");
    let steps = window("10-50/20 8/6 * * *", "5m", "UTC");
    for (now, next) in [
        ("2026-11-01T00:00:00Z", "2026-11-01T08:10:00Z"),
        ("2026-11-01T08:10:01Z", "2026-11-01T08:30:00Z"),
        ("2026-11-01T08:50:01Z", "2026-11-01T14:10:00Z"),
        ("2026-11-01T20:50:01Z", "2026-11-02T08:10:00Z"),
    ] {
        check_next(&steps, now, next);
    }
    let sunday = window("0 0 * * 7", "1h", "UTC");
    check_next(&sunday, "2026-11-02T00:00:00Z", "2026-11-08T00:00:00Z");
    let leap = window("0 0 29 2 *", "1h", "UTC");
    check_next(&leap, "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z");
}

#[test]
fn several_windows_and_none() {
    let both = [window("0 1 * * *", "1h", "UTC"), window("0 20 * * *", "1h", "UTC")];
    assert!(is_open(&both, at("2026-11-02T20:30:00Z")));
    assert_eq!(next_open(&both, at("2026-11-02T12:00:00Z")), Some(at("2026-11-02T20:00:00Z")));
    let now = at("2026-11-02T12:00:00Z");
    assert_eq!(next_open(&[], now), Some(now));
}

/// A month that is shorter than others has every day that it has.
#[test]
fn every_day_of_a_short_month_comes() {
    let february = window("0 22 * feb *", "6h", "UTC");
    check_open(&february, "2027-02-28T23:00:00Z", true);
    check_open(&february, "2027-03-02T23:00:00Z", false);
    let thirtieth = window("0 22 30 * *", "6h", "UTC");
    check_next(&thirtieth, "2027-01-31T12:00:00Z", "2027-03-30T22:00:00Z");
}

#[test]
fn what_is_wrong_is_named() {
    check_refused("0 22 * *", "6h", "UTC", "schedule `0 22 * *` has 4 fields");
    check_refused("60 22 * * *", "6h", "UTC", "minute `60` is not valid; allowed are 0 to 59");
    check_refused("0 22 * * 8", "6h", "UTC", "day of week `8`");
    check_refused("0 22 * * mon-foo", "6h", "UTC", "day of week `mon-foo`");
    check_refused("0 22-4 * * *", "6h", "UTC", "hour `22-4`");
    check_refused("*/0 * * * *", "6h", "UTC", "minute `*/0`");
    check_refused("0 +2 * * *", "6h", "UTC", "hour `+2`");
    check_refused("*/+5 * * * *", "6h", "UTC", "minute `*/+5`");
    check_refused("0 22 * 13 *", "6h", "UTC", "month `13` is not valid; allowed are 1 to 12, jan to dec");
    check_refused("0 0 30 2 *", "6h", "UTC", "never comes");
    check_refused("0 22 * * *", "6 hours of sleep", "UTC", "duration `6 hours of sleep`");
    check_refused("0 22 * * *", "0m", "UTC", "write 1m to 168h");
    check_refused("0 22 * * *", "169h", "UTC", "write 1m to 168h");
    check_refused("0 22 * * *", "6h", "Asia/Atlantis", "timeZone `Asia/Atlantis` is not known");
}

/// An image of the operator has no zone database of its own; this one is in the
/// program.
#[test]
fn zones_are_known_without_a_database_of_the_system() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    for zone in ["Asia/Seoul", "America/New_York", "Europe/Berlin"] {
        assert!(bundled.get(zone).is_ok(), "{zone}");
    }
}

#[test]
fn a_window_is_open_for_a_minute_at_least_and_a_week_at_most() {
    use jiff::SignedDuration;
    let lasting = |duration| Window::lasting("0 0 * * *", duration, "UTC").is_ok();
    let (minute, week) = (SignedDuration::from_mins(1), SignedDuration::from_hours(168));
    let second = SignedDuration::from_secs(1);
    assert!(lasting(minute) && lasting(week));
    assert!(!lasting(minute - second) && !lasting(week + second));
}
