//! A trace: the requested slices, with the beginning and the end of each request.
//!
//! It is read from CSV with a header. These columns are read, in any order: `create_s` and `delete_s`
//! (seconds since the trace began; an empty `delete_s` means that the pod was still there at the end),
//! `pod`, `count` (1 where the column is missing), and one column of profiles. Lines are in the order of
//! `create_s`. Nothing is quoted.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;

/// The last second that a trace may name: more than a hundred years.
pub const LAST_SECOND: i64 = 4_000_000_000;
/// The most slices that one request may ask for.
pub const MOST_SLICES: u32 = 1_024;

/// A stream of requests, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Who asked.
    pub requests: Vec<Asked>,
    /// Pods that came and went in the same second. They asked for no time, and
    /// are left out.
    pub momentary: usize,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The pod's name.
    pub pod: String,
    /// When it came, in seconds.
    pub from: i64,
    /// When it goes, whether it was served or not; later than `from`.
    pub until: i64,
    /// What it asks for.
    pub profile: ProfileName,
    /// How many of them, all on one node.
    pub count: u32,
    /// Who asks, as far as a policy looks at it.
    pub asker: Asker,
    /// The line of the file, or the number of the recording that has it first, from 1.
    pub line: usize,
}

/// Who asks: what shares and the order of priorities look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The pod's priority.
    pub priority: i32,
}

impl Default for Asker {
    /// A trace of CSV does not say who asks: all of them are in one namespace, which has no labels.
    fn default() -> Self {
        Self { namespace: "trace".to_owned(), labels: BTreeMap::new(), priority: 0 }
    }
}

impl Asked {
    /// Compute slices that it takes.
    #[must_use]
    pub fn compute(&self) -> u64 {
        u64::from(self.profile.compute) * u64::from(self.count)
    }

    /// How long it is there, in seconds.
    #[must_use]
    pub fn stays(&self) -> i64 {
        self.until - self.from
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: `{value}` {problem}; {allowed}")]
pub struct TraceError {
    /// The line, from 1; the header is line 1.
    pub line: usize,
    /// The column's name.
    pub column: String,
    /// What stands there.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What is allowed.
    pub allowed: String,
}

/// Where the columns are.
struct Columns<'t> {
    names: Vec<&'t str>,
    create: usize,
    delete: usize,
    pod: usize,
    count: Option<usize>,
    profile: usize,
}

impl Trace {
    /// Reads a trace. `known` are the profiles that some GPU of the fleet has.
    /// Without `column`, profiles are taken from the first column whose name
    /// begins with `profile` and in which the fleet has every one.
    ///
    /// # Errors
    /// Names the first line, column and value that make no sense, and what is allowed.
    pub fn parse(
        text: &str,
        known: &BTreeSet<ProfileName>,
        column: Option<&str>,
    ) -> Result<Self, TraceError> {
        let lines: Vec<(usize, &str)> = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line))
            .filter(|(_, l)| !l.trim().is_empty())
            .collect();
        let Some(((at, header), lines)) = lines.split_first() else {
            return Err(error(
                1,
                "create_s",
                "",
                "is nothing",
                "the first line names the columns: create_s,delete_s,pod,profile,count",
            ));
        };
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|n| *n == name);
        let need = |name: &str| {
            find(name).ok_or_else(|| {
                error(
                    *at,
                    name,
                    header,
                    "has no such column",
                    "a trace has the columns create_s,delete_s,pod,profile and, where wanted, count",
                )
            })
        };
        let (create, delete, pod, count) =
            (need("create_s")?, need("delete_s")?, need("pod")?, find("count"));
        let profile = match column {
            Some(column) => need(column)?,
            None => profile_column(&names, lines, known).map_or_else(|| need("profile"), Ok)?,
        };
        let columns = Columns { names, create, delete, pod, count, profile };
        let mut trace = Self::default();
        let mut open = Vec::new();
        let mut last = 0;
        for (line, text) in lines {
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            if fields.len() != columns.names.len() {
                let allowed =
                    format!("the header names {}: {}", columns.names.len(), columns.names.join(","));
                return Err(error(
                    *line,
                    columns.names[0],
                    text,
                    &format!("has {} fields", fields.len()),
                    &allowed,
                ));
            }
            let asked = columns.read(*line, &fields, last, known)?;
            last = asked.from;
            if fields[columns.delete].is_empty() {
                open.push(trace.requests.len());
            } else if asked.stays() == 0 {
                trace.momentary += 1;
                continue;
            }
            trace.requests.push(asked);
        }
        let end = trace.requests.iter().map(|asked| asked.until).max().unwrap_or(0);
        for at in open {
            trace.requests[at].until = end.max(trace.requests[at].from + 1);
        }
        Ok(trace)
    }

    /// What of it lies in a window of seconds. Who is there when it opens comes
    /// then, and who is there when it closes goes then.
    #[must_use]
    pub fn between(mut self, from: Option<i64>, until: Option<i64>) -> Self {
        let (first, last) = (from.unwrap_or(0), until.unwrap_or(i64::MAX));
        self.requests.retain(|asked| asked.until > first && asked.from < last);
        for asked in &mut self.requests {
            asked.from = asked.from.max(first);
            asked.until = asked.until.min(last);
        }
        // A sort that is stable: of those that are there at the beginning the oldest stays the first.
        self.requests.sort_by_key(|asked| asked.from);
        self
    }

    /// The first and the last second of which it says anything.
    #[must_use]
    pub fn span(&self) -> (i64, i64) {
        let first = self.requests.iter().map(|asked| asked.from).min().unwrap_or(0);
        let last = self.requests.iter().map(|asked| asked.until).max().unwrap_or(first);
        (first, last)
    }

    /// The compute slices that are asked for, times the seconds that they are asked for.
    #[must_use]
    pub fn slice_seconds(&self) -> u128 {
        self.requests.iter().map(|asked| u128::from(asked.compute()) * seconds(asked.stays())).sum()
    }

    /// The most compute slices that are asked for at once, and when first.
    #[must_use]
    pub fn peak(&self) -> (u64, i64) {
        let mut events: Vec<(i64, i128)> = Vec::with_capacity(self.requests.len() * 2);
        for asked in &self.requests {
            let compute = i128::from(asked.compute());
            events.push((asked.from, compute));
            events.push((asked.until, -compute));
        }
        // Who goes makes room before who comes in the same second.
        events.sort_unstable();
        let (mut now, mut peak, mut at) = (0i128, 0i128, self.span().0);
        for (time, compute) in events {
            now += compute;
            if now > peak {
                (peak, at) = (now, time);
            }
        }
        (u64::try_from(peak).unwrap_or(u64::MAX), at)
    }
}

