//! The decision about the lease: a pure function of its observed state, and of the time since this state,
//! by our own clock. The holder's clock is never compared with ours.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who has it; empty: nobody.
    pub holder: String,
    /// When the holder last renewed it, as it wrote it.
    pub renewed: Option<jiff::Timestamp>,
    /// For how long others wait after that.
    pub duration: Duration,
}

/// What was seen, and since when it has been so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The lease; `None` when there is none.
    pub record: Option<Record>,
    /// When it was first seen like this.
    pub since: Instant,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no lease: make one.
    Create,
    /// Nobody has it, or its holder went silent: take it.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Somebody has it; it may be taken after so long, if nothing is heard.
    Wait(Duration),
}

/// Reads a lease.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(1);
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0),
        duration: Duration::from_secs(seconds),
    }
}

impl Seen {
    /// What is seen now: the time starts anew when anything changed.
    #[must_use]
    pub fn update(before: Option<Self>, record: Option<Record>, now: Instant) -> Self {
        match before {
            Some(before) if before.record == record => before,
            _ => Self { record, since: now },
        }
    }
}

/// What to do about the lease. `duration` is our own setting: a record that
/// names a shorter one than we would give is still waited for as it says.
#[must_use]
pub fn decide(seen: &Seen, me: &str, duration: Duration, now: Instant) -> Decision {
    let Some(record) = &seen.record else { return Decision::Create };
    if record.holder == me {
        return Decision::Renew;
    }
    if record.holder.is_empty() {
        return Decision::Take;
    }
    let free_at = seen.since + if record.duration.is_zero() { duration } else { record.duration };
    if now >= free_at { Decision::Take } else { Decision::Wait(free_at - now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str, renewed: i64) -> Option<Record> {
        let renewed = jiff::Timestamp::from_second(renewed).ok();
        Some(Record { holder: holder.to_owned(), renewed, duration: Duration::from_secs(15) })
    }

    #[track_caller]
    fn check(record: Option<Record>, after: u64, expect: Decision) {
        let start = crate::clock::instant();
        let seen = Seen::update(None, record, start);
        let now = start + Duration::from_secs(after);
        assert_eq!(decide(&seen, "me", Duration::from_secs(15), now), expect);
    }

    #[test]
    fn a_free_lease_is_taken_ours_is_renewed_and_anothers_is_waited_for() {
        check(None, 0, Decision::Create);
        check(held_by("", 0), 0, Decision::Take);
        check(held_by("me", 0), 100, Decision::Renew);
        check(held_by("other", 0), 5, Decision::Wait(Duration::from_secs(10)));
        check(held_by("other", 0), 15, Decision::Take);
    }

    #[test]
    fn a_holder_that_renews_is_waited_for_anew_whatever_its_clock_says() {
        let start = crate::clock::instant();
        let seen = Seen::update(None, held_by("other", 1_000_000), start);
        let later = start + Duration::from_secs(14);
        let seen = Seen::update(Some(seen), held_by("other", 1_000_001), later);
        let now = start + Duration::from_secs(16);
        assert_eq!(
            decide(&seen, "me", Duration::from_secs(15), now),
            Decision::Wait(Duration::from_secs(13))
        );
    }
}
