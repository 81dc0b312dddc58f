//! Our reading of cron schedules against `cronexpr`, which somebody else wrote: any schedule opens at the same moments.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use slicewright_rollout::window::Window;

/// Field by field: its first and last value, and how values are written.
type Field = (u32, u32, &'static [&'static str]);

const MONTHS: &[&str] = &["JAN", "feb", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC"];
const WEEKDAYS: &[&str] = &["sun", "MON", "tue", "Wed", "thu", "fri", "sat"];

fn value((first, last, names): Field) -> impl Strategy<Value = String> {
    (first..=last, any::<bool>()).prop_map(move |(n, by_name)| {
        let name = usize::try_from(n - first).ok().and_then(|at| names.get(at));
        name.filter(|_| by_name).map_or_else(|| n.to_string(), |name| (*name).to_owned())
    })
}

fn part(field: Field) -> impl Strategy<Value = String> {
    let (first, last, _) = field;
    let range = (first..=last)
        .prop_flat_map(move |low| (Just(low), low..=last))
        .prop_map(|(low, high)| format!("{low}-{high}"));
    // cronexpr allows no step above the field's last value, and we do.
    let step = 1..=last;
    prop_oneof![
        4 => value(field),
        3 => range.clone(),
        2 => (range, step.clone()).prop_map(|(range, step)| format!("{range}/{step}")),
        1 => (value(field), step.clone()).prop_map(|(value, step)| format!("{value}/{step}")),
        2 => step.prop_map(|step| format!("*/{step}")),
        2 => Just("*".to_owned()),
    ]
}

fn field(field: Field) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("*".to_owned()),
        3 => prop::collection::vec(part(field), 1..4).prop_map(|parts| parts.join(",")),
    ]
}

fn schedule() -> impl Strategy<Value = String> {
    (
        field((0, 59, &[])),
        field((0, 23, &[])),
        field((1, 31, &[])),
        field((1, 12, MONTHS)),
        field((0, 7, WEEKDAYS)),
    )
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

/// The first moment at or after `now` that the schedule names; nothing where
/// none comes within four years, after which `cronexpr` gives up.
fn by_cronexpr(schedule: &str, zone: &str, now: Timestamp) -> Option<Timestamp> {
    let crontab = cronexpr::parse_crontab(&format!("{schedule} {zone}")).unwrap();
    let before = cronexpr::MakeTimestamp::from_second(now.as_second() - 1).unwrap();
    let found = crontab.find_next(before).ok()?;
    Some(found.timestamp())
}

/// Whether a moment comes within the years that both look at.
fn is_soon(at: Timestamp, now: Timestamp) -> bool {
    at < now + jiff::SignedDuration::from_hours(4 * 365 * 24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_window_opens_when_another_reader_of_cron_says_so(
        schedule in schedule(),
        minutes in 0_i64..20 * 366 * 24 * 60,
        second in 0_i64..60,
        zone in prop::sample::select(vec!["UTC", "Asia/Seoul", "Asia/Kolkata", "America/Bogota"]),
    ) {
        // From 2020: these zones have had no summer time since.
        let now = Timestamp::from_second(1_577_836_800 + minutes * 60 + second).unwrap();
        match Window::new(&schedule, "1m", zone) {
            Ok(window) => {
                let next = window.next_open(now);
                let soon = next.filter(|at| is_soon(*at, now));
                let theirs = by_cronexpr(&schedule, zone, now).filter(|at| is_soon(*at, now));
                prop_assert_eq!(soon, theirs, "{} in {}", schedule, zone);
                prop_assert!(next.is_none_or(|next| window.is_open(next)), "{} in {}", schedule, zone);
            }
            Err(error) => {
                prop_assert!(error.to_string().contains("never comes"), "{schedule}: {error}");
                prop_assert_eq!(by_cronexpr(&schedule, zone, now), None, "{} in {}", schedule, zone);
            }
        }
    }

    /// Where clocks change, the two may differ in that night and nowhere else.
    /// (On Lord Howe Island they change by half an hour, and cronexpr 1.7.0 comes
    /// to no end there.)
    #[test]
    fn summer_time_changes_nothing_but_its_own_nights(
        schedule in schedule(),
        minutes in 0_i64..10 * 365 * 24 * 60,
        zone in prop::sample::select(vec!["America/New_York", "Europe/Berlin", "Australia/Sydney"]),
    ) {
        let now = Timestamp::from_second(1_577_836_800 + minutes * 60).unwrap();
        if let Ok(window) = Window::new(&schedule, "1m", zone) {
            let ours = window.next_open(now).filter(|at| is_soon(*at, now));
            let theirs = by_cronexpr(&schedule, zone, now).filter(|at| is_soon(*at, now));
            let zone = TimeZone::get(zone).unwrap();
            let early = ours.into_iter().chain(theirs).min().unwrap_or(now);
            let day = jiff::SignedDuration::from_hours(24);
            let offset = |at: Timestamp| zone.to_offset(at);
            let changes = offset(early - day) != offset(early + day);
            prop_assert!(ours == theirs || changes, "{}: {:?} and {:?}", window, ours, theirs);
        }
    }
}