/// A length of time that is not negative.
pub(crate) fn seconds(length: i64) -> u128 {
    u128::try_from(length).unwrap_or(0)
}

fn error(line: usize, column: &str, value: &str, problem: &str, allowed: &str) -> TraceError {
    let value: String = value.chars().take(80).collect();
    TraceError {
        line,
        column: column.to_owned(),
        value,
        problem: problem.to_owned(),
        allowed: allowed.to_owned(),
    }
}

/// The first column of profiles all of which the fleet has; where there is
/// none, the first column of profiles, so that its first strange value is told.
fn profile_column(names: &[&str], lines: &[(usize, &str)], known: &BTreeSet<ProfileName>) -> Option<usize> {
    let candidates = || (0..names.len()).filter(|at| names[*at].starts_with("profile"));
    let fits = |at: &usize| {
        lines.iter().all(|(_, line)| {
            let value = line.split(',').nth(*at).map(str::trim).and_then(|value| value.parse().ok());
            value.is_some_and(|profile| known.contains(&profile))
        })
    };
    candidates().find(fits).or_else(|| candidates().next())
}

impl Columns<'_> {
    fn read(
        &self,
        line: usize,
        fields: &[&str],
        last: i64,
        known: &BTreeSet<ProfileName>,
    ) -> Result<Asked, TraceError> {
        let wrong = |at: usize, problem: &str, allowed: &str| {
            error(line, self.names[at], fields[at], problem, allowed)
        };
        let second = |at: usize| {
            let value = fields[at].parse::<i64>().ok().filter(|s| (0..=LAST_SECOND).contains(s));
            value.ok_or_else(|| {
                wrong(at, "is not a second", &format!("write a whole number from 0 to {LAST_SECOND}"))
            })
        };
        let from = second(self.create)?;
        if from < last {
            let allowed = format!("lines are in the order of create_s, and the one before has {last}");
            return Err(wrong(self.create, "goes back in time", &allowed));
        }
        let until = if fields[self.delete].is_empty() { from } else { second(self.delete)? };
        if until < from {
            let allowed =
                format!("it is {from}, the pod's create_s, or later; or empty for a pod that stays");
            return Err(wrong(self.delete, "is before the pod began", &allowed));
        }
        let profile = match fields[self.profile].parse::<ProfileName>() {
            Ok(profile) if known.contains(&profile) => profile,
            Ok(_) | Err(_) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let allowed = format!("its GPUs have {}", known.join(", "));
                return Err(wrong(self.profile, "is a profile that no GPU of the fleet has", &allowed));
            }
        };
        let count = match self.count {
            None => 1,
            Some(at) => {
                let value = fields[at].parse::<u32>().ok().filter(|n| (1..=MOST_SLICES).contains(n));
                value.ok_or_else(|| {
                    wrong(
                        at,
                        "is not a number of slices",
                        &format!("write a whole number from 1 to {MOST_SLICES}"),
                    )
                })?
            }
        };
        let pod = fields[self.pod].to_owned();
        if pod.is_empty() {
            return Err(wrong(self.pod, "is nobody", "write the pod's name"));
        }
        Ok(Asked { pod, from, until, profile, count, asker: Asker::default(), line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeSet<ProfileName> {
        ["1g.10gb", "3g.40gb", "7g.80gb"].iter().map(|name| name.parse().expect("a profile")).collect()
    }

    #[track_caller]
    fn refused(text: &str, expect: &str) {
        let error = Trace::parse(text, &known(), None).expect_err("refused");
        assert_eq!(error.to_string(), expect);
    }

    const HEADER: &str = "create_s,delete_s,pod,profile,count\n";

    #[test]
    fn what_makes_no_sense_is_told_with_line_column_value_and_what_is_allowed() {
        let with = |lines: &str| format!("{HEADER}{lines}");
        refused(
            &with("0,10,a,3g.40gb,1\n5,x,b,3g.40gb,1"),
            "line 3, column delete_s: `x` is not a second; write a whole number from 0 to 4000000000",
        );
        refused(
            &with("7,10,a,3g.40gb,1\n5,9,b,3g.40gb,1"),
            "line 3, column create_s: `5` goes back in time; lines are in the order of create_s, and the one before has 7",
        );
        refused(
            &with("7,6,a,3g.40gb,1"),
            "line 2, column delete_s: `6` is before the pod began; it is 7, the pod's create_s, or later; or empty for a pod that stays",
        );
        refused(
            &with("7,8,a,4g.24gb,1"),
            "line 2, column profile: `4g.24gb` is a profile that no GPU of the fleet has; its GPUs have 1g.10gb, 3g.40gb, 7g.80gb",
        );
        refused(
            &with("7,8,a,3g.40gb,0"),
            "line 2, column count: `0` is not a number of slices; write a whole number from 1 to 1024",
        );
        refused(
            &with("7,8,a,3g.40gb"),
            "line 2, column create_s: `7,8,a,3g.40gb` has 4 fields; the header names 5: create_s,delete_s,pod,profile,count",
        );
        refused(&with("7,8,,3g.40gb,1"), "line 2, column pod: `` is nobody; write the pod's name");
        refused(
            "create_s,pod,profile\n",
            "line 1, column delete_s: `create_s,pod,profile` has no such column; a trace has the columns create_s,delete_s,pod,profile and, where wanted, count",
        );
        refused(
            "",
            "line 1, column create_s: `` is nothing; the first line names the columns: create_s,delete_s,pod,profile,count",
        );
    }

    #[test]
    fn of_several_columns_of_profiles_the_one_counts_that_the_fleet_has() {
        let text = "create_s,delete_s,pod,profile_a30,profile_80gb\n0,9,a,4g.24gb,7g.80gb\n1,1,b,2g.12gb,3g.40gb\n2,,c,2g.12gb,3g.40gb\n";
        let trace = Trace::parse(text, &known(), None).expect("a trace");
        let of: Vec<_> =
            trace.requests.iter().map(|a| (a.pod.as_str(), a.profile.to_string(), a.from, a.until)).collect();
        assert_eq!(of, [("a", "7g.80gb".to_owned(), 0, 9), ("c", "3g.40gb".to_owned(), 2, 9)]);
        assert_eq!(trace.momentary, 1);
        assert_eq!(trace.peak(), (10, 2));
        assert_eq!(trace.slice_seconds(), 9 * 7 + 7 * 3);
    }

    #[test]
    fn a_window_takes_who_is_there_at_its_edges() {
        let text = format!("{HEADER}0,9,a,1g.10gb,1\n1,3,b,1g.10gb,1\n4,20,c,1g.10gb,1\n12,13,d,1g.10gb,1\n");
        let trace = Trace::parse(&text, &known(), None).expect("a trace").between(Some(3), Some(12));
        let of: Vec<_> = trace.requests.iter().map(|a| (a.pod.as_str(), a.from, a.until)).collect();
        assert_eq!(of, [("a", 3, 9), ("c", 4, 12)]);
    }
}
