//! What a person reads of a workbench in OpenShift AI's dashboard: the status
//! line beside it, and the lines of its event log. Pure, and data per release:
//! the rules were read in the dashboard's source (docs/adr/0014), and what we
//! tell is judged by it.
//!
//! Left out: the place in the queue, which only Kueue's visibility server
//! knows, and the next attempt after a timeout of `waitForPodsReady`, which
//! the browser writes in its own time zone. Checks of a Workload are not
//! asked for: no release has them in this line.

mod event;
mod filter;
mod queue;
mod release;
mod steps;

pub use event::ShownEvent;
pub use queue::InQueue;
pub use release::{RELEASES, Release};

use k8s_openapi::jiff::Timestamp;

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// As what goes on.
    Information,
    /// As something to look at.
    Warning,
    /// In red, and the workbench is called failed.
    Error,
}

/// The status line of a workbench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its words.
    pub text: String,
    /// How it is shown.
    pub weight: Weight,
}

impl Line {
    fn new(text: impl Into<String>, weight: Weight) -> Self {
        Self { text: text.into(), weight }
    }
}

/// A workbench as the dashboard knows it.
#[derive(Clone, Debug)]
pub struct Workbench<'a> {
    /// The events of its pod; without a pod, those of its StatefulSet. Never
    /// those of the Notebook.
    pub told: &'a [ShownEvent],
    /// The names of its containers.
    pub containers: &'a [&'a str],
    /// Its Workload, where Kueue has made one.
    pub queue: Option<InQueue<'a>>,
    /// `notebooks.kubeflow.org/last-activity`, which is only there with
    /// culling; else when the Notebook was made, which may be long ago.
    pub last_activity: Timestamp,
    /// Whether it is to run, and does not yet.
    pub starting: bool,
}

/// The status line, if there is one: one that runs well has none.
#[must_use]
pub fn status_line(release: &Release, workbench: &Workbench<'_>, now: Timestamp) -> Option<Line> {
    let event = event_line(release, workbench, now);
    let failed = event.as_ref().is_some_and(|line| line.weight == Weight::Error);
    // An error is before the queue, and the queue before everything else.
    if let Some(words) = &release.queue {
        if failed {
            return event;
        }
        if let Some(line) = workbench.queue.as_ref().and_then(|queue| queue::line(words, queue)) {
            return Some(line);
        }
    }
    let waiting = || Line::new("Waiting for server request to start...", Weight::Information);
    workbench.starting.then(|| event.unwrap_or_else(waiting))
}

/// What the newest event that counts says.
fn event_line(release: &Release, workbench: &Workbench<'_>, now: Timestamp) -> Option<Line> {
    let seen = filter::counting(release, workbench.told, workbench.last_activity, now);
    let line = |told: &ShownEvent| steps::line(release, workbench.containers, told, seen.grace);
    let newest = seen.told.last()?;
    if !release.heaviest_of_a_moment {
        return Some(line(newest));
    }
    let moment = seen.told.iter().filter(|told| told.at == newest.at);
    moment.map(|told| line(told)).max_by_key(|line| line.weight)
}

/// The lines of the event log, newest first.
#[must_use]
pub fn event_log(release: &Release, workbench: &Workbench<'_>) -> Vec<String> {
    let mut shown = filter::of_this_start(release, workbench.told, workbench.last_activity);
    shown.reverse();
    shown.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
