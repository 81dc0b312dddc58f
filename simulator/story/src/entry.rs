//! The transcript of a story, one entry after the other, as data. The caller prints it as a log for people.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::picture::Picture;
use crate::place::Place;

/// Who does or says something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Who {
    /// A person, or a program of theirs: a workbench, a pod.
    Person(String),
    /// The scheduler, kubelet and the controllers of Kubernetes and OpenShift AI.
    Cluster,
    /// The hardware, the driver and NVIDIA's operands of a node.
    Node(String),
    /// Slicewright decides.
    Plan,
    /// Slicewright does something to a node.
    Does(String),
    /// Slicewright tells somebody: a workbench or pod, a policy, a node.
    Tells(String),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(who) | Self::Node(who) => f.write_str(who),
            Self::Cluster => f.write_str("cluster"),
            Self::Plan => f.write_str("plan"),
            Self::Does(node) => write!(f, "rollout {node}"),
            Self::Tells(who) => write!(f, "tells {who}"),
        }
    }
}

/// One entry of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Entry {
    /// A remark of the story.
    Remark {
        /// Its text.
        text: String,
        /// Whether it begins a new part of the story.
        paragraph: bool,
    },
    /// A command of the story.
    Command {
        /// The line as it was written.
        text: String,
        /// The time at which it begins.
        at: Timestamp,
    },
    /// Something happened, or was decided or said.
    Happened {
        /// When.
        at: Timestamp,
        /// Who did it.
        who: Who,
        /// What.
        text: String,
    },
    /// An answer of `plan` or `explain`.
    Answer {
        /// Its lines.
        lines: Vec<String>,
    },
    /// A picture of the fleet.
    Fleet {
        /// What it shows.
        picture: Picture,
    },
    /// An expectation that did not hold.
    Missed {
        /// Where it is; nowhere for what every story is expected to end with.
        place: Option<Place>,
        /// What was expected, and what was found.
        text: String,
    },
    /// What the end of the story found.
    End {
        /// A sentence.
        text: String,
    },
}

/// `Mon 09:00:00`: the day of the week and the time, in UTC.
#[must_use]
pub fn clock(at: Timestamp) -> String {
    at.strftime("%a %H:%M:%S").to_string()
}
